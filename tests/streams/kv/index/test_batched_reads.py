"""Concurrent lookups are read in batches, and each gets its values."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import pytest

from lakebed.streams.kv.index import batched_reads
from lakebed.streams.kv.index.batched_reads import BatchedReads


class Disk:
    """Returns keys as values, when the test permits the read."""

    def __init__(self) -> None:
        self.reads: list[list[bytes]] = []
        self.permits = threading.Semaphore(0)
        self.started = threading.Semaphore(0)
        self.failure: Exception | None = None

    def read(self, keys: Sequence[bytes]) -> list[bytes | None]:
        self.reads.append(list(keys))
        self.started.release()
        assert self.permits.acquire(timeout=10)
        if self.failure is not None:
            raise self.failure
        return [None if key == b"none" else key for key in keys]


async def _started(disk: Disk) -> None:
    assert await asyncio.to_thread(disk.started.acquire, timeout=10)


async def test_lookups_during_a_read_form_the_next_batch() -> None:
    disk = Disk()
    reads = BatchedReads(disk.read)
    first = asyncio.create_task(reads.get([b"a"]))
    await _started(disk)
    later = [asyncio.create_task(reads.get(keys)) for keys in ([b"b", b"none"], [], [b"c"])]
    await asyncio.sleep(0)
    disk.permits.release(2)
    assert await asyncio.gather(first, *later) == [[b"a"], [b"b", None], [], [b"c"]]
    assert disk.reads == [[b"a"], [b"b", b"none", b"c"]]
    disk.permits.release()
    assert await reads.get([b"d"]) == [b"d"]


async def test_batch_size_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batched_reads, "MAX_BATCH_KEYS", 3)
    disk = Disk()
    reads = BatchedReads(disk.read)
    disk.permits.release(10)
    lookups = [[b"a", b"b"], [b"c"], [b"d"], [b"e", b"f", b"g"], [b"h"]]
    assert await asyncio.gather(*map(reads.get, lookups)) == lookups
    assert disk.reads == [[b"a", b"b", b"c"], [b"d"], [b"e", b"f", b"g"], [b"h"]]


async def test_oversized_lookup_is_read_concurrently(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batched_reads, "MAX_BATCH_KEYS", 3)
    disk = Disk()
    reads = BatchedReads(disk.read)
    large = asyncio.create_task(reads.get([b"a"] * 4))
    await _started(disk)
    small = asyncio.create_task(reads.get([b"b"]))
    await _started(disk)  # while the large read still runs
    disk.permits.release(2)
    assert [await large, await small] == [[b"a"] * 4, [b"b"]]


async def test_failed_read_fails_only_its_lookups() -> None:
    disk = Disk()
    disk.failure = OSError("gone")
    reads = BatchedReads(disk.read)
    lookups = [asyncio.create_task(reads.get([key])) for key in (b"a", b"b")]
    await _started(disk)
    later = asyncio.create_task(reads.get([b"c"]))
    disk.permits.release()
    for each in lookups:
        with pytest.raises(OSError, match="gone"):
            await each
    await _started(disk)
    disk.failure = None
    disk.permits.release()
    assert await later == [b"c"]


async def test_cancelled_lookups_are_not_read_and_delay_no_others() -> None:
    disk = Disk()
    reads = BatchedReads(disk.read)
    first, second, third = (asyncio.create_task(reads.get([key])) for key in (b"a", b"b", b"c"))
    await _started(disk)
    fourth = asyncio.create_task(reads.get([b"d"]))
    fifth = asyncio.create_task(reads.get([b"e"]))
    await asyncio.sleep(0)
    second.cancel()
    fourth.cancel()
    await asyncio.sleep(0)
    disk.permits.release(2)
    assert [await first, await third, await fifth] == [[b"a"], [b"c"], [b"e"]]
    assert disk.reads == [[b"a", b"b", b"c"], [b"e"]]
