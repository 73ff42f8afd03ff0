from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest

from lakebed.core.clock import ManualClock
from lakebed.core.errors import AccessDenied, NoSuchKey, SelectError, Throttled, Unavailable
from lakebed.select.model import CsvInput, Input, ParquetInput, SelectLimits, SelectRequest
from lakebed.select.service import RunningSelect, SelectService
from tests.fixtures.descriptors import open_descriptors, opened_since
from tests.objects.stores import ROOT, ObjectStore, opened_store, user

from .running import request

LIMITS = SelectLimits(partitions=2)
ENDLESS = "SELECT COUNT(*) FROM S3Object WHERE CAST(_1 AS INT) >= 0"


@pytest.fixture(params=["memory", "folder"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[ObjectStore]:
    """An object store that streams objects, and one that opens files."""
    async with opened_store(
        f"sqlite:{tmp_path / 'meta.db'}", request.param, tmp_path / "bytes", ManualClock()
    ) as opened:
        await opened.bucket("bucket")
        yield opened


@pytest.fixture
def selects(store: ObjectStore, tmp_path: Path) -> SelectService:
    return SelectService(store.reader, store.lister, store.clock, LIMITS, tmp_path)


async def read(running: RunningSelect) -> bytes:
    try:
        return b"".join([part async for part in running])
    finally:
        await running.aclose()


def numbers(count: int) -> bytes:
    return b"".join(b"%d,%s\n" % (number, b"z" * 20) for number in range(count))


@pytest.mark.parametrize("encrypt", [False, True])
@pytest.mark.parametrize("count", [1, 300_000])
async def test_object_is_read_from_every_kind_of_content(
    store: ObjectStore, selects: SelectService, encrypt: bool, count: int
) -> None:
    data = numbers(count)
    await store.put("bucket", "k", data, encrypt=encrypt)
    running = await selects.open(ROOT, "bucket", "k", request("SELECT COUNT(*), MAX(CAST(_1 AS INT)) FROM S3Object"))
    assert await read(running) == b"%d,%d\n" % (count, count - 1)
    assert running.counts.scanned == running.counts.processed == len(data)
    assert running.counts.returned == len(b"%d,%d\n" % (count, count - 1))
    assert selects.running == 0


async def test_query_on_small_object_is_over_after_one_piece(store: ObjectStore, selects: SelectService) -> None:
    await store.put("bucket", "k", b"1\n2\n")
    for _ in range(3):
        running = await selects.open(ROOT, "bucket", "k", request("SELECT * FROM S3Object"))
        was_over = running.is_over
        pieces = aiter(running)
        assert await anext(pieces) == b"1\n2\n"
        assert (was_over, running.is_over) == (False, True)
        assert running.counts.returned == 4
        assert await anext(pieces, None) is None
        await running.aclose()
        assert selects.running == 0


@pytest.mark.parametrize("encrypt", [False, True])
async def test_unread_query_on_small_object_is_closed(
    store: ObjectStore, selects: SelectService, encrypt: bool
) -> None:
    await store.put("bucket", "k", numbers(5000), encrypt=encrypt)
    before = open_descriptors()
    for _ in range(3):
        running = await selects.open(ROOT, "bucket", "k", request("SELECT * FROM S3Object"))
        await running.aclose()
        with pytest.raises(Unavailable):
            await read(running)
    assert selects.running == 0
    assert not opened_since(before)


async def test_failed_query_on_small_object_leaves_nothing_open(store: ObjectStore, selects: SelectService) -> None:
    select_request = request("SELECT CAST(_1 AS INT) FROM S3Object")
    await store.put("bucket", "wrong", b"one\n")
    await store.put("bucket", "right", b"1\n")
    for _ in range(2):
        assert await read(await selects.open(ROOT, "bucket", "right", select_request)) == b"1\n"
        with pytest.raises(SelectError):
            await selects.open(ROOT, "bucket", "wrong", select_request)
        assert selects.running == 0


async def test_memory_is_returned_only_after_large_queries(
    store: ObjectStore, selects: SelectService, monkeypatch: pytest.MonkeyPatch
) -> None:
    times: list[None] = []
    monkeypatch.setattr("lakebed.select.service.release_free_memory", lambda: times.append(None))
    monkeypatch.setattr("lakebed.select.service.LARGE_BYTES", 1024 * 1024)
    await store.put("bucket", "small", numbers(10))
    await store.put("bucket", "large", numbers(100_000))
    for key, expected in (("small", 0), ("large", 1), ("small", 1)):
        await read(await selects.open(ROOT, "bucket", key, request("SELECT COUNT(*) FROM S3Object")))
        assert len(times) == expected


async def test_multipart_object_is_read(store: ObjectStore, selects: SelectService) -> None:
    data = numbers(400_000)
    upload = await store.begin("bucket", "k")
    cuts = [0, 5 * 1024 * 1024 + 3, len(data)]
    parts = []
    for number, (start, stop) in enumerate(pairwise(cuts), 1):
        parts.append((number, (await store.put_part(upload, number, data[start:stop])).etag))
    await store.complete("bucket", upload, parts)
    running = await selects.open(ROOT, "bucket", "k", request("SELECT COUNT(*) FROM S3Object"))
    assert await read(running) == b"400000\n"


@pytest.mark.parametrize("encrypt", [False, True])
async def test_parquet_is_read_from_every_kind_of_content(
    store: ObjectStore, selects: SelectService, encrypt: bool
) -> None:
    sink = pa.BufferOutputStream()
    from pyarrow import parquet

    parquet.write_table(pa.table({"a": list(range(50_000))}), sink, row_group_size=10_000)
    await store.put("bucket", "k", sink.getvalue().to_pybytes(), encrypt=encrypt)
    select_request = request("SELECT SUM(a) FROM S3Object WHERE a >= 40000", ParquetInput())
    assert await read(await selects.open(ROOT, "bucket", "k", select_request)) == b"449995000\n"


async def test_opened_version_is_read_to_its_end(store: ObjectStore, selects: SelectService) -> None:
    data = numbers(300_000)
    await store.put("bucket", "k", data)
    running = await selects.open(ROOT, "bucket", "k", request("SELECT * FROM S3Object"))
    parts = aiter(running)
    first = await anext(parts)
    if store.storage.__class__.__name__ == "FolderStorage":
        await store.put("bucket", "k", b"other\n")
        await store.garbage_collector.reap() if hasattr(store.garbage_collector, "reap") else None
    found = first + b"".join([part async for part in parts])
    await running.aclose()
    assert found == data


async def test_select_requires_read_permission(store: ObjectStore, selects: SelectService) -> None:
    await store.put("bucket", "k", b"1\n")
    with pytest.raises(AccessDenied):
        await selects.open(user("unprivileged"), "bucket", "k", request("SELECT * FROM S3Object"))
    with pytest.raises(NoSuchKey):
        await selects.open(ROOT, "bucket", "absent", request("SELECT * FROM S3Object"))
    assert selects.running == 0


async def test_invalid_query_fails_before_it_runs(store: ObjectStore, selects: SelectService) -> None:
    await store.put("bucket", "k", b"1\n")
    with pytest.raises(SelectError):
        await selects.open(ROOT, "bucket", "k", request("SELECT nope FROM S3Object"))
    assert selects.running == 0


async def test_number_of_concurrent_queries_is_limited(store: ObjectStore) -> None:
    selects = SelectService(store.reader, store.lister, store.clock, SelectLimits(concurrent=1, partitions=2))
    await store.put("bucket", "k", numbers(10))
    running = await selects.open(ROOT, "bucket", "k", request(ENDLESS))
    with pytest.raises(Throttled):
        await selects.open(ROOT, "bucket", "k", request(ENDLESS))
    await running.aclose()
    await running.aclose()
    assert selects.running == 0
    assert await read(await selects.open(ROOT, "bucket", "k", request(ENDLESS))) == b"10\n"


async def test_query_has_a_time_limit(store: ObjectStore) -> None:
    selects = SelectService(store.reader, store.lister, store.clock, SelectLimits(seconds=0.0, partitions=2))
    await store.put("bucket", "k", numbers(300_000))
    running = await selects.open(ROOT, "bucket", "k", request(ENDLESS))
    with pytest.raises(Unavailable):
        await read(running)
    assert selects.running == 0


async def test_closed_query_leaves_nothing_open(store: ObjectStore, selects: SelectService) -> None:
    await store.put("bucket", "k", numbers(600_000))
    await read(await selects.open(ROOT, "bucket", "k", request("SELECT COUNT(*) FROM S3Object")))
    before = open_descriptors()
    for expression in ("SELECT * FROM S3Object", ENDLESS):
        running = await selects.open(ROOT, "bucket", "k", request(expression))
        if expression != ENDLESS:
            await anext(aiter(running))
        else:
            reading = asyncio.create_task(read(running))
            await asyncio.sleep(0)
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading
        await running.aclose()
        assert running.counts.scanned <= 14 * 1024 * 1024
    gc.collect()
    assert selects.running == 0
    assert not opened_since(before)


async def test_query_exceeding_its_memory_limit_fails(store: ObjectStore) -> None:
    small = SelectLimits(memory_bytes=1024 * 1024, partitions=2)
    await store.put("bucket", "k", numbers(200_000))
    select_request = request("SELECT _1, COUNT(*) FROM S3Object GROUP BY _1")
    selects = SelectService(store.reader, store.lister, store.clock, small, spill=None)
    with pytest.raises(Unavailable):
        await read(await selects.open(ROOT, "bucket", "k", select_request))


@pytest.mark.slow
async def test_query_spills_to_disk(store: ObjectStore, tmp_path: Path) -> None:
    small = SelectLimits(memory_bytes=24 * 1024 * 1024, partitions=1)
    count = 400_000
    await store.put("bucket", "k", b"".join(b"%d,%s\n" % (number * 7919 % count, b"q" * 60) for number in range(count)))
    select_request = request("SELECT _1, _2 FROM S3Object ORDER BY CAST(_1 AS INT)")
    selects = SelectService(store.reader, store.lister, store.clock, small, spill=tmp_path)
    found = await read(await selects.open(ROOT, "bucket", "k", select_request))
    assert [int(line.split(b",")[0]) for line in found.splitlines()] == list(range(count))
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith("datafusion")) == []


def request_for(expression: str, given: Input) -> SelectRequest:
    return request(expression, given)


async def test_damaged_object_fails_while_reading(store: ObjectStore, selects: SelectService) -> None:
    await store.put("bucket", "k", numbers(300_000) + b"1,2,3,4,5\n")
    running = await selects.open(ROOT, "bucket", "k", request_for("SELECT * FROM S3Object", CsvInput()))
    with pytest.raises(SelectError) as raised:
        await read(running)
    assert raised.value.code == "CSVParsingError"
