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


class FederatedHarness:
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
async def federated(catalog: CatalogHarness) -> FederatedHarness:
    await catalog.create_table_bucket("federated")
    return FederatedHarness(catalog, (await find_catalog(catalog.store.object_context.meta, "federated")).id)


async def test_entity_is_created_once_with_its_namespaces(federated: FederatedHarness) -> None:
    first = await federated.record(T)
    assert await federated.record(T) == first
    assert await federated.paths() == ["a", "a\x1fb"]
    assert await federated.find(T, EntryKind.VIEW) is None
    assert await federated.find(U) is None
    place = await resolve_target(
        federated.meta,
        await find_catalog(federated.meta, "federated"),
        GrantTarget(GrantKind.TABLE, T.namespace, T.name),
    )
    assert place.entry == first


async def test_entity_of_another_kind_is_replaced(federated: FederatedHarness) -> None:
    table = await federated.record(T)
    await federated.grant(table)
    before = await federated.changes()
    view = await federated.record(T, EntryKind.VIEW)
    assert view != table
    assert await federated.find(T) is None
    assert await federated.changes() == before + 1
    assert await federated.meta.rows("SELECT 1 FROM grants WHERE entry IS NOT NULL") == []


async def test_entities_are_not_listed_as_tables(federated: FederatedHarness) -> None:
    await federated.record(T)
    found = await federated.meta.rows(rows.TABLES_AFTER, "", 1000)
    assert found == []
    assert await federated.meta.rows(rows.IS_CURRENT_METADATA, "s3://x", "s3://y", "s3://z") == []


async def test_grants_follow_renames_and_end_with_drops(federated: FederatedHarness) -> None:
    moved, displaced = await federated.record(T), await federated.record(U)
    await federated.grant(moved)
    await federated.grant(displaced)
    await federated.run(lambda tx: rename_synthetic_entry(tx, federated.id, T, U, EntryKind.TABLE, NOW))
    assert await federated.find(U) == moved
    assert await federated.find(T) is None
    left = await federated.meta.rows("SELECT entry FROM grants WHERE entry IS NOT NULL")
    assert left == [(moved,)]
    before = await federated.changes()
    await federated.run(lambda tx: drop_synthetic_entry(tx, federated.id, U))
    assert await federated.changes() == before + 1
    assert await federated.meta.rows("SELECT entry FROM grants WHERE entry IS NOT NULL") == []
    await federated.run(lambda tx: drop_synthetic_entry(tx, federated.id, U))
    assert await federated.changes() == before + 1


async def test_dropped_namespace_removes_the_entities_in_it_only(federated: FederatedHarness) -> None:
    await federated.record(T)
    await federated.run(lambda tx: ensure_synthetic_namespace(tx, federated.id, ("a\u0020", "x"), NOW))
    await federated.run(lambda tx: ensure_synthetic_namespace(tx, federated.id, ("ab",), NOW))
    await federated.run(lambda tx: drop_synthetic_namespace(tx, federated.id, ("a",)))
    assert await federated.paths() == ["a ", "a \x1fx", "ab"]
    await federated.run(lambda tx: drop_synthetic_entities(tx, federated.id))
    assert await federated.paths() == []
    # Other catalogs keep their entities.
    assert await federated.meta.rows("SELECT path FROM namespaces") == [("ns",)]
