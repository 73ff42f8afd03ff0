"""The migration to catalogs with their own ids, from a store with data."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import pytest

from lakebed.meta.migrations import migrate, product_migrations
from lakebed.meta.seam import MetaStore, Transaction, Value
from tests.meta.stores import open_store

BEFORE = 15

ROWS: Sequence[str] = (
    "INSERT INTO buckets (id, name, owner, region, created_ms, versioning, settings)"
    " VALUES (3, 'plain', 'o', 'r', 1, '', ''), (5, 'lake', 'o', 'r', 1, '', ''), (9, 'pond', 'o', 'r', 1, '', '')",
    "INSERT INTO warehouses (bucket, enabled_ms, properties) VALUES (5, 50, 'five'), (9, 90, 'nine')",
    "INSERT INTO namespaces (id, warehouse, path, parent, properties, created_ms)"
    " VALUES (1, 5, 'a', '', '', 1), (2, 9, 'a', '', '', 1)",
    "INSERT INTO entries (id, kind, warehouse, namespace, name, uuid, format_version, location, metadata_at,"
    " version_token, generation, created_ms, updated_ms, protected, purge)"
    " VALUES ('e', 'table', 5, 1, 't', 'u', 2, 'l', 'm', 'v', 1, 1, 1, 0, 0)",
    "INSERT INTO entry_commits (entry, generation, commit_id, operation, writer, metadata_at, version_token,"
    " request_digest, requirements, committed_ms) VALUES ('e', 1, 'c', '', '', 'm', 'v', '', '', 1)",
    "INSERT INTO maintenance_defaults (warehouse, background, config) VALUES (5, 1, '')",
    "INSERT INTO policy_types (warehouse, name, inheritable, targets, schema, created_ms)"
    " VALUES (5, 'user.note', 1, 'table', '', 1)",
    "INSERT INTO policies (id, warehouse, namespace, name, type, inheritable, content, version, created_ms, updated_ms)"
    " VALUES (1, 5, 1, 'p', 'user.note', 1, '', 0, 1, 1)",
    "INSERT INTO policy_attachments (target, policy, warehouse, type, inheritable, parameters, attached_ms)"
    " VALUES ('warehouse 5', 1, 5, 'user.note', 1, '', 1)",
    "INSERT INTO catalog_roles (id, catalog, name, version, created_ms, updated_ms) VALUES (7, 5, 'reader', 1, 1, 1)",
    "INSERT INTO grants (role, securable, privilege, granted_ms) VALUES (7, 'catalog 5', 12, 1)",
    "INSERT INTO grants (role, securable, privilege, namespace, granted_ms) VALUES (7, 'namespace 5 a', 12, 1, 1)",
    "INSERT INTO grants (role, securable, privilege, entry, granted_ms) VALUES (7, 'entry e', 12, 'e', 1)",
)
"""Buckets with non-consecutive numbers, one of them with rows of every kind."""

REFERRING = {
    "namespaces": "warehouse",
    "entries": "warehouse",
    "maintenance_defaults": "warehouse",
    "policy_types": "warehouse",
    "policies": "warehouse",
    "policy_attachments": "warehouse",
    "catalog_roles": "catalog",
}


async def run(store: MetaStore, *statements: str) -> None:
    async def work(tx: Transaction) -> None:
        for statement in statements:
            await tx.run(statement)

    await store.transact(work)


async def counts(store: MetaStore) -> dict[str, list[tuple[Value, ...]]]:
    """The catalogs that rows refer to."""
    return {
        table: await store.rows(f"SELECT {column}, count(*) FROM {table} GROUP BY 1 ORDER BY 1")
        for table, column in REFERRING.items()
    }


@pytest.fixture
async def old(address: str) -> AsyncIterator[MetaStore]:
    """A store of the previous release, with data."""
    store = await open_store(address)
    await migrate(store, [step for step in product_migrations() if step.version <= BEFORE])
    await run(store, *ROWS)
    yield store
    await store.close()


async def test_table_buckets_become_catalogs_with_their_numbers(old: MetaStore) -> None:
    before = await counts(old)
    grants = await old.rows("SELECT role, securable, privilege, namespace, entry FROM grants ORDER BY securable")
    await migrate(old)
    assert await counts(old) == before
    assert before["namespaces"] == [(5, 1), (9, 1)]
    assert (
        await old.rows("SELECT role, securable, privilege, namespace, entry FROM grants ORDER BY securable") == grants
    )
    assert [
        (*row[:5], bytes(row[5]) if isinstance(row[5], bytes) else row[5].encode(), *row[6:])
        for row in await old.rows(
            "SELECT id, name, bucket, base_prefix, kind, properties, version, created_ms, updated_ms, allowed"
            " FROM warehouses ORDER BY id"
        )
    ] == [
        (5, "lake", 5, "", "INTERNAL", b"five", 1, 50, 50, None),
        (9, "pond", 9, "", "INTERNAL", b"nine", 1, 90, 90, None),
    ]
    assert await old.rows("SELECT bucket, prefix, warehouse FROM warehouse_locations ORDER BY bucket") == [
        (5, "", 5),
        (9, "", 9),
    ]
    assert await old.row("SELECT count(*) FROM entry_commits") == (1,)


async def test_new_catalog_gets_an_unused_number(old: MetaStore) -> None:
    await migrate(old)
    await run(old, "DELETE FROM warehouses WHERE id = 9")

    async def work(tx: Transaction) -> int:
        made = await tx.row(
            "INSERT INTO warehouses (name, bucket, base_prefix, kind, properties, version, created_ms, updated_ms)"
            " VALUES ('new', 5, 'x/', 'EXTERNAL', '', 1, 1, 1) RETURNING id"
        )
        assert made is not None
        return int(made[0])

    assert await old.transact(work) > 9


async def test_rows_of_a_catalog_are_deleted_with_it_and_with_its_bucket(old: MetaStore) -> None:
    await migrate(old)
    with pytest.raises(Exception, match=r"(?i)foreign key"):
        await run(old, "INSERT INTO maintenance_defaults (warehouse, background, config) VALUES (3, 1, '')")
    await run(old, "DELETE FROM policies", "DELETE FROM entries", "DELETE FROM buckets WHERE id = 5")
    assert {table: rows for table, rows in (await counts(old)).items() if rows} == {"namespaces": [(9, 1)]}
    assert await old.rows("SELECT name FROM warehouses") == [("pond",)]
    assert await old.rows("SELECT warehouse FROM warehouse_locations") == [(9,)]
    assert await old.rows("SELECT securable FROM grants") == []
