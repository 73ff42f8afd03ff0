"""Reads the last rows of a log."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from lakebed.fluss.log_batches import LogBuffer
from lakebed.streams.seam import BucketLog

__all__ = ["last_batches"]

_PIECE_BYTES: Final = 4 * 1024 * 1024


async def last_batches(log: BucketLog, rows: int, max_bytes: int) -> Sequence[LogBuffer]:
    """The batches with the last rows of a log without a KV index; only the newest if they exceed `max_bytes`.

    Reads in a loop, because a read ends at the end of a segment.
    """
    end = log.high_watermark
    offset = max(log.start_offset, end - rows)
    found: deque[LogBuffer] = deque()
    size = 0
    while offset < end:
        fetched = await log.read_stored(offset, _PIECE_BYTES)
        found.append(fetched.records)
        size += len(fetched.records)
        offset = fetched.next_offset
        while size > max_bytes and len(found) > 1:
            size -= len(found.popleft())
    return found
