"""Synthetic entities carry grants on names in a federated catalog, on every metadata store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from lakebed.catalog import rows
from lakebed.catalog.external.federation.synthetic_entities import (
    drop_synthetic_entities,
    drop_synthetic_entry,
    drop_synthetic_namespace,
    ensure_synthetic_entry,
    ensure_synthetic_namespace,
    find_synthetic_entry,
    rename_synthetic_entry,
)
from lakebed.catalog.identifiers import Identifier
from lakebed.catalog.model import EntryKind
from lakebed.governance.rbac.catalogs import find_catalog, resolve_target
from lakebed.governance.rbac.model import GrantTarget
from lakebed.governance.rbac.privileges import GrantKind
from lakebed.meta.seam import Transaction
from tests.catalog.harness import CatalogHarness

T, U = Identifier(("a", "b"), "t"), Identifier(("a",), "u")
NOW = 1_700_000_000_000


class Behind:
    """An empty catalog, and steps of transactions on it."""

    def __init__(self, catalog: CatalogHarness, number: int) -> None:
        self.catalog = catalog
        self.meta = catalog.store.object_context.meta
        self.id = number

    async def run(self, step: Callable[[Transaction], Awaitable[object]]) -> None:
        async def work(tx: Transaction) -> None:
            await step(tx)

        await self.meta.transact(work)

    async def record(self, identifier: Identifier, kind: EntryKind = EntryKind.TABLE) -> str:
        await self.run(lambda tx: ensure_synthetic_entry(tx, self.id, identifier, kind, NOW))
        found = await self.find(identifier, kind)
        assert found is not None
        return found

    async def find(self, identifier: Identifier, kind: EntryKind = EntryKind.TABLE) -> str | None:
        return await find_synthetic_entry(self.meta, self.id, identifier, kind)

    async def paths(self) -> list[str]:
        found = await self.meta.rows("SELECT path FROM namespaces WHERE warehouse = ? ORDER BY path", self.id)
        return [str(path) for (path,) in found]

    async def changes(self) -> int:
        row = await self.meta.row("SELECT number FROM role_changes")
        assert row is not None
        return int(row[0])

    async def grant(self, entry: str) -> None:
        """Store a grant on a table's entity."""

        async def step(tx: Transaction) -> None:
            role = await tx.row("SELECT id FROM catalog_roles WHERE catalog = ?", self.id)
            assert role is not None
            await tx.run(
                "INSERT INTO grants (role, securable, privilege, entry, granted_ms) VALUES (?, ?, 1, ?, 1)",
                role[0],
                f"entry {entry}",
                entry,
            )

        await self.run(step)


@pytest.fixture
async def behind(catalog: CatalogHarness) -> Behind:
    await catalog.warehouse("behind")
    return Behind(catalog, (await find_catalog(catalog.store.object_context.meta, "behind")).id)


async def test_entity_is_created_once_with_its_namespaces(behind: Behind) -> None:
    first = await behind.record(T)
    assert await behind.record(T) == first
    assert await behind.paths() == ["a", "a\x1fb"]
    assert await behind.find(T, EntryKind.VIEW) is None
    assert await behind.find(U) is None
    place = await resolve_target(
        behind.meta, await find_catalog(behind.meta, "behind"), GrantTarget(GrantKind.TABLE, T.namespace, T.name)
    )
    assert place.entry == first


async def test_entity_of_another_kind_is_replaced(behind: Behind) -> None:
    table = await behind.record(T)
    await behind.grant(table)
    before = await behind.changes()
    view = await behind.record(T, EntryKind.VIEW)
    assert view != table
    assert await behind.find(T) is None
    assert await behind.changes() == before + 1
    assert await behind.meta.rows("SELECT 1 FROM grants WHERE entry IS NOT NULL") == []


async def test_entities_are_not_listed_as_tables(behind: Behind) -> None:
    await behind.record(T)
    found = await behind.meta.rows(rows.TABLES_AFTER, "", 1000)
    assert found == []
    assert await behind.meta.rows(rows.IS_CURRENT_METADATA, "s3://x", "s3://y", "s3://z") == []


async def test_grants_follow_renames_and_end_with_drops(behind: Behind) -> None:
    moved, displaced = await behind.record(T), await behind.record(U)
    await behind.grant(moved)
    await behind.grant(displaced)
    await behind.run(lambda tx: rename_synthetic_entry(tx, behind.id, T, U, EntryKind.TABLE, NOW))
    assert await behind.find(U) == moved
    assert await behind.find(T) is None
    left = await behind.meta.rows("SELECT entry FROM grants WHERE entry IS NOT NULL")
    assert left == [(moved,)]
    before = await behind.changes()
    await behind.run(lambda tx: drop_synthetic_entry(tx, behind.id, U))
    assert await behind.changes() == before + 1
    assert await behind.meta.rows("SELECT entry FROM grants WHERE entry IS NOT NULL") == []
    await behind.run(lambda tx: drop_synthetic_entry(tx, behind.id, U))
    assert await behind.changes() == before + 1


async def test_dropped_namespace_removes_the_entities_in_it_only(behind: Behind) -> None:
    await behind.record(T)
    await behind.run(lambda tx: ensure_synthetic_namespace(tx, behind.id, ("a\u0020", "x"), NOW))
    await behind.run(lambda tx: ensure_synthetic_namespace(tx, behind.id, ("ab",), NOW))
    await behind.run(lambda tx: drop_synthetic_namespace(tx, behind.id, ("a",)))
    assert await behind.paths() == ["a ", "a \x1fx", "ab"]
    await behind.run(lambda tx: drop_synthetic_entities(tx, behind.id))
    assert await behind.paths() == []
    # Other catalogs keep their entities.
    assert await behind.meta.rows("SELECT path FROM namespaces") == [("ns",)]
