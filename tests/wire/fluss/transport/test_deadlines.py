"""Writes that take longer than their client waits: it is told so, and what it sends again is there once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lakebed.core.clock import ManualClock
from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.fluss.kv_batches import write_kv_batch
from lakebed.fluss.log_batches import LogBuffer
from lakebed.fluss.schema import Schema
from lakebed.streams.kv.bucket import KvBucket, open_kv_bucket
from lakebed.streams.kv.table import KvSettings, KvTable
from lakebed.streams.log.local.folder_log import FolderLog
from lakebed.wire.fluss import messages_pb2 as pb
from lakebed.wire.fluss.calls import Backpressure
from lakebed.wire.fluss.handlers.kv import KvCalls
from lakebed.wire.fluss.handlers.logs import LogCalls
from lakebed.wire.fluss.transport.deadlines import CallTimeout
from tests.contracts.bucket_keys import PLAIN, key_of
from tests.contracts.stream_log import offsets, plain_batch, read_all
from tests.fixtures.memory_index import MemoryIndex
from tests.wire.fluss.test_order import CALLER, nothing

SOON, NEVER_MIND = 50, 60_000
TIMED_OUT = 25


class Place:
    """One bucket whose log is stable when the test lets it be, and the calls of clients on it."""

    def __init__(self, log: FolderLog, keys: KvBucket | None) -> None:
        self.log = log
        self.keys = keys
        self.is_back = asyncio.Event()
        log.replicate = self._replicate
        table = SimpleNamespace(id=1, path=("fluss", "t"), has_primary_key=keys is not None)
        tables, gate = SimpleNamespace(known=lambda table_id: table), SimpleNamespace(authorize=nothing)
        self._logs = cast(Any, LogCalls)(tables, None, self, gate, None, ManualClock())
        self._keys = cast(Any, KvCalls)(tables, self, gate, None)

    @asynccontextmanager
    async def using(self, table: object, partition_id: int | None, number: int) -> AsyncIterator[Place]:
        yield self

    async def _replicate(self, start: int, end: int, batches: Sequence[LogBuffer]) -> None:
        await self.is_back.wait()

    async def produce(self, batch: bytes, timeout_ms: int, acks: int = -1) -> pb.ProducedBucket:
        request = pb.ProduceLogRequest(acks=acks, table_id=1, timeout_ms=timeout_ms)
        request.buckets.add(bucket_id=0, records=batch)
        answer = await self._logs.produce(CALLER, memoryview(request.SerializeToString()), 0, cast(Backpressure, None))
        return cast(pb.ProducedBucket, answer.buckets[0])

    async def put(self, batch: bytes, timeout_ms: int) -> pb.PutBucket:
        request = pb.PutKvRequest(acks=-1, table_id=1, timeout_ms=timeout_ms)
        request.buckets.add(bucket_id=0, records=batch)
        answer = await self._keys.put(CALLER, memoryview(request.SerializeToString()), 0, cast(Backpressure, None))
        return cast(pb.PutBucket, answer.buckets[0])


async def find_schema(schema_id: int) -> Schema:
    raise AssertionError("all schemas are known")


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    with ThreadPoolExecutor(2) as threads:
        log = await FolderLog.open(str(tmp_path / "log"), clock=ManualClock(), threads=threads)
        made = Place(log, None)
        yield made
        made.is_back.set()
        await log.close()


@pytest.fixture
async def keyed(tmp_path: Path) -> AsyncIterator[Place]:
    with ThreadPoolExecutor(2) as threads:
        log = await FolderLog.open(str(tmp_path / "log"), clock=ManualClock(), threads=threads)
        keys = await open_kv_bucket(KvTable(KvSettings.parse(PLAIN, {}), {1: PLAIN}), log, MemoryIndex(), find_schema)
        made = Place(log, keys)
        yield made
        made.is_back.set()
        await log.close()
        await keys.close()


def rows(number: int, sequence: int) -> bytes:
    layout = KvTable(KvSettings.parse(PLAIN, {}), {1: PLAIN}).layout(1)
    return write_kv_batch([(key_of(number), layout.encode((number, "n", number)))], 1, 7, sequence)


async def test_an_append_that_takes_too_long_is_told_and_is_there_once_when_it_is_sent_again(place: Place) -> None:
    batches = [plain_batch(2, writer_id=7, sequence=sequence) for sequence in range(3)]
    for _ in range(2):
        told = await asyncio.gather(*(place.produce(batch, SOON) for batch in batches))
        assert [each.error_code for each in told] == [TIMED_OUT] * 3
        assert "timeout_ms=50" in told[0].error_message
    assert place.log.stable_offset == 0
    waiting = [asyncio.create_task(place.produce(batch, NEVER_MIND)) for batch in batches]
    await asyncio.sleep(0.05)
    place.is_back.set()
    assert [(each.error_code, each.base_offset) for each in await asyncio.gather(*waiting)] == [(0, 0), (0, 2), (0, 4)]
    assert offsets(await read_all(place.log)) == [(0, 2), (2, 4), (4, 6)]


async def test_an_append_that_had_no_place_in_time_never_gets_one(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(place.log, "_settings", place.log._settings.__class__(group_bytes=100))
    await place.produce(plain_batch(1, bytes(200), writer_id=7, sequence=0), SOON)  # on its way to the byte store
    await place.produce(plain_batch(1, bytes(200), writer_id=7, sequence=1), SOON)  # the next group, which is full now
    assert place.log.end_offset == 2
    assert (await place.produce(plain_batch(1, writer_id=7, sequence=2), SOON)).error_code == TIMED_OUT
    assert place.log.end_offset == 2, "what waits for room is not kept for who has given up"
    place.is_back.set()
    assert (await place.produce(plain_batch(1, writer_id=7, sequence=2), NEVER_MIND)).base_offset == 2


async def test_an_append_without_a_time_waits(place: Place) -> None:
    waiting = asyncio.create_task(place.produce(plain_batch(), 0))
    await asyncio.sleep(0.1)
    assert not waiting.done()
    place.is_back.set()
    assert (await waiting).error_code == 0


async def test_an_append_that_nobody_waits_for_is_answered_at_once(place: Place) -> None:
    assert (await place.produce(plain_batch(), SOON, acks=0)).error_code == 0


async def test_a_put_that_takes_too_long_is_told_and_is_there_once_when_it_is_sent_again(keyed: Place) -> None:
    batches = [rows(number, sequence=number) for number in range(3)]
    for _ in range(2):
        told = await asyncio.gather(*(keyed.put(batch, SOON) for batch in batches))
        assert [each.error_code for each in told] == [TIMED_OUT] * 3
    assert keyed.keys is not None
    assert await keyed.keys.lookup([key_of(0)]) == [None], "what may be lost is not shown"
    waiting = [asyncio.create_task(keyed.put(batch, NEVER_MIND)) for batch in batches]
    await asyncio.sleep(0.05)
    keyed.is_back.set()
    assert [(each.error_code, each.log_end_offset) for each in await asyncio.gather(*waiting)] == [
        (0, 1),
        (0, 2),
        (0, 3),
    ]
    assert all(await keyed.keys.lookup([key_of(number) for number in range(3)]))
    assert keyed.keys.row_count == 3
    assert keyed.log.stable_offset == 3


async def test_what_fails_within_its_time_fails_as_it_does() -> None:
    with pytest.raises(FlussError) as failed:
        async with CallTimeout(NEVER_MIND):
            raise FlussError(ErrorCode.STORAGE, "away")
    assert failed.value.code is ErrorCode.STORAGE
    with pytest.raises(asyncio.CancelledError):
        async with CallTimeout(NEVER_MIND):
            raise asyncio.CancelledError
