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


def test_blank_lines_and_comments_are_skipped() -> None:
    assert records("\n#no\na\n\r\n#no\nb#yes\n") == [["a"], ["b#yes"]]


def test_both_line_ends_terminate_a_record() -> None:
    assert records("a,b\r\nc,d") == [["a", "b"], ["c", "d"]]


def test_quoted_fields_may_contain_delimiters_and_quotes() -> None:
    assert records('"a,b","c""d"\n') == [["a,b", 'c"d']]


def test_escape_character_applies_only_within_quotes() -> None:
    options = CsvInput(escape="\\")
    assert records('"a\\"b\\\\",\\c\n', options) == [['a"b\\', "\\c"]]


def test_text_after_a_closing_quote_belongs_to_the_field() -> None:
    assert records('"a"b,c"d"\n') == [["ab", 'c"d"']]


def test_quoting_can_be_disabled() -> None:
    assert records('"a,b"\n', CsvInput(quote="")) == [['"a', 'b"']]


def test_delimiters_may_have_several_characters() -> None:
    assert records("a::b|;c|;", CsvInput(field_delimiter="::", record_delimiter="|;")) == [["a", "b"], ["c"]]


def test_quoted_record_delimiter_ends_the_record_unless_allowed() -> None:
    with pytest.raises(SelectError) as raised:
        records('"a\nb"\n')
    assert raised.value.code == "CSVEscapingRecordDelimiter"
    assert records('"a\nb",c\nd\n', ALLOWED) == [["a\nb", "c"], ["d"]]


def test_unterminated_quote_is_rejected() -> None:
    with pytest.raises(SelectError) as raised:
        records('a\n"b\n', ALLOWED)
    assert raised.value.code == "CSVUnescapedQuote"


def test_record_has_a_size_limit() -> None:
    with pytest.raises(SelectError) as raised:
        records("x" * (1024 * 1024 + 1))
    assert raised.value.code == "OverMaxRecordSize"


fields = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
tables = st.lists(st.lists(fields, min_size=1, max_size=4), max_size=6)


@given(tables, st.sampled_from(",;\t|"), st.sampled_from("\"'"))
def test_output_of_the_standard_library_is_read(table: list[list[str]], delimiter: str, quote: str) -> None:
    written = io.StringIO()
    csv.writer(written, delimiter=delimiter, quotechar=quote, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(
        table
    )
    options = CsvInput(
        field_delimiter=delimiter, quote=quote, escape=quote, allow_quoted_record_delimiter=True, comments=""
    )
    assert records(written.getvalue(), options) == table
