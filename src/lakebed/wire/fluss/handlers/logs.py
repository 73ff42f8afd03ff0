"""Calls on logs: produce, fetch, list offsets, and writer ids.

A fetch without data waits on one future that the logs resolve, without a thread or task per bucket. Its errors wait as
well, until its time is over, because some clients retry at once. A bucket that is closed during the fetch ends the
wait: the client learns at once that the partition was dropped or the leader moved. If it fetches that bucket again, the
error waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from google.protobuf.message import Message

from lakebed.core.clock import Clock
from lakebed.core.errors import LakebedError
from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.objects.model import Caller
from lakebed.streams.authorization import StreamAuthorizer, StreamOperation
from lakebed.streams.buckets.open_buckets import OpenBucket, OpenBuckets
from lakebed.streams.id_ranges import WriterIds
from lakebed.streams.log.reading.filtering import BatchFilter, filtered_columns
from lakebed.streams.partitions import StreamPartitions
from lakebed.streams.seam import Acks, BucketLog, FetchResult
from lakebed.streams.table import StreamTable
from lakebed.streams.tables import StreamTables
from lakebed.streams.traffic import Traffic

from .. import messages_pb2 as pb
from ..calls import AnyCall, Backpressure, Call, CallResponse, RawCall
from ..encoding import read_message
from ..errors import failure_message, set_failure
from ..filters import read_predicate
from ..records import BucketRecords, FetchedBucket, fetch_response, read_acks, read_produce
from ..transport.clients import ConnectionClient, client_of
from ..transport.deadlines import CallTimeout

__all__ = ["LogCalls"]

MAX_FETCH_BYTES: Final = 64 * 1024 * 1024
"""Largest response to a fetch; its first batch may be larger."""

MAX_WAIT_MS: Final = 60_000
FROM_START: Final = -2
"""A fetch offset that means the start of the log."""

_PRODUCE: Final = "PRODUCE_LOG"
_FETCH: Final = "FETCH_LOG"
_EARLIEST, _LATEST, _TIME, _WRITTEN = range(4)


@dataclass(slots=True)
class _BucketFetch:
    """One bucket of a fetch."""

    table: StreamTable | None
    request: pb.FetchBucket
    columns: Sequence[int] | None
    client: ConnectionClient
    filter: BatchFilter | None = None
    opened: OpenBucket | None = None
    offset: int = 0
    next_offset: int = 0
    """The offset after the fetched records."""

    result: FetchedBucket | None = None
    was_closed: bool = False
    """The bucket was closed during the fetch."""

    @property
    def partition_id(self) -> int | None:
        return self.request.partition_id if self.request.HasField("partition_id") else None

    def fail(self, error: LakebedError) -> None:
        """Set an error as the result."""
        failure = failure_message(error)
        self.result = FetchedBucket(
            self.partition_id,
            self.request.bucket_id,
            error_code=failure.error_code,
            error_message=failure.error_message,
        )


class LogCalls:
    """The calls on logs."""

    def __init__(
        self,
        tables: StreamTables,
        partitions: StreamPartitions,
        buckets: OpenBuckets,
        authorizer: StreamAuthorizer,
        writers: WriterIds,
        clock: Clock,
        traffic: Traffic | None = None,
    ) -> None:
        self._tables = tables
        self._partitions = partitions
        self._buckets = buckets
        self._authorizer = authorizer
        self._writers = writers
        self._clock = clock
        self._traffic = Traffic() if traffic is None else traffic

    def calls(self) -> tuple[AnyCall, ...]:
        """The table entries of the calls."""
        return (
            RawCall(1014, _PRODUCE, self.produce),
            RawCall(1015, _FETCH, self.fetch),
            Call(1021, "LIST_OFFSETS", pb.ListOffsetsRequest, self.list_offsets),
            Call(1026, "INIT_WRITER", pb.InitWriterRequest, self.init_writer),
        )

    # -- produce --------------------------------------------------------------------------------------------------

    async def produce(self, caller: Caller, body: memoryview, version: int, backpressure: Backpressure) -> Message:
        """Append to buckets of a table."""
        request = read_produce(body)
        acks = read_acks(request.acks)
        try:
            table = await self._writable(caller, request.table_id)
        except LakebedError as error:
            # An error per bucket: some clients treat a failed call as a temporary failure.
            self._traffic.record_failure(None, _PRODUCE, len(request.buckets))
            return pb.ProduceLogResponse(buckets=[_refused(part, error) for part in request.buckets])
        # Started in order and awaited together, so that they share a sync. As tasks even for one bucket: without, this
        # append would overtake the tasks of an earlier call, and its batch sequence would be out of order.
        timeout_ms = request.timeout_ms
        produced = await asyncio.gather(*(self._append(table, part, acks, timeout_ms) for part in request.buckets))
        return pb.ProduceLogResponse(buckets=produced)

    async def _writable(self, caller: Caller, table_id: int) -> StreamTable:
        table = self._tables.known(table_id) or await self._tables.by_id(table_id)
        await self._authorizer.authorize(caller, StreamOperation.WRITE, *table.path)
        if table.has_primary_key:
            raise FlussError(
                ErrorCode.INVALID_TABLE, f"the table has a primary key: use PUT_KV, not PRODUCE_LOG. table={table.path}"
            )
        return table

    async def _append(self, table: StreamTable, part: BucketRecords, acks: Acks, timeout_ms: int) -> pb.ProducedBucket:
        produced = pb.ProducedBucket(bucket_id=part.bucket, partition_id=part.partition_id)
        try:
            # No await between opening the bucket and the append: batches keep the order of their arrival.
            async with CallTimeout(timeout_ms), self._buckets.using(table, part.partition_id, part.bucket) as opened:
                appended = await opened.log.append(part.records, acks)
        except LakebedError as error:
            self._traffic.record_failure(table.id, _PRODUCE)
            set_failure(produced, error)
        else:
            produced.base_offset = appended.base_offset
            records = appended.end_offset - appended.base_offset
            self._traffic.record_write(table.id, _PRODUCE, len(part.records), records)
        return produced

    async def init_writer(self, caller: Caller, request: pb.InitWriterRequest) -> pb.InitWriterResponse:
        """A new writer id, for writes to the given tables."""
        for path in request.table_path:
            await self._authorizer.authorize(caller, StreamOperation.WRITE, path.database_name, path.table_name)
        return pb.InitWriterResponse(writer_id=await self._writers.next())

    # -- fetch ----------------------------------------------------------------------------------------------------

    async def fetch(self, caller: Caller, body: memoryview, version: int, backpressure: Backpressure) -> CallResponse:
        """Batches of many buckets, as soon as there are enough or the time is over."""
        request = read_message(pb.FetchLogRequest, body)
        wait_ms = min(max(request.max_wait_ms, 0), MAX_WAIT_MS)
        deadline = asyncio.get_running_loop().time() + wait_ms / 1000
        min_bytes = max(request.min_bytes, 1)
        tables = [(table.table_id, await self._resolve(caller, table)) for table in request.tables]
        parts = [part for _, buckets in tables for part in buckets]
        while not _has_data(parts) and await self._wait(parts, deadline):
            pass
        await backpressure.acquire_large()
        while await self._read(parts, min(request.max_bytes, MAX_FETCH_BYTES)) < min_bytes:
            if not await self._wait(parts, deadline):
                break
        return fetch_response([(table_id, [self._result(part) for part in buckets]) for table_id, buckets in tables])

    def _result(self, part: _BucketFetch) -> FetchedBucket:
        """The result of one bucket, recorded as traffic."""
        result = part.result
        if result is None:
            raise RuntimeError("a bucket of a fetch has no result")
        table_id = None if part.table is None else part.table.id
        if result.error_code:
            self._traffic.record_failure(table_id, _FETCH)
        else:
            self._traffic.record_read(table_id, _FETCH, len(result.records), max(part.next_offset - part.offset, 0))
        return result

    async def _resolve(self, caller: Caller, request: pb.FetchTable) -> list[_BucketFetch]:
        """The buckets of one table of a fetch: open, or with an error as the result."""
        columns = list(request.projected_fields) if request.projection_pushdown_enabled else None
        client = client_of(caller)
        parts = [_BucketFetch(None, bucket, columns, client) for bucket in request.buckets]
        try:
            table = self._tables.known(request.table_id) or await self._tables.by_id(request.table_id)
            await self._authorizer.authorize(caller, StreamOperation.READ, *table.path)
            filter_ = await self._filter(table, request) if request.HasField("filter_predicate") else None
        except LakebedError as error:
            for part in parts:
                part.fail(error)
            return parts
        for part in parts:
            part.table = table
            part.filter = filter_
            try:
                part.opened = await self._buckets.get(table, part.partition_id, part.request.bucket_id)
                log = part.opened.log
                part.offset = part.request.fetch_offset
                if part.offset == FROM_START:
                    part.offset = log.start_offset
                if not log.start_offset <= part.offset <= log.end_offset:
                    raise FlussError(
                        ErrorCode.LOG_OFFSET_OUT_OF_RANGE,
                        "offset is not in the log. "
                        f"offset={part.offset} start={log.start_offset} end={log.high_watermark}",
                    )
            except LakebedError as error:
                part.opened = None
                part.fail(error)
        return parts

    async def _filter(self, table: StreamTable, request: pb.FetchTable) -> BatchFilter | None:
        """The filter of a fetch, if the table has statistics columns. Error codes: CORRUPT_MESSAGE."""
        columns = filtered_columns(table)
        if not columns:
            return None
        schemas = {number: await self._tables.schema(table, number) for number in range(1, table.schema_id + 1)}
        return BatchFilter(read_predicate(request.filter_predicate, table.schema), columns, schemas)

    async def _read(self, parts: Sequence[_BucketFetch], max_bytes: int) -> int:
        """Read all buckets, up to `max_bytes` in total. Returns the number of bytes, plus 1 per other progress."""
        total = 0
        await self._fail_closed(parts)
        for part in parts:
            if part.opened is None:
                continue
            log = part.opened.log
            is_readable = part.offset < log.high_watermark and (total < max_bytes or not total)
            try:
                result = await self._read_one(
                    part, log, min(part.request.max_fetch_bytes, max_bytes - total), is_readable
                )
            except LakebedError as error:
                await self._fail(part, error)
                continue
            part.result = result
            # Filtered batches count as progress too: the reader continues after them.
            total += len(result.records) or bool(result.remote) or result.filtered_end > part.offset
        return total

    async def _read_one(self, part: _BucketFetch, log: BucketLog, max_bytes: int, is_readable: bool) -> FetchedBucket:
        bucket = part.request.bucket_id
        part.next_offset = part.offset
        if not is_readable:
            return FetchedBucket(
                part.partition_id, bucket, high_watermark=log.high_watermark, start_offset=log.start_offset
            )
        found = await self._remote_segments(part, log)
        if found is None:
            found = await log.read(part.offset, max_bytes, part.columns if part.filter is None else None)
        part.next_offset = found.next_offset
        records, filtered_end = found.records, -1
        if part.filter is not None and part.table is not None and not found.remote:
            for number in part.filter.unknown(found.records):
                part.filter.add_schema(number, await self._tables.schema(part.table, number))
            records = await asyncio.to_thread(part.filter.apply, found.records, part.columns)
            filtered_end = found.next_offset
        folder = partition_name = ""
        if found.remote:
            folder = found.remote_folder
            if part.partition_id is not None:
                partition_name = (await self._partitions.by_id(part.partition_id)).name
        return FetchedBucket(
            part.partition_id,
            bucket,
            high_watermark=log.high_watermark,
            start_offset=log.start_offset,
            records=records,
            remote=found.remote,
            remote_start=found.remote_start,
            remote_folder=folder,
            partition_name=partition_name,
            filtered_end=filtered_end,
        )

    async def _remote_segments(self, part: _BucketFetch, log: BucketLog) -> FetchResult | None:
        """The remote log segments at the offset, if the client can read them itself."""
        if part.table is None or not part.client.may_read_files:
            return None
        found = await log.locate(part.offset, part.columns)
        if found is None or not await part.client.reads_files(part.table.id, self._clock.now_ms()):
            return None
        return found

    async def _wait(self, parts: Sequence[_BucketFetch], deadline: float) -> bool:
        """Wait for new data in one of the logs; False if the time is over or a bucket was closed."""
        await self._fail_closed(parts)
        if any(part.was_closed for part in parts):
            return False
        return await _wait(parts, deadline)

    async def _fail_closed(self, parts: Sequence[_BucketFetch]) -> None:
        """Set an error for the buckets that were closed during the fetch."""
        for part in parts:
            if part.opened is not None and part.opened.log.is_closed:
                await self._fail(
                    part, FlussError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the bucket was closed during the fetch")
                )

    async def _fail(self, part: _BucketFetch, error: LakebedError) -> None:
        """Set the error of a bucket: UNKNOWN_TABLE_OR_BUCKET if it was dropped during the fetch."""
        if part.opened is not None and part.opened.log.is_closed:
            part.was_closed = True
            error = await self._buckets.why_dropped(part.opened.bucket) or error
        part.fail(error)
        part.opened = None

    # -- offsets --------------------------------------------------------------------------------------------------

    async def list_offsets(self, caller: Caller, request: pb.ListOffsetsRequest) -> pb.ListOffsetsResponse:
        """The earliest or latest offset of buckets, or the offset at a timestamp."""
        table = await self._tables.authorized(caller, StreamOperation.DESCRIBE, request.table_id)
        partition_id = request.partition_id if request.HasField("partition_id") else None
        response = pb.ListOffsetsResponse()
        for number in request.bucket_id:
            listed = response.buckets.add(bucket_id=number)
            try:
                async with self._buckets.using(table, partition_id, number) as opened:
                    listed.offset = await self._offset(opened.log, request)
            except LakebedError as error:
                set_failure(listed, error)
        return response

    async def _offset(self, log: BucketLog, request: pb.ListOffsetsRequest) -> int:
        if request.offset_type == _EARLIEST:
            return log.start_offset
        if request.offset_type == _LATEST:
            return log.high_watermark
        if request.offset_type == _WRITTEN:
            return log.end_offset
        if request.offset_type != _TIME or not request.HasField("start_timestamp"):
            raise FlussError(ErrorCode.CORRUPT_MESSAGE, f"unknown offset type. offset_type={request.offset_type}")
        if request.start_timestamp > self._clock.now_ms():
            raise FlussError(
                ErrorCode.INVALID_TIMESTAMP, f"timestamp is in the future. timestamp={request.start_timestamp}"
            )
        return await log.find_time(request.start_timestamp)


def _has_data(parts: Sequence[_BucketFetch]) -> bool:
    """Whether a bucket has records to read. True for an empty fetch."""
    return not parts or any(part.opened is not None and part.offset < part.opened.log.high_watermark for part in parts)


async def _wait(parts: Sequence[_BucketFetch], deadline: float) -> bool:
    """Wait until one of the logs has new stable records, or is closed; False if the time is over first."""
    loop = asyncio.get_running_loop()
    left = deadline - loop.time()
    if left <= 0:
        return False
    changed: asyncio.Future[bool] = loop.create_future()

    def resolve(is_changed: bool) -> None:
        if not changed.done():
            changed.set_result(is_changed)

    unwatch = [
        part.opened.log.watch(max(part.offset, part.opened.log.high_watermark), lambda: resolve(True))
        for part in parts
        if part.opened is not None
    ]
    timer = loop.call_later(left, resolve, False)
    try:
        return await changed
    finally:
        timer.cancel()
        for stop in unwatch:
            stop()


def _refused(part: BucketRecords, error: LakebedError) -> pb.ProducedBucket:
    produced = pb.ProducedBucket(bucket_id=part.bucket, partition_id=part.partition_id)
    set_failure(produced, error)
    return produced
