from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from lakebed.meta.deployment import establish_deployment_id, find_deployment_id
from lakebed.meta.seam import MetaStore
from tests.meta.stores import open_migrated


@pytest.fixture
async def store(address: str) -> AsyncIterator[MetaStore]:
    opened = await open_migrated(address)
    yield opened
    await opened.close()


async def test_new_store_has_no_deployment_id(store: MetaStore) -> None:
    assert await find_deployment_id(store) is None


async def test_deployment_id_is_generated_once(store: MetaStore) -> None:
    first = await establish_deployment_id(store)
    assert len(first) == 26
    assert await establish_deployment_id(store) == first == await find_deployment_id(store)


async def test_concurrent_servers_share_one_deployment_id(address: str) -> None:
    stores = [await open_migrated(address) for _ in range(4)]
    try:
        assert len(set(await asyncio.gather(*map(establish_deployment_id, stores)))) == 1
    finally:
        for store in stores:
            await store.close()
