"""Fetches that wait: for records, for their time to be over, and never in the way of others."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from lakebed.core.clock import ManualClock
from lakebed.streams.buckets import OpenBucket
from lakebed.streams.log.memory import MemoryLog
from lakebed.streams.seam import Acks, TableBucket
from lakebed.wire.fluss import messages_pb2 as pb
from lakebed.wire.fluss.handlers.logs import LogCalls
from tests.contracts.stream_log import plain_batch

NOT_LEADER = 12


class Rig:
    """Logs by the number of their bucket, and the calls on them."""

    def __init__(self, *logs: MemoryLog) -> None:
        table: Any = SimpleNamespace(path=("fluss", "t"), id=1, table_id=1)

        async def pass_(*_: object, **__: object) -> None:
            """Nobody is kept out, and whoever asks for room has it."""

        async def get(table: Any, partition_id: int | None, number: int) -> OpenBucket:
            return OpenBucket(TableBucket(1, None, number), logs[number])

        unused: Any = None
        self._room: Any = SimpleNamespace(turn=pass_, ready=pass_)
        self._calls = LogCalls(
            SimpleNamespace(known=lambda _: table),  # type: ignore[arg-type]  # all that a fetch asks of these
            unused,
            SimpleNamespace(get=get),  # type: ignore[arg-type]
            SimpleNamespace(check=pass_),  # type: ignore[arg-type]
            unused,
            ManualClock(),
        )
        self._count = len(logs)

    async def fetch(self, wait_ms: int) -> pb.FetchLogResponse:
        request = pb.FetchLogRequest(follower_server_id=-1, max_bytes=1 << 20, min_bytes=1, max_wait_ms=wait_ms)
        asked = request.tables.add(table_id=1, projection_pushdown_enabled=False)
        for number in range(self._count):
            asked.buckets.add(bucket_id=number, fetch_offset=0, max_fetch_bytes=1 << 20)
        caller: Any = SimpleNamespace(principal=None, request_id="r", connection=None)
        answer: Any = await self._calls.fetch(caller, memoryview(request.SerializeToString()), 0, self._room)
        return pb.FetchLogResponse.FromString(b"".join(answer))


async def test_a_log_that_is_closed_is_waited_for_without_holding_up_others() -> None:
    log = MemoryLog()
    fetching = asyncio.create_task(Rig(log).fetch(200))
    await asyncio.sleep(0)
    await log.close()
    turns = 0
    while not fetching.done():
        await asyncio.sleep(0.001)
        turns += 1
    assert turns > 5, "nothing else was done while it waited"
    (bucket,) = fetching.result().tables[0].buckets
    assert bucket.error_code == NOT_LEADER


async def test_what_others_have_is_answered_though_a_log_is_closed() -> None:
    closed, other = MemoryLog(), MemoryLog()
    fetching = asyncio.create_task(Rig(closed, other).fetch(60_000))
    await asyncio.sleep(0)
    await closed.close()
    await asyncio.sleep(0)
    await other.append(plain_batch(3), Acks.ALL)
    first, second = (await fetching).tables[0].buckets
    assert (first.error_code, second.error_code, second.high_watermark) == (NOT_LEADER, 0, 3)
    assert second.records
