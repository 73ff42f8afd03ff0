"""Fixtures of the catalog's client tests: one table bucket, and a namespace of one's own in it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from pyiceberg.catalog.rest import RestCatalog

from tests.clients.iceberg.lake import Lake, new_lake
from tests.fixtures.server import RunningServer


@pytest.fixture(scope="session")
def lake(lakebed_server: RunningServer) -> Lake:
    """A table bucket for all tests; they keep apart by namespaces."""
    return new_lake(lakebed_server)


@pytest.fixture(scope="session")
def catalog(lake: Lake) -> Iterator[RestCatalog]:
    """PyIceberg as root."""
    with lake.catalog() as catalog:
        yield catalog


@pytest.fixture
def namespace(lake: Lake) -> str:
    """A namespace that nobody else has."""
    name = f"ns_{uuid.uuid4().hex[:16]}"
    lake.call("POST", "namespaces", {"namespace": [name]})
    return name
