from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable

import pytest

from lakebed.core.clock import ManualClock
from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.streams.kv.index.seam import KvIndexSnapshot
from lakebed.streams.kv.scanners import KvScanLimits, KvScanners, KvScanPage, KvScanRequest
from lakebed.streams.seam import BucketKv, TableBucket
from tests.contracts.kv_bucket import Bucket, KvBucketContract
from tests.fixtures.memory_index import MemoryIndex

BUCKET = TableBucket(1, None, 0)
SMALL = 30


class Scans:
    """A bucket of ten rows, with scans as a client requests them."""

    def __init__(self, bucket: Bucket, limits: KvScanLimits) -> None:
        self.bucket = bucket
        self.clock = ManualClock()
        self.scanners = KvScanners(self.clock, limits)
        self.refusal: FlussError | None = None
        self.kv: BucketKv = bucket.kv

    async def find(self, bucket: TableBucket) -> BucketKv:
        if self.refusal is not None:
            raise self.refusal
        return self.kv

    async def open(self, *, limit: int | None = None, size: int = SMALL, at: TableBucket = BUCKET) -> KvScanPage:
        return await self.scanners.call(KvScanRequest(bucket=at, limit=limit, sequence=0, batch_bytes=size), self.find)

    async def next(self, page: KvScanPage, sequence: int, size: int = SMALL) -> KvScanPage:
        return await self.scanners.call(KvScanRequest(page.scanner_id, sequence=sequence, batch_bytes=size), self.find)

    async def close(self, scanner_id: bytes | None) -> KvScanPage:
        return await self.scanners.call(KvScanRequest(scanner_id, is_close=True), self.find)

    def rows(self, page: KvScanPage) -> list[int]:
        return [] if page.records is None else [row[0] for row in self.bucket.rows_of(page.records)]


async def open_scans(limits: KvScanLimits = KvScanLimits()) -> Scans:  # noqa: B008 - frozen
    bucket = await KvBucketContract().open(MemoryIndex)
    await bucket.put(*((number, "row", number) for number in range(10)))
    return Scans(bucket, limits)


@pytest.fixture
async def scans() -> AsyncIterator[Scans]:
    scans = await open_scans()
    yield scans
    await scans.bucket.kv.close()


async def refused(call: Awaitable[KvScanPage]) -> ErrorCode:
    with pytest.raises(FlussError) as failed:
        await call
    return failed.value.code


async def test_scan_returns_all_rows(scans: Scans) -> None:
    page = await scans.open()
    assert page.log_offset == 10
    rows, sequence = scans.rows(page), 0
    while page.has_more:
        sequence += 1
        page = await scans.next(page, sequence)
        assert page.log_offset is None
        rows += scans.rows(page)
    assert rows == list(range(10))
    assert sequence > 1
    assert len(scans.scanners) == 0
    assert await refused(scans.next(page, sequence + 1)) is ErrorCode.UNKNOWN_SCANNER_ID


async def test_scan_that_fits_one_response_keeps_no_session(scans: Scans) -> None:
    page = await scans.open(size=1 << 20)
    assert (scans.rows(page), page.has_more, len(scans.scanners)) == (list(range(10)), False, 0)
    page = await scans.open(limit=2, size=1 << 20)
    assert (scans.rows(page), page.has_more) == ([0, 1], False)
    page = await scans.open(limit=0, size=1 << 20)
    assert len(scans.rows(page)) == 10


async def test_scan_of_an_empty_bucket_has_no_session() -> None:
    scans = Scans(await KvBucketContract().open(MemoryIndex), KvScanLimits())
    assert await scans.open() == KvScanPage(None, False, None, 0)
    await scans.bucket.kv.close()


@pytest.mark.parametrize(
    "call",
    [
        KvScanRequest(),
        KvScanRequest(b"x", BUCKET, sequence=0, batch_bytes=1),
        KvScanRequest(bucket=BUCKET, is_close=True),
        KvScanRequest(is_close=True),
        KvScanRequest(bucket=BUCKET, sequence=0),
        KvScanRequest(bucket=BUCKET, sequence=0, batch_bytes=0),
        KvScanRequest(bucket=BUCKET, sequence=0, batch_bytes=-5),
        KvScanRequest(bucket=BUCKET, sequence=1, batch_bytes=5),
        KvScanRequest(bucket=BUCKET, batch_bytes=5),
    ],
)
async def test_invalid_requests_are_rejected(scans: Scans, call: KvScanRequest) -> None:
    assert await refused(scans.scanners.call(call, scans.find)) is ErrorCode.INVALID_SCAN_REQUEST


@pytest.mark.parametrize("sequence", [0, 2, None])
async def test_request_out_of_sequence_ends_the_scan(scans: Scans, sequence: int | None) -> None:
    page = await scans.open()
    call = KvScanRequest(page.scanner_id, sequence=sequence, batch_bytes=SMALL)
    assert await refused(scans.scanners.call(call, scans.find)) is ErrorCode.INVALID_SCAN_REQUEST
    assert await refused(scans.next(page, 1)) is ErrorCode.UNKNOWN_SCANNER_ID


async def test_close_is_idempotent(scans: Scans) -> None:
    page = await scans.open()
    assert await scans.close(page.scanner_id) == KvScanPage(page.scanner_id)
    assert await scans.close(page.scanner_id) == KvScanPage(page.scanner_id)
    assert await scans.close(b"never was") == KvScanPage(b"never was")
    assert await refused(scans.next(page, 1)) is ErrorCode.UNKNOWN_SCANNER_ID


async def test_concurrent_requests_of_one_scan_are_rejected(scans: Scans) -> None:
    page = await scans.open()
    may_continue = asyncio.Event()

    async def slow(bucket: TableBucket) -> BucketKv:
        await may_continue.wait()
        return scans.kv

    call = KvScanRequest(page.scanner_id, sequence=1, batch_bytes=SMALL)
    first = asyncio.create_task(scans.scanners.call(call, slow))
    await asyncio.sleep(0)
    assert await refused(scans.next(page, 1)) is ErrorCode.INVALID_SCAN_REQUEST
    may_continue.set()
    assert scans.rows(await first)


async def test_number_of_scans_is_limited_per_bucket_and_server() -> None:
    scans = await open_scans(KvScanLimits(max_per_server=3, max_per_bucket=2))
    first = await scans.open()
    await scans.open()
    assert await refused(scans.open()) is ErrorCode.TOO_MANY_SCANNERS
    other = TableBucket(1, None, 1)
    await scans.open(at=other)
    assert await refused(scans.open(at=TableBucket(2, 3, 4))) is ErrorCode.TOO_MANY_SCANNERS
    await scans.close(first.scanner_id)
    await scans.open(at=other)
    scans.scanners.close()
    assert len(scans.scanners) == 0
    await scans.bucket.kv.close()


async def test_idle_scan_expires(scans: Scans) -> None:
    idle, used = await scans.open(), await scans.open()
    scans.clock.advance(400)
    await scans.next(used, 1)
    scans.clock.advance(400)
    scans.scanners.sweep()
    assert len(scans.scanners) == 1
    assert await refused(scans.next(idle, 1)) is ErrorCode.SCANNER_EXPIRED
    await scans.next(used, 2)
    scans.clock.advance(601)
    assert await refused(scans.next(used, 3)) is ErrorCode.SCANNER_EXPIRED
    scans.clock.advance(1201)
    scans.scanners.sweep()
    assert await refused(scans.next(used, 3)) is ErrorCode.UNKNOWN_SCANNER_ID


class _WatchedIndex(MemoryIndex):
    """Counts its open snapshots."""

    def __init__(self) -> None:
        super().__init__()
        self.held = 0

    def view(self) -> KvIndexSnapshot:
        self.held += 1
        return _WatchedView(super().view(), self)


class _WatchedView:
    def __init__(self, view: KvIndexSnapshot, index: _WatchedIndex) -> None:
        self._view = view
        self._index: _WatchedIndex | None = index

    @property
    def log_offset(self) -> int:
        return self._view.log_offset

    def take(self, max_bytes: int, limit: int | None) -> tuple[list[bytes], bool]:
        return self._view.take(max_bytes, limit)

    def close(self) -> None:
        if self._index is not None:
            self._index.held -= 1
            self._index = None


async def test_snapshots_of_expired_scans_are_closed() -> None:
    index = _WatchedIndex()
    bucket = await KvBucketContract().open(lambda: index)
    await bucket.put(*((number, "row", number) for number in range(10)))
    scans = Scans(bucket, KvScanLimits(max_per_bucket=3))
    for _ in range(3):
        assert (await scans.open()).has_more
    assert index.held == 3
    assert await refused(scans.open()) is ErrorCode.TOO_MANY_SCANNERS
    scans.clock.advance(601)
    page = await scans.open()
    assert (page.has_more, len(scans.scanners), index.held) == (True, 1, 1)
    scans.clock.advance(601)
    scans.scanners.sweep()
    assert (len(scans.scanners), index.held) == (0, 0)
    await bucket.kv.close()


async def test_rejected_request_ends_the_scan(scans: Scans) -> None:
    page = await scans.open()
    scans.refusal = FlussError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert await refused(scans.next(page, 1)) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    scans.refusal = None
    assert await refused(scans.next(page, 1)) is ErrorCode.UNKNOWN_SCANNER_ID


async def test_closing_a_bucket_ends_its_scans(scans: Scans) -> None:
    page = await scans.open()
    scans.scanners.close_bucket(BUCKET)
    assert await refused(scans.next(page, 1)) is ErrorCode.SCANNER_EXPIRED
    page = await scans.open()
    again = await KvBucketContract().open(MemoryIndex, log=scans.bucket.log)
    scans.kv = again.kv
    assert await refused(scans.next(page, 1)) is ErrorCode.SCANNER_EXPIRED
    await again.kv.close()


async def test_response_size_is_limited_by_the_server() -> None:
    scans = await open_scans(KvScanLimits(max_batch_bytes=SMALL))
    page = await scans.open(size=1 << 20)
    assert 0 < len(scans.rows(page)) < 10
    scans.scanners.close()
    await scans.bucket.kv.close()
