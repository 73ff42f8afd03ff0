from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.errors import SelectError
from lakebed.select.formats.csv_records import read_records
from lakebed.select.model import CsvInput

ALLOWED = CsvInput(allow_quoted_record_delimiter=True)


def records(text: str, options: CsvInput | None = None) -> list[list[str]]:
    return list(read_records(text, options or CsvInput()))


def test_fields_and_records_are_split() -> None:
    assert records("a,b\n1,\n,2\n") == [["a", "b"], ["1", ""], ["", "2"]]


def test_blank_lines_and_comments_are_passed_over() -> None:
    assert records("\n#no\na\n\r\n#no\nb#yes\n") == [["a"], ["b#yes"]]


def test_line_ends_of_either_kind_end_a_record() -> None:
    assert records("a,b\r\nc,d") == [["a", "b"], ["c", "d"]]


def test_quotes_keep_delimiters_and_quotes() -> None:
    assert records('"a,b","c""d"\n') == [["a,b", 'c"d']]


def test_an_escape_makes_the_next_character_be_itself_within_quotes_alone() -> None:
    options = CsvInput(escape="\\")
    assert records('"a\\"b\\\\",\\c\n', options) == [['a"b\\', "\\c"]]


def test_what_follows_a_closing_quote_belongs_to_the_field() -> None:
    assert records('"a"b,c"d"\n') == [["ab", 'c"d"']]


def test_quoting_can_be_off() -> None:
    assert records('"a,b"\n', CsvInput(quote="")) == [['"a', 'b"']]


def test_delimiters_may_have_several_characters() -> None:
    assert records("a::b|;c|;", CsvInput(field_delimiter="::", record_delimiter="|;")) == [["a", "b"], ["c"]]


def test_a_quoted_record_delimiter_is_one_unless_allowed() -> None:
    with pytest.raises(SelectError) as raised:
        records('"a\nb"\n')
    assert raised.value.code == "CSVEscapingRecordDelimiter"
    assert records('"a\nb",c\nd\n', ALLOWED) == [["a\nb", "c"], ["d"]]


def test_a_quote_that_is_never_closed_is_told() -> None:
    with pytest.raises(SelectError) as raised:
        records('a\n"b\n', ALLOWED)
    assert raised.value.code == "CSVUnescapedQuote"


def test_a_record_has_a_limit() -> None:
    with pytest.raises(SelectError) as raised:
        records("x" * (1024 * 1024 + 1))
    assert raised.value.code == "OverMaxRecordSize"


fields = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
tables = st.lists(st.lists(fields, min_size=1, max_size=4), max_size=6)


@given(tables, st.sampled_from(",;\t|"), st.sampled_from("\"'"))
def test_what_the_standard_library_writes_is_read(table: list[list[str]], delimiter: str, quote: str) -> None:
    written = io.StringIO()
    csv.writer(written, delimiter=delimiter, quotechar=quote, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(
        table
    )
    options = CsvInput(
        field_delimiter=delimiter, quote=quote, escape=quote, allow_quoted_record_delimiter=True, comments=""
    )
    assert records(written.getvalue(), options) == table
