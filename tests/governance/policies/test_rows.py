from __future__ import annotations

from lakebed.governance.policies import PolicyVersion, rows
from lakebed.meta.migrations import migrate, product_migrations
from lakebed.meta.seam import Transaction
from tests.meta.stores import open_store

EMPTY = b"\x80"


async def test_migration_records_the_current_version_of_policies(address: str) -> None:
    steps = product_migrations()
    store = await open_store(address)

    async def insert(tx: Transaction) -> None:
        await tx.run(
            "INSERT INTO buckets (id, name, owner, region, created_ms, versioning, settings)"
            " VALUES (1, 'lake', 'o', 'r', 0, '', ?)",
            EMPTY,
        )
        await tx.run("INSERT INTO warehouses (bucket, enabled_ms, properties) VALUES (1, 0, ?)", EMPTY)
        await tx.run(
            "INSERT INTO namespaces (id, warehouse, path, parent, properties, created_ms)"
            " VALUES (1, 1, 'ns', '', ?, 0)",
            EMPTY,
        )
        await tx.run(
            "INSERT INTO policies (id, warehouse, namespace, name, type, inheritable, content, version, created_ms,"
            " updated_ms) VALUES (5, 1, 1, 'p', 't', 1, ?, 3, 10, 20)",
            b"{}",
        )

    try:
        await migrate(store, [step for step in steps if step.version < 15])
        await store.transact(insert)
        await migrate(store, steps)
        found = await store.rows(rows.VERSIONS_BEFORE, 5, 100, 10)
        assert [rows.version_from(row) for row in found] == [PolicyVersion(3, None, "{}", "", 20)]
    finally:
        await store.close()
