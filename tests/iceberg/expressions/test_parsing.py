from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.errors import InvalidInput, NotSupported
from lakebed.iceberg.expressions.parsing import parse_expression
from lakebed.iceberg.expressions.unbound import (
    FALSE,
    TRUE,
    And,
    ColumnReference,
    Expression,
    Literal,
    Not,
    Or,
    PredicateOperation,
    UnboundPredicate,
)
from lakebed.iceberg.transforms import parse_transform
from lakebed.iceberg.types import parse_primitive

X = {"type": "reference", "name": "x"}
BUCKET = parse_transform("bucket[16]")


def predicate(
    operation: str, *literals: Any, column: str | int = "x", transform: str | None = None
) -> UnboundPredicate:
    reference = ColumnReference(column, None if transform is None else parse_transform(transform))
    return UnboundPredicate(PredicateOperation(operation), reference, tuple(map(Literal, literals)))


@pytest.mark.parametrize(
    "document", [True, {"type": "true"}, {"type": "TRUE"}, {"type": "literal", "value": True}], ids=str
)
def test_true_has_several_spellings(document: Any) -> None:
    assert parse_expression(document) == TRUE


@pytest.mark.parametrize("document", [False, {"type": "false"}, {"type": "literal", "value": False}], ids=str)
def test_false_has_several_spellings(document: Any) -> None:
    assert parse_expression(document) == FALSE


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"type": "is-null", "term": "x"}, predicate("is-null")),
        ({"type": "is-null", "child": X}, predicate("is-null")),
        ({"type": "NOT_NULL", "term": "x"}, predicate("not-null")),
        ({"type": "lt", "term": "x", "value": 5}, predicate("lt", 5)),
        ({"type": "lt", "left": X, "right": 5}, predicate("lt", 5)),
        ({"type": "lt", "left": X, "right": {"type": "literal", "value": 5}}, predicate("lt", 5)),
        ({"type": "lt", "left": 5, "right": X}, predicate("gt", 5)),
        ({"type": "gt-eq", "left": {"type": "literal", "value": 5}, "right": X}, predicate("lt-eq", 5)),
        ({"type": "not-eq", "left": "a", "right": X}, predicate("not-eq", "a")),
        ({"type": "eq", "term": {"type": "reference", "term": "x"}, "value": 5}, predicate("eq", 5)),
        ({"type": "eq", "left": {"type": "reference", "id": 3}, "right": 5}, predicate("eq", 5, column=3)),
        ({"type": "starts-with", "term": "x", "value": "a"}, predicate("starts-with", "a")),
        ({"type": "in", "term": "x", "values": [1, 2]}, predicate("in", 1, 2)),
        ({"type": "in", "child": X, "values": [1, {"type": "literal", "value": 2}]}, predicate("in", 1, 2)),
        ({"type": "not-in", "child": X, "values": []}, predicate("not-in")),
        (
            {"type": "eq", "term": {"type": "transform", "transform": "bucket[16]", "term": "x"}, "value": 3},
            predicate("eq", 3, transform="bucket[16]"),
        ),
        (
            {"type": "eq", "term": {"type": "transform", "transform": "identity", "term": "x"}, "value": 3},
            predicate("eq", 3),
        ),
        (
            {"type": "eq", "left": {"type": "apply", "function": "bucket", "arguments": [16, X]}, "right": 3},
            predicate("eq", 3, transform="bucket[16]"),
        ),
        (
            {
                "type": "eq",
                "left": {
                    "type": "apply",
                    "function": {"catalog": "iceberg_functions", "identifier": ["truncate"]},
                    "arguments": [{"type": "literal", "value": 4}, X],
                },
                "right": "abcd",
            },
            predicate("eq", "abcd", transform="truncate[4]"),
        ),
        (
            {"type": "is-null", "child": {"type": "apply", "function": ["Day"], "arguments": [X]}},
            predicate("is-null", transform="day"),
        ),
    ],
    ids=str,
)
def test_dialects_are_equivalent(document: Any, expected: UnboundPredicate) -> None:
    assert parse_expression(document) == expected


def test_literals_can_have_a_type() -> None:
    date = parse_primitive("date")
    one = {"type": "eq", "left": X, "right": {"type": "literal", "value": "2020-01-01", "data-type": "date"}}
    assert parse_expression(one) == UnboundPredicate(
        PredicateOperation.EQ, ColumnReference("x"), (Literal("2020-01-01", date),)
    )
    several = {"type": "in", "child": X, "values": {"type": "literals", "values": ["2020-01-01"], "data-type": "date"}}
    assert parse_expression(several) == UnboundPredicate(
        PredicateOperation.IN, ColumnReference("x"), (Literal("2020-01-01", date),)
    )


def test_chains_of_one_conjunction_are_flat() -> None:
    a, b, c = ({"type": "eq", "term": "x", "value": number} for number in (1, 2, 3))
    left = {"type": "and", "left": {"type": "and", "left": a, "right": b}, "right": c}
    right = {"type": "and", "left": a, "right": {"type": "and", "left": b, "right": c}}
    expected = And((predicate("eq", 1), predicate("eq", 2), predicate("eq", 3)))
    assert parse_expression(left) == parse_expression(right) == expected
    mixed = {"type": "or", "left": {"type": "not", "child": left}, "right": False}
    assert parse_expression(mixed) == Or((Not(expected), FALSE))


def test_thousand_alternatives_are_not_nested() -> None:
    document: Any = {"type": "eq", "term": "x", "value": 0}
    for number in range(1, 5000):
        document = {"type": "or", "left": document, "right": {"type": "eq", "term": "x", "value": number}}
    parsed = parse_expression(document)
    assert isinstance(parsed, Or)
    assert [one.literals[0].value for one in parsed.operands if isinstance(one, UnboundPredicate)] == list(range(5000))


def test_too_deep_filter_is_rejected() -> None:
    document: Any = True
    for _ in range(200):
        document = {"type": "not", "child": document}
    with pytest.raises(InvalidInput, match="nested too deeply"):
        parse_expression(document)


@pytest.mark.slow
def test_too_long_filter_is_rejected() -> None:
    document: Any = False
    for _ in range(5_001):
        document = {"type": "or", "left": {"type": "is-null", "term": "x"}, "right": document}
    with pytest.raises(InvalidInput, match="too many predicates"):
        parse_expression(document)


@pytest.mark.parametrize(
    "document",
    [
        None, 1, "x", [], {}, {"type": 5}, {"type": "equals", "term": "x"}, {"type": "true", "value": 1},
        {"type": "literal", "value": 1}, {"type": "and", "left": True}, {"type": "and", "right": True},
        {"type": "and", "left": True, "right": None}, {"type": "and", "left": True, "right": True, "also": True},
        {"type": "not"}, {"type": "not", "operand": True}, {"type": "is-null"}, {"type": "is-null", "child": "x"},
        {"type": "is-null", "term": "x", "value": 1}, {"type": "is-null", "term": "x", "child": X},
        {"type": "lt", "term": "x"}, {"type": "lt", "value": 1}, {"type": "lt", "term": "x", "value": None},
        {"type": "lt", "term": "x", "value": [1]}, {"type": "lt", "term": "x", "value": 1, "values": [1]},
        {"type": "lt", "term": "x", "right": 1}, {"type": "lt", "left": 1, "right": 1}, {"type": "lt", "left": X},
        {"type": "lt", "left": "x", "right": 1}, {"type": "lt", "left": X, "right": {"type": "literal"}},
        {"type": "lt", "left": X, "right": {"type": "literal", "value": 1, "data-type": 1}},
        {"type": "lt", "left": X, "right": {"type": "literal", "value": 1, "data-type": "number"}},
        {"type": "in", "term": "x"}, {"type": "in", "term": "x", "values": 1},
        {"type": "in", "term": "x", "values": {}},
        {"type": "in", "term": "x", "values": [None]}, {"type": "in", "term": "x", "value": 1},
        {"type": "in", "term": "x", "values": {"type": "literals", "values": 1, "data-type": "int"}},
        {"type": "eq", "term": {"type": "transform", "transform": "zorder", "term": "x"}, "value": 1},
        {"type": "eq", "term": {"type": "transform", "transform": "bucket[0]", "term": "x"}, "value": 1},
        {"type": "eq", "term": {"type": "transform", "transform": 5, "term": "x"}, "value": 1},
        {"type": "eq", "term": {"type": "transform", "term": "x"}, "value": 1},
        {"type": "eq", "term": {"type": "column", "term": "x"}, "value": 1}, {"type": "eq", "term": 5, "value": 1},
        {"type": "eq", "left": {"type": "reference"}, "right": 1},
        {"type": "eq", "left": {"type": "reference", "name": "x", "id": 1}, "right": 1},
        {"type": "eq", "left": {"type": "reference", "name": 1}, "right": 1},
        {"type": "eq", "left": {"type": "reference", "id": True}, "right": 1},
        {"type": "eq", "left": {"type": "reference", "id": "1"}, "right": 1},
        {"type": "eq", "left": {"type": "sum"}, "right": 1},
        {"type": "eq", "left": {"type": "apply", "function": "bucket", "arguments": ["16", X]}, "right": 1},
        {"type": "eq", "left": {"type": "apply", "function": "day", "arguments": [X, X]}, "right": 1},
        {"type": "eq", "left": {"type": "apply", "function": "day", "arguments": X}, "right": 1},
        {"type": "eq", "left": {"type": "apply", "function": 5, "arguments": [X]}, "right": 1},
        {"type": "eq", "left": {"type": "apply", "arguments": [X]}, "right": 1},
    ],
    ids=str,
)  # fmt: skip
def test_invalid_filters_are_rejected(document: Any) -> None:
    with pytest.raises(InvalidInput):
        parse_expression(document)


@pytest.mark.parametrize(
    "document",
    [
        {"type": "lt", "left": X, "right": X},
        {"type": "starts-with", "left": "abc", "right": X},
        {"type": "eq", "left": {"type": "apply", "function": "upper", "arguments": [X]}, "right": "A"},
        {"type": "eq", "left": {"type": "apply", "function": ["db", "day"], "arguments": [X]}, "right": 1},
        {
            "type": "eq",
            "left": {"type": "apply", "function": {"catalog": "mine", "identifier": ["day"]}, "arguments": [X]},
            "right": 1,
        },
        {
            "type": "eq",
            "left": {"type": "apply", "function": "day", "arguments": [{"type": "apply", "function": "day",
                                                                       "arguments": [X]}]},
            "right": 1,
        },
        {
            "type": "eq",
            "term": {"type": "transform", "transform": "day",
                     "term": {"type": "transform", "transform": "day", "term": "x"}},
            "value": 1,
        },
    ],
    ids=str,
)  # fmt: skip
def test_unsupported_filters_are_reported(document: Any) -> None:
    with pytest.raises(NotSupported):
        parse_expression(document)


def test_too_many_values_are_rejected() -> None:
    some = {"type": "in", "term": "x", "values": [1] * 60_000}
    parse_expression(some)
    with pytest.raises(InvalidInput, match="too many values"):
        parse_expression({"type": "or", "left": some, "right": some})


def test_number_of_thousands_of_digits_is_rejected() -> None:
    for number in (10**5000, -(10**400)):
        with pytest.raises(InvalidInput, match="more digits"):
            parse_expression({"type": "eq", "term": "x", "value": number})


NOISE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(["x", "eq", "and"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(["type", "term", "value", "values", "left", "right", "child", "name", "id", "function",
                         "arguments", "transform", "data-type"]),
        inner | st.sampled_from([*PredicateOperation, "and", "or", "not", "literal", "literals", "reference", "apply"]),
        max_size=4,
    ),
)  # fmt: skip


@pytest.mark.slow
@given(NOISE)
def test_any_json_is_parsed_or_rejected(document: Any) -> None:
    try:
        parsed: Expression = parse_expression(document)
    except (InvalidInput, NotSupported):
        return
    assert parse_expression(document) == parsed
