from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.errors import InvalidPolicy
from lakebed.governance.policies.row_filters import AllOf, AnyOf, Condition, Constant, NotSo, Relation, RowFilter
from lakebed.governance.policies.sql_filters import MAX_DEPTH, MAX_PARTS, read_sql


def read(text: str) -> RowFilter:
    return read_sql(text, ("filter",))


A = Condition(Relation.EQ, "a", (1,))
B = Condition(Relation.IS_NULL, "b")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("TRUE", Constant(True)),
        ("  false ", Constant(False)),
        ("a = 1", A),
        ("a==1", A),
        ("a = +1", A),
        ("a <> -1", Condition(Relation.NOT_EQ, "a", (-1,))),
        ("a != 1.5", Condition(Relation.NOT_EQ, "a", (1.5,))),
        ("a<1e3", Condition(Relation.LT, "a", (1000.0,))),
        ("a >= .5", Condition(Relation.GT_EQ, "a", (0.5,))),
        ("a = 'it''s -- not (over'", Condition(Relation.EQ, "a", ("it's -- not (over",))),
        ("a = true", Condition(Relation.EQ, "a", (True,))),
        ("d > DATE '2026-01-01'", Condition(Relation.GT, "d", ("2026-01-01",))),
        ("d <= timestamp '2026-01-01T00:00:00Z'", Condition(Relation.LT_EQ, "d", ("2026-01-01T00:00:00Z",))),
        ("b IS NULL", B),
        ("b is not null", Condition(Relation.NOT_NULL, "b")),
        ("a IN (1, 'x')", Condition(Relation.IN, "a", (1, "x"))),
        ("a NOT IN (1)", Condition(Relation.NOT_IN, "a", (1,))),
        ("a LIKE 'ab%'", Condition(Relation.STARTS_WITH, "a", ("ab",))),
        ("a NOT LIKE '%'", Condition(Relation.NOT_STARTS_WITH, "a", ("",))),
        ("x.y.z = 1", Condition(Relation.EQ, "x.y.z", (1,))),
        ('"order" = 1', Condition(Relation.EQ, "order", (1,))),
        ('"a ""b""".`c``d` = 1', Condition(Relation.EQ, 'a "b".c`d', (1,))),
        ("a = 1 AND b IS NULL OR a = 1", AnyOf((AllOf((A, B)), A))),
        ("a = 1 AND (b IS NULL OR a = 1)", AllOf((A, AnyOf((B, A))))),
        ("NOT a = 1 AND b IS NULL", AllOf((NotSo(A), B))),
        ("NOT NOT (a = 1)", A),
        (
            "a BETWEEN 1 AND 2 AND b IS NULL",
            AllOf((AllOf((Condition(Relation.GT_EQ, "a", (1,)), Condition(Relation.LT_EQ, "a", (2,)))), B)),
        ),
        (
            "a NOT BETWEEN 1 AND 2",
            NotSo(AllOf((Condition(Relation.GT_EQ, "a", (1,)), Condition(Relation.LT_EQ, "a", (2,))))),
        ),
    ],
)
def test_conditions(text: str, expected: RowFilter) -> None:
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
def test_what_is_no_condition_is_refused_with_its_path(text: str) -> None:
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
def test_noise_is_refused_and_never_breaks(text: str) -> None:
    with contextlib.suppress(InvalidPolicy):
        read(text)


def written(one: RowFilter) -> str:
    match one:
        case Constant():
            return str(one.value).upper()
        case AllOf():
            return "(" + " AND ".join(map(written, one.operands)) + ")"
        case AnyOf():
            return "(" + " OR ".join(map(written, one.operands)) + ")"
        case NotSo():
            return f"NOT ({written(one.operand)})"
        case Condition():
            column = '"' + one.column.replace('"', '""') + '"'
            if one.relation is Relation.IS_NULL:
                return f"{column} IS NULL"
            return f"{column} IN ({', '.join(map(_value, one.values))})"


def _value(value: Any) -> str:
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)


TEXTS = st.text(st.characters(codec="utf-8"), min_size=1)
FILTERS: st.SearchStrategy[RowFilter] = st.recursive(
    st.builds(
        lambda name, values: Condition(Relation.IN, name, tuple(values)),
        TEXTS,
        st.lists(TEXTS | st.integers(), min_size=1),
    )
    | st.builds(lambda name: Condition(Relation.IS_NULL, name), TEXTS),
    lambda inner: (
        st.builds(lambda some: AllOf(tuple(some)), st.lists(inner, min_size=2, max_size=3))
        | st.builds(lambda some: AnyOf(tuple(some)), st.lists(inner, min_size=2, max_size=3))
        | st.builds(NotSo, st.builds(lambda name: Condition(Relation.IS_NULL, name), TEXTS))
    ),
    max_leaves=8,
)


@given(FILTERS)
def test_what_is_written_is_read(one: RowFilter) -> None:
    assert read(written(one)) == one
