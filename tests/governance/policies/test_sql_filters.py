from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.errors import InvalidPolicy
from lakebed.governance.policies.row_filters import RowFilter, column_predicate
from lakebed.governance.policies.sql_filters import MAX_DEPTH, MAX_PARTS, read_sql
from lakebed.iceberg.expressions.unbound import And, Constant, Not, Or, PredicateOperation, UnboundPredicate


def read(text: str) -> RowFilter:
    return read_sql(text, ("filter",))


A = column_predicate(PredicateOperation.EQ, "a", (1,))
B = column_predicate(PredicateOperation.IS_NULL, "b")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("TRUE", Constant(True)),
        ("  false ", Constant(False)),
        ("a = 1", A),
        ("a==1", A),
        ("a = +1", A),
        ("a <> -1", column_predicate(PredicateOperation.NOT_EQ, "a", (-1,))),
        ("a != 1.5", column_predicate(PredicateOperation.NOT_EQ, "a", (1.5,))),
        ("a<1e3", column_predicate(PredicateOperation.LT, "a", (1000.0,))),
        ("a >= .5", column_predicate(PredicateOperation.GT_EQ, "a", (0.5,))),
        ("a = 'it''s -- not (over'", column_predicate(PredicateOperation.EQ, "a", ("it's -- not (over",))),
        ("a = true", column_predicate(PredicateOperation.EQ, "a", (True,))),
        ("d > DATE '2026-01-01'", column_predicate(PredicateOperation.GT, "d", ("2026-01-01",))),
        (
            "d <= timestamp '2026-01-01T00:00:00Z'",
            column_predicate(PredicateOperation.LT_EQ, "d", ("2026-01-01T00:00:00Z",)),
        ),
        ("b IS NULL", B),
        ("b is not null", column_predicate(PredicateOperation.NOT_NULL, "b")),
        ("a IN (1, 'x')", column_predicate(PredicateOperation.IN, "a", (1, "x"))),
        ("a NOT IN (1)", column_predicate(PredicateOperation.NOT_IN, "a", (1,))),
        ("a LIKE 'ab%'", column_predicate(PredicateOperation.STARTS_WITH, "a", ("ab",))),
        ("a NOT LIKE '%'", column_predicate(PredicateOperation.NOT_STARTS_WITH, "a", ("",))),
        ("x.y.z = 1", column_predicate(PredicateOperation.EQ, "x.y.z", (1,))),
        ('"order" = 1', column_predicate(PredicateOperation.EQ, "order", (1,))),
        ('"a ""b""".`c``d` = 1', column_predicate(PredicateOperation.EQ, 'a "b".c`d', (1,))),
        ("a = 1 AND b IS NULL OR a = 1", Or((And((A, B)), A))),
        ("a = 1 AND (b IS NULL OR a = 1)", And((A, Or((B, A))))),
        ("NOT a = 1 AND b IS NULL", And((Not(A), B))),
        ("NOT NOT (a = 1)", A),
        (
            "a BETWEEN 1 AND 2 AND b IS NULL",
            And(
                (
                    And(
                        (
                            column_predicate(PredicateOperation.GT_EQ, "a", (1,)),
                            column_predicate(PredicateOperation.LT_EQ, "a", (2,)),
                        )
                    ),
                    B,
                )
            ),
        ),
        (
            "a NOT BETWEEN 1 AND 2",
            Not(
                And(
                    (
                        column_predicate(PredicateOperation.GT_EQ, "a", (1,)),
                        column_predicate(PredicateOperation.LT_EQ, "a", (2,)),
                    )
                )
            ),
        ),
    ],
)
def test_sql_conditions_are_parsed(text: str, expected: RowFilter) -> None:
    assert read(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a",
        "a =",
        "a = b",
        "1 = a",
        "a = 1 b",
        "a = 1 AND",
        "AND a = 1",
        "(a = 1",
        "a = 1)",
        "a IN ()",
        "a IN (1",
        "a IN (SELECT id FROM t)",
        "EXISTS (SELECT 1)",
        "upper(a) = 'X'",
        "a + 1 = 2",
        "a = 1; DROP TABLE t",
        "a = 1 -- and more",
        "a = 'open",
        "a LIKE 'a%b%'",
        "a LIKE '%a'",
        "a LIKE 'a_%'",
        "a LIKE 5",
        "a NOT = 1",
        "a IS 1",
        "a = NULL",
        "d > DATE 5",
        "a = 1x",
        "a = 1.2.3",
        '"" = 1',
        "ä = 1",
        "a." + "= 1",
        "(" * (MAX_DEPTH + 2) + "a = 1" + ")" * (MAX_DEPTH + 2),
        "a IN (" + ", ".join(["1"] * (MAX_PARTS + 1)) + ")",
        "NOT",
    ],
)
def test_invalid_conditions_are_refused_with_the_path(text: str) -> None:
    with pytest.raises(InvalidPolicy) as refused:
        read(text)
    assert refused.value.argument == "$.filter"


WORDS = st.sampled_from(
    [
        *"()=<>,.'",
        "AND",
        "OR",
        "NOT",
        "IN",
        "IS",
        "NULL",
        "LIKE",
        "BETWEEN",
        "a",
        "'x%'",
        "1",
        "1.5",
        '"b c"',
        "TRUE",
        "`",
    ]
)


@given(st.text() | st.lists(WORDS, max_size=12).map(" ".join))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    with contextlib.suppress(InvalidPolicy):
        read(text)


def written(one: RowFilter) -> str:
    match one:
        case Constant():
            return str(one.value).upper()
        case And():
            return "(" + " AND ".join(map(written, one.operands)) + ")"
        case Or():
            return "(" + " OR ".join(map(written, one.operands)) + ")"
        case Not():
            return f"NOT ({written(one.operand)})"
        case UnboundPredicate():
            column = '"' + str(one.reference.column).replace('"', '""') + '"'
            if one.operation is PredicateOperation.IS_NULL:
                return f"{column} IS NULL"
            return f"{column} IN ({', '.join(_value(literal.value) for literal in one.literals)})"


def _value(value: Any) -> str:
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)


TEXTS = st.text(st.characters(codec="utf-8"), min_size=1)
FILTERS: st.SearchStrategy[RowFilter] = st.recursive(
    st.builds(
        lambda name, values: column_predicate(PredicateOperation.IN, name, tuple(values)),
        TEXTS,
        st.lists(TEXTS | st.integers(), min_size=1),
    )
    | st.builds(lambda name: column_predicate(PredicateOperation.IS_NULL, name), TEXTS),
    lambda inner: (
        st.builds(lambda some: And(tuple(some)), st.lists(inner, min_size=2, max_size=3))
        | st.builds(lambda some: Or(tuple(some)), st.lists(inner, min_size=2, max_size=3))
        | st.builds(Not, st.builds(lambda name: column_predicate(PredicateOperation.IS_NULL, name), TEXTS))
    ),
    max_leaves=8,
)


@given(FILTERS)
def test_written_conditions_round_trip(one: RowFilter) -> None:
    assert read(written(one)) == one
