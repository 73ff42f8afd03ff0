"""Union read: the lake as of a snapshot and what came after it, so that each record is read once. Pure.

A log is what the lake has, then the rest of each bucket. Rows of keys are what the lake has, but for keys that changed
since, which are as their last change made them. Where the lake knows nothing of a bucket its keys are scanned, and if
changes are gone that the lake does not have, those of the whole table.
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
    """What is read of a table."""

    lake: TieredSnapshot | None
    """None if nothing of the lake is."""
    tails: tuple[ReadSpan, ...] = ()
    """What came after the lake, up to where the logs ended when this was planned."""
    scanned: tuple[Bucket, ...] = ()
    """Buckets whose keys are scanned; nothing of them is in the lake."""

    def tails_by_bucket(self) -> dict[int, list[ReadSpan]]:
        """The tails of all partitions, by the number of the bucket."""
        found: dict[int, list[ReadSpan]] = {}
        for span in self.tails:
            found.setdefault(span.bucket[1], []).append(span)
        return found


def plan_union(lake: TieredSnapshot | None, begin: Offsets, end: Offsets, *, has_primary_key: bool) -> UnionPlan:
    """What is read of a table whose logs begin and end there, of which the lake has that."""
    done = {} if lake is None else lake.offsets
    if not has_primary_key:
        return UnionPlan(lake, tuple(plan_spans(done, begin, end)))
    known = {bucket: last for bucket, last in end.items() if bucket in done}
    if missing_spans(done, {bucket: begin.get(bucket, 0) for bucket in known}):
        # Changes that were never merged: the lake has rows that are wrong, and nothing says which.
        return UnionPlan(None, scanned=tuple(end))
    return UnionPlan(lake, tuple(plan_spans(done, {}, known)), tuple(bucket for bucket in end if bucket not in done))


def chunks(items: Iterable[tuple[T, int]], limit: int) -> Iterator[Sequence[T]]:
    """Things and their sizes in chunks that are no larger than that, but for one thing that is."""
    chunk: list[T] = []
    size = 0
    for item, its_size in items:
        if chunk and size + its_size > limit:
            yield chunk
            chunk, size = [], 0
        chunk.append(item)
        size += its_size
    if chunk:
        yield chunk
