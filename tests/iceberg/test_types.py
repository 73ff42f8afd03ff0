from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.errors import InvalidInput
from lakebed.iceberg.types import parse_primitive


@pytest.mark.parametrize(
    ("text", "name", "since"),
    [
        ("boolean", "boolean", 1),
        ("INT", "int", 1),
        ("decimal(38,10)", "decimal", 1),
        ("decimal( 9 , 2 )", "decimal", 1),
        ("fixed[16]", "fixed", 1),
        ("timestamp", "timestamp", 1),
        ("timestamp_ns", "timestamp_ns", 3),
        ("timestamptz_ns", "timestamptz_ns", 3),
        ("unknown", "unknown", 3),
        ("variant", "variant", 3),
        ("geometry", "geometry", 3),
        ("geometry(srid:4326)", "geometry", 3),
        ("geography", "geography", 3),
        ("geography(srid:4326)", "geography", 3),
        ("geography(OGC:CRS84, karney)", "geography", 3),
    ],
)
def test_types_are_parsed(text: str, name: str, since: int) -> None:
    primitive = parse_primitive(text)
    assert (primitive.name, primitive.since_version) == (name, since)


def test_parameters_are_parsed() -> None:
    assert parse_primitive("decimal(9,2)").scale == 2
    assert parse_primitive("fixed[20]").length == 20


@pytest.mark.parametrize(
    "text",
    [
        "",
        "integer",
        "decimal",
        "decimal(39,0)",
        "decimal(0,0)",
        "fixed",
        "fixed[-1]",
        "list",
        "geography(a,flat)",
        "int ",
    ],
)
def test_other_types_are_rejected(text: str) -> None:
    with pytest.raises(InvalidInput, match="type"):
        parse_primitive(text)


@given(st.text())
def test_noise_is_rejected_or_parsed_and_never_crashes(text: str) -> None:
    with suppress(InvalidInput):
        assert parse_primitive(text).since_version in (1, 3)
