"""Fixtures of stream services, on every kind of metadata store or on SQLite alone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lakebed.core.clock import ManualClock
from tests.meta.conftest import address
from tests.meta.stores import open_migrated, open_migrated_file

from .world import StreamWorld

__all__ = ["address"]


@pytest.fixture
def clock() -> ManualClock:
    """A clock that only tests advance."""
    return ManualClock()


@pytest.fixture
async def world(address: str, clock: ManualClock) -> AsyncIterator[StreamWorld]:
    """On SQLite and on PostgreSQL."""
    store = await open_migrated(address)
    try:
        yield StreamWorld(store, clock)
    finally:
        await store.close()


@pytest.fixture
async def light_world(tmp_path: Path, clock: ManualClock) -> AsyncIterator[StreamWorld]:
    """On SQLite, for rules that do not depend on the store."""
    store = await open_migrated_file(tmp_path / "meta.db")
    try:
        yield StreamWorld(store, clock)
    finally:
        await store.close()
