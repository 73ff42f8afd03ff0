from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.catalog.restrictions.spark_sql import SqlColumn, filter_sql, literal_sql, masked_sql, quoted_name
from lakebed.core.errors import InvalidPolicy
from lakebed.governance.policies.column_masks import Mask, MaskKind, read_masks
from lakebed.governance.policies.row_filters import read_filter
from lakebed.iceberg.types import StructType

TYPES = {
    "s": "string",
    "n": "long",
    "x": "double",
    "f": "boolean",
    "d": "date",
    "t": "timestamp",
    "z": "timestamptz",
    "m": "decimal(9, 2)",
    "u": "uuid",
    "b": "binary",
}
NESTED = StructType(())


def find(name: str) -> SqlColumn:
    return SqlColumn(quoted_name(name), TYPES[name])


def sql(document: Any) -> str:
    return filter_sql(read_filter(document, ()), find)


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (True, "TRUE"),
        (False, "FALSE"),
        ({"type": "eq", "term": "s", "value": "EU"}, "(`s` = CAST(X'4555' AS STRING))"),
        ({"type": "not-eq", "term": "n", "value": -5}, "(`n` <> CAST('-5' AS BIGINT))"),
        ({"type": "lt", "term": "x", "value": 1}, "(`x` < CAST('1.0' AS DOUBLE))"),
        ({"type": "gt-eq", "term": "x", "value": 1e-7}, "(`x` >= CAST('1e-07' AS DOUBLE))"),
        ({"type": "eq", "term": "f", "value": True}, "(`f` = TRUE)"),
        ({"type": "lt-eq", "term": "d", "value": "2026-01-02"}, "(`d` <= CAST('2026-01-02' AS DATE))"),
        (
            {"type": "gt", "term": "t", "value": "2026-01-02T03:04:05.5"},
            "(`t` > CAST('2026-01-02 03:04:05.500000' AS TIMESTAMP_NTZ))",
        ),
        (
            {"type": "gt", "term": "z", "value": "2026-01-02T03:04:05+02:00"},
            "(`z` > CAST('2026-01-02 01:04:05+00:00' AS TIMESTAMP))",
        ),
        ({"type": "eq", "term": "m", "value": "12.5"}, "(`m` = CAST('12.5' AS DECIMAL(9, 2)))"),
        ({"type": "eq", "term": "m", "value": 3}, "(`m` = CAST('3' AS DECIMAL(9, 2)))"),
        (
            {"type": "eq", "term": "u", "value": "F79C3E09-677C-4BBD-A479-3F349CB785E7"},
            f"(`u` = CAST(X'{b'f79c3e09-677c-4bbd-a479-3f349cb785e7'.hex()}' AS STRING))",
        ),
        ({"type": "in", "term": "n", "values": [1, 2]}, "(`n` IN (CAST('1' AS BIGINT), CAST('2' AS BIGINT)))"),
        ({"type": "not-in", "term": "s", "values": ["a"]}, "(`s` NOT IN (CAST(X'61' AS STRING)))"),
        ({"type": "starts-with", "term": "s", "value": "a"}, "(startswith(`s`, CAST(X'61' AS STRING)))"),
        ({"type": "not-starts-with", "term": "s", "value": ""}, "(NOT startswith(`s`, CAST(X'' AS STRING)))"),
        ({"type": "is-null", "term": "b"}, "(`b` IS NULL)"),
        ({"type": "not-null", "term": "b"}, "(`b` IS NOT NULL)"),
        ({"type": "is-nan", "term": "x"}, "(isnan(`x`))"),
        ({"type": "not-nan", "term": "x"}, "(NOT isnan(`x`))"),
        (
            {
                "type": "and",
                "left": True,
                "right": {"type": "or", "left": False, "right": {"type": "not", "child": True}},
            },
            "(TRUE AND (FALSE OR (NOT TRUE)))",
        ),
    ],
)
def test_filters_are_rendered_as_sql(document: Any, expected: str) -> None:
    assert sql(document) == expected


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("s", 1),
        ("s", True),
        ("s", "\ud800"),
        ("n", "1"),
        ("n", 1.5),
        ("n", True),
        ("n", 2**63),
        ("x", "1"),
        ("x", 10**400),
        ("f", 1),
        ("f", "true"),
        ("d", "yesterday"),
        ("d", "2026-01-02T00:00:00"),
        ("d", 5),
        ("t", "2026-01-02T03:04:05Z"),
        ("z", "2026-01-02T03:04:05"),
        ("m", "12.345"),
        ("m", "12345678"),
        ("m", "NaN"),
        ("m", "x"),
        ("u", "x"),
        ("b", "x"),
    ],
)
def test_values_of_another_type_are_rejected(column: str, value: Any) -> None:
    with pytest.raises(InvalidPolicy, match=column):
        sql({"type": "eq", "term": column, "value": value})


@pytest.mark.parametrize(
    "document",
    [
        {"type": "is-nan", "term": "s"},
        {"type": "starts-with", "term": "d", "value": "2026-01-01"},
        {"type": "starts-with", "term": "u", "value": "f79c3e09-677c-4bbd-a479-3f349cb785e7"},
    ],
)
def test_operations_unsupported_by_the_type_are_rejected(document: Any) -> None:
    with pytest.raises(InvalidPolicy):
        sql(document)


def test_nested_columns_cannot_be_compared() -> None:
    with pytest.raises(InvalidPolicy):
        literal_sql(NESTED, "a")


def masked(kind: Any, document: Any) -> str:
    (mask,) = read_masks({"c": document}, ()).values()
    return masked_sql(SqlColumn("`c`", kind), mask)


HIDDEN = "IF(FALSE, `c`, NULL)"


@pytest.mark.parametrize(
    ("kind", "mask", "expected"),
    [
        ("string", "null", HIDDEN),
        (NESTED, "null", HIDDEN),
        ("string", {"mask": "constant", "value": "a'b"}, "CAST(X'612762' AS STRING)"),
        ("int", {"mask": "constant", "value": 0}, "CAST('0' AS BIGINT)"),
        ("string", "hash", "sha2(CAST(`c` AS BINARY), 256)"),
        ("string", {"mask": "hash", "salt": "a"}, "sha2(concat(X'61', CAST(`c` AS BINARY)), 256)"),
        ("binary", "hash", "unhex(sha2(CAST(`c` AS BINARY), 256))"),
        (
            "string",
            {"mask": "partial", "first": 1, "last": 2},
            "CASE WHEN char_length(`c`) > 3 THEN concat(left(`c`, 1), '****', right(`c`, 2))"
            " WHEN `c` IS NOT NULL THEN '****' END",
        ),
        ("date", "year", "trunc(`c`, 'YEAR')"),
        ("timestamp", "year", "CAST(date_trunc('YEAR', CAST(`c` AS TIMESTAMP)) AS TIMESTAMP_NTZ)"),
        ("timestamptz", "year", "date_trunc('YEAR', `c`)"),
    ],
)
def test_masks_are_rendered_as_sql(kind: Any, mask: Any, expected: str) -> None:
    assert masked(kind, mask) == expected


@pytest.mark.parametrize(
    ("kind", "mask"),
    [
        ("long", "hash"),
        ("uuid", "hash"),
        (NESTED, "hash"),
        ("long", {"mask": "partial", "first": 1}),
        ("string", "year"),
        ("timestamp_ns", "year"),
        ("long", {"mask": "constant", "value": "x"}),
        ("date", {"mask": "constant", "value": 0}),
        (NESTED, {"mask": "constant", "value": 0}),
    ],
)
def test_mask_of_another_type_yields_null(kind: Any, mask: Any) -> None:
    assert masked(kind, mask) == HIDDEN


PIECES = re.compile(r"`(?:[^`]|``)*`|X'[0-9a-f]*'|'[0-9A-Za-z +:.*-]*'|[A-Za-z_]+\d*|\d+|[(),<>= ]|\*")
"""All tokens of generated SQL."""


@given(st.text(), st.text(), st.text())
def test_policy_text_is_never_interpreted_as_sql(name: str, value: str, salt: str) -> None:
    column = SqlColumn(quoted_name(name), "string")
    try:
        made = filter_sql(read_filter({"type": "eq", "term": name or "x", "value": value}, ()), lambda _: column)
    except InvalidPolicy:
        # Not UTF-8.
        return
    made += masked_sql(column, Mask(MaskKind.HASH, salt=salt)) + masked_sql(
        column, Mask(MaskKind.CONSTANT, value=value)
    )
    # No quote inside the quoted parts ends them, and the rest is fixed text.
    assert PIECES.sub("", made) == ""
    assert quoted_name(name)[1:-1].replace("``", "") == name.replace("`", "")
