"""The two laws of projections, and a comparison with PyIceberg."""

from __future__ import annotations

from typing import Any

import mmh3
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.expressions.visitors import expression_evaluator, inclusive_projection, strict_projection
from pyiceberg.schema import Schema as PySchema
from pyiceberg.typedef import Record

from lakebed.iceberg.expressions.binding import ColumnNames, bind
from lakebed.iceberg.expressions.bound import BoundExpression, BoundPredicate, evaluate, predicate_matches
from lakebed.iceberg.expressions.parsing import parse_expression
from lakebed.iceberg.expressions.partitions import BoundSpec, PartitionValues, bind_specs
from lakebed.iceberg.expressions.projection import inclusive, strict
from lakebed.iceberg.expressions.rendering import render_filter
from lakebed.iceberg.transform_functions import TIME_UNITS, function_of
from lakebed.iceberg.transforms import parse_transform
from lakebed.iceberg.types import parse_primitive
from tests.iceberg.expressions.columns import BY_NAME, COLUMNS, PY_SCHEMA, SCHEMA, ColumnSample, Value
from tests.iceberg.expressions.filters import (
    Row,
    document,
    matches,
    random_filters,
    random_predicates,
    rows,
    to_pyiceberg,
)
from tests.iceberg.expressions.specs import Fields, a_layout, a_table, py_spec

pytestmark = pytest.mark.slow

NAMES = ColumnNames(SCHEMA)
TRANSFORMS = ("identity", "bucket[3]", "truncate[1]", "truncate[2]", "truncate[10]", *sorted(TIME_UNITS))
PAIRS = [
    (column.name, transform)
    for column in COLUMNS
    for transform in TRANSFORMS
    if parse_transform(transform).accepts(parse_primitive(column.type).name)
]


def bound(filter_: Any) -> BoundExpression:
    return bind(parse_expression(filter_), NAMES)


def made(row: Row, fields: Fields, *, rounded_up: bool = False) -> PartitionValues:
    """The partition of a row; optionally by old writers, which round time units towards zero."""
    values: list[Value] = []
    for name, transform in fields:
        function = function_of(parse_transform(transform), parse_primitive(BY_NAME[name].type))
        assert function is not None
        value = None if row[name] is None else function(row[name])
        old = rounded_up and transform in TIME_UNITS and not (transform == "day" and name == "dt")
        values.append(value + 1 if old and value is not None and int(value) < 0 else value)  # type: ignore[operator]
    return tuple(values)


def passes(condition: BoundExpression, layout: BoundSpec, partition: PartitionValues) -> bool:
    def test(claim: BoundPredicate) -> bool:
        return predicate_matches(claim, partition[layout.positions[claim.term.id]])

    return evaluate(condition, test)


@st.composite
def partitioned(draw: st.DrawFn) -> tuple[Fields, list[ColumnSample]]:
    """One to three fields of a spec, with their columns and one unpartitioned column."""
    fields = tuple(draw(st.lists(st.sampled_from(PAIRS), min_size=1, max_size=3)))
    names = dict.fromkeys([name for name, _ in fields] + ["l"])
    return fields, [BY_NAME[name] for name in names]


@given(partitioned(), st.data())
def test_inclusive_projection_matches_partitions_of_matching_rows(
    spec: tuple[Fields, list[ColumnSample]], data: st.DataObject
) -> None:
    fields, columns = spec
    drawn, row = data.draw(random_filters(columns)), data.draw(rows(columns))
    layout = a_layout(fields)
    if matches(drawn, row):
        projected = inclusive(bound(document(drawn)), layout)
        assert passes(projected, layout, made(row, fields))
        assert passes(projected, layout, made(row, fields, rounded_up=True))


@given(partitioned(), st.data())
def test_strict_projection_matches_only_fully_matching_partitions(
    spec: tuple[Fields, list[ColumnSample]], data: st.DataObject
) -> None:
    fields, columns = spec
    drawn, row = data.draw(random_filters(columns)), data.draw(rows(columns))
    layout = a_layout(fields)
    projected = strict(bound(document(drawn)), layout)
    partitions = made(row, fields), made(row, fields, rounded_up=True)
    if any(passes(projected, layout, partition) for partition in partitions):
        assert matches(drawn, row)


COMPARED = [pair for pair in PAIRS if pair[0] not in ("tns", "u", "f", "d") and pair not in (("bin", "truncate[1]"),)]


@pytest.mark.parametrize("pair", COMPARED, ids=lambda pair: "-".join(pair))
@settings(max_examples=30)
@given(st.data())
def test_projections_agree_with_pyiceberg(pair: tuple[str, str], data: st.DataObject) -> None:
    name, transform = pair
    fields, column = (pair,), BY_NAME[name]
    if transform in TIME_UNITS:  # PyIceberg does not allow for old writers
        column = column.after_1970
    drawn, row = data.draw(random_predicates([column])), data.draw(rows([column]))
    layout, partition = a_layout(fields), made(row, fields)
    struct: Any = py_spec(fields).partition_type(PY_SCHEMA)
    schema = PySchema(*struct.fields)
    record = Record(*(_for_pyiceberg(name, transform, value) for value in partition))
    for ours, theirs in ((inclusive, inclusive_projection), (strict, strict_projection)):
        projected = theirs(PY_SCHEMA, py_spec(fields))(to_pyiceberg(drawn))
        expected = expression_evaluator(schema, projected, case_sensitive=True)(record)
        assert passes(ours(bound(document(drawn)), layout), layout, partition) == expected


def _for_pyiceberg(name: str, transform: str, value: Value) -> Any:
    if value is None or transform not in ("identity", "truncate[1]", "truncate[2]", "truncate[10]"):
        return value
    return BY_NAME[name].py(value) if name == "dec" else value


@pytest.mark.parametrize(
    ("field", "predicate", "wide", "narrow"),
    [
        (("ts", "day"), {"type": "gt", "value": "2017-11-16T12:00:00"},
         {"type": "gt-eq", "value": "2017-11-16"}, {"type": "gt", "value": "2017-11-16"}),
        (("ts", "day"), {"type": "lt", "value": "2017-11-16T00:00:00"},
         {"type": "lt-eq", "value": "2017-11-15"}, {"type": "lt", "value": "2017-11-16"}),
        (("ts", "day"), {"type": "lt-eq", "value": "2017-11-15T23:59:59.999999"},
         {"type": "lt-eq", "value": "2017-11-15"}, {"type": "lt", "value": "2017-11-16"}),
        (("i", "truncate[10]"), {"type": "gt-eq", "value": 20}, {"type": "gt-eq", "value": 20},
         {"type": "gt", "value": 10}),
        (("i", "truncate[10]"), {"type": "in", "values": [11, 12]}, {"type": "eq", "value": 10}, False),
        (("i", "truncate[10]"), {"type": "not-in", "values": [11, 22]}, True, {"type": "not-in", "values": [10, 20]}),
        (("s", "truncate[2]"), {"type": "starts-with", "value": "a"}, {"type": "starts-with", "value": "a"},
         {"type": "starts-with", "value": "a"}),
        (("s", "truncate[2]"), {"type": "starts-with", "value": "ab"}, {"type": "eq", "value": "ab"},
         {"type": "eq", "value": "ab"}),
        (("s", "truncate[2]"), {"type": "starts-with", "value": "abc"}, {"type": "eq", "value": "ab"}, False),
        (("s", "truncate[2]"), {"type": "not-starts-with", "value": "abc"}, True, {"type": "not-eq", "value": "ab"}),
        (("s", "truncate[2]"), {"type": "not-starts-with", "value": "ab"}, {"type": "not-eq", "value": "ab"},
         {"type": "not-eq", "value": "ab"}),
        (("s", "bucket[3]"), {"type": "lt", "value": "a"}, True, False),
        (("s", "bucket[3]"), {"type": "is-null"}, {"type": "is-null"}, {"type": "is-null"}),
        (("s", "void"), {"type": "eq", "value": "a"}, True, False),
        (("s", "void"), {"type": "is-null"}, True, False),
        (("s", "zorder[2]"), {"type": "eq", "value": "a"}, True, False),
    ],
    ids=str,
)  # fmt: skip
def test_projections(field: tuple[str, str], predicate: Any, wide: Any, narrow: Any) -> None:
    condition = bound({**predicate, "term": field[0]})
    layout = a_layout((field,))
    expected = [one if isinstance(one, bool) else {**one, "term": "p0"} for one in (wide, narrow)]
    assert [render_filter(inclusive(condition, layout)), render_filter(strict(condition, layout))] == expected


UNITS = [pair for pair in PAIRS if pair[1] in TIME_UNITS or pair[1].startswith(("truncate", "bucket"))]


@given(st.sampled_from(UNITS), st.data())
def test_projection_laws_hold_for_transform_terms(pair: tuple[str, str], data: st.DataObject) -> None:
    name, transform = pair
    column, layout = BY_NAME[name], a_layout((pair,))
    row = data.draw(rows([column]))
    predicate = made({name: data.draw(column.values)}, (pair,))[0]
    operations = ["eq", "not-eq", "lt", "lt-eq", "gt", "gt-eq"]
    operation = data.draw(st.sampled_from([*operations, "is-null", "not-null"]))
    term = {"type": "transform", "transform": transform, "term": name}
    unary = operation not in operations
    literal = _literal(column, transform, predicate)
    condition = bound({"type": operation, "term": term} | ({} if unary else {"value": literal}))
    matching = matches((operation, "x") if unary else (operation, "x", predicate), {"x": made(row, (pair,))[0]})
    for rounded_up in (False, True):
        partition = made(row, (pair,), rounded_up=rounded_up)
        if matching:
            assert passes(inclusive(condition, layout), layout, partition)
        if passes(strict(condition, layout), layout, partition):
            assert matching


def _literal(column: ColumnSample, transform: str, value: Value) -> Any:
    return column.json(value) if transform.startswith("truncate") else value


@pytest.mark.parametrize("operation", ["eq", "not-eq", "lt", "lt-eq", "gt", "gt-eq"])
def test_negative_time_units_may_be_stored_one_too_high(operation: str) -> None:
    layout = a_layout((("ts", "day"),))
    term = {"type": "transform", "transform": "day", "term": "ts"}
    for predicate in range(-3, 4):
        condition = bound({"type": operation, "term": term, "value": predicate})
        for day in range(-5, 6):
            matching = matches((operation, "x", predicate), {"x": day})
            for stored in (day, day + 1) if day < 0 else (day,):
                assert passes(inclusive(condition, layout), layout, (stored,)) or not matching
                assert matching or not passes(strict(condition, layout), layout, (stored,))


def test_predicate_on_another_transform_is_not_projected() -> None:
    term = {"type": "transform", "transform": "bucket[4]", "term": "s"}
    layout = a_layout((("s", "bucket[3]"),))
    condition = bound({"type": "eq", "term": term, "value": 1})
    assert render_filter(inclusive(condition, layout)) is True
    assert render_filter(strict(condition, layout)) is False


def test_all_partition_fields_of_a_column_are_used() -> None:
    layout = a_layout((("i", "truncate[10]"), ("i", "bucket[3]")))
    projected = render_filter(inclusive(bound({"type": "eq", "term": "i", "value": 12}), layout))
    assert projected == {
        "type": "and",
        "left": {"type": "eq", "term": "p0", "value": 10},
        "right": {"type": "eq", "term": "p1", "value": mmh3.hash(bytes([12, *bytes(7)]), signed=False) % 2**31 % 3},
    }


def test_field_of_several_columns_is_not_projected() -> None:
    spec = {"spec-id": 0, "fields": [
        {"source-ids": [1, 2], "field-id": 1000, "name": "both", "transform": "bucket[4]"},
        {"source-ids": [1], "field-id": 1001, "name": "one", "transform": "truncate[10]"},
    ]}  # fmt: skip
    table = a_table(spec)
    layout = bind_specs(table, table.schema)[0]
    projected = render_filter(inclusive(bound({"type": "eq", "term": "i", "value": 12}), layout))
    assert projected == {"type": "eq", "term": "one", "value": 10}
