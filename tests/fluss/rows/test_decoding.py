from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.fluss.rows.decoding import RowBuffer, check_rows, decode_columns
from lakebed.fluss.rows.fields import RowFormat
from lakebed.fluss.rows.layout import RowLayout
from lakebed.fluss.types import DataType, TypeRoot

from ..strategies import rows, schemas
from .plain_rows import arrow_columns
from .test_layout import fit_char

FORMATS = list(RowFormat)


@pytest.mark.slow
@pytest.mark.parametrize("format_", FORMATS)
@given(data=st.data())
def test_columns_equal_those_of_a_simple_decoder(format_: RowFormat, data: st.DataObject) -> None:
    schema = data.draw(schemas())
    types = [column.type for column in schema.columns]
    values = data.draw(st.lists(rows(schema), max_size=6))
    layout = RowLayout(format_, types)
    encoded = [
        layout.encode([fit_char(type_, value) for type_, value in zip(types, row, strict=True)]) for row in values
    ]
    columns = decode_columns(format_, types, RowBuffer.of(encoded))
    for column in columns:
        column.validate(full=True)
    assert [column.to_pylist() for column in columns] == [
        column.to_pylist() for column in arrow_columns(format_, types, encoded)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("format_", FORMATS)
@given(data=st.data())
def test_noise_is_only_corrupt(format_: RowFormat, data: st.DataObject) -> None:
    schema = data.draw(schemas())
    types = [column.type for column in schema.columns]
    noise = RowBuffer.of(data.draw(st.lists(st.binary(min_size=1, max_size=40), min_size=1, max_size=4)))
    try:
        decode_columns(format_, types, noise)
    except FlussError as failure:
        assert failure.code is ErrorCode.CORRUPT_RECORD  # noqa: PT017


def test_array_without_its_count_is_rejected() -> None:
    types = [DataType(TypeRoot.ARRAY, element=DataType(TypeRoot.BOOLEAN))]
    with pytest.raises(FlussError, match="invalid field") as failed:
        decode_columns(RowFormat.COMPACTED, types, RowBuffer.of([b"\0\0"]))
    assert failed.value.code is ErrorCode.CORRUPT_RECORD


@pytest.mark.parametrize("cut", range(1, 12))
def test_truncated_row_is_rejected(cut: int) -> None:
    types = [DataType(TypeRoot.INT), DataType(TypeRoot.STRING), DataType(TypeRoot.BIGINT), DataType(TypeRoot.DOUBLE)]
    row = RowLayout(RowFormat.COMPACTED, types).encode([-5, "four", -1, 0.5])
    whole = RowLayout(RowFormat.COMPACTED, types).encode([1, "", 2, 0.25])
    check_rows(RowFormat.COMPACTED, types, RowBuffer.of([row, whole]))
    with pytest.raises(FlussError) as failed:
        check_rows(RowFormat.COMPACTED, types, RowBuffer.of([row[:-cut], whole]))
    assert failed.value.code is ErrorCode.CORRUPT_RECORD


def test_unterminated_number_is_rejected() -> None:
    types = [DataType(TypeRoot.INT)]
    with pytest.raises(FlussError):
        check_rows(RowFormat.COMPACTED, types, RowBuffer.of([b"\0" + b"\xff" * 12]))
    with pytest.raises(FlussError):
        check_rows(RowFormat.COMPACTED, [DataType(TypeRoot.BIGINT)], RowBuffer.of([b"\0" + b"\xff" * 12]))
