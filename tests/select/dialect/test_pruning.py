"""Comparisons of single columns in a condition."""

from __future__ import annotations

import pytest

from lakebed.core.errors import SelectError
from lakebed.select.dialect.paths import FieldName
from lakebed.select.dialect.pruning import ColumnComparison, comparisons
from lakebed.select.dialect.statement import read_statement

TABLE = ("lake", "Orders")


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("s.a = 1", [ColumnComparison(FieldName("a"), "=", 1)]),
        (
            "s.a >= -1 AND (b < 'x')",
            [ColumnComparison(FieldName("a"), ">=", -1), ColumnComparison(FieldName("b"), "<", "x")],
        ),
        ("5 > s.a", [ColumnComparison(FieldName("a"), "<", 5)]),
        ("s.a = 1 OR s.b = 2", []),
        ("NOT s.a = 1", []),
        ("s.a = 1.5 AND s.a = s.b AND s.a + 1 = 2 AND s.a.b = 1 AND s.a IS NULL", []),
        ("s.a <> 1", []),
    ],
)
def test_comparisons_with_constants_are_found(condition: str, expected: list[ColumnComparison]) -> None:
    assert comparisons(read_statement(f"SELECT * FROM S3Object s WHERE {condition}")) == expected


def test_statement_without_condition_has_no_comparisons() -> None:
    assert comparisons(read_statement("SELECT * FROM S3Object s")) == []


@pytest.mark.parametrize(
    ("source", "alias"),
    [
        ("Orders", "Orders"),
        ("orders", "Orders"),
        ("lake.orders", "Orders"),
        ("lake.orders AS o", "o"),
        ("table", "table"),
        ("TABLE t", "t"),
        ("S3Object", None),
    ],
)
def test_table_may_be_named_in_several_ways(source: str, alias: str | None) -> None:
    found = read_statement(f"SELECT * FROM {source} WHERE 1 = 1", TABLE)
    assert (found.alias.text if found.alias else None) == alias


@pytest.mark.parametrize("source", ["other", "lake.other", "lake"])
def test_other_tables_are_rejected(source: str) -> None:
    with pytest.raises(SelectError):
        read_statement(f"SELECT * FROM {source}", TABLE)
