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
    """Where an empty store is, of each kind in turn."""
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


async def test_the_first_server_s_active_key_is_recorded_and_it_may_start_again(store: MetaStore) -> None:
    keys = MasterKeys({"one": ONE, "spare": THREE}, active="one")
    await verify_master_keys(store, keys)
    await verify_master_keys(store, keys)
    assert await recorded(store) == ["one"]


async def test_the_store_does_not_learn_the_key(store: MetaStore) -> None:
    await verify_master_keys(store, MasterKeys({"one": ONE}, active="one"))
    row = await store.row("SELECT id, fingerprint FROM master_keys")
    assert row is not None
    assert row[0] == "one"
    assert ONE not in row[1]


async def test_a_server_with_a_key_of_its_own_is_refused_and_told_what_to_do(store: MetaStore) -> None:
    await verify_master_keys(store, MasterKeys({"generated-1": ONE}, active="generated-1"))
    with pytest.raises(
        InvalidSetting, match=r"^encryption\.keys: .*set encryption\.keys to the same keys on every"
    ) as told:
        await verify_master_keys(store, MasterKeys({"generated-2": TWO}, active="generated-2"))
    assert "missing=generated-1" in str(told.value)
    assert await recorded(store) == ["generated-1"]


async def test_another_key_of_the_same_id_is_refused(store: MetaStore) -> None:
    await verify_master_keys(store, MasterKeys({"one": ONE}, active="one"))
    with pytest.raises(
        InvalidSetting, match=r"^encryption\.keys\.one: stored data was encrypted with another key .*on every server"
    ) as told:
        await verify_master_keys(store, MasterKeys({"one": TWO, "two": THREE}, active="two"))
    assert told.value.argument == "encryption.keys.one"
    assert await recorded(store) == ["one"]


async def test_a_new_key_becomes_active_beside_the_old_which_stays_needed(store: MetaStore) -> None:
    await verify_master_keys(store, MasterKeys({"one": ONE}, active="one"))
    rotated = MasterKeys({"one": ONE, "two": TWO}, active="two")
    await verify_master_keys(store, rotated)
    assert await recorded(store) == ["one", "two"]
    for held in ({"one": ONE}, {"two": TWO}):
        with pytest.raises(InvalidSetting, match="missing="):
            await verify_master_keys(store, MasterKeys(held, active=next(iter(held))))
    # A server that holds both and seals with the older one still opens everything.
    await verify_master_keys(store, MasterKeys({"one": ONE, "two": TWO}, active="one"))
    await verify_master_keys(store, MasterKeys({"one": ONE, "two": TWO, "three": THREE}, active="three"))
    assert await recorded(store) == ["one", "three", "two"]


async def test_a_key_that_was_never_active_may_change_and_go(store: MetaStore) -> None:
    await verify_master_keys(store, MasterKeys({"one": ONE, "next": TWO}, active="one"))
    await verify_master_keys(store, MasterKeys({"one": ONE, "next": THREE}, active="one"))
    await verify_master_keys(store, MasterKeys({"one": ONE}, active="one"))
    assert await recorded(store) == ["one"]


async def test_of_servers_that_start_first_together_with_keys_of_their_own_one_wins(address: str) -> None:
    stores = [await open_migrated(address) for _ in range(5)]
    held = [MasterKeys({f"generated-{number}": bytes([number]) * 32}, f"generated-{number}") for number in range(5)]
    outcomes = await asyncio.gather(*map(verify_master_keys, stores, held), return_exceptions=True)
    winners = [keys.active for keys, outcome in zip(held, outcomes, strict=True) if outcome is None]
    assert len(winners) == 1
    assert await recorded(stores[0]) == winners
    refusals = [outcome for outcome in outcomes if outcome is not None]
    assert {type(refusal) for refusal in refusals} == {InvalidSetting}
    assert all(f"missing={winners[0]}" in str(refusal) for refusal in refusals)
    for store in stores:
        await store.close()


async def test_workers_of_one_server_that_start_together_agree(address: str) -> None:
    stores = [await open_migrated(address) for _ in range(5)]
    keys = MasterKeys({"one": ONE}, active="one")
    await asyncio.gather(*(verify_master_keys(store, keys) for store in stores))
    assert await recorded(stores[0]) == ["one"]
    for store in stores:
        await store.close()
