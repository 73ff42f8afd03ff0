"""Maintenance on every pair of a metadata store and a byte store."""

from __future__ import annotations

import pytest

from tests.tables.catalogs import Catalog
from tests.tables.conftest import catalog, clock, light_catalog, light_store, objects_dsn, open_object_store

from .workshop import Workshop, wire_workshop

__all__ = ["catalog", "clock", "light_catalog", "light_store", "objects_dsn", "open_object_store"]


@pytest.fixture
def workshop(catalog: Catalog) -> Workshop:
    """Maintenance on each pair of stores in turn."""
    return wire_workshop(catalog)


@pytest.fixture
def light_workshop(light_catalog: Catalog) -> Workshop:
    """The same on SQLite and memory, for rules that the stores have no part in."""
    return wire_workshop(light_catalog)
