"""Labels on every pair of a metadata store and an object store."""

from __future__ import annotations

import pytest

from tests.catalog.conftest import catalog, clock, light_catalog, light_store, objects_dsn, open_object_store
from tests.catalog.harness import CatalogHarness

from .labelled_catalog import Shelf, open_shelf

__all__ = ["catalog", "clock", "light_catalog", "light_store", "objects_dsn", "open_object_store"]


@pytest.fixture
async def shelf(catalog: CatalogHarness) -> Shelf:
    """One target of each kind, on each pair of stores."""
    return await open_shelf(catalog)


@pytest.fixture
async def light_shelf(light_catalog: CatalogHarness) -> Shelf:
    """The same on SQLite and memory, for rules that do not depend on the stores."""
    return await open_shelf(light_catalog)
