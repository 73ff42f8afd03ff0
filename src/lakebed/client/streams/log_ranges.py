"""Reads a range of offsets of one bucket completely, with retries."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Final

from lakebed.fluss.errors import ErrorCode, FlussError

from .kv_scans import StreamCalls
from .logs import LogRecords, StreamLog

__all__ = ["RANGE_BYTES", "read_range"]

RANGE_BYTES: Final = 8 * 1024 * 1024
"""Bytes of a fetch response: larger than for readers that wait for new records."""

GIVE_UP_SECONDS: Final = 60.0
"""Time limit of retries without new records."""

_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 5.0


def read_range(
    calls: StreamCalls,
    log: StreamLog,
    bucket: int,
    start: int,
    end: int,
    *,
    sleep: Callable[[float], None] = time.sleep,
    monotonic: Callable[[], float] = time.monotonic,
) -> Iterator[LogRecords]:
    """The records from `start` to `end`, which exist already, each once.

    Error codes: LOG_OFFSET_OUT_OF_RANGE, AUTHORIZATION, REQUEST_TIME_OUT.
    """
    position, pause, until = start, _FIRST_PAUSE, monotonic() + GIVE_UP_SECONDS
    while position < end:
        failure: FlussError | None = None
        has_records = False
        try:
            for found in log.read({bucket: position}):
                if found.next_offset <= position:
                    continue
                has_records = True
                if (records := found.within(position, end)).changes:
                    yield records
                position = found.next_offset
                if position >= end:
                    return
        except FlussError as raised:
            if not raised.is_retriable:
                raise
            failure = raised
            calls.refresh_leader()
        if has_records:
            pause, until = _FIRST_PAUSE, monotonic() + GIVE_UP_SECONDS
            continue
        if monotonic() + pause > until:
            raise failure or FlussError(
                ErrorCode.REQUEST_TIME_OUT, f"fetch timed out. bucket={bucket} offset={position} end={end}"
            )
        sleep(pause)
        pause = min(pause * 2, _LONGEST_PAUSE)
