"""Plans union reads: an Iceberg snapshot, and the records after its tiered offsets, each read once. Pure.

- Log tables: the snapshot's rows, then the tail of each bucket.
- KV tables: the snapshot's rows, replaced by the last change of each key in the tails. Buckets without tiered offsets
  are scanned on the server; so is the whole table if changes were deleted before they were tiered.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from lakebed.client.streams.lake import TieredSnapshot
from lakebed.client.streams.tables import Bucket

from .offsets import Offsets, ReadSpan, missing_spans, plan_spans

__all__ = ["UnionPlan", "chunks", "plan_union"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class UnionPlan:
    """The sources of a union read."""

    lake: TieredSnapshot | None
    """None: the Iceberg table is not read."""
    tails: tuple[ReadSpan, ...] = ()
    """Records after the tiered offsets, up to the ends of the logs at planning."""
    scanned: tuple[Bucket, ...] = ()
    """Buckets that are scanned on the server, because the Iceberg table has none of their rows."""

    def tails_by_bucket(self) -> dict[int, list[ReadSpan]]:
        """The tails of all partitions by bucket number."""
        found: dict[int, list[ReadSpan]] = {}
        for span in self.tails:
            found.setdefault(span.bucket[1], []).append(span)
        return found


def plan_union(lake: TieredSnapshot | None, begin: Offsets, end: Offsets, *, has_primary_key: bool) -> UnionPlan:
    """Plan a read of logs from `begin` to `end` and of the tiered snapshot."""
    done = {} if lake is None else lake.offsets
    if not has_primary_key:
        return UnionPlan(lake, tuple(plan_spans(done, begin, end)))
    known = {bucket: last for bucket, last in end.items() if bucket in done}
    if missing_spans(done, {bucket: begin.get(bucket, 0) for bucket in known}):
        # Changes that were never merged: an unknown part of the tiered rows is wrong.
        return UnionPlan(None, scanned=tuple(end))
    return UnionPlan(lake, tuple(plan_spans(done, {}, known)), tuple(bucket for bucket in end if bucket not in done))


def chunks(items: Iterable[tuple[T, int]], limit: int) -> Iterator[Sequence[T]]:
    """Group sized items into chunks up to the limit. A larger item is a chunk of its own."""
    chunk: list[T] = []
    size = 0
    for item, item_size in items:
        if chunk and size + item_size > limit:
            yield chunk
            chunk, size = [], 0
        chunk.append(item)
        size += item_size
    if chunk:
        yield chunk
