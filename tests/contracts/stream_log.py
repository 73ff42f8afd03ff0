"""The contract of a bucket's log, for every BucketLog.

Subclass `LogContract` and define a fixture `open_log` that opens a new log on a manual clock and rejects batches of
more than `MAX_BATCH_BYTES`. `plain_batch` and `arrow_batch` create batches.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable, Sequence

import pyarrow as pa
import pytest
from awscrt.checksums import crc32c
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakebed.core.clock import ManualClock
from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.fluss.log_batches import LogBuffer, has_valid_checksum, iterate_batches, with_body, write_batch
from lakebed.streams.log.reading.projection import ColumnShape, shape_of
from lakebed.streams.log.reading.read_format import AS_STORED, ReadFormat
from lakebed.streams.seam import Acks, BucketLog

MAX_BATCH_BYTES = 64 * 1024

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("score", pa.float64()), ("tags", pa.list_(pa.int32()))])

# Every class that inherits the suite runs the same test.
_SHARED = [HealthCheck.function_scoped_fixture, HealthCheck.differing_executors]

OpenLog = Callable[[ManualClock, ReadFormat], Awaitable[BucketLog]]


def arrow_body(table: pa.RecordBatch, compression: str | None = None) -> bytes:
    """A record batch as an Arrow IPC message, without its schema."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_batch(table)
        end = sink.tell()
    return bytes(sink.getvalue().to_pybytes()[table.schema.serialize().size : end])


def rows(first: int, count: int) -> pa.RecordBatch:
    """`count` rows of SCHEMA."""
    ids = range(first, first + count)
    return pa.record_batch(
        [
            pa.array(ids, pa.int64()),
            pa.array([None if at % 3 == 0 else f"name-{at}" for at in ids], pa.string()),
            pa.array([at / 2 for at in ids], pa.float64()),
            pa.array([list(range(at % 4)) for at in ids], pa.list_(pa.int32())),
        ],
        schema=SCHEMA,
    )


def arrow_batch(
    first: int, count: int, *, writer_id: int = -1, sequence: int = -1, compression: str | None = None
) -> bytes:
    """A batch of `count` rows of SCHEMA, as a client sends it."""
    return write_batch(
        arrow_body(rows(first, count), compression), count, schema_id=1, writer_id=writer_id, sequence=sequence
    )


def plain_batch(count: int = 1, body: bytes = b"body", *, writer_id: int = -1, sequence: int = -1) -> bytes:
    """A batch that declares `count` records; their content is arbitrary."""
    return write_batch(body, count, schema_id=1, writer_id=writer_id, sequence=sequence)


def later_batch(magic: int, count: int, body: bytes, statistics: bytes) -> bytes:
    """A batch in one of the later layouts, with statistics."""
    checked = struct.pack("<hBiqiii", 7, 1, count - 1, -1, -1, count, len(statistics)) + statistics + body
    epoch = struct.pack("<i", 3) if magic == 2 else b""
    rest = struct.pack("<b q", magic, 0) + epoch + struct.pack("<I", crc32c(checked)) + checked
    return struct.pack("<q i", 0, len(rest)) + rest


def offsets(records: LogBuffer) -> list[tuple[int, int]]:
    """The first offset of each batch, and the one after its last."""
    return [(batch.base_offset, batch.next_offset) for batch in iterate_batches(records)]


async def read_all(log: BucketLog, max_bytes: int = 1 << 20) -> bytes:
    """All readable records."""
    found = b""
    offset = log.start_offset
    while offset < log.high_watermark:
        fetched = await log.read(offset, max_bytes)
        assert fetched.records, "a read before the end returned nothing"
        found += fetched.records
        offset = fetched.next_offset
    return found


def refused(reason: ErrorCode) -> pytest.RaisesExc[FlussError]:
    """Expect an error with this code."""
    return pytest.RaisesExc(FlussError, check=lambda error: error.code is reason)


class Doubling:
    """A rendering that counts its calls."""

    def __init__(self) -> None:
        self.count = 0

    def render(self, stored: memoryview) -> bytes | None:
        batch = next(iterate_batches(stored))
        if bytes(batch.body).startswith(b"plain"):
            return None
        self.count += 1
        return with_body(batch, bytes(batch.body) * 2, batch.attributes)


class LogContract:
    """Guarantees of a log."""

    @pytest.fixture
    def clock(self) -> ManualClock:
        return ManualClock()

    @pytest.fixture
    async def log(self, open_log: OpenLog, clock: ManualClock) -> BucketLog:
        return await open_log(clock, AS_STORED)

    async def test_empty_log_starts_and_ends_at_zero(self, log: BucketLog) -> None:
        assert (log.start_offset, log.end_offset, log.high_watermark) == (0, 0, 0)
        found = await log.read(0, 1 << 20)
        assert (bytes(found.records), found.next_offset) == (b"", 0)

    @pytest.mark.parametrize("acks", list(Acks))
    async def test_batches_have_consecutive_offsets(self, log: BucketLog, acks: Acks) -> None:
        assert (await log.append(plain_batch(3), acks)).base_offset == 0
        appended = await log.append(plain_batch(2) + plain_batch(4), acks)
        assert (appended.base_offset, appended.end_offset, appended.is_duplicate) == (3, 9, False)
        await log.wait_durable(appended.end_offset)
        assert log.high_watermark == log.end_offset == 9
        assert offsets(await read_all(log)) == [(0, 3), (3, 5), (5, 9)]

    async def test_read_returns_what_was_appended(self, log: BucketLog, clock: ManualClock) -> None:
        sent = arrow_batch(0, 10)
        await log.append(memoryview(sent), Acks.ALL)
        found = await log.read(0, 1 << 20)
        (batch,) = iterate_batches(found.records)
        assert has_valid_checksum(batch)
        assert batch.timestamp_ms == clock.now_ms()
        assert bytes(batch.view[21:]) == sent[21:]
        assert pa.ipc.read_record_batch(pa.py_buffer(batch.body), SCHEMA).equals(rows(0, 10))

    async def test_enqueued_batch_has_its_offset_at_once_and_is_readable_when_durable(self, log: BucketLog) -> None:
        first, second = log.enqueue(plain_batch(2)), log.enqueue(plain_batch(3))
        assert (first.base_offset, second.base_offset, log.end_offset) == (0, 2, 5)
        await log.wait_durable(second.end_offset)
        assert log.high_watermark == 5
        assert offsets(await read_all(log)) == [(0, 2), (2, 5)]

    async def test_batch_without_records_takes_one_offset(self, log: BucketLog) -> None:
        appended = await log.append(plain_batch(0, b"", writer_id=5, sequence=0), Acks.ALL)
        assert (appended.base_offset, appended.end_offset) == (0, 1)

    async def test_read_starts_with_the_batch_containing_the_offset(self, log: BucketLog) -> None:
        for _ in range(5):
            await log.append(plain_batch(10), Acks.ALL)
        found = await log.read(25, 1 << 20)
        assert offsets(found.records) == [(20, 30), (30, 40), (40, 50)]
        assert found.next_offset == 50

    async def test_read_respects_its_limit_but_returns_at_least_one_batch(self, log: BucketLog) -> None:
        sizes = [100, 3000, 9000, 200, 5000, 40]
        for size in sizes:
            await log.append(plain_batch(1, bytes(size)), Acks.ALL)
        for limit in (0, 1, 150, 4000, 9500, 20000, 1 << 20):
            offset = 0
            while offset < 6:
                found = await log.read(offset, limit)
                batches = offsets(found.records)
                assert batches[0][0] == offset
                assert batches[-1][1] == found.next_offset
                assert len(batches) == 1 or len(found.records) <= limit
                offset = found.next_offset

    @pytest.mark.parametrize("offset", [-1, 3, 100])
    async def test_offset_outside_the_log_is_rejected(self, log: BucketLog, offset: int) -> None:
        await log.append(plain_batch(2), Acks.ALL)
        with refused(ErrorCode.LOG_OFFSET_OUT_OF_RANGE):
            await log.read(offset, 100)

    async def test_every_flipped_bit_under_the_checksum_is_rejected(self, log: BucketLog) -> None:
        sent = plain_batch(3, b"0123456789")
        for position in range(21, len(sent)):
            bad = bytearray(sent)
            bad[position] ^= 0x10
            with refused(ErrorCode.CORRUPT_RECORD):
                await log.append(bytes(bad), Acks.ALL)
        assert log.end_offset == 0

    async def test_truncated_batches_are_rejected(self, log: BucketLog) -> None:
        sent = plain_batch(3, b"0123456789")
        for size in range(len(sent)):
            with refused(ErrorCode.CORRUPT_RECORD):
                await log.append(sent[:size], Acks.ALL)
            if size:
                with refused(ErrorCode.CORRUPT_RECORD):
                    await log.append(sent + sent[:size], Acks.ALL)
        assert log.end_offset == 0

    async def test_batch_with_an_unknown_magic_is_rejected(self, log: BucketLog) -> None:
        bad = bytearray(plain_batch())
        bad[12] = 9
        with refused(ErrorCode.CORRUPT_RECORD):
            await log.append(bytes(bad), Acks.ALL)

    @pytest.mark.parametrize(("count", "delta"), [(3, 3), (0, 4), (5, 0), (-1, 0), (2, -1)])
    async def test_inconsistent_record_counts_are_rejected(self, log: BucketLog, count: int, delta: int) -> None:
        bad = bytearray(plain_batch())
        struct.pack_into("<i", bad, 28, delta)
        struct.pack_into("<i", bad, 44, count)
        struct.pack_into("<I", bad, 21, crc32c(bytes(bad[25:])))
        with refused(ErrorCode.CORRUPT_RECORD):
            await log.append(bytes(bad), Acks.ALL)

    async def test_batch_with_an_unknown_schema_rejects_the_whole_append(
        self, open_log: OpenLog, clock: ManualClock
    ) -> None:
        log = await open_log(clock, ReadFormat(has_schema=lambda schema_id: schema_id == 1))
        with refused(ErrorCode.SCHEMA_NOT_EXIST):
            await log.append(plain_batch() + write_batch(b"body", 1, schema_id=2), Acks.ALL)
        assert log.end_offset == 0
        assert (await log.append(plain_batch(), Acks.ALL)).base_offset == 0

    async def test_batch_that_is_too_large_is_rejected(self, log: BucketLog) -> None:
        with refused(ErrorCode.RECORD_TOO_LARGE):
            await log.append(plain_batch(1, bytes(MAX_BATCH_BYTES)), Acks.ALL)
        assert log.end_offset == 0

    @pytest.mark.parametrize("magic", [1, 2])
    async def test_later_magic_versions_are_converted_to_the_first(self, log: BucketLog, magic: int) -> None:
        await log.append(later_batch(magic, 3, b"the body", b"statistics"), Acks.ALL)
        (batch,) = iterate_batches((await log.read(0, 1 << 20)).records)
        assert batch.magic == 0
        assert has_valid_checksum(batch)
        assert bytes(batch.body) == b"the body"
        assert (batch.schema_id, batch.record_count, batch.next_offset) == (7, 3, 3)

    async def test_repeated_batch_returns_its_first_offset(self, log: BucketLog) -> None:
        for sequence in range(5):
            await log.append(plain_batch(2, writer_id=1, sequence=sequence), Acks.ALL)
        for sequence in range(5):
            again = await log.append(plain_batch(2, writer_id=1, sequence=sequence), Acks.ALL)
            assert (again.base_offset, again.end_offset, again.is_duplicate) == (2 * sequence, 2 * sequence + 2, True)
        assert log.end_offset == 10

    @pytest.mark.parametrize("sequence", [0, 7, 9])
    async def test_older_batches_and_gaps_are_out_of_order(self, log: BucketLog, sequence: int) -> None:
        for number in range(6):
            await log.append(plain_batch(writer_id=1, sequence=number), Acks.ALL)
        with refused(ErrorCode.OUT_OF_ORDER_SEQUENCE):
            await log.append(plain_batch(writer_id=1, sequence=sequence), Acks.ALL)
        assert log.end_offset == 6

    async def test_repeated_batch_is_identified_by_its_sequence(self, log: BucketLog) -> None:
        # A repeated KV batch is merged with newer rows, so its number of changes may differ.
        await log.append(plain_batch(2, writer_id=1, sequence=0), Acks.ALL)
        again = await log.append(plain_batch(3, writer_id=1, sequence=0), Acks.ALL)
        assert (again.base_offset, again.end_offset, again.is_duplicate) == (0, 2, True)

    async def test_unknown_writer_must_start_at_sequence_zero(self, log: BucketLog) -> None:
        with refused(ErrorCode.UNKNOWN_WRITER_ID):
            await log.append(plain_batch(writer_id=1, sequence=3), Acks.ALL)

    async def test_writers_expire_after_a_week(self, log: BucketLog, clock: ManualClock) -> None:
        await log.append(plain_batch(writer_id=1, sequence=0), Acks.ALL)
        clock.advance(8 * 24 * 3600)
        with refused(ErrorCode.UNKNOWN_WRITER_ID):
            await log.append(plain_batch(writer_id=1, sequence=1), Acks.ALL)
        assert (await log.append(plain_batch(writer_id=1, sequence=0), Acks.ALL)).base_offset == 1

    async def test_out_of_order_batch_rejects_the_whole_append(self, log: BucketLog) -> None:
        good, bad = plain_batch(writer_id=1, sequence=0), plain_batch(writer_id=1, sequence=2)
        with refused(ErrorCode.OUT_OF_ORDER_SEQUENCE):
            await log.append(good + bad, Acks.ALL)
        assert log.end_offset == 0
        assert (await log.append(good, Acks.ALL)).base_offset == 0

    async def test_only_new_batches_of_an_append_are_appended(self, log: BucketLog) -> None:
        first, second = plain_batch(writer_id=1, sequence=0), plain_batch(2, writer_id=1, sequence=1)
        await log.append(first, Acks.ALL)
        appended = await log.append(first + second, Acks.ALL)
        assert (appended.base_offset, appended.end_offset, appended.is_duplicate) == (0, 3, False)
        assert log.end_offset == 3

    async def test_concurrent_appends_are_all_stored(self, log: BucketLog) -> None:
        appended = await asyncio.gather(*(log.append(plain_batch(1 + at % 3), Acks.ALL) for at in range(50)))
        assert sorted((it.base_offset, it.end_offset) for it in appended) == offsets(await read_all(log))

    async def test_wait_for_returns_when_the_offset_is_readable(self, log: BucketLog) -> None:
        waiting = asyncio.create_task(log.wait_for(0))
        later = asyncio.create_task(log.wait_for(5))
        await asyncio.sleep(0)
        assert not waiting.done()
        await log.append(plain_batch(3), Acks.ALL)
        await waiting
        await asyncio.sleep(0)
        assert not later.done()
        await log.append(plain_batch(3), Acks.ALL)
        await later
        await log.wait_for(2)  # at once

    async def test_watch_calls_back_once(self, log: BucketLog) -> None:
        calls: list[str] = []
        log.watch(0, lambda: calls.append("first"))
        log.watch(0, lambda: calls.append("stopped"))()
        log.watch(3, lambda: calls.append("later"))
        assert calls == []
        await log.append(plain_batch(3), Acks.ALL)
        assert calls == ["first"]
        log.watch(2, lambda: calls.append("at once"))
        assert calls == ["first", "at once"]
        await log.close()
        assert calls == ["first", "at once", "later"]

    async def test_wait_for_can_be_cancelled(self, log: BucketLog) -> None:
        waiting = asyncio.create_task(log.wait_for(0))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await log.append(plain_batch(3), Acks.ALL)

    async def test_close_wakes_waiting_readers_and_rejects_appends(self, log: BucketLog) -> None:
        waiting = asyncio.create_task(log.wait_for(0))
        await asyncio.sleep(0)
        was_closed = log.is_closed
        await log.close()
        assert (was_closed, log.is_closed) == (False, True)
        await waiting
        await log.close()
        with pytest.raises(FlussError):
            await log.append(plain_batch(), Acks.ALL)

    async def test_find_time_returns_the_first_batch_at_or_after_the_time(
        self, log: BucketLog, clock: ManualClock
    ) -> None:
        start = clock.now_ms()
        for _ in range(3):
            await log.append(plain_batch(10), Acks.ALL)
            await log.append(plain_batch(10), Acks.ALL)
            clock.advance(1)
        assert [await log.find_time(start + ms) for ms in (-5, 0, 1, 1000, 1001, 2000, 2001)] == [
            *(0, 0, 20, 20, 40, 40, 60),
        ]

    async def test_timestamps_of_a_log_never_decrease(self, log: BucketLog, clock: ManualClock) -> None:
        await log.append(plain_batch(), Acks.ALL)
        clock.advance(-60)
        await log.append(plain_batch(), Acks.ALL)
        first, second = iterate_batches(await read_all(log))
        assert first.timestamp_ms == second.timestamp_ms

    @pytest.mark.parametrize("compression", [None, "zstd", "lz4"])
    @pytest.mark.parametrize("columns", [[0], [3], [1, 2], [0, 3], [0, 1, 2, 3]])
    async def test_projection_returns_the_chosen_columns(
        self, open_log: OpenLog, clock: ManualClock, columns: list[int], compression: str | None
    ) -> None:
        log = await open_log(clock, ReadFormat(_shapes))
        await log.append(arrow_batch(0, 7, compression=compression), Acks.ALL)
        await log.append(arrow_batch(7, 100, compression=compression), Acks.ALL)
        found = await log.read(0, 1 << 20, columns)
        batches = [
            pa.ipc.read_record_batch(pa.py_buffer(batch.body), pa.schema([SCHEMA.field(at) for at in columns]))
            for batch in iterate_batches(found.records)
        ]
        assert batches == [rows(0, 7).select(columns), rows(7, 100).select(columns)]
        for batch in batches:
            batch.validate(full=True)
        assert offsets(found.records) == [(0, 7), (7, 107)]

    @pytest.mark.parametrize("columns", [[], [-1, 0], [1, 0], [2, 2]])
    async def test_invalid_projections_are_rejected(
        self, open_log: OpenLog, clock: ManualClock, columns: list[int]
    ) -> None:
        log = await open_log(clock, ReadFormat(_shapes))
        with refused(ErrorCode.INVALID_COLUMN_PROJECTION):
            await log.read(0, 1 << 20, columns)

    async def test_batches_are_rendered_on_read_and_stored_unchanged(
        self, open_log: OpenLog, clock: ManualClock
    ) -> None:
        rendering = Doubling()
        log = await open_log(clock, ReadFormat(rendering=rendering))
        await log.append(plain_batch(2, b"row"), Acks.ALL)
        await log.append(plain_batch(2, b"plain"), Acks.ALL)
        for _ in range(2):
            found = await log.read(0, 1 << 20)
            assert [bytes(batch.body) for batch in iterate_batches(found.records)] == [b"rowrow", b"plain"]
            assert all(map(has_valid_checksum, iterate_batches(found.records)))
            assert offsets(found.records) == [(0, 2), (2, 4)]
        assert rendering.count == 1
        stored = await log.read_stored(0, 1 << 20)
        assert [bytes(batch.body) for batch in iterate_batches(stored.records)] == [b"row", b"plain"]

    @settings(max_examples=20, deadline=None, suppress_health_check=_SHARED)
    @given(sizes=st.lists(st.tuples(st.integers(1, 50), st.integers(0, 6000)), min_size=1, max_size=30), data=st.data())
    def test_any_read_returns_the_batches_from_its_offset(
        self, open_log: OpenLog, sizes: Sequence[tuple[int, int]], data: st.DataObject
    ) -> None:
        async def example() -> None:
            log = await open_log(ManualClock(), AS_STORED)
            bounds = []
            for count, size in sizes:
                appended = await log.append(plain_batch(count, bytes(size)), Acks.ALL)
                bounds.append((appended.base_offset, appended.end_offset))
            offset = data.draw(st.integers(0, log.end_offset - 1))
            limit = data.draw(st.integers(0, 20000))
            found = await log.read(offset, limit)
            batches = offsets(found.records)
            first = next(at for at, (_, end) in enumerate(bounds) if end > offset)
            assert batches == bounds[first : first + len(batches)]
            assert found.next_offset == batches[-1][1]
            await log.close()

        asyncio.run(example())


def _shapes(schema_id: int) -> list[ColumnShape]:
    assert schema_id == 1
    return [shape_of(field.type) for field in SCHEMA]
