"""Labels on every pair of a metadata store and an object store."""

from __future__ import annotations

import pytest

from tests.catalog.conftest import catalog, clock, light_catalog, light_store, objects_dsn, open_object_store
from tests.catalog.harness import CatalogHarness

from .labelled_catalog import LabelHarness, open_label_harness

__all__ = ["catalog", "clock", "light_catalog", "light_store", "objects_dsn", "open_object_store"]


@pytest.fixture
async def harness(catalog: CatalogHarness) -> LabelHarness:
    """One target of each kind, on each pair of stores."""
    return await open_label_harness(catalog)


@pytest.fixture
async def light_labels(light_catalog: CatalogHarness) -> LabelHarness:
    """The same on SQLite and memory, for rules that do not depend on the stores."""
    return await open_label_harness(light_catalog)
