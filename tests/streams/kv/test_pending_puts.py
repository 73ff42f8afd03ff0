"""The memory of pending puts is limited, also if clients cancel their requests."""

from __future__ import annotations

import asyncio

import pytest

from lakebed.core.clock import ManualClock
from lakebed.streams.kv import bucket as bucket_module
from lakebed.streams.seam import Acks, KvPut
from tests.contracts.kv_bucket import KvBucketContract
from tests.fixtures.memory_index import MemoryIndex
from tests.fixtures.memory_log import MemoryLog


class _SlowLog(MemoryLog):
    """A log with a slow disk."""

    def __init__(self) -> None:
        super().__init__(ManualClock())
        self.is_durable = asyncio.Event()

    async def wait_durable(self, offset: int) -> None:
        await self.is_durable.wait()


async def test_puts_wait_for_memory_before_they_get_an_offset(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = _SlowLog()
    bucket = await KvBucketContract().open(MemoryIndex, log=log)
    monkeypatch.setattr(bucket_module, "MAX_PENDING_BYTES", 10)
    await bucket.put((1, "a", 1), acks=Acks.NONE)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(bucket.put((1, "b", 1)), 0.05)
    assert log.end_offset == 1, "a cancelled put gets no offset"
    waiting = [asyncio.create_task(bucket.put((number, "b", number))) for number in (2, 3)]
    await asyncio.sleep(0.05)
    assert log.end_offset == 1
    log.is_durable.set()
    assert await asyncio.gather(*waiting) == [2, 3]
    await bucket.kv.close()


async def test_put_continues_after_its_request_is_cancelled() -> None:
    log = _SlowLog()
    bucket = await KvBucketContract().open(MemoryIndex, log=log)
    batch = KvPut(bucket.batch((1, "a", 1), writer_id=7, sequence=0))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(bucket.kv.put(batch, Acks.ALL), 0.05)
    again = asyncio.create_task(bucket.kv.put(batch, Acks.ALL))
    await asyncio.sleep(0.05)
    assert not again.done()
    log.is_durable.set()
    assert await again == 1
    assert await bucket.row(1) == (1, "a", 1)
    await bucket.kv.close()
