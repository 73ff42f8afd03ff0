"""Each lookup gets its own values, however many are read at once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import pytest

from lakebed.streams.kv.index import batched_reads
from lakebed.streams.kv.index.batched_reads import BatchedReads


class Disk:
    """Keys that are their own values, read when the test lets them be."""

    def __init__(self) -> None:
        self.reads: list[list[bytes]] = []
        self.gate = threading.Semaphore(0)
        self.begun = threading.Semaphore(0)
        self.failure: Exception | None = None

    def read(self, keys: Sequence[bytes]) -> list[bytes | None]:
        self.reads.append(list(keys))
        self.begun.release()
        assert self.gate.acquire(timeout=10)
        if self.failure is not None:
            raise self.failure
        return [None if key == b"none" else key for key in keys]


async def _begun(disk: Disk) -> None:
    assert await asyncio.to_thread(disk.begun.acquire, timeout=10)


async def test_what_comes_while_a_thread_reads_is_read_together() -> None:
    disk = Disk()
    reads = BatchedReads(disk.read)
    first = asyncio.create_task(reads.get([b"a"]))
    await _begun(disk)
    later = [asyncio.create_task(reads.get(keys)) for keys in ([b"b", b"none"], [], [b"c"])]
    await asyncio.sleep(0)
    disk.gate.release(2)
    assert await asyncio.gather(first, *later) == [[b"a"], [b"b", None], [], [b"c"]]
    assert disk.reads == [[b"a"], [b"b", b"none", b"c"]]
    disk.gate.release()
    assert await reads.get([b"d"]) == [b"d"]


async def test_no_more_is_read_at_once_than_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batched_reads, "MAX_BATCH_KEYS", 3)
    disk = Disk()
    reads = BatchedReads(disk.read)
    disk.gate.release(10)
    asked = [[b"a", b"b"], [b"c"], [b"d"], [b"e", b"f", b"g"], [b"h"]]
    assert await asyncio.gather(*map(reads.get, asked)) == asked
    assert disk.reads == [[b"a", b"b", b"c"], [b"d"], [b"e", b"f", b"g"], [b"h"]]


async def test_a_call_with_more_than_may_be_reads_beside_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batched_reads, "MAX_BATCH_KEYS", 3)
    disk = Disk()
    reads = BatchedReads(disk.read)
    large = asyncio.create_task(reads.get([b"a"] * 4))
    await _begun(disk)
    small = asyncio.create_task(reads.get([b"b"]))
    await _begun(disk)  # though the large one has not ended
    disk.gate.release(2)
    assert [await large, await small] == [[b"a"] * 4, [b"b"]]


async def test_a_failure_is_told_to_those_it_is_of_and_reading_goes_on() -> None:
    disk = Disk()
    disk.failure = OSError("gone")
    reads = BatchedReads(disk.read)
    asked = [asyncio.create_task(reads.get([key])) for key in (b"a", b"b")]
    await _begun(disk)
    later = asyncio.create_task(reads.get([b"c"]))
    disk.gate.release()
    for each in asked:
        with pytest.raises(OSError, match="gone"):
            await each
    await _begun(disk)
    disk.failure = None
    disk.gate.release()
    assert await later == [b"c"]


async def test_who_gives_up_is_not_read_for_and_keeps_nobody_waiting() -> None:
    disk = Disk()
    reads = BatchedReads(disk.read)
    first, second, third = (asyncio.create_task(reads.get([key])) for key in (b"a", b"b", b"c"))
    await _begun(disk)
    fourth = asyncio.create_task(reads.get([b"d"]))
    fifth = asyncio.create_task(reads.get([b"e"]))
    await asyncio.sleep(0)
    second.cancel()
    fourth.cancel()
    await asyncio.sleep(0)
    disk.gate.release(2)
    assert [await first, await third, await fifth] == [[b"a"], [b"c"], [b"e"]]
    assert disk.reads == [[b"a", b"b", b"c"], [b"e"]]
