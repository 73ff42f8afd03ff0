from __future__ import annotations

from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given
from pyiceberg.catalog.rest.scan_planning import PlanTableScanRequest
from pyiceberg.expressions.visitors import bind as py_bind
from pyiceberg.expressions.visitors import expression_evaluator, rewrite_not
from pyiceberg.typedef import Record

from lakebed.iceberg.expressions.binding import ColumnNames, bind
from lakebed.iceberg.expressions.parsing import parse_expression
from lakebed.iceberg.expressions.rendering import render_filter
from tests.iceberg.expressions.columns import COLUMNS, SCHEMA, py_schema_of
from tests.iceberg.expressions.filters import RandomFilter, Row, document, matches, random_filters, rows, to_pyiceberg

NAMES = ColumnNames(SCHEMA)
READ_BY_PYICEBERG = [column for column in COLUMNS if column.name not in ("tns", "f", "d", "bin", "fx", "u")]
"""PyIceberg has no nanosecond literals, and keeps infinities, bytes and uuids as text until it knows the column."""


def rendered(filter_: Any) -> Any:
    return render_filter(bind(parse_expression(filter_), NAMES))


@pytest.mark.slow
@given(random_filters())
def test_rendered_filters_round_trip(drawn: RandomFilter) -> None:
    once = rendered(document(drawn))
    assert rendered(once) == once
    assert msgspec.json.decode(msgspec.json.encode(once)) == once


@pytest.mark.slow
@given(random_filters(READ_BY_PYICEBERG), rows(READ_BY_PYICEBERG))
def test_pyiceberg_parses_rendered_filters(drawn: RandomFilter, row: Row) -> None:
    read = PlanTableScanRequest.model_validate({"filter": rendered(document(drawn))}).filter
    assert read is not None
    fields = [column.document for column in READ_BY_PYICEBERG]
    py_bind(py_schema_of(fields), rewrite_not(read), case_sensitive=True)
    evaluate = expression_evaluator(py_schema_of(fields), rewrite_not(read), case_sensitive=True)
    values = Record(*(_for_pyiceberg(column.name, row[column.name]) for column in READ_BY_PYICEBERG))
    assert evaluate(values) == matches(drawn, row)


@pytest.mark.slow
@given(random_filters([column for column in COLUMNS if column.name not in ("tns", "f", "d")]))
def test_filters_of_pyiceberg_are_parsed(drawn: RandomFilter) -> None:
    """PyIceberg sends nanoseconds in another unit, and infinities as null."""
    request = PlanTableScanRequest(filter=to_pyiceberg(drawn))
    sent = msgspec.json.decode(request.model_dump_json(by_alias=True, exclude_none=True))["filter"]
    assert in_order(rendered(sent)) == in_order(rendered(document(drawn)))


def test_long_conjunctions_are_shallow_trees() -> None:
    nested: Any = False
    for number in range(1000):
        nested = {"type": "or", "left": {"type": "eq", "term": "i", "value": number}, "right": nested}
    depth, level = 0, [rendered(nested)]
    while level:
        level = [one[side] for one in level for side in ("left", "right") if side in one]
        depth += 1
    assert depth == 11


def in_order(filter_: Any) -> Any:
    """The same with sets in a fixed order: PyIceberg's sets are unordered."""
    if not isinstance(filter_, dict):
        return filter_
    return {name: sorted(value, key=str) if name == "values" else in_order(value) for name, value in filter_.items()}


def _for_pyiceberg(name: str, value: Any) -> Any:
    return Decimal(value).scaleb(-2) if name == "dec" and value is not None else value
