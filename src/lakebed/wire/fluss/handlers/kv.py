"""Calls on KV tables: put, lookup, prefix lookup and scan. A limit scan also reads log tables."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from google.protobuf.message import Message

from lakebed.core.errors import LakebedError
from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.fluss.kv_batches import declared_count
from lakebed.objects.model import Caller
from lakebed.streams.authorization import StreamAuthorizer, StreamOperation
from lakebed.streams.buckets.open_buckets import OpenBucket, OpenBuckets
from lakebed.streams.kv.scanners import KvScanners, KvScanRequest
from lakebed.streams.log.reading.last_rows import last_batches
from lakebed.streams.seam import Acks, BucketKv, KvPut, MergeMode, TableBucket
from lakebed.streams.table import StreamTable
from lakebed.streams.tables import StreamTables
from lakebed.streams.traffic import Traffic

from .. import messages_pb2 as pb
from ..calls import AnyCall, Backpressure, CallResponse, Chunks, RawCall
from ..encoding import read_message
from ..errors import set_failure
from ..records import BucketRecords, limit_scan_response, lookup_response, read_acks, read_put, scan_response
from ..transport.deadlines import CallTimeout

__all__ = ["KvCalls"]

MAX_KEYS_BYTES: Final = 8 * 1024 * 1024
"""Longest lookup request."""

MAX_ROWS_BYTES: Final = 64 * 1024 * 1024
"""Bytes of rows in a response. A limit scan returns fewer rows beyond it; a prefix lookup fails."""

LARGE_LOOKUP_KEYS: Final = 1024
"""Lookups of more keys wait for earlier large responses. Clients send 128 keys per request."""

_PUT: Final = "PUT_KV"
_LOOKUP: Final = "LOOKUP"
_LIMIT_SCAN: Final = "LIMIT_SCAN"
_PREFIX_LOOKUP: Final = "PREFIX_LOOKUP"
_SCAN: Final = "SCAN_KV"
_MODES: Final = {each.value: each for each in MergeMode}


class KvCalls:
    """The calls on KV tables."""

    def __init__(
        self,
        tables: StreamTables,
        buckets: OpenBuckets,
        authorizer: StreamAuthorizer,
        scanners: KvScanners,
        traffic: Traffic | None = None,
    ) -> None:
        self._tables = tables
        self._buckets = buckets
        self._authorizer = authorizer
        self._scanners = scanners
        self._traffic = Traffic() if traffic is None else traffic

    def calls(self) -> tuple[AnyCall, ...]:
        """The table entries of the calls."""
        return (
            RawCall(1016, _PUT, self.put, max_version=2),
            RawCall(1017, _LOOKUP, self.lookup, max_version=1),
            RawCall(1033, _LIMIT_SCAN, self.limit_scan),
            RawCall(1034, _PREFIX_LOOKUP, self.prefix_lookup, max_version=1),
            RawCall(1061, _SCAN, self.scan),
        )

    async def _table(self, caller: Caller, table_id: int, operation: StreamOperation) -> StreamTable:
        table = self._tables.known(table_id) or await self._tables.by_id(table_id)
        await self._authorizer.authorize(caller, operation, *table.path)
        return table

    @asynccontextmanager
    async def _kv(self, table: StreamTable, partition_id: int | None, number: int) -> AsyncIterator[BucketKv]:
        async with self._buckets.using(table, partition_id, number) as opened:
            yield _require_kv(table, opened)

    # -- put ------------------------------------------------------------------------------------------------------

    async def put(self, caller: Caller, body: memoryview, version: int, backpressure: Backpressure) -> Message:
        """Merge records into buckets of a table."""
        request = read_put(body)
        acks, mode = read_acks(request.acks), _MODES.get(request.merge_mode)
        if mode is None:
            raise FlussError(ErrorCode.UNSUPPORTED_VERSION, f"unknown merge mode. mode={request.merge_mode}")
        try:
            table = await self._table(caller, request.table_id, StreamOperation.WRITE)
        except LakebedError as error:
            # An error per bucket: some clients treat a failed call as a temporary failure.
            self._traffic.record_failure(None, _PUT, len(request.buckets))
            return pb.PutKvResponse(buckets=[_refused(part, error) for part in request.buckets])

        async def one(part: BucketRecords) -> pb.PutBucket:
            put = KvPut(part.records, request.target_columns, mode)
            return await self._put(table, part, put, acks, request.timeout_ms)

        # As tasks even for one bucket: without, this put would overtake the tasks of an earlier call.
        return pb.PutKvResponse(buckets=await asyncio.gather(*map(one, request.buckets)))

    async def _put(
        self, table: StreamTable, part: BucketRecords, put: KvPut, acks: Acks, timeout_ms: int
    ) -> pb.PutBucket:
        result = pb.PutBucket(bucket_id=part.bucket, partition_id=part.partition_id)
        try:
            async with CallTimeout(timeout_ms), self._kv(table, part.partition_id, part.bucket) as kv:
                result.log_end_offset = await kv.put(put, acks)
            self._traffic.record_write(table.id, _PUT, len(part.records), declared_count(part.records))
        except LakebedError as error:
            self._traffic.record_failure(table.id, _PUT)
            set_failure(result, error)
        return result

    # -- lookup ---------------------------------------------------------------------------------------------------

    async def lookup(self, caller: Caller, body: memoryview, version: int, backpressure: Backpressure) -> CallResponse:
        """The rows of keys."""
        request = read_message(pb.LookupRequest, body, max_bytes=MAX_KEYS_BYTES)
        # Rows can be much longer than their keys: a few frames of keys could fill the memory with rows.
        if sum(len(part.keys) for part in request.buckets) > LARGE_LOOKUP_KEYS:
            await backpressure.acquire_large()
        else:
            await backpressure.wait_until_read()
        inserts = request.insert_if_not_exists
        table = await self._table(caller, request.table_id, StreamOperation.READ)
        if inserts:
            await self._authorizer.authorize(caller, StreamOperation.WRITE, *table.path)
        response: list[bytes] = []
        for part in request.buckets:
            partition_id = part.partition_id if part.HasField("partition_id") else None
            try:
                async with self._kv(table, partition_id, part.bucket_id) as kv:
                    if inserts:
                        if request.HasField("acks"):
                            read_acks(request.acks)
                        # The response is sent after the insert, for all values of acks.
                        async with CallTimeout(request.timeout_ms):
                            values = await kv.lookup_or_insert(list(part.keys))
                    else:
                        values = await kv.lookup(list(part.keys))
                found = lookup_response(partition_id, part.bucket_id, values, part.original_partition_name)
                response.append(found)
                self._traffic.record_read(table.id, _LOOKUP, len(found))
            except LakebedError as error:
                self._traffic.record_failure(table.id, _LOOKUP)
                failed = pb.LookedUpBucket(bucket_id=part.bucket_id, partition_id=partition_id)
                set_failure(failed, error)
                response.append(pb.LookupResponse(buckets=[failed]).SerializeToString())
        return response

    async def prefix_lookup(
        self, caller: Caller, body: memoryview, version: int, backpressure: Backpressure
    ) -> CallResponse:
        """The rows of all keys with one of the prefixes."""
        request = read_message(pb.PrefixLookupRequest, body, max_bytes=MAX_KEYS_BYTES)
        table = await self._table(caller, request.table_id, StreamOperation.READ)
        await backpressure.acquire_large()
        response = pb.PrefixLookupResponse()
        left = MAX_ROWS_BYTES
        for part in request.buckets:
            partition_id = part.partition_id if part.HasField("partition_id") else None
            found = response.buckets.add(bucket_id=part.bucket_id, partition_id=partition_id)
            try:
                before = left
                async with self._kv(table, partition_id, part.bucket_id) as kv:
                    for values in await kv.lookup_prefixes(list(part.keys), left):
                        found.value_lists.add(values=values)
                        left -= sum(map(len, values))
                self._traffic.record_read(table.id, _PREFIX_LOOKUP, before - left)
            except LakebedError as error:
                self._traffic.record_failure(table.id, _PREFIX_LOOKUP)
                set_failure(found, error)
        return response

    # -- scan -----------------------------------------------------------------------------------------------------

    async def limit_scan(
        self, caller: Caller, body: memoryview, version: int, backpressure: Backpressure
    ) -> CallResponse:
        """Some rows of a bucket: the first by key of a KV table, the last of a log table."""
        request = read_message(pb.LimitScanRequest, body)
        table: StreamTable | None = None
        try:
            table = await self._table(caller, request.table_id, StreamOperation.READ)
            partition_id = request.partition_id if request.HasField("partition_id") else None
            async with self._buckets.using(table, partition_id, request.bucket_id) as opened:
                await backpressure.acquire_large()
                records = await _sample(opened, max(request.limit, 0))
            self._traffic.record_read(table.id, _LIMIT_SCAN, sum(map(len, records)))
        except LakebedError as error:
            self._traffic.record_failure(None if table is None else table.id, _LIMIT_SCAN)
            failed = pb.LimitScanResponse()
            set_failure(failed, error)
            return failed
        return limit_scan_response(records, is_log=opened.kv is None)

    async def scan(self, caller: Caller, body: memoryview, version: int, backpressure: Backpressure) -> CallResponse:
        """Open, continue or close a scan of a bucket."""
        request = read_message(pb.ScanKvRequest, body)

        async def find(bucket: TableBucket) -> BucketKv:
            table = await self._table(caller, bucket.table_id, StreamOperation.READ)
            return _require_kv(table, await self._buckets.get(table, bucket.partition_id, bucket.bucket))

        await backpressure.acquire_large()
        call = _scan_request(request)
        try:
            try:
                page = await self._scanners.call(call, find)
            except FlussError as failure:
                # For an open scan the client gets an expired scanner instead, as when the leader moves.
                if call.bucket is not None and (dropped := await self._buckets.why_dropped(call.bucket)) is not None:
                    raise dropped from failure
                raise
            # Without a table: a request that continues a scan does not name it.
            self._traffic.record_read(None, _SCAN, sum(map(len, page.records or ())))
        except LakebedError as error:
            self._traffic.record_failure(None, _SCAN)
            failed = pb.ScanKvResponse()
            set_failure(failed, error)
            return failed
        return scan_response(page)


def _require_kv(table: StreamTable, opened: OpenBucket) -> BucketKv:
    if opened.kv is None:
        raise FlussError(ErrorCode.NON_PRIMARY_KEY_TABLE, f"the table has no primary key. table={table.path}")
    return opened.kv


def _refused(part: BucketRecords, error: LakebedError) -> pb.PutBucket:
    result = pb.PutBucket(bucket_id=part.bucket, partition_id=part.partition_id)
    set_failure(result, error)
    return result


def _scan_request(request: pb.ScanKvRequest) -> KvScanRequest:
    bucket: TableBucket | None = None
    limit: int | None = None
    if request.HasField("bucket_scan_req"):
        scan = request.bucket_scan_req
        partition_id = scan.partition_id if scan.HasField("partition_id") else None
        bucket = TableBucket(scan.table_id, partition_id, scan.bucket_id)
        limit = scan.limit if scan.HasField("limit") else None
    return KvScanRequest(
        scanner_id=request.scanner_id if request.HasField("scanner_id") else None,
        bucket=bucket,
        limit=limit,
        sequence=request.call_seq_id if request.HasField("call_seq_id") else None,
        batch_bytes=request.batch_size_bytes if request.HasField("batch_size_bytes") else None,
        is_close=request.close_scanner,
    )


async def _sample(opened: OpenBucket, limit: int) -> Chunks:
    """Up to `limit` rows of a bucket, in batches."""
    if opened.kv is not None:
        return await asyncio.to_thread(_first, opened.kv, limit) if limit else ()
    return tuple(await last_batches(opened.log, limit, MAX_ROWS_BYTES))


def _first(kv: BucketKv, limit: int) -> list[bytes]:
    scan = kv.scan(limit)
    try:
        return scan.next(MAX_ROWS_BYTES)[0]
    finally:
        scan.close()
