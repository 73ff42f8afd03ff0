"""Stream servers of one metadata store have one object store, or do not start."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakebed.core.clock import ManualClock
from lakebed.core.errors import InvalidSetting
from lakebed.storage.memory import MemoryStorage
from lakebed.streams.server_registry import SeenServer, ServerRegistry
from lakebed.streams.shared_store import confirm_shared
from tests.meta.stores import open_migrated_file


async def test_a_server_on_another_object_store_is_refused_while_the_first_runs(tmp_path: Path) -> None:
    clock, meta = ManualClock(), await open_migrated_file(tmp_path / "meta.db")
    registry, store, other = ServerRegistry(meta, clock), MemoryStorage(clock), MemoryStorage(clock)

    async def start(name: str, storage: MemoryStorage) -> None:
        await confirm_shared(storage, registry, clock, prefix="streams/servers", server=name)
        await registry.report(SeenServer(name, len(await registry.all()) + 1, f"{name}:9123", True), 15.0)

    await start("one", store)
    await start("two", store)
    with pytest.raises(InvalidSetting, match=r"^storage: .*another object store.*server=1 address=one:9123"):
        await start("three", other)
    clock.advance(20)
    await start("three", other)
    await meta.close()
