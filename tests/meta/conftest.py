"""Stores for tests that run on each of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lakebed.core.clock import ManualClock
from lakebed.meta.migrations import migrate, product_migrations
from lakebed.meta.seam import MetaStore
from tests.fixtures.postgres import postgres_dsn, postgres_server
from tests.meta.stores import open_store

__all__ = ["address", "clock", "core_store", "postgres_dsn", "postgres_server"]


_CORE = ("core", "governance_events", "periodic_jobs")


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.integration)])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty store, for each kind."""
    if request.param == "sqlite":
        return f"sqlite:{tmp_path / 'meta.db'}"
    dsn: str = request.getfixturevalue("postgres_dsn")
    return dsn


@pytest.fixture
async def core_store(address: str) -> AsyncIterator[MetaStore]:
    """A store with the core tables."""
    store = await open_store(address)
    await migrate(store, [step for step in product_migrations() if step.name in _CORE])
    yield store
    await store.close()


@pytest.fixture
def clock() -> ManualClock:
    """A manual clock."""
    return ManualClock()
