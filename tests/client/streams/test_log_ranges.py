from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
import pytest

from lakebed.client.streams.log_ranges import GIVE_UP_SECONDS, read_range
from lakebed.client.streams.logs import LogRecords
from lakebed.fluss.errors import ErrorCode, FlussError

BATCHES = [(0, 4), (4, 4), (8, 0), (9, 3)]
"""Base offsets and record counts; the third batch is empty and still takes an offset."""


class Log:
    """A log that returns one batch per fetch, or raises errors."""

    def __init__(self) -> None:
        self.errors: list[FlussError | None] = []
        self.refreshes = 0
        self.now = 0.0

    def read(self, offsets: Mapping[int, int], wait_ms: int = 500) -> Iterator[LogRecords]:
        ((bucket, offset),) = offsets.items()
        if self.errors:
            if (failure := self.errors.pop(0)) is not None:
                raise failure
            return
        for base, count in BATCHES:
            if base <= offset < base + max(count, 1):
                rows = pa.record_batch({"n": pa.array(range(base, base + count), pa.int64())})
                yield LogRecords(bucket, base, base + max(count, 1), 0, bytes(count), rows)

    def call(self, key: int, message: bytes) -> dict[int, list[int | bytes]]:
        raise AssertionError("unexpected call")

    def refresh_leader(self) -> None:
        self.refreshes += 1

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def numbers(self, start: int, end: int) -> list[int]:
        found = read_range(self, self, 0, start, end, sleep=self.sleep, monotonic=lambda: self.now)  # type: ignore[arg-type]
        return [number for records in found for number in records.rows.column("n").to_pylist()]


@pytest.mark.parametrize(("start", "end"), [(0, 12), (2, 10), (4, 8), (8, 9), (5, 6), (7, 12), (3, 3)])
def test_all_records_of_the_range_are_returned_once(start: int, end: int) -> None:
    assert Log().numbers(start, end) == [number for number in range(start, end) if number != 8]


def test_retriable_errors_are_retried_at_the_next_offset() -> None:
    log = Log()
    log.errors = [FlussError(ErrorCode.LEADER_NOT_AVAILABLE), None, FlussError(ErrorCode.NOT_LEADER_OR_FOLLOWER)]
    assert log.numbers(0, 4) == [0, 1, 2, 3]
    assert log.refreshes == 2
    assert log.now > 0


def test_permanent_errors_are_raised_at_once() -> None:
    log = Log()
    log.errors = [FlussError(ErrorCode.LOG_OFFSET_OUT_OF_RANGE)]
    with pytest.raises(FlussError) as raised:
        log.numbers(0, 4)
    assert (raised.value.code, log.now) == (ErrorCode.LOG_OFFSET_OUT_OF_RANGE, 0.0)


def test_missing_records_time_out() -> None:
    log = Log()
    log.errors = [None] * 1000
    with pytest.raises(FlussError) as raised:
        log.numbers(0, 4)
    assert raised.value.code is ErrorCode.REQUEST_TIME_OUT
    assert 0 < log.now <= GIVE_UP_SECONDS
