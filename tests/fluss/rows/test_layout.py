from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.fluss.rows.fields import RowFormat
from lakebed.fluss.rows.layout import RowLayout
from lakebed.fluss.schema import Schema
from lakebed.fluss.types import DataType, TypeRoot

from ..strategies import rows, schemas

FORMATS = list(RowFormat)


def layout(format_: RowFormat, schema: Schema) -> RowLayout:
    return RowLayout(format_, [column.type for column in schema.columns])


@pytest.mark.slow
@pytest.mark.parametrize("format_", FORMATS)
@given(data=st.data())
def test_row_survives_encoding(format_: RowFormat, data: st.DataObject) -> None:
    schema = data.draw(schemas())
    row = data.draw(rows(schema))
    codec = layout(format_, schema)
    if format_ is RowFormat.INDEXED:
        row = tuple(fit_char(column.type, value) for column, value in zip(schema.columns, row, strict=True))
    assert codec.decode(codec.encode(row)) == row


def fit_char(type_: DataType, value: Any) -> Any:
    """Fit a value into an indexed CHAR(n): n bytes, without trailing zeros."""
    if value is None:
        return None
    match type_:
        case DataType(root=TypeRoot.CHAR):
            return value.encode()[: type_.length].decode(errors="ignore").rstrip("\0")
        case DataType(root=TypeRoot.ROW):
            return tuple(fit_char(field.type, each) for field, each in zip(type_.fields, value, strict=True))
        case DataType(root=TypeRoot.ARRAY, element=DataType() as element):
            return [fit_char(element, each) for each in value]
        case DataType(root=TypeRoot.MAP, key=DataType() as key, value=DataType() as of):
            return [(fit_char(key, a), fit_char(of, b)) for a, b in value]
    return value


@pytest.mark.slow
@pytest.mark.parametrize("format_", FORMATS)
@given(data=st.data())
def test_fields_are_reassembled_to_the_same_row(format_: RowFormat, data: st.DataObject) -> None:
    schema = data.draw(schemas())
    codec = layout(format_, schema)
    row = codec.encode([fit_char(c.type, v) for c, v in zip(schema.columns, data.draw(rows(schema)), strict=True)])
    assert codec.join(codec.split(row)) == row


@pytest.mark.slow
@pytest.mark.parametrize("format_", FORMATS)
@given(data=st.data(), noise=st.binary(max_size=40))
def test_noise_is_only_corrupt(format_: RowFormat, data: st.DataObject, noise: bytes) -> None:
    try:
        layout(format_, data.draw(schemas())).decode(noise)
    except FlussError as failure:
        assert failure.code is ErrorCode.CORRUPT_RECORD  # noqa: PT017


def test_bytes_of_the_compacted_format() -> None:
    types = [
        DataType(TypeRoot.INT),
        DataType(TypeRoot.STRING),
        DataType(TypeRoot.BIGINT),
        DataType(TypeRoot.DECIMAL, precision=20, scale=2),
        DataType(TypeRoot.TIMESTAMP, precision=6),
        DataType(TypeRoot.BOOLEAN),
    ]
    codec = RowLayout(RowFormat.COMPACTED, types)
    assert codec.encode([1, "ab", None, Decimal("1.28"), (300, 5000), True]) == bytes.fromhex(
        "0401026162020080ac02882701"
    )
    assert codec.encode([-1, "", -1, None, None, None])[1:7] == bytes.fromhex("ffffffff0f00")


def test_bytes_of_the_indexed_format() -> None:
    types = [
        DataType(TypeRoot.STRING),
        DataType(TypeRoot.INT),
        DataType(TypeRoot.BYTES),
        DataType(TypeRoot.CHAR, length=3),
    ]
    codec = RowLayout(RowFormat.INDEXED, types)
    assert codec.encode([None, 7, b"xyz", "a"]) == bytes.fromhex("0103000000000000000700000078797a610000")


def test_short_text_of_an_array_is_inline() -> None:
    type_ = DataType(TypeRoot.ARRAY, element=DataType(TypeRoot.STRING))
    codec = RowLayout(RowFormat.COMPACTED, [type_])
    row = codec.encode([["ab", None, "longer than seven"]])
    array = row[2:]
    assert array[:8] == bytes.fromhex("0300000002000000")
    assert array[8:16] == b"ab\0\0\0\0\0\x82"
    assert array[24:32] == bytes.fromhex("1100000020000000")
    assert array[32:].startswith(b"longer than seven")
    assert len(array) % 8 == 0
