"""Table maintenance on every pair of a metadata store and a byte store."""

from __future__ import annotations

import pytest

from tests.catalog.conftest import catalog, clock, light_catalog, light_store, objects_dsn, open_object_store
from tests.catalog.harness import Catalog

from .workshop import Workshop, wire_workshop
from .yard import Yard, open_yard

__all__ = ["catalog", "clock", "light_catalog", "light_store", "objects_dsn", "open_object_store"]


@pytest.fixture
def workshop(catalog: Catalog) -> Workshop:
    """Maintenance jobs on each pair of stores in turn."""
    return wire_workshop(catalog)


@pytest.fixture
def light_workshop(light_catalog: Catalog) -> Workshop:
    """The same on SQLite and memory, for rules that do not depend on the stores."""
    return wire_workshop(light_catalog)


@pytest.fixture
async def yard(catalog: Catalog) -> Yard:
    """Policies, tasks and the scheduler on each pair of stores in turn."""
    return await open_yard(catalog)


@pytest.fixture
async def light_yard(light_catalog: Catalog) -> Yard:
    """The same on SQLite and memory, for rules that do not depend on the stores."""
    return await open_yard(light_catalog)
