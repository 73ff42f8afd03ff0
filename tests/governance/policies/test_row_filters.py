from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.errors import InvalidPolicy
from lakebed.governance.policies.row_filters import MAX_PARTS, column_predicate, read_filter
from lakebed.iceberg.expressions.unbound import And, Constant, Not, Or, PredicateOperation

AT = ("filter",)
EQ = {"type": "eq", "term": "region", "value": "EU"}


def test_iceberg_expressions_are_parsed() -> None:
    assert read_filter(True, AT) == Constant(True)
    region = column_predicate(PredicateOperation.EQ, "region", ("EU",))
    assert read_filter(EQ, AT) == region
    small = {"type": "in", "term": "n", "values": [1, 2.5, False]}
    document = {
        "type": "and",
        "left": EQ,
        "right": {"type": "not", "child": {"type": "or", "left": EQ, "right": small}},
    }
    assert read_filter(document, AT) == And(
        (region, Not(Or((region, column_predicate(PredicateOperation.IN, "n", (1, 2.5, False))))))
    )
    assert read_filter({"type": "is-null", "term": "a.b"}, AT) == column_predicate(PredicateOperation.IS_NULL, "a.b")


@pytest.mark.parametrize(
    ("document", "path"),
    [
        (None, "$.filter"),
        ("region = 'EU'", "$.filter"),
        ({}, "$.filter.type"),
        ({"type": "like", "term": "a", "value": "b"}, "$.filter.type"),
        ({"type": "eq", "term": {"type": "transform", "transform": "year", "term": "a"}, "value": 1}, "$.filter.term"),
        ({"type": "eq", "term": "", "value": 1}, "$.filter.term"),
        ({"type": "eq", "term": "a"}, "$.filter.value"),
        ({"type": "eq", "term": "a", "value": None}, "$.filter.value"),
        ({"type": "eq", "term": "a", "value": [1]}, "$.filter.value"),
        ({"type": "eq", "term": "a", "value": 1, "values": [2]}, "$.filter['values']"),
        ({"type": "in", "term": "a", "values": []}, "$.filter['values']"),
        ({"type": "in", "term": "a", "values": [1, {}]}, "$.filter['values']"),
        ({"type": "starts-with", "term": "a", "value": 5}, "$.filter.value"),
        ({"type": "is-null", "term": "a", "value": 5}, "$.filter.value"),
        ({"type": "and", "left": EQ}, "$.filter.right"),
        ({"type": "and", "left": EQ, "right": {"type": "not", "child": 3}}, "$.filter.right.child"),
        ({"type": "not", "child": EQ, "left": EQ}, "$.filter.left"),
        ({"type": "in", "term": "a", "values": [1] * (MAX_PARTS + 1)}, "$.filter"),
    ],
)
def test_errors_have_a_json_path(document: Any, path: str) -> None:
    with pytest.raises(InvalidPolicy) as refused:
        read_filter(document, AT)
    assert refused.value.argument == path.replace("['values']", ".values")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "term", "value", "values", "left", "right", "child", "x"]),
            inner | st.sampled_from(["and", "or", "not", *PredicateOperation]),
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(JSON)
def test_any_document_is_parsed_or_refused(document: Any) -> None:
    with contextlib.suppress(InvalidPolicy):
        read_filter(document, AT)
