"""Metadata stores by address, so that tests and their processes open the same one."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import TypeAlias

from lakebed.meta.migrations import migrate
from lakebed.meta.postgres.store import PostgresStore
from lakebed.meta.sqlite.store import SqliteStore

AnyStore: TypeAlias = SqliteStore | PostgresStore

_POLL_SECONDS = 0.002

_migrated: bytes | None = None
"""A file with only the full schema, once created by this process."""


async def open_store(address: str) -> AnyStore:
    """The store at `sqlite:PATH` or `postgresql://…`."""
    if address.startswith("sqlite:"):
        return await SqliteStore.open(address.removeprefix("sqlite:"))
    return await PostgresStore.open(address, random=Random())


async def open_migrated(address: str) -> AnyStore:
    """The store at an address, with the full schema."""
    if address.startswith("sqlite:"):
        return await open_migrated_file(Path(address.removeprefix("sqlite:")))
    store = await open_store(address)
    await migrate(store)
    return store


async def open_migrated_file(path: Path) -> SqliteStore:
    """The store in a file, with the schema of the product.

    A new file is a copy of one that was migrated before: thousands of tests have a store of their own, and to run every
    schema file for each would take most of their time. Migrations have tests of their own, and so does this short cut.
    """
    if path.exists():
        store = await SqliteStore.open(path)
        await migrate(store)
        return store
    made = await _migrated_file()
    path.touch(mode=0o600)  # as the store does
    path.write_bytes(made)
    return await SqliteStore.open(path)


async def _migrated_file() -> bytes:
    global _migrated
    if _migrated is None:
        with tempfile.TemporaryDirectory(prefix="lakebed-migrated-") as folder:
            path = Path(folder) / "meta.db"
            store = await SqliteStore.open(path)
            await migrate(store)
            await store.close()
            _migrated = path.read_bytes()
    return _migrated


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition set by other threads or processes."""
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(_POLL_SECONDS)
