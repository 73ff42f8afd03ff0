"""Catalogs on every pair of a metadata store and a byte store."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from lakebed.core.clock import ManualClock
from lakebed.meta.seam import Transaction
from tests.objects.conftest import clock, light_store, objects_dsn, open_object_store
from tests.objects.stores import ObjectStore, OpenObjectStore

from .catalogs import Catalog, wire_catalog

__all__ = ["clock", "light_store", "objects_dsn", "open_object_store"]

_NOT_OF_A_BUCKET = ("entry_locations", "idempotency_keys", "tasks")
"""Tables of the catalog whose rows do not go with their bucket."""


async def _opened(store: ObjectStore) -> Catalog:
    async def empty(tx: Transaction) -> None:
        for table in _NOT_OF_A_BUCKET:
            await tx.run(f"DELETE FROM {table}")

    await store.meta.transact(empty)
    wired = wire_catalog(store)
    await wired.warehouse()
    await wired.namespace("ns")
    return wired


@pytest.fixture
async def catalog(open_object_store: OpenObjectStore, clock: ManualClock) -> AsyncIterator[Catalog]:
    """A catalog with a table bucket `lake` and a namespace `ns`, on each pair of stores in turn."""
    async with open_object_store(clock) as store:
        yield await _opened(store)


@pytest.fixture
async def light_catalog(light_store: ObjectStore) -> Catalog:
    """The same on SQLite and memory, for rules that the stores have no part in."""
    return await _opened(light_store)
