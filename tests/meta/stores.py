"""Metadata stores by address, so that a test and the processes it starts open the same one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import TypeAlias

from lakebed.meta.postgres import PostgresStore
from lakebed.meta.sqlite import SqliteStore

AnyStore: TypeAlias = SqliteStore | PostgresStore

_POLL_SECONDS = 0.002


async def open_store(address: str) -> AnyStore:
    """The store at `sqlite:PATH` or `postgresql://…`."""
    if address.startswith("sqlite:"):
        return await SqliteStore.open(address.removeprefix("sqlite:"))
    return await PostgresStore.open(address, random=Random())


async def until(condition: Callable[[], bool]) -> None:
    """Wait for what other threads or processes bring about."""
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(_POLL_SECONDS)
