from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.streams.failures import Reason, StreamFailure
from lakebed.streams.keys.columns import Rows, check_rows, decode_columns
from lakebed.streams.keys.fields import RowFormat
from lakebed.streams.keys.rows import RowLayout
from lakebed.streams.types import DataType, Root

from ..strategies import rows, schemas
from .plain_rows import arrow_columns
from .test_rows import fit_char

FORMATS = list(RowFormat)


@pytest.mark.slow
@pytest.mark.parametrize("format_", FORMATS)
@given(data=st.data())
def test_columns_are_those_that_a_plain_decoder_finds(format_: RowFormat, data: st.DataObject) -> None:
    schema = data.draw(schemas())
    types = [column.type for column in schema.columns]
    values = data.draw(st.lists(rows(schema), max_size=6))
    layout = RowLayout(format_, types)
    encoded = [
        layout.encode([fit_char(type_, value) for type_, value in zip(types, row, strict=True)]) for row in values
    ]
    columns = decode_columns(format_, types, Rows.of(encoded))
    for column in columns:
        column.validate(full=True)
    assert [column.to_pylist() for column in columns] == [
        column.to_pylist() for column in arrow_columns(format_, types, encoded)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("format_", FORMATS)
@given(data=st.data())
def test_noise_is_corrupt_and_nothing_worse(format_: RowFormat, data: st.DataObject) -> None:
    schema = data.draw(schemas())
    types = [column.type for column in schema.columns]
    noise = Rows.of(data.draw(st.lists(st.binary(min_size=1, max_size=40), min_size=1, max_size=4)))
    try:
        decode_columns(format_, types, noise)
    except StreamFailure as failure:
        assert failure.reason is Reason.CORRUPT_RECORD  # noqa: PT017


def test_an_array_without_its_count_does_not_pass() -> None:
    types = [DataType(Root.ARRAY, element=DataType(Root.BOOLEAN))]
    with pytest.raises(StreamFailure, match="field is no ARRAY") as failed:
        decode_columns(RowFormat.COMPACTED, types, Rows.of([b"\0\0"]))
    assert failed.value.reason is Reason.CORRUPT_RECORD


@pytest.mark.parametrize("cut", range(1, 12))
def test_a_row_that_was_cut_short_does_not_pass(cut: int) -> None:
    types = [DataType(Root.INT), DataType(Root.STRING), DataType(Root.BIGINT), DataType(Root.DOUBLE)]
    row = RowLayout(RowFormat.COMPACTED, types).encode([-5, "four", -1, 0.5])
    whole = RowLayout(RowFormat.COMPACTED, types).encode([1, "", 2, 0.25])
    check_rows(RowFormat.COMPACTED, types, Rows.of([row, whole]))
    with pytest.raises(StreamFailure) as failed:
        check_rows(RowFormat.COMPACTED, types, Rows.of([row[:-cut], whole]))
    assert failed.value.reason is Reason.CORRUPT_RECORD


def test_a_number_without_end_does_not_pass() -> None:
    types = [DataType(Root.INT)]
    with pytest.raises(StreamFailure):
        check_rows(RowFormat.COMPACTED, types, Rows.of([b"\0" + b"\xff" * 12]))
    with pytest.raises(StreamFailure):
        check_rows(RowFormat.COMPACTED, [DataType(Root.BIGINT)], Rows.of([b"\0" + b"\xff" * 12]))
