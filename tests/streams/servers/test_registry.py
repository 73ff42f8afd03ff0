"""Stream servers have a stable name, and share one object store per metadata store."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from lakebed.core.clock import ManualClock
from lakebed.core.errors import Corrupted, InvalidSetting
from lakebed.meta.seam import MetaStore, Transaction
from lakebed.storage.memory import MemoryStorage
from lakebed.streams.servers.registry import RegisteredServer, ServerRegistry, establish_server_name, join_servers
from tests.meta.stores import open_migrated_file


def test_server_name_is_durable_before_it_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    for call in ("fdatasync", "replace", "fsync"):
        real = getattr(os, call)

        def recorded(*arguments: Any, _call: str = call, _real: Any = real) -> Any:
            calls.append(_call)
            return _real(*arguments)

        monkeypatch.setattr(os, call, recorded)
    name = establish_server_name(tmp_path)
    assert calls == ["fdatasync", "replace", "fsync"]
    assert establish_server_name(tmp_path) == name


def test_lost_server_name_is_not_replaced(tmp_path: Path) -> None:
    establish_server_name(tmp_path)
    (tmp_path / "server-name").write_bytes(b"")
    with pytest.raises(Corrupted, match="streams status"):
        establish_server_name(tmp_path)


class Cluster:
    """Servers of one metadata store."""

    def __init__(self, meta: MetaStore) -> None:
        self.clock, self.meta = ManualClock(), meta
        self.registry = ServerRegistry(meta, self.clock)
        self.store, self.other = MemoryStorage(self.clock), MemoryStorage(self.clock)

    async def start(self, name: str, storage: MemoryStorage) -> None:
        server = RegisteredServer(name, ord(name[0]), f"{name}:9123", True)
        await join_servers(storage, self.registry, server, prefix="streams/servers", ttl_seconds=15.0)

    async def names(self) -> list[str]:
        return [each.name for each in await self.registry.all()]


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    meta = await open_migrated_file(tmp_path / "meta.db")
    yield Cluster(meta)
    await meta.close()


async def test_server_on_another_object_store_is_rejected_while_the_first_runs(cluster: Cluster) -> None:
    await cluster.start("a", cluster.store)
    await cluster.start("b", cluster.store)
    with pytest.raises(InvalidSetting, match=r"^storage: .*another object store.*server=97 address=a:9123"):
        await cluster.start("c", cluster.other)
    assert await cluster.names() == ["a", "b"], "the rejected server is not registered"
    await cluster.start("a", cluster.store)


async def test_server_on_another_object_store_is_rejected_while_the_first_is_down(cluster: Cluster) -> None:
    await cluster.start("a", cluster.store)
    cluster.clock.advance(3600)
    # It would lead without the records that the first has uploaded and acknowledged.
    with pytest.raises(InvalidSetting, match=r"forget-server a"):
        await cluster.start("b", cluster.other)

    async def forget(tx: Transaction) -> None:
        await cluster.registry.remove(tx, "a")

    await cluster.meta.transact(forget)
    await cluster.start("b", cluster.other)


async def test_of_concurrent_starts_on_two_object_stores_one_is_rejected(cluster: Cluster) -> None:
    starts = (cluster.start("a", cluster.store), cluster.start("b", cluster.other))
    outcomes = await asyncio.gather(*starts, return_exceptions=True)
    refused = [name for name, outcome in zip("ab", outcomes, strict=True) if isinstance(outcome, InvalidSetting)]
    assert refused
    assert await cluster.names() == [name for name in "ab" if name not in refused]


async def test_operator_can_move_all_servers_to_another_object_store(cluster: Cluster) -> None:
    await cluster.start("a", cluster.store)
    await cluster.start("b", cluster.store)
    await cluster.registry.clear()
    await cluster.start("b", cluster.other)
    await cluster.start("a", cluster.other)
    assert await cluster.names() == ["a", "b"]
