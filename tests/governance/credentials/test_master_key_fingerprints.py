from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lakebed.core.errors import InvalidSetting
from lakebed.governance import MasterKeys, verify_master_keys
from lakebed.meta.seam import MetaStore
from tests.meta.stores import open_migrated

ONE, TWO, THREE = b"1" * 32, b"2" * 32, b"3" * 32


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.integration)])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty SQLite or PostgreSQL store."""
    if request.param == "sqlite":
        return f"sqlite:{tmp_path / 'meta.db'}"
    dsn: str = request.getfixturevalue("postgres_dsn")
    return dsn


@pytest.fixture
async def store(address: str) -> AsyncIterator[MetaStore]:
    opened = await open_migrated(address)
    yield opened
    await opened.close()


async def recorded(store: MetaStore) -> list[str]:
    return [key_id for (key_id,) in await store.rows("SELECT id FROM master_keys ORDER BY id")]


async def test_first_active_key_is_recorded_and_accepted_again(store: MetaStore) -> None:
    keys = MasterKeys({"one": ONE, "spare": THREE}, active="one")
    await verify_master_keys(store, keys)
    await verify_master_keys(store, keys)
    assert await recorded(store) == ["one"]


async def test_store_does_not_contain_the_key(store: MetaStore) -> None:
    await verify_master_keys(store, MasterKeys({"one": ONE}, active="one"))
    row = await store.row("SELECT id, fingerprint FROM master_keys")
    assert row is not None
    assert row[0] == "one"
    assert ONE not in row[1]


async def test_server_with_another_key_is_refused_with_a_remedy(store: MetaStore) -> None:
    await verify_master_keys(store, MasterKeys({"generated-1": ONE}, active="generated-1"))
    with pytest.raises(
        InvalidSetting, match=r"^encryption\.keys: .*set encryption\.keys to the same keys on every"
    ) as raised:
        await verify_master_keys(store, MasterKeys({"generated-2": TWO}, active="generated-2"))
    assert "missing=generated-1" in str(raised.value)
    assert await recorded(store) == ["generated-1"]


async def test_different_key_of_the_same_id_is_refused(store: MetaStore) -> None:
    await verify_master_keys(store, MasterKeys({"one": ONE}, active="one"))
    with pytest.raises(
        InvalidSetting, match=r"^encryption\.keys\.one: stored data was encrypted with another key .*on every server"
    ) as raised:
        await verify_master_keys(store, MasterKeys({"one": TWO, "two": THREE}, active="two"))
    assert raised.value.argument == "encryption.keys.one"
    assert await recorded(store) == ["one"]


async def test_old_key_is_still_required_after_a_new_one_is_active(store: MetaStore) -> None:
    await verify_master_keys(store, MasterKeys({"one": ONE}, active="one"))
    rotated = MasterKeys({"one": ONE, "two": TWO}, active="two")
    await verify_master_keys(store, rotated)
    assert await recorded(store) == ["one", "two"]
    for configured in ({"one": ONE}, {"two": TWO}):
        with pytest.raises(InvalidSetting, match="missing="):
            await verify_master_keys(store, MasterKeys(configured, active=next(iter(configured))))
    # A server with both keys that encrypts with the older one still decrypts everything.
    await verify_master_keys(store, MasterKeys({"one": ONE, "two": TWO}, active="one"))
    await verify_master_keys(store, MasterKeys({"one": ONE, "two": TWO, "three": THREE}, active="three"))
    assert await recorded(store) == ["one", "three", "two"]


async def test_key_that_was_never_active_can_change_and_be_removed(store: MetaStore) -> None:
    await verify_master_keys(store, MasterKeys({"one": ONE, "next": TWO}, active="one"))
    await verify_master_keys(store, MasterKeys({"one": ONE, "next": THREE}, active="one"))
    await verify_master_keys(store, MasterKeys({"one": ONE}, active="one"))
    assert await recorded(store) == ["one"]


async def test_of_servers_that_start_together_with_different_keys_one_wins(address: str) -> None:
    stores = [await open_migrated(address) for _ in range(5)]
    configured = [
        MasterKeys({f"generated-{number}": bytes([number]) * 32}, f"generated-{number}") for number in range(5)
    ]
    outcomes = await asyncio.gather(*map(verify_master_keys, stores, configured), return_exceptions=True)
    winners = [keys.active for keys, outcome in zip(configured, outcomes, strict=True) if outcome is None]
    assert len(winners) == 1
    assert await recorded(stores[0]) == winners
    refusals = [outcome for outcome in outcomes if outcome is not None]
    assert {type(refusal) for refusal in refusals} == {InvalidSetting}
    assert all(f"missing={winners[0]}" in str(refusal) for refusal in refusals)
    for store in stores:
        await store.close()


async def test_workers_with_the_same_key_start_together(address: str) -> None:
    stores = [await open_migrated(address) for _ in range(5)]
    keys = MasterKeys({"one": ONE}, active="one")
    await asyncio.gather(*(verify_master_keys(store, keys) for store in stores))
    assert await recorded(stores[0]) == ["one"]
    for store in stores:
        await store.close()
