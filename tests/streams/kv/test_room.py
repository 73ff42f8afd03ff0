"""Puts on their way take so much memory and no more, whoever waits for them or has given up."""

from __future__ import annotations

import asyncio

import pytest

from lakebed.core.clock import ManualClock
from lakebed.streams.kv import bucket as bucket_module
from lakebed.streams.seam import Acks, KvPut
from tests.contracts.kv_bucket import KvBucketContract
from tests.fixtures.memory_index import MemoryIndex
from tests.fixtures.memory_log import MemoryLog


class _Unsettled(MemoryLog):
    """A log whose disk takes its time."""

    def __init__(self) -> None:
        super().__init__(ManualClock())
        self.is_back = asyncio.Event()

    async def wait_durable(self, offset: int) -> None:
        await self.is_back.wait()


async def test_puts_wait_for_room_before_they_have_a_place_and_who_gives_up_holds_up_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = _Unsettled()
    bucket = await KvBucketContract().open(MemoryIndex, log=log)
    monkeypatch.setattr(bucket_module, "MAX_PENDING_BYTES", 10)
    await bucket.put((1, "a", 1), acks=Acks.NONE)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(bucket.put((1, "b", 1)), 0.05)
    assert log.end_offset == 1, "it had no place, and gets none"
    waiting = [asyncio.create_task(bucket.put((number, "b", number))) for number in (2, 3)]
    await asyncio.sleep(0.05)
    assert log.end_offset == 1
    log.is_back.set()
    assert await asyncio.gather(*waiting) == [2, 3]
    await bucket.keys.close()


async def test_who_waited_for_a_put_and_gave_up_takes_it_from_nobody() -> None:
    log = _Unsettled()
    bucket = await KvBucketContract().open(MemoryIndex, log=log)
    batch = KvPut(bucket.batch((1, "a", 1), writer_id=7, sequence=0))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(bucket.keys.put(batch, Acks.ALL), 0.05)
    again = asyncio.create_task(bucket.keys.put(batch, Acks.ALL))
    await asyncio.sleep(0.05)
    assert not again.done()
    log.is_back.set()
    assert await again == 1
    assert await bucket.row(1) == (1, "a", 1)
    await bucket.keys.close()
