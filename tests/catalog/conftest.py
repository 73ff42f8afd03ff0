"""Catalogs on every pair of a metadata store and an object store."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from lakebed.core.clock import ManualClock
from tests.objects.conftest import clock, light_store, objects_dsn, open_object_store
from tests.objects.stores import ObjectStore, OpenObjectStore

from .harness import CatalogHarness, open_catalog

__all__ = ["clock", "light_store", "objects_dsn", "open_object_store"]


@pytest.fixture
async def catalog(open_object_store: OpenObjectStore, clock: ManualClock) -> AsyncIterator[CatalogHarness]:
    """A catalog with a table bucket `lake` and a namespace `ns`, on each pair of stores."""
    async with open_object_store(clock) as store:
        yield await open_catalog(store)


@pytest.fixture
async def light_catalog(light_store: ObjectStore) -> CatalogHarness:
    """The same on SQLite and memory, for rules that do not depend on the stores."""
    return await open_catalog(light_store)
