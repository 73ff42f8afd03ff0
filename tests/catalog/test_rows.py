"""The SQL statements: conversion of rows, and query plans."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from lakebed.catalog import rows
from lakebed.catalog.model import Entry, EntryKind
from lakebed.meta.migrations import migrate
from lakebed.meta.seam import Transaction
from lakebed.meta.sqlite.store import SqliteStore

from .harness import CatalogHarness, name


def _statements() -> dict[str, str]:
    verbs = ("SELECT", "UPDATE", "DELETE")
    return {
        name: text
        for name, text in vars(rows).items()
        if name.isupper() and not name.startswith("_") and isinstance(text, str) and text.startswith(verbs)
    }


HOT = {
    "FIND_ENTRY",
    "ENTRY_BY_ID",
    "ENTRY_NAMES_AFTER",
    "ENTRY_OF_KEY",
    "IS_CURRENT_METADATA",
    "MOVE_POINTER",
    "COMMIT_BY_ID",
    "STAT_FILES",
    "STAT_MANY_FILES",
    "STORED_RESPONSE",
}


def test_hot_statements_are_checked() -> None:
    assert set(_statements()) >= HOT


@pytest.fixture(scope="module")
def plans(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """SQLite's query plan of each statement."""

    async def explain() -> dict[str, list[str]]:
        store = await SqliteStore.open(tmp_path_factory.mktemp("rows") / "meta.db")
        try:
            await migrate(store)
            return {
                name: [row[3] for row in await store.rows(f"EXPLAIN QUERY PLAN {text}", *[1] * text.count("?"))]
                for name, text in _statements().items()
            }
        finally:
            await store.close()

    return asyncio.run(explain())


@pytest.mark.parametrize("statement", sorted(_statements()))
def test_statement_searches_an_index_and_sorts_nothing(statement: str, plans: dict[str, list[str]]) -> None:
    steps = plans[statement]
    assert any(step.startswith("SEARCH ") for step in steps)
    # `SCAN l` scans the single row of the subquery.
    assert not [step for step in steps if step.startswith("SCAN ") and step != "SCAN l"]
    # An entry has only a few directories.
    assert statement == "LOCATIONS_OF" or not [step for step in steps if "TEMP B-TREE" in step]


def test_names_are_listed_from_a_covering_index(plans: dict[str, list[str]]) -> None:
    (step,) = plans["ENTRY_NAMES_AFTER"]
    assert step.startswith("SEARCH entries USING COVERING INDEX entries_listed ")


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"kind": EntryKind.VIEW, "protected": True},
        {"dropped_ms": 5, "expires_ms": 6, "purge": True},
        {"dropped_ms": 0, "expires_ms": 0},
    ],
    ids=["live", "protected-view", "dropped", "dropped-at-the-epoch"],
)
async def test_entry_round_trips_through_its_row(catalog: CatalogHarness, changes: dict[str, Any]) -> None:
    found = await catalog.entries.find(catalog.store.meta, "lake", name("t"))
    entry = Entry(
        id="e1",
        kind=EntryKind.TABLE,
        catalog=found.catalog.id,
        namespace=found.namespace.id,
        name="t",
        uuid="u1",
        format_version=2,
        location="s3://lake/tables/e1",
        metadata_at="s3://lake/tables/e1/metadata/1.json",
        version_token="token",
        generation=2**40,
        created_ms=3,
        updated_ms=4,
        protected=False,
    )._replace(**changes)

    async def work(tx: Transaction) -> None:
        await tx.row(rows.INSERT_ENTRY, *rows.entry_columns(entry))

    await catalog.store.meta.transact(work)
    again = (await catalog.entries.find(catalog.store.meta, "lake", name("t"))).entry
    assert again == entry
    assert again is not None
    assert isinstance(again.kind, EntryKind)
    assert (type(again.protected), type(again.purge)) == (bool, bool)
