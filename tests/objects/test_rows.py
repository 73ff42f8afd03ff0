"""Query plans and costs of the SQL statements."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest

from lakebed.core.clock import ManualClock
from lakebed.core.ids import BucketId
from lakebed.meta.migrations import migrate
from lakebed.meta.seam import MetaStore, Row, Transaction, Value
from lakebed.meta.sqlite.store import SqliteStore
from lakebed.objects import rows

from .stores import opened_store


def _statements() -> dict[str, str]:
    verbs = ("SELECT", "UPDATE", "DELETE")
    return {
        name: text
        for name, text in vars(rows).items()
        if name.isupper()
        and not name.startswith(("_", "POSTGRES_"))
        and isinstance(text, str)
        and text.startswith(verbs)
    }


HOT = {
    "GET",
    "HEAD",
    "LIST_PAGE",
    "LIST_PAGE_FROM",
    "LIST_PAGE_WITHIN",
    "LIST_PAGE_FROM_WITHIN",
    "UPLOADS_AFTER",
    "LISTED_VERSIONS_AFTER",
}


def test_frequent_statements_are_checked() -> None:
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


@pytest.mark.parametrize("name", sorted(_statements()))
def test_statement_uses_an_index_and_does_not_sort(name: str, plans: dict[str, list[str]]) -> None:
    assert any(step.startswith("SEARCH ") for step in plans[name])
    assert not [step for step in plans[name] if step.startswith("SCAN ") or "TEMP B-TREE" in step]


# -- PostgreSQL -----------------------------------------------------------------------------------------------------

ROWS = 5000
_FILL = (
    "INSERT INTO objects SELECT 1, 'k' || lpad(i::text, 7, '0'), 0, 'null', 1, 'e', 1, '', NULL, ''::bytea"
    f" FROM generate_series(1, {ROWS}) i",
    "INSERT INTO versions SELECT 1, 'k' || lpad(i::text, 7, '0'), 1, i::text, 1, 'e', 1, '', NULL, ''::bytea, 0"
    f" FROM generate_series(1, {ROWS}) i",
    "INSERT INTO uploads SELECT i::text, 1, 'k' || lpad(i::text, 7, '0'), 1, ''::bytea, NULL, NULL"
    f" FROM generate_series(1, {ROWS}) i",
    "ANALYZE objects",
    "ANALYZE versions",
    "ANALYZE uploads",
)


def _rows_read(plan: dict[str, Any]) -> int:  # Any: a JSON query plan
    read = plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0) if "Relation Name" in plan else 0
    return int(read) + sum(_rows_read(child) for child in plan.get("Plans", []))


class Explaining:
    """A metadata store that counts the rows that its statements read."""

    dialect = "postgres"

    def __init__(self, inner: MetaStore) -> None:
        self._inner = inner
        self.read = 0

    async def rows(self, sql: str, *args: Value) -> list[Row]:
        [(found,)] = await self._inner.rows(f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}", *args)
        self.read += _rows_read(json.loads(found)[0]["Plan"])
        return []


@pytest.fixture
async def explaining(objects_dsn: str, tmp_path: Path) -> AsyncIterator[Explaining]:
    """A bucket with thousands of keys, each with two versions."""
    async with opened_store(objects_dsn, "memory", tmp_path, ManualClock()) as store:

        async def fill(tx: Transaction) -> None:
            for statement in _FILL:
                await tx.run(statement)

        await store.meta.transact(fill)
        yield Explaining(store.meta)


LIMIT = 10


@pytest.mark.integration
@pytest.mark.parametrize("key", ["", "k0002500", "k0004999"])
async def test_page_cost_does_not_depend_on_bucket_size(explaining: Explaining, key: str) -> None:
    bucket, meta = BucketId(1), cast(MetaStore, explaining)
    pages: list[Callable[[], Awaitable[object]]] = [
        lambda: rows.listed_versions_after(meta, bucket, key, 0, LIMIT),
        lambda: rows.all_versions_after(meta, bucket, key, LIMIT),
        lambda: meta.rows(rows.LIST_PAGE, bucket, key, LIMIT),
        lambda: meta.rows(rows.LIST_PAGE_FROM_WITHIN, bucket, key, "l", LIMIT),
        lambda: meta.rows(rows.UPLOADS_AFTER, bucket, key, "", LIMIT),
    ]
    for page in pages:
        explaining.read = 0
        await page()
        # A page may read both tables, and a plan reads a row or two ahead.
        assert explaining.read <= 2 * (LIMIT + 2)
