"""The statements: what they cost."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakebed.meta.migrations import migrate
from lakebed.meta.sqlite import SqliteStore
from lakebed.objects import rows


def _statements() -> dict[str, str]:
    verbs = ("SELECT", "UPDATE", "DELETE")
    return {
        name: text
        for name, text in vars(rows).items()
        if name.isupper() and not name.startswith("_") and isinstance(text, str) and text.startswith(verbs)
    }


HOT = {
    "GET",
    "HEAD",
    "LIST_PAGE",
    "LIST_PAGE_FROM",
    "LIST_PAGE_WITHIN",
    "LIST_PAGE_FROM_WITHIN",
    "UPLOADS_BEHIND",
    "VERSIONS_BEHIND",
}


def test_hot_statements_are_among_those_that_are_looked_at() -> None:
    assert set(_statements()) >= HOT


@pytest.mark.parametrize("name", sorted(_statements()))
async def test_statement_searches_an_index_and_sorts_nothing(name: str, tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "meta.db")
    try:
        await migrate(store)
        statement = _statements()[name]
        plan = await store.rows(f"EXPLAIN QUERY PLAN {statement}", *[1] * statement.count("?"))
    finally:
        await store.close()
    steps = [row[3] for row in plan]
    assert any(step.startswith("SEARCH ") for step in steps)
    assert not [step for step in steps if step.startswith("SCAN ") or "TEMP B-TREE" in step]
