"""Writes that exceed their timeout: the client gets REQUEST_TIME_OUT, and its retry is stored once."""

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
from tests.contracts.kv_bucket import PLAIN, key_of
from tests.contracts.stream_log import offsets, plain_batch, read_all
from tests.fixtures.memory_index import MemoryIndex
from tests.wire.fluss.test_order import CALLER, allow_all

SHORT_MS, LONG_MS = 50, 60_000
TIMED_OUT = 25


class Bucket:
    """A bucket that replicates after `can_replicate` is set, and calls on it."""

    def __init__(self, log: FolderLog, kv: KvBucket | None) -> None:
        self.log = log
        self.kv = kv
        self.can_replicate = asyncio.Event()
        log.replicate = self._replicate
        table = SimpleNamespace(id=1, path=("fluss", "t"), has_primary_key=kv is not None)
        tables, authorizer = SimpleNamespace(known=lambda table_id: table), SimpleNamespace(authorize=allow_all)
        self._logs = cast(Any, LogCalls)(tables, None, self, authorizer, None, ManualClock())
        self._kv = cast(Any, KvCalls)(tables, self, authorizer, None)

    @asynccontextmanager
    async def using(self, table: object, partition_id: int | None, number: int) -> AsyncIterator[Bucket]:
        yield self

    async def _replicate(self, start: int, end: int, batches: Sequence[LogBuffer]) -> None:
        await self.can_replicate.wait()

    async def produce(self, batch: bytes, timeout_ms: int, acks: int = -1) -> pb.ProducedBucket:
        request = pb.ProduceLogRequest(acks=acks, table_id=1, timeout_ms=timeout_ms)
        request.buckets.add(bucket_id=0, records=batch)
        response = await self._logs.produce(
            CALLER, memoryview(request.SerializeToString()), 0, cast(Backpressure, None)
        )
        return cast(pb.ProducedBucket, response.buckets[0])

    async def put(self, batch: bytes, timeout_ms: int) -> pb.PutBucket:
        request = pb.PutKvRequest(acks=-1, table_id=1, timeout_ms=timeout_ms)
        request.buckets.add(bucket_id=0, records=batch)
        response = await self._kv.put(CALLER, memoryview(request.SerializeToString()), 0, cast(Backpressure, None))
        return cast(pb.PutBucket, response.buckets[0])


async def find_schema(schema_id: int) -> Schema:
    raise AssertionError("all schemas are known")


@pytest.fixture
async def bucket(tmp_path: Path) -> AsyncIterator[Bucket]:
    with ThreadPoolExecutor(2) as threads:
        log = await FolderLog.open(str(tmp_path / "log"), clock=ManualClock(), threads=threads)
        bucket = Bucket(log, None)
        yield bucket
        bucket.can_replicate.set()
        await log.close()


@pytest.fixture
async def kv_bucket(tmp_path: Path) -> AsyncIterator[Bucket]:
    with ThreadPoolExecutor(2) as threads:
        log = await FolderLog.open(str(tmp_path / "log"), clock=ManualClock(), threads=threads)
        kv = await open_kv_bucket(KvTable(KvSettings.parse(PLAIN, {}), {1: PLAIN}), log, MemoryIndex(), find_schema)
        bucket = Bucket(log, kv)
        yield bucket
        bucket.can_replicate.set()
        await log.close()
        await kv.close()


def rows(number: int, sequence: int) -> bytes:
    layout = KvTable(KvSettings.parse(PLAIN, {}), {1: PLAIN}).layout(1)
    return write_kv_batch([(key_of(number), layout.encode((number, "n", number)))], 1, 7, sequence)


async def test_retry_of_a_timed_out_append_is_stored_once(bucket: Bucket) -> None:
    batches = [plain_batch(2, writer_id=7, sequence=sequence) for sequence in range(3)]
    for _ in range(2):
        results = await asyncio.gather(*(bucket.produce(batch, SHORT_MS) for batch in batches))
        assert [each.error_code for each in results] == [TIMED_OUT] * 3
        assert "timeout_ms=50" in results[0].error_message
    assert bucket.log.high_watermark == 0
    waiting = [asyncio.create_task(bucket.produce(batch, LONG_MS)) for batch in batches]
    await asyncio.sleep(0.05)
    bucket.can_replicate.set()
    assert [(each.error_code, each.base_offset) for each in await asyncio.gather(*waiting)] == [(0, 0), (0, 2), (0, 4)]
    assert offsets(await read_all(bucket.log)) == [(0, 2), (2, 4), (4, 6)]


async def test_append_without_an_offset_at_its_timeout_is_never_stored(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bucket.log, "_settings", bucket.log._settings.__class__(group_bytes=100))
    await bucket.produce(plain_batch(1, bytes(200), writer_id=7, sequence=0), SHORT_MS)  # being replicated
    await bucket.produce(plain_batch(1, bytes(200), writer_id=7, sequence=1), SHORT_MS)  # fills the next group
    assert bucket.log.end_offset == 2
    assert (await bucket.produce(plain_batch(1, writer_id=7, sequence=2), SHORT_MS)).error_code == TIMED_OUT
    assert bucket.log.end_offset == 2, "a timed-out append does not wait for the next group"
    bucket.can_replicate.set()
    assert (await bucket.produce(plain_batch(1, writer_id=7, sequence=2), LONG_MS)).base_offset == 2


async def test_append_without_a_timeout_waits(bucket: Bucket) -> None:
    waiting = asyncio.create_task(bucket.produce(plain_batch(), 0))
    await asyncio.sleep(0.1)
    assert not waiting.done()
    bucket.can_replicate.set()
    assert (await waiting).error_code == 0


async def test_append_without_acks_is_answered_at_once(bucket: Bucket) -> None:
    assert (await bucket.produce(plain_batch(), SHORT_MS, acks=0)).error_code == 0


async def test_retry_of_a_timed_out_put_is_stored_once(kv_bucket: Bucket) -> None:
    batches = [rows(number, sequence=number) for number in range(3)]
    for _ in range(2):
        results = await asyncio.gather(*(kv_bucket.put(batch, SHORT_MS) for batch in batches))
        assert [each.error_code for each in results] == [TIMED_OUT] * 3
    assert kv_bucket.kv is not None
    assert await kv_bucket.kv.lookup([key_of(0)]) == [None], "unstable rows are not visible"
    waiting = [asyncio.create_task(kv_bucket.put(batch, LONG_MS)) for batch in batches]
    await asyncio.sleep(0.05)
    kv_bucket.can_replicate.set()
    assert [(each.error_code, each.log_end_offset) for each in await asyncio.gather(*waiting)] == [
        (0, 1),
        (0, 2),
        (0, 3),
    ]
    assert all(await kv_bucket.kv.lookup([key_of(number) for number in range(3)]))
    assert kv_bucket.kv.row_count == 3
    assert kv_bucket.log.high_watermark == 3


async def test_errors_within_the_timeout_are_not_changed() -> None:
    with pytest.raises(FlussError) as failed:
        async with CallTimeout(LONG_MS):
            raise FlussError(ErrorCode.STORAGE, "away")
    assert failed.value.code is ErrorCode.STORAGE
    with pytest.raises(asyncio.CancelledError):
        async with CallTimeout(LONG_MS):
            raise asyncio.CancelledError
