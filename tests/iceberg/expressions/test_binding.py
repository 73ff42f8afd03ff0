from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from lakebed.core.errors import InvalidInput
from lakebed.iceberg.expressions.binding import ColumnNames, bind
from lakebed.iceberg.expressions.bound import (
    BoundAnd,
    BoundExpression,
    BoundOr,
    BoundPredicate,
    evaluate,
    predicate_matches,
)
from lakebed.iceberg.expressions.parsing import parse_expression
from lakebed.iceberg.expressions.rendering import render_filter
from lakebed.iceberg.expressions.unbound import FALSE, TRUE, PredicateOperation
from lakebed.iceberg.schema import Schema
from tests.iceberg.expressions.columns import BY_NAME, SCHEMA, a_schema
from tests.iceberg.expressions.filters import RandomFilter, Row, document, matches, random_filters, rows

NESTED = a_schema(
    [
        {"id": 1, "name": "Name", "type": "string", "required": True},
        {"id": 2, "name": "name", "type": "string", "required": True},
        {
            "id": 3,
            "name": "maybe",
            "required": False,
            "type": {"type": "struct", "fields": [{"id": 4, "name": "sure", "type": "int", "required": True}]},
        },
        {
            "id": 5,
            "name": "always",
            "required": True,
            "type": {"type": "struct", "fields": [{"id": 6, "name": "sure", "type": "int", "required": True}]},
        },
        {
            "id": 7,
            "name": "tags",
            "required": True,
            "type": {"type": "list", "element-id": 8, "element": "string", "element-required": True},
        },
        {"id": 9, "name": "v", "type": "variant", "required": False},
        {"id": 10, "name": "Other", "type": "long", "required": False},
    ]
)


def bound(filter_: Any, schema: Schema | None = None, *, case_sensitive: bool = True) -> BoundExpression:
    return bind(parse_expression(filter_), ColumnNames(schema or SCHEMA, case_sensitive=case_sensitive))


def shown(filter_: Any, schema: Schema | None = None) -> Any:
    return render_filter(bound(filter_, schema))


@pytest.mark.slow
@given(random_filters(), rows())
def test_bound_filter_matches_the_same_rows(drawn: RandomFilter, row: Row) -> None:
    def passes(claim: BoundPredicate) -> bool:
        return predicate_matches(claim, row[claim.term.name])

    assert evaluate(bound(document(drawn)), passes) == matches(drawn, row)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ({"type": "not", "child": {"type": "lt", "term": "i", "value": 5}}, {"type": "gt-eq", "term": "i", "value": 5}),
        (
            {"type": "not", "child": {"type": "and", "left": {"type": "is-null", "term": "i"},
                                      "right": {"type": "not-in", "term": "i", "values": [1, 2]}}},
            {"type": "or", "left": {"type": "not-null", "term": "i"},
             "right": {"type": "in", "term": "i", "values": [1, 2]}},
        ),
        ({"type": "in", "term": "i", "values": [3, 3.0]}, {"type": "eq", "term": "i", "value": 3}),
        ({"type": "not-in", "term": "i", "values": [3, 2**40]}, {"type": "not-eq", "term": "i", "value": 3}),
        ({"type": "in", "term": "i", "values": [7, 3, 5, 3]}, {"type": "in", "term": "i", "values": [3, 5, 7]}),
        ({"type": "in", "term": "i", "values": []}, False),
        ({"type": "not-in", "term": "i", "values": [2**40]}, True),
        ({"type": "lt", "term": "i", "value": 2**40}, {"type": "not-null", "term": "i"}),
        ({"type": "lt", "term": "l", "value": 2**70}, True),
        ({"type": "gt", "term": "i", "value": 2**40}, False),
        ({"type": "gt-eq", "term": "i", "value": -(2**40)}, {"type": "not-null", "term": "i"}),
        ({"type": "lt-eq", "term": "i", "value": -(2**40)}, False),
        ({"type": "eq", "term": "i", "value": 2**40}, False),
        ({"type": "not-eq", "term": "i", "value": -(2**40)}, True),
        ({"type": "is-null", "term": "l"}, False),
        ({"type": "not-null", "term": "l"}, True),
        ({"type": "is-nan", "term": "i"}, False),
        ({"type": "not-nan", "term": "i"}, True),
        ({"type": "is-nan", "term": "f"}, {"type": "is-nan", "term": "f"}),
        ({"type": "or", "left": {"type": "is-null", "term": "l"}, "right": {"type": "is-null", "term": "i"}},
         {"type": "is-null", "term": "i"}),
        ({"type": "eq", "left": {"type": "reference", "id": 1}, "right": 5}, {"type": "eq", "term": "i", "value": 5}),
        ({"type": "eq", "term": {"type": "transform", "transform": "void", "term": "i"}, "value": 5}, False),
        ({"type": "not-eq", "term": {"type": "transform", "transform": "void", "term": "i"}, "value": 5}, True),
        ({"type": "is-null", "term": {"type": "transform", "transform": "void", "term": "l"}}, True),
    ],
    ids=str,
)  # fmt: skip
def test_filters_are_simplified(expression: Any, expected: Any) -> None:
    assert shown(expression) == expected


@pytest.mark.parametrize(
    ("transform", "column", "value", "expected"),
    [
        ("day", "ts", 17_486, "2017-11-16"),
        ("day", "ts", "2017-11-16", "2017-11-16"),
        ("year", "dt", 47, 47),
        ("bucket[16]", "u", 3, 3),
        ("truncate[2]", "s", "ab", "ab"),
        ("truncate[50]", "dec", "10.50", "10.50"),
    ],
)
def test_transform_results_are_compared_in_the_result_type(
    transform: str, column: str, value: Any, expected: Any
) -> None:
    term = {"type": "transform", "transform": transform, "term": column}
    expression = {"type": "eq", "term": term, "value": value}
    assert shown(expression) == {**expression, "value": expected}


def test_required_field_of_an_optional_struct_can_be_null() -> None:
    assert shown({"type": "is-null", "term": "maybe.sure"}, NESTED) == {"type": "is-null", "term": "maybe.sure"}
    assert shown({"type": "is-null", "term": "always.sure"}, NESTED) is False


def test_names_are_resolved_case_insensitively_on_request() -> None:
    expression = {"type": "eq", "term": "OTHER", "value": 5}
    assert render_filter(bound(expression, NESTED, case_sensitive=False)) == {"type": "eq", "term": "Other", "value": 5}
    with pytest.raises(InvalidInput, match="no such column"):
        bound(expression, NESTED)


def test_ambiguous_name_is_rejected_only_if_used() -> None:
    assert shown({"type": "starts-with", "term": "Name", "value": "a"}, NESTED)
    with pytest.raises(InvalidInput, match="ambiguous column name"):
        bound({"type": "eq", "term": "NAME", "value": "a"}, NESTED, case_sensitive=False)


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ({"type": "eq", "term": "nothing", "value": 1}, "no such column"),
        ({"type": "eq", "left": {"type": "reference", "id": 99}, "right": 1}, "no such column"),
        ({"type": "eq", "term": "tags.element", "value": "a"}, "lists and maps"),
        ({"type": "eq", "term": "maybe", "value": 1}, "support null tests only"),
        ({"type": "eq", "term": "v", "value": 1}, "cannot be compared"),
        ({"type": "starts-with", "term": "Other", "value": "a"}, "requires a string column"),
        ({"type": "eq", "term": "Other", "value": "a"}, "column Other: literal is not a value"),
        ({"type": "or", "left": True, "right": {"type": "is-null", "term": "nothing"}}, "no such column"),
        (
            {"type": "is-null", "term": {"type": "transform", "transform": "day", "term": "Other"}},
            "transform does not support",
        ),
        (
            {"type": "is-null", "term": {"type": "transform", "transform": "void", "term": "maybe"}},
            "transform does not support",
        ),
    ],
    ids=str,
)
def test_filters_that_do_not_match_the_schema_are_rejected(expression: Any, reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        bound(expression, NESTED)


def test_nested_columns_can_be_tested_for_null() -> None:
    assert shown({"type": "not-null", "term": "maybe"}, NESTED) == {"type": "not-null", "term": "maybe"}
    assert shown({"type": "not-null", "term": "tags"}, NESTED) is True
    assert shown({"type": "is-null", "term": "v"}, NESTED) == {"type": "is-null", "term": "v"}


def test_conjunctions_are_flat() -> None:
    leaf = {"type": "eq", "term": "i", "value": 1}
    other = {"type": "eq", "term": "s", "value": "a"}
    inner = {"type": "not", "child": {"type": "and", "left": leaf, "right": other}}
    found = bound({"type": "or", "left": inner, "right": {"type": "or", "left": leaf, "right": other}})
    assert isinstance(found, BoundOr)
    assert [one.operation for one in found.operands if isinstance(one, BoundPredicate)] == [
        PredicateOperation.NOT_EQ, PredicateOperation.NOT_EQ, PredicateOperation.EQ, PredicateOperation.EQ,
    ]  # fmt: skip
    assert isinstance(bound({"type": "and", "left": leaf, "right": other}), BoundAnd)
    assert bound({"type": "and", "left": leaf, "right": False}) == FALSE
    assert bound({"type": "or", "left": leaf, "right": True}) == TRUE
    assert BY_NAME["i"].id == 1
