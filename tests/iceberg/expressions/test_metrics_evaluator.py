"""Files with matching rows are never pruned; those that PyIceberg prunes are."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.expressions.visitors import _InclusiveMetricsEvaluator

from lakebed.iceberg.expressions.binding import ColumnNames, bind
from lakebed.iceberg.expressions.metrics_evaluator import may_match_file
from lakebed.iceberg.expressions.parsing import parse_expression
from lakebed.iceberg.manifests import DataFile
from tests.catalog.scans.files import file_of, py_file
from tests.iceberg.expressions.columns import BY_NAME, COLUMNS, PY_SCHEMA, SCHEMA
from tests.iceberg.expressions.filters import RandomFilter, Row, document, matches, random_filters, rows, to_pyiceberg
from tests.iceberg.manifests.avro_files import a_file

NAMES = ColumnNames(SCHEMA)
STATISTICS = ("value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")
COMPARED = [column for column in COLUMNS if column.name not in ("tns", "u", "f", "d")]
"""PyIceberg has no nanosecond literals and one order of uuids, and treats NaN bounds and infinities differently."""


def may_match(filter_: Any, file: DataFile) -> bool:
    return may_match_file(bind(parse_expression(filter_), NAMES), file)


@pytest.mark.slow
@given(
    random_filters(),
    st.lists(rows(), min_size=1, max_size=4),
    st.sets(st.sampled_from(STATISTICS)),
    st.sampled_from([None, 1, 2]),
)
def test_file_with_a_matching_row_is_never_pruned(
    drawn: RandomFilter, content: list[Row], without: set[str], width: int | None
) -> None:
    file = file_of(content, without=without, width=width)
    if any(matches(drawn, row) for row in content):
        assert may_match(document(drawn), file)


@pytest.mark.slow
@given(random_filters(COMPARED), st.lists(rows(COMPARED), max_size=3), st.sets(st.sampled_from(STATISTICS[3:])))
def test_pyiceberg_prunes_the_same_files(drawn: RandomFilter, content: list[Row], without: set[str]) -> None:
    file = file_of(content, columns=COMPARED, without=without)
    theirs = _InclusiveMetricsEvaluator(PY_SCHEMA, to_pyiceberg(drawn)).eval(py_file(file))
    assert may_match(document(drawn), file) == theirs


TRANSFORMED = [
    ("day", "ts", lambda value: value // 86_400_000_000),
    ("hour", "tz", lambda value: value // 3_600_000_000),
    ("truncate[2]", "s", lambda value: value[:2]),
    ("truncate[10]", "i", lambda value: value - value % 10),
]


@pytest.mark.slow
@pytest.mark.parametrize(("transform", "name", "function"), TRANSFORMED)
@given(st.data())
def test_file_with_a_row_matching_after_a_transform_is_never_pruned(
    transform: str, name: str, function: Any, data: st.DataObject
) -> None:
    column = BY_NAME[name]
    content = data.draw(st.lists(rows([column]), min_size=1, max_size=3))
    asked = function(data.draw(column.values))
    operation = data.draw(st.sampled_from(["lt", "lt-eq", "gt", "gt-eq", "eq", "not-eq"]))
    file = file_of(content, columns=[column], width=data.draw(st.sampled_from([None, 1])))
    made = [{"x": None if row[name] is None else function(row[name])} for row in content]
    if any(matches((operation, "x", asked), row) for row in made):
        term = {"type": "transform", "transform": transform, "term": name}
        assert may_match({"type": operation, "term": term, "value": asked}, file)


def test_bounds_are_projected_through_order_preserving_transforms() -> None:
    file = file_of([{"ts": 5 * 86_400_000_000 + 7}], columns=[BY_NAME["ts"]])
    term = {"type": "transform", "transform": "day", "term": "ts"}
    assert may_match({"type": "eq", "term": term, "value": 5}, file)
    assert not may_match({"type": "eq", "term": term, "value": 6}, file)
    assert not may_match({"type": "lt", "term": term, "value": 5}, file)
    hashed = {"type": "transform", "transform": "bucket[4]", "term": "ts"}
    assert all(may_match({"type": "eq", "term": hashed, "value": bucket}, file) for bucket in range(4))


@pytest.mark.parametrize(
    ("filter_", "facts", "expected"),
    [
        ({"type": "eq", "term": "i", "value": 9}, {"record_count": 0}, False),
        (True, {"record_count": 0}, False),
        ({"type": "eq", "term": "i", "value": 9}, {"record_count": -1, "upper_bounds": {1: b"\0\0\0\0"}}, True),
        (False, {"record_count": -1}, False),
        ({"type": "eq", "term": "i", "value": 9}, {}, True),
        ({"type": "gt", "term": "i", "value": 9}, {"upper_bounds": {1: b"\x09\0\0\0"}}, False),
        ({"type": "gt-eq", "term": "i", "value": 9}, {"upper_bounds": {1: b"\x09\0\0\0"}}, True),
        ({"type": "lt", "term": "i", "value": 9}, {"lower_bounds": {1: b"\x09\0\0\0"}}, False),
        ({"type": "lt-eq", "term": "i", "value": 9}, {"lower_bounds": {1: b"\x09\0\0\0"}}, True),
        ({"type": "eq", "term": "i", "value": 9}, {"upper_bounds": {1: b"\0"}}, True),
        ({"type": "gt", "term": "f", "value": 9}, {"upper_bounds": {4: b"\0\0\xc0\x7f"}}, True),
        ({"type": "gt", "term": "f", "value": 9}, {"value_counts": {4: 10}, "nan_value_counts": {4: 10}}, False),
        ({"type": "is-nan", "term": "f"}, {"value_counts": {4: 10}, "null_value_counts": {4: 10}}, False),
        ({"type": "not-nan", "term": "f"}, {"value_counts": {4: 10}, "nan_value_counts": {4: 10}}, False),
        ({"type": "not-nan", "term": "f"}, {"value_counts": {4: 10}, "null_value_counts": {4: 10}}, True),
        ({"type": "not-starts-with", "term": "s", "value": "a"},
         {"lower_bounds": {3: b"ab"}, "upper_bounds": {3: b"ac"}, "null_value_counts": {3: 0}}, False),
        ({"type": "not-starts-with", "term": "s", "value": "a"},
         {"lower_bounds": {3: b"ab"}, "upper_bounds": {3: b"b"}, "null_value_counts": {3: 0}}, True),
        ({"type": "not-starts-with", "term": "s", "value": "a"},
         {"lower_bounds": {3: b"ab"}, "upper_bounds": {3: b"ac"}}, True),
        ({"type": "not-starts-with", "term": "s", "value": "a"},
         {"lower_bounds": {3: b"ab"}, "null_value_counts": {3: 0}}, True),
        ({"type": "starts-with", "term": "s", "value": "abc"}, {"upper_bounds": {3: b"ab"}}, False),
        ({"type": "starts-with", "term": "s", "value": "abc"}, {"lower_bounds": {3: b"abd"}}, False),
        ({"type": "starts-with", "term": "s", "value": "abc"}, {"lower_bounds": {3: b"ab"}}, True),
        ({"type": "starts-with", "term": "s", "value": "abc"}, {"lower_bounds": {3: b"abcd"}}, True),
        ({"type": "starts-with", "term": "s", "value": "abc"}, {"upper_bounds": {3: b"abcd"}}, True),
    ],
    ids=str,
)  # fmt: skip
def test_edge_cases(filter_: Any, facts: dict[str, Any], expected: bool) -> None:
    assert may_match(filter_, a_file(**facts)) is expected


def test_uuid_bounds_exclude_only_in_both_orders() -> None:
    low, high = b"\x10" + bytes(15), b"\x90" + bytes(15)
    filter_ = {"type": "gt", "term": "u", "value": "a0000000-0000-0000-0000-000000000000"}
    # As signed numbers, values that begin with 0x90 or 0xa0 are negative: the lower bound.
    assert may_match(filter_, a_file(lower_bounds={12: high}, upper_bounds={12: low}))
    assert not may_match(filter_, a_file(lower_bounds={12: b"\x91" + bytes(15)}, upper_bounds={12: high}))
