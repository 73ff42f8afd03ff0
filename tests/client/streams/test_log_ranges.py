from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
import pytest

from lakebed.client.streams.log_ranges import GIVE_UP_SECONDS, read_range
from lakebed.client.streams.logs import LogRecords
from lakebed.fluss.errors import ErrorCode, FlussError

BATCHES = [(0, 4), (4, 4), (8, 0), (9, 3)]
"""First offsets and counts of records; the third is empty, and takes an offset all the same."""


class Log:
    """A log whose answers have one batch each, unless something is in the way."""

    def __init__(self) -> None:
        self.in_the_way: list[FlussError | None] = []
        self.looked_again = 0
        self.now = 0.0

    def read(self, offsets: Mapping[int, int], wait_ms: int = 500) -> Iterator[LogRecords]:
        ((bucket, offset),) = offsets.items()
        if self.in_the_way:
            if (failure := self.in_the_way.pop(0)) is not None:
                raise failure
            return
        for base, count in BATCHES:
            if base <= offset < base + max(count, 1):
                rows = pa.record_batch({"n": pa.array(range(base, base + count), pa.int64())})
                yield LogRecords(bucket, base, base + max(count, 1), 0, bytes(count), rows)

    def call(self, key: int, message: bytes) -> dict[int, list[int | bytes]]:
        raise AssertionError("no call of its own is made")

    def refresh_leader(self) -> None:
        self.looked_again += 1

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def numbers(self, start: int, end: int) -> list[int]:
        found = read_range(self, self, 0, start, end, sleep=self.sleep, monotonic=lambda: self.now)  # type: ignore[arg-type]
        return [number for records in found for number in records.rows.column("n").to_pylist()]


@pytest.mark.parametrize(("start", "end"), [(0, 12), (2, 10), (4, 8), (8, 9), (5, 6), (7, 12), (3, 3)])
def test_all_records_of_the_range_come_once(start: int, end: int) -> None:
    assert Log().numbers(start, end) == [number for number in range(start, end) if number != 8]


def test_what_can_pass_is_waited_for_where_it_was_left() -> None:
    log = Log()
    log.in_the_way = [FlussError(ErrorCode.LEADER_NOT_AVAILABLE), None, FlussError(ErrorCode.NOT_LEADER_OR_FOLLOWER)]
    assert log.numbers(0, 4) == [0, 1, 2, 3]
    assert log.looked_again == 2
    assert log.now > 0


def test_what_cannot_pass_is_told_at_once() -> None:
    log = Log()
    log.in_the_way = [FlussError(ErrorCode.LOG_OFFSET_OUT_OF_RANGE)]
    with pytest.raises(FlussError) as raised:
        log.numbers(0, 4)
    assert (raised.value.code, log.now) == (ErrorCode.LOG_OFFSET_OUT_OF_RANGE, 0.0)


def test_records_that_never_come_are_given_up() -> None:
    log = Log()
    log.in_the_way = [None] * 1000
    with pytest.raises(FlussError) as raised:
        log.numbers(0, 4)
    assert raised.value.code is ErrorCode.REQUEST_TIME_OUT
    assert 0 < log.now <= GIVE_UP_SECONDS
