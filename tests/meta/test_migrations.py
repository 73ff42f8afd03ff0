from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lakebed.core.errors import InvalidInput, StateConflict
from lakebed.meta.migrations import Migration, in_dialect, migrate, product_migrations
from lakebed.meta.seam import MetaStore, Row, Transaction
from lakebed.meta.sqlite.store import SqliteStore
from tests.meta.stores import open_migrated_file, open_store

FIRST = Migration(1, "first", "CREATE TABLE one (id {serial}, name {text} NOT NULL, body {blob}, size {bigint});")
SECOND = Migration(
    2, "second", "CREATE TABLE two (name {text} PRIMARY KEY) {clustered}; INSERT INTO two VALUES ('a;b')"
)
THIRD = Migration(3, "third", "ALTER TABLE one ADD COLUMN kind {text}")


@pytest.fixture
async def store(address: str) -> AsyncIterator[MetaStore]:
    store = await open_store(address)
    yield store
    await store.close()


async def test_migrations_are_applied_once_in_order(store: MetaStore) -> None:
    assert await migrate(store, [SECOND, FIRST]) == 2
    assert await migrate(store, [FIRST, SECOND]) == 2
    assert await migrate(store, [FIRST, SECOND, THIRD]) == 3
    assert await store.rows("SELECT version, name FROM schema_versions ORDER BY version") == [
        (1, "first"),
        (2, "second"),
        (3, "third"),
    ]
    assert await store.rows("SELECT name FROM two") == [("a;b",)]


async def test_serial_column_increases_and_never_repeats(store: MetaStore) -> None:
    await migrate(store, [FIRST])

    async def replace(tx: Transaction) -> int:
        await tx.run("DELETE FROM one")
        added = await tx.row("INSERT INTO one (name) VALUES (?) RETURNING id", "x")
        assert added is not None
        return int(added[0])

    assert [await store.transact(replace) for _ in range(3)] == [1, 2, 3]


async def test_full_schema_applies(store: MetaStore) -> None:
    steps = product_migrations()
    assert await migrate(store) == steps[-1].version
    assert await migrate(store) == steps[-1].version


async def test_copy_of_a_migrated_file_equals_a_migrated_file(tmp_path: Path) -> None:
    async def schema_of(store: MetaStore) -> list[Row]:
        return await store.rows("SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name")

    migrated, copied = (
        await SqliteStore.open(tmp_path / "migrated.db"),
        await open_migrated_file(tmp_path / "copied.db"),
    )
    await migrate(migrated)
    assert await schema_of(copied) == await schema_of(migrated)
    assert await copied.rows("SELECT * FROM schema_versions") == await migrated.rows("SELECT * FROM schema_versions")
    assert (tmp_path / "copied.db").stat().st_mode == (tmp_path / "migrated.db").stat().st_mode
    await migrated.close()
    await copied.close()


async def test_concurrent_servers_apply_each_migration_once(address: str) -> None:
    stores = [await open_store(address) for _ in range(5)]
    assert await asyncio.gather(*(migrate(store, [FIRST, SECOND]) for store in stores)) == [2] * 5
    assert await stores[0].row("SELECT count(*) FROM schema_versions") == (2,)
    for store in stores:
        await store.close()


async def test_newer_schema_is_rejected_and_unchanged(store: MetaStore) -> None:
    await migrate(store, [FIRST, SECOND, THIRD])
    with pytest.raises(StateConflict, match=r"newer release.*schema=3 known=2"):
        await migrate(store, [FIRST, SECOND])
    assert await store.row("SELECT max(version) FROM schema_versions") == (3,)


async def test_migration_before_an_applied_one_is_rejected(store: MetaStore) -> None:
    await migrate(store, [FIRST, THIRD])
    with pytest.raises(StateConflict, match="added before an applied one"):
        await migrate(store, [FIRST, SECOND, THIRD])


async def test_failed_migrations_are_rolled_back(store: MetaStore) -> None:
    broken = Migration(2, "broken", "CREATE TABLE good (id {bigint}); CREATE TABLE bad (id {bigint}, id {bigint})")
    with pytest.raises(Exception, match="id"):
        await migrate(store, [FIRST, broken])
    assert await store.rows("SELECT version FROM schema_versions") == []
    assert await migrate(store, [FIRST, SECOND]) == 2


async def test_duplicate_migration_numbers_are_rejected(store: MetaStore) -> None:
    with pytest.raises(InvalidInput, match="same number"):
        await migrate(store, [FIRST, Migration(1, "other", "SELECT 1")])


def test_unknown_token_is_rejected() -> None:
    with pytest.raises(InvalidInput, match=r"token=\{bolb\}"):
        in_dialect("CREATE TABLE t (body {bolb})", "sqlite")


def test_migration_numbers_are_unique_and_start_at_one() -> None:
    versions = [step.version for step in product_migrations()]
    assert versions[0] == 1
    assert sorted(set(versions)) == versions
