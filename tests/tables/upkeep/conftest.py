"""Upkeep on every pair of a metadata store and a byte store."""

from __future__ import annotations

import pytest

from tests.tables.catalogs import Catalog
from tests.tables.conftest import catalog, clock, light_catalog, light_store, objects_dsn, open_object_store

from .yard import Yard, open_yard

__all__ = ["catalog", "clock", "light_catalog", "light_store", "objects_dsn", "open_object_store"]


@pytest.fixture
async def yard(catalog: Catalog) -> Yard:
    """Upkeep on each pair of stores in turn."""
    return await open_yard(catalog)


@pytest.fixture
async def light_yard(light_catalog: Catalog) -> Yard:
    """The same on SQLite and memory, for rules that the stores have no part in."""
    return await open_yard(light_catalog)
