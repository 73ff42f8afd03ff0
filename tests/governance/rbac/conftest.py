"""Test worlds on SQLite and PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lakebed.core.clock import ManualClock
from lakebed.meta.outbox import Outbox
from tests.meta.conftest import address
from tests.meta.stores import open_migrated, open_migrated_file

from .world import World

__all__ = ["address"]


@pytest.fixture
async def world(address: str, clock: ManualClock) -> AsyncIterator[World]:
    """Catalogs `lake`, with contents, and `pond`, on SQLite and on PostgreSQL."""
    store = await open_migrated(address)
    try:
        yield await filled(World(store, clock, Outbox(store)))
    finally:
        await store.close()


@pytest.fixture
async def sqlite_world(tmp_path: Path, clock: ManualClock) -> AsyncIterator[World]:
    """The same on SQLite only, for rules that do not depend on the store."""
    store = await open_migrated_file(tmp_path / "meta.db")
    try:
        yield await filled(World(store, clock, Outbox(store)))
    finally:
        await store.close()


async def filled(world: World) -> World:
    """Add to `lake`: a, a.b, a.b.t, a.b.v (a view), a.p (a policy), c, c.t; and the catalog `pond`."""
    lake = await world.catalog("lake")
    await world.catalog("pond")
    a = await world.namespace(lake, "a")
    b = await world.namespace(lake, "a", "b")
    c = await world.namespace(lake, "c")
    await world.entry(lake, b, "t")
    await world.entry(lake, b, "v", "view")
    await world.entry(lake, c, "t")
    await world.policy(lake, a, "p")
    world.authorizer.requests.clear()
    return world
