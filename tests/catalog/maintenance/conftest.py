"""Table maintenance on every pair of a metadata store and an object store."""

from __future__ import annotations

import pytest

from tests.catalog.conftest import catalog, clock, light_catalog, light_store, objects_dsn, open_object_store
from tests.catalog.harness import CatalogHarness

from .job_catalog import JobCatalog, wire_job_catalog
from .maintained_catalog import MaintainedCatalog, open_maintained_catalog

__all__ = ["catalog", "clock", "light_catalog", "light_store", "objects_dsn", "open_object_store"]


@pytest.fixture
def job_catalog(catalog: CatalogHarness) -> JobCatalog:
    """Maintenance jobs on each pair of stores."""
    return wire_job_catalog(catalog)


@pytest.fixture
def light_job_catalog(light_catalog: CatalogHarness) -> JobCatalog:
    """The same on SQLite and memory, for rules that do not depend on the stores."""
    return wire_job_catalog(light_catalog)


@pytest.fixture
async def maintained(catalog: CatalogHarness) -> MaintainedCatalog:
    """Policies, tasks and the scheduler on each pair of stores."""
    return await open_maintained_catalog(catalog)


@pytest.fixture
async def light_maintained(light_catalog: CatalogHarness) -> MaintainedCatalog:
    """The same on SQLite and memory, for rules that do not depend on the stores."""
    return await open_maintained_catalog(light_catalog)
