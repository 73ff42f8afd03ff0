"""Union reads are correct whatever the tiered offsets are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lakebed.client.streams.lake import TieredSnapshot
from lakebed.client.streams.tables import Bucket
from lakebed.pipeline.streams.offsets import Offsets, ReadSpan
from lakebed.pipeline.streams.union_overlay import Overlay
from lakebed.pipeline.streams.union_plan import UnionPlan, chunks, plan_union

INSERT, BEFORE, AFTER, DELETE = 1, 2, 3, 4
SCHEMA = pa.schema([("at", pa.string()), ("key1", pa.int64()), ("value", pa.list_(pa.int64()))])
"""Column names that the overlay uses itself, and a type that cannot be a join key."""
KEYS = ("key1", "at")
BUCKETS: Sequence[Bucket] = [(None, 0), (None, 1), (None, 2)]

Key = tuple[str, int]


class Change(NamedTuple):
    number: int
    key: Key
    value: int


class Model:
    """A KV table: changes, logs of its buckets, and resulting rows."""

    def __init__(self) -> None:
        self.logs: dict[Bucket, list[Change]] = {bucket: [] for bucket in BUCKETS}
        self.rows: dict[Key, int] = {}

    def put(self, key: Key, value: int | None) -> None:
        log, before = self.logs[(None, key[1] % len(BUCKETS))], self.rows.get(key)
        if value is None:
            if before is not None:
                log.append(Change(DELETE, key, before))
                del self.rows[key]
            return
        if before is not None:
            log.append(Change(BEFORE, key, before))
        log.append(Change(INSERT if before is None else AFTER, key, value))
        self.rows[key] = value

    def lake(self, offsets: Mapping[Bucket, int]) -> dict[Key, int]:
        """The tiered rows at these offsets."""
        rows: dict[Key, int] = {}
        for bucket, offset in offsets.items():
            for change in self.logs[bucket][:offset]:
                if change.number == DELETE:
                    rows.pop(change.key, None)
                elif change.number != BEFORE:
                    rows[change.key] = change.value
        return rows


def batch(rows: Sequence[tuple[Key, int]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [{"at": key[0], "key1": key[1], "value": [value]} for key, value in rows], schema=SCHEMA
    )


def batches(rows: Sequence[tuple[Key, int]]) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(rows), 3):
        yield batch(rows[start : start + 3])


def union(model: Model, plan: UnionPlan) -> list[tuple[Key, int]]:
    """The union read: each tiered bucket with its changes, then scanned keys."""
    of_lake = {} if plan.lake is None else model.lake(plan.lake.offsets)
    found: list[pa.RecordBatch] = []
    for bucket in BUCKETS:
        spans = plan.tails_by_bucket().get(bucket[1], [])
        changes = [change for span in spans for change in model.logs[span.bucket][span.start : span.end]]
        pieces = [changes[start : start + 2] for start in range(0, len(changes), 2)]
        overlay = Overlay(
            SCHEMA,
            KEYS,
            [
                (batch([(change.key, change.value) for change in piece]), bytes(change.number for change in piece))
                for piece in pieces
            ],
        )
        rows = [row for row in of_lake.items() if row[0][1] % len(BUCKETS) == bucket[1]]
        found += [*overlay.over(batches(rows)), *overlay.rows.to_batches()]
    read = [
        ((row["at"], row["key1"]), row["value"][0]) for row in pa.Table.from_batches(found, schema=SCHEMA).to_pylist()
    ]
    scanned = {bucket[1] for bucket in plan.scanned}
    return read + [row for row in model.rows.items() if row[0][1] % len(BUCKETS) in scanned]


WRITES = st.lists(
    st.tuples(st.tuples(st.sampled_from(["", "a", "b"]), st.integers(0, 5)), st.none() | st.integers(0, 99)),
    max_size=40,
)


@given(WRITES, st.data())
def test_kv_union_read_is_correct_at_any_tiered_offset(
    writes: list[tuple[Key, int | None]], data: st.DataObject
) -> None:
    model = Model()
    for key, value in writes:
        model.put(key, value)
    end = {bucket: len(log) for bucket, log in model.logs.items()}
    known = data.draw(st.sets(st.sampled_from(BUCKETS)))
    offsets = {bucket: data.draw(st.integers(0, end[bucket])) for bucket in known}
    begin = {bucket: data.draw(st.integers(0, end[bucket])) for bucket in BUCKETS}
    plan = plan_union(TieredSnapshot(7, 1, offsets), begin, end, has_primary_key=True)
    read = union(model, plan)
    assert len(read) == len(dict(read))
    assert dict(read) == model.rows
    # Deleted records are not planned.
    assert all(begin[span.bucket] <= span.start for span in plan.tails)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30), st.integers(0, 30)), min_size=3, max_size=3))
def test_log_union_read_is_correct_at_any_tiered_offset(places: list[tuple[int, int, int]]) -> None:
    """Tiered records, and all later ones that are still in the logs."""
    ordered = [sorted(three) for three in places]
    end = {bucket: three[2] for bucket, three in zip(BUCKETS, ordered, strict=True)}
    for first, second in ((0, 1), (1, 0)):
        lake = {bucket: three[first] for bucket, three in zip(BUCKETS, ordered, strict=True)}
        begin = {bucket: three[second] for bucket, three in zip(BUCKETS, ordered, strict=True)}
        plan = plan_union(TieredSnapshot(7, 1, lake), begin, end, has_primary_key=False)
        assert plan.lake is not None
        for bucket in BUCKETS:
            read = [*range(lake[bucket])]
            read += [offset for span in plan.tails if span.bucket == bucket for offset in range(span.start, span.end)]
            assert read == [*range(lake[bucket]), *range(max(lake[bucket], begin[bucket]), end[bucket])]


def test_untiered_table_is_read_from_the_stream_only() -> None:
    begin: Offsets = {(None, 0): 2, (None, 1): 0}
    end: Offsets = {(None, 0): 5, (None, 1): 0}
    assert plan_union(None, begin, end, has_primary_key=False) == UnionPlan(None, (ReadSpan((None, 0), 2, 5),))
    assert plan_union(None, begin, end, has_primary_key=True) == UnionPlan(None, (), ((None, 0), (None, 1)))


def test_keys_are_scanned_if_untiered_changes_were_deleted() -> None:
    lake = TieredSnapshot(7, 1, {(3, 0): 5, (4, 0): 9})
    begin: Offsets = {(3, 0): 6, (4, 0): 0}
    end: Offsets = {(3, 0): 8, (4, 0): 9}
    assert plan_union(lake, begin, end, has_primary_key=True) == UnionPlan(None, (), ((3, 0), (4, 0)))


def test_dropped_partition_is_still_read_from_the_lake() -> None:
    lake = TieredSnapshot(7, 1, {(3, 0): 5, (4, 0): 9})
    plan = plan_union(lake, {(4, 0): 0}, {(4, 0): 11}, has_primary_key=True)
    assert plan == UnionPlan(lake, (ReadSpan((4, 0), 9, 11),))


@given(st.lists(st.integers(0, 20)), st.integers(1, 30))
def test_chunks_keep_order_and_the_size_limit(sizes: list[int], limit: int) -> None:
    found = [*chunks(((number, size) for number, size in enumerate(sizes)), limit)]
    assert [number for chunk in found for number in chunk] == [*range(len(sizes))]
    assert all(len(chunk) == 1 or sum(sizes[number] for number in chunk) <= limit for chunk in found)
