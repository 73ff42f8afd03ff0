"""Avro's encoding of single values, and invalid encodings."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.errors import InvalidInput
from lakebed.iceberg.avro.binary import (
    read_boolean,
    read_bytes,
    read_count,
    read_double,
    read_float,
    read_long,
    read_string,
)

Read = Callable[[bytes, int], tuple[Any, int]]


def written(kind: str, value: object) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, kind, value)
    return out.getvalue()


@pytest.mark.parametrize(
    ("read", "kind", "values"),
    [
        (read_long, "long", st.integers(-(2**63), 2**63 - 1)),
        (read_long, "int", st.integers(-(2**31), 2**31 - 1)),
        (read_bytes, "bytes", st.binary(max_size=200)),
        (read_string, "string", st.text(max_size=100)),
        (read_boolean, "boolean", st.booleans()),
        (read_float, "float", st.floats(width=32, allow_nan=False)),
        (read_double, "double", st.floats(allow_nan=False)),
    ],
)
def test_values_round_trip(read: Read, kind: str, values: st.SearchStrategy[object]) -> None:
    @given(values, st.binary(max_size=9), st.binary(max_size=9))
    def comes_back(value: object, before: bytes, after: bytes) -> None:
        text = written(kind, value)
        assert read(before + text + after, len(before)) == (value, len(before) + len(text))
        for size in range(len(text)):
            with pytest.raises(IndexError):
                read(before + text[:size], len(before))

    comes_back()


@pytest.mark.parametrize(
    ("read", "data", "reason"),
    [
        (read_long, b"\xff" * 9 + b"\x02", "longer than 64 bits"),
        (read_long, b"\x80" * 10 + b"\x00", "longer than 64 bits"),
        (read_bytes, written("long", -1), "negative length"),
        (read_string, written("long", -1), "negative length"),
        (read_boolean, b"\x02", "neither 0 nor 1"),
    ],
)
def test_invalid_values_are_rejected(read: Read, data: bytes, reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        read(data, 0)


def test_longest_numbers_are_decoded() -> None:
    assert read_long(b"\xff" * 9 + b"\x01", 0) == (-(2**63), 10)
    assert read_long(b"\xfe" + b"\xff" * 8 + b"\x01", 0) == (2**63 - 1, 10)


def test_count_with_a_block_size_is_decoded() -> None:
    assert read_count(written("long", 3) + b"xyz", 0) == (3, 1)
    assert read_count(written("long", -3) + written("long", 9) + b"xyz", 0) == (3, 2)


@pytest.mark.parametrize("count", [4, 2**62, -4, -(2**63)])
def test_count_of_more_items_than_bytes_is_rejected(count: int) -> None:
    with pytest.raises(IndexError):
        read_count(written("long", count) + b"\x00xyz"[count > 0 :], 0)
