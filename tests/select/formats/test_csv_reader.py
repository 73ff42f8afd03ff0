"""The fast CSV reader equals the exact one, for any options, data and chunking."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakebed.core.errors import SelectError
from lakebed.select.errors import SelectCode, failure
from lakebed.select.formats.csv_reader import CsvReader, cut_records
from lakebed.select.formats.csv_records import read_records
from lakebed.select.model import CsvInput, CsvOutput, SelectRequest
from lakebed.select.request_checks import check_request

NAMES = ["_1", "_2", "_3"]

options = st.builds(
    CsvInput,
    comments=st.sampled_from(["#", "", "%"]),
    quote=st.sampled_from(['"', "'", ""]),
    escape=st.sampled_from(['"', "\\", "'", ""]),
    field_delimiter=st.sampled_from([",", "\t", "|", "::", "¦"]),
    record_delimiter=st.sampled_from(["\n", "\r\n", ";", "\x1e", "|"]),
    allow_quoted_record_delimiter=st.booleans(),
)


def is_possible(chosen: CsvInput) -> bool:
    try:
        check_request(SelectRequest("", chosen, CsvOutput()))
    except SelectError:
        return False
    return True


def read_exactly(data: bytes, chosen: CsvInput) -> list[list[str | None]]:
    records = list(read_records(data.decode(), chosen))
    if any(len(record) > len(NAMES) for record in records):
        raise failure(SelectCode.CSV_PARSING_ERROR, "too many fields")
    return [[*record, *[None] * (len(NAMES) - len(record))] for record in records]


def outcome(read: Callable[[bytes, CsvInput], list[list[str | None]]], data: bytes, chosen: CsvInput) -> object:
    """The records, or the error code."""
    try:
        return read(data, chosen)
    except SelectError as refused:
        return refused.code


def read_fast(data: bytes, chosen: CsvInput) -> list[list[str | None]]:
    batch = CsvReader(chosen, NAMES).read(data, NAMES)
    return [list(row.values()) for row in batch.to_pylist()]


@pytest.mark.slow
@settings(max_examples=400)
@given(st.data())
def test_fast_reader_equals_the_exact_one(data: st.DataObject) -> None:
    chosen = data.draw(options.filter(is_possible))
    alphabet = [
        "a",
        "é",
        " ",
        "#",
        "%",
        '"',
        "'",
        "\\",
        "\n",
        "\r",
        "\x1f",
        chosen.field_delimiter,
        chosen.field_delimiter,
        chosen.record_delimiter,
        chosen.record_delimiter,
    ]
    text = "".join(data.draw(st.lists(st.sampled_from(alphabet), max_size=24))).encode()
    assert outcome(read_fast, text, chosen) == outcome(read_exactly, text, chosen)


@pytest.mark.parametrize("data", [b",a','", b"',a',b\n','", b"a'\n'\n", b"'\na',\n"])
def test_unterminated_quote_is_detected_after_a_literal_quote(data: bytes) -> None:
    chosen = CsvInput(quote="'", escape='"', allow_quoted_record_delimiter=True)
    assert outcome(read_fast, data, chosen) == outcome(read_exactly, data, chosen)


@given(st.data())
def test_blocks_are_cut_between_records(data: st.DataObject) -> None:
    chosen = data.draw(options.filter(is_possible))
    quote = chosen.quote
    field = st.text("ab " + chosen.record_delimiter if chosen.allow_quoted_record_delimiter else "ab ", max_size=4)
    table = data.draw(st.lists(st.lists(field, min_size=1, max_size=3), min_size=1, max_size=5))
    if quote:
        lines = [chosen.field_delimiter.join(f"{quote}{value}{quote}" for value in record) for record in table]
    else:
        lines = [
            chosen.field_delimiter.join(value.replace(chosen.record_delimiter, "") or "x" for value in record)
            for record in table
        ]
    text = chosen.record_delimiter.join([*lines, ""])
    at = data.draw(st.integers(0, len(text)))
    part = text[:at].encode()
    whole = cut_records(chosen)(part)
    expected = list(read_records(text, chosen))
    first, rest = part[:whole].decode(), text.encode()[whole:].decode()
    assert [*read_records(first, chosen), *read_records(rest, chosen)] == expected


def test_record_may_have_fewer_fields_but_not_more() -> None:
    assert read_fast(b"1,2\n1,2,3\n", CsvInput()) == [["1", "2", None], ["1", "2", "3"]]
    with pytest.raises(SelectError) as raised:
        read_fast(b"1,2,3,4\n", CsvInput())
    assert raised.value.code == "CSVParsingError"


def test_invalid_utf8_is_rejected() -> None:
    with pytest.raises(SelectError) as raised:
        read_fast(b"a,b,\xff\n", CsvInput())
    assert raised.value.code == "InvalidTextEncoding"


def test_records_are_counted_without_columns() -> None:
    batch = CsvReader(CsvInput(), NAMES).read(b"1,2,3\n4,5,6\n", [])
    assert (batch.num_rows, batch.num_columns) == (2, 0)
