"""A filter skips batches in which no row can match."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.fluss.arrow_types import arrow_schema
from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.fluss.log_batches import iterate_batches
from lakebed.fluss.schema import Schema
from lakebed.fluss.types import DataType, TypeRoot
from lakebed.streams.log.reading.filtering import BatchFilter, bounds_of, filtered_columns
from lakebed.streams.log.reading.predicates import (
    Bounds,
    CompoundPredicate,
    LeafFunction,
    LeafPredicate,
    Predicate,
    may_match,
)
from tests.contracts.stream_log import SCHEMA, arrow_batch, plain_batch
from tests.streams.world import StreamWorld

HOLDS: dict[LeafFunction, Callable[[Any, tuple[Any, ...]], bool]] = {
    LeafFunction.EQUAL: lambda row, values: row == values[0],
    LeafFunction.NOT_EQUAL: lambda row, values: row != values[0],
    LeafFunction.LESS_THAN: lambda row, values: row < values[0],
    LeafFunction.LESS_OR_EQUAL: lambda row, values: row <= values[0],
    LeafFunction.GREATER_THAN: lambda row, values: row > values[0],
    LeafFunction.GREATER_OR_EQUAL: lambda row, values: row >= values[0],
    LeafFunction.STARTS_WITH: lambda row, values: row.startswith(values[0]),
    LeafFunction.CONTAINS: lambda row, values: values[0] in row,
    LeafFunction.ENDS_WITH: lambda row, values: row.endswith(values[0]),
    LeafFunction.IN: lambda row, values: row in values,
    LeafFunction.NOT_IN: lambda row, values: row not in values,
}
"""The functions of predicates on a row that is not null."""

TEXTS = st.text("ab", max_size=3)


def holds(predicate: Predicate, row: str | None) -> bool:
    if isinstance(predicate, CompoundPredicate):
        found = [holds(part, row) for part in predicate.parts]
        return all(found) if predicate.is_all else any(found)
    if predicate.function is LeafFunction.IS_NULL:
        return row is None
    if predicate.function is LeafFunction.IS_NOT_NULL:
        return row is not None
    return row is not None and HOLDS[predicate.function](row, predicate.values)


comparisons = st.builds(
    LeafPredicate, st.sampled_from(LeafFunction), st.just(0), st.lists(TEXTS, min_size=1, max_size=3).map(tuple)
)
predicates = st.recursive(
    comparisons,
    lambda inner: st.builds(CompoundPredicate, st.booleans(), st.lists(inner, min_size=1, max_size=3).map(tuple)),
    max_leaves=4,
)


@given(predicates, st.lists(st.none() | TEXTS, min_size=1, max_size=5))
def test_no_batch_with_a_matching_row_is_skipped(predicate: Predicate, rows: list[str | None]) -> None:
    bounds = bounds_of(DataType(TypeRoot.STRING), pa.array(rows, pa.string()))
    if any(holds(predicate, row) for row in rows):
        assert may_match(predicate, lambda column_id: bounds)


@pytest.mark.parametrize(
    ("function", "values", "expected"),
    [
        (LeafFunction.EQUAL, (4,), False),
        (LeafFunction.EQUAL, (5,), True),
        (LeafFunction.LESS_THAN, (5,), False),
        (LeafFunction.LESS_OR_EQUAL, (5,), True),
        (LeafFunction.GREATER_THAN, (9,), False),
        (LeafFunction.GREATER_OR_EQUAL, (9,), True),
        (LeafFunction.IN, (1, 12), False),
        (LeafFunction.IN, (), False),
        (LeafFunction.NOT_IN, (5, 9), True),
        (LeafFunction.IS_NULL, (), False),
        (LeafFunction.IS_NOT_NULL, (), True),
        (LeafFunction.EQUAL, (None,), True),
    ],
)
def test_batches_that_cannot_match_are_skipped(function: LeafFunction, values: tuple[Any, ...], expected: bool) -> None:
    assert may_match(LeafPredicate(function, 0, values), lambda _: Bounds(3, 0, 5, 9)) is expected


def test_column_without_statistics_may_match() -> None:
    wanted = LeafPredicate(LeafFunction.EQUAL, 0, (1,))
    assert may_match(wanted, lambda _: None)
    assert may_match(wanted, lambda _: Bounds(3, 1))
    assert not may_match(wanted, lambda _: Bounds(3, 3))
    assert not may_match(LeafPredicate(LeafFunction.NOT_EQUAL, 0, (5,)), lambda _: Bounds(3, 0, 5, 5))


@pytest.mark.parametrize(
    ("type_", "array", "least", "greatest"),
    [
        (DataType(TypeRoot.INT), pa.array([3, None, -1], pa.int32()), -1, 3),
        (DataType(TypeRoot.DATE), pa.array([3, 9], pa.date32()), 3, 9),
        (DataType(TypeRoot.TIME, precision=0), pa.array([3, 9], pa.time32("s")), 3000, 9000),
        (DataType(TypeRoot.TIME, precision=6), pa.array([3, 9], pa.time64("us")), None, None),
        (DataType(TypeRoot.TIMESTAMP, precision=3), pa.array([3, 9], pa.timestamp("ms")), 3_000_000, 9_000_000),
        (DataType(TypeRoot.DOUBLE), pa.array([0.5, 1.5]), 0.5, 1.5),
        (DataType(TypeRoot.DOUBLE), pa.array([0.5, float("nan")]), None, None),
        (DataType(TypeRoot.BYTES), pa.array([b"a", b"b"]), None, None),
        (DataType(TypeRoot.INT), pa.array([None, None], pa.int32()), None, None),
    ],
)
def test_statistics_of_a_column(type_: DataType, array: pa.Array, least: object, greatest: object) -> None:
    found = bounds_of(type_, array)
    assert (found.least, found.greatest, found.nulls, found.rows) == (least, greatest, array.null_count, len(array))


async def test_table_option_selects_the_filtered_columns(light_world: StreamWorld) -> None:
    option = "table.statistics.columns"
    assert filtered_columns(await light_world.table("none")) == frozenset()
    assert filtered_columns(await light_world.table("all", properties={option: "*"})) == {0, 1}
    assert filtered_columns(await light_world.table("one", properties={option: "name"})) == {1}
    keyed = await light_world.table("keyed", key=["id"], properties={option: "*"})
    assert filtered_columns(keyed) == frozenset()  # a skipped change would leave a stale row


def stream_schema() -> Schema:
    tags = DataType(TypeRoot.ARRAY, element=DataType(TypeRoot.INT))
    types = (DataType(TypeRoot.BIGINT), DataType(TypeRoot.STRING), DataType(TypeRoot.DOUBLE), tags)
    return Schema.of(list(zip(SCHEMA.names, types, strict=True)))


def test_filter_keeps_offsets_and_projects_columns() -> None:
    first, second = arrow_batch(0, 100), arrow_batch(100, 100)
    schema = stream_schema()
    assert arrow_schema(schema).types[:3] == SCHEMA.types[:3]
    seven = LeafPredicate(LeafFunction.EQUAL, 0, (7,))
    wanted = BatchFilter(seven, frozenset({0}), {1: schema})
    assert wanted.apply(first + second, None) == first
    (projected,) = iterate_batches(wanted.apply(first + second, [0]))
    assert (projected.record_count, len(projected.view) < len(first)) == (100, True)
    everything = BatchFilter(seven, frozenset(), {1: schema})
    assert everything.apply(first + second, None) == first + second
    with pytest.raises(FlussError) as raised:
        wanted.apply(first, [])
    assert raised.value.code is ErrorCode.INVALID_COLUMN_PROJECTION


def test_unreadable_batches_are_passed_to_the_reader() -> None:
    schema = stream_schema()
    wanted = BatchFilter(LeafPredicate(LeafFunction.EQUAL, 0, (7,)), frozenset({0}), {1: schema})
    good, bad = arrow_batch(100, 100), plain_batch(3, b"whole, and no Arrow at all")
    assert wanted.apply(good + bad, None) == bad


def test_unknown_schema_can_be_added() -> None:
    schema = stream_schema()
    wanted = BatchFilter(LeafPredicate(LeafFunction.EQUAL, 0, (7,)), frozenset({0}), {})
    records = arrow_batch(0, 100) + arrow_batch(100, 100)
    assert wanted.unknown(records) == {1}
    wanted.add_schema(1, schema)
    assert wanted.unknown(records) == set()
    assert [batch.record_count for batch in iterate_batches(wanted.apply(records, [0]))] == [100]
