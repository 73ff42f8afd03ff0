from __future__ import annotations

import pytest

from lakebed.core.errors import InvalidInput
from lakebed.iceberg.schema import parse_schema
from lakebed.iceberg.transforms import check_source, parse_transform

from .samples import column, dump, list_of, schema

PRIMITIVES = [
    "boolean",
    "int",
    "long",
    "float",
    "double",
    "decimal",
    "date",
    "time",
    "timestamp",
    "timestamptz",
    "timestamp_ns",
    "timestamptz_ns",
    "string",
    "uuid",
    "fixed",
    "binary",
    "unknown",
    "variant",
    "geometry",
    "geography",
]
INSTANTS = {"timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"}


@pytest.mark.parametrize(
    ("transform", "sources"),
    [
        ("identity", set(PRIMITIVES) - {"variant", "geometry", "geography"}),
        ("void", set(PRIMITIVES)),
        ("year", INSTANTS | {"date"}),
        ("month", INSTANTS | {"date"}),
        ("day", INSTANTS | {"date"}),
        ("hour", INSTANTS),
        ("bucket[16]", INSTANTS | {"int", "long", "decimal", "date", "time", "string", "uuid", "fixed", "binary"}),
        ("truncate[4]", {"int", "long", "decimal", "string", "binary"}),
        ("zorder", set()),
    ],
)
def test_transforms_accept_their_source_types(transform: str, sources: set[str]) -> None:
    assert {name for name in PRIMITIVES if parse_transform(transform).accepts(name)} == sources


@pytest.mark.parametrize("text", ["bucket", "bucket[0]", "bucket[-1]", "bucket[9999999999]", "truncate[x]", "days", ""])
def test_unknown_transforms_are_preserved(text: str) -> None:
    assert parse_transform(text).family is None
    assert parse_transform(text).text == text


def test_transforms_are_parsed_case_insensitively() -> None:
    assert parse_transform("Bucket[016]") == parse_transform("bucket[16]")


PARSED = parse_schema(dump(schema(column(1, "a", "string"), column(2, "b", list_of(3, "int")))), "schema")


def test_source_column_is_found() -> None:
    assert check_source(parse_transform("truncate[3]"), (1,), PARSED, "it").name == "a"


@pytest.mark.parametrize(
    ("transform", "sources", "message"),
    [
        ("day", (1,), "it does not support column a. transform=day type=string"),
        ("identity", (2,), "it does not support column b. transform=identity type=nested"),
        ("identity", (9,), "it has a source column that the current schema does not have. id=9"),
        ("identity", (1, 3), "it must have exactly one source column"),
        ("zorder", (1,), "it has an unknown transform. transform=zorder"),
    ],
)
def test_unsupported_sources_are_rejected(transform: str, sources: tuple[int, ...], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        check_source(parse_transform(transform), sources, PARSED, "it")
