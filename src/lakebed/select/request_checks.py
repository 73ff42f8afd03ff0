"""What a request must be before anything is read: characters that CSV can do with, formats that go together."""

from __future__ import annotations

from .errors import SelectCode, failure
from .model import Compression, CsvInput, CsvOutput, HeaderUse, JsonInput, JsonKind, SelectRequest


def check_request(request: SelectRequest) -> None:
    """Raise SelectError for options that cannot be, or not together."""
    given = request.input
    if isinstance(given, CsvInput):
        _check_csv(given.field_delimiter, given.record_delimiter, given.quote, given.escape)
        _check_character("Comments", given.comments)
        if given.comments and given.comments in (given.quote, given.field_delimiter, given.record_delimiter):
            raise _invalid("Comments", given.comments, "another character means something already")
    elif not isinstance(given, JsonInput) and request.compression is not Compression.NONE:
        raise failure(
            SelectCode.INVALID_COMPRESSION_FORMAT, "a format with compression of its own is not compressed as a whole"
        )
    if isinstance(request.output, CsvOutput):
        out = request.output
        _check_csv(out.field_delimiter, out.record_delimiter, out.quote, out.escape)
    if request.scan_range is not None:
        _check_range(request)


def _check_range(request: SelectRequest) -> None:
    given = request.input
    if request.compression is not Compression.NONE:
        raise failure(SelectCode.UNSUPPORTED_SCAN_RANGE_INPUT, "a compressed object has no scan ranges")
    if isinstance(given, JsonInput) and given.kind is not JsonKind.LINES:
        raise failure(SelectCode.UNSUPPORTED_SCAN_RANGE_INPUT, "JSON has scan ranges by lines alone")
    if isinstance(given, CsvInput) and given.allow_quoted_record_delimiter:
        raise failure(SelectCode.UNSUPPORTED_SCAN_RANGE_INPUT, "with quoted record delimiters there are no scan ranges")


def _check_csv(field: str, record: str, quote: str, escape: str) -> None:
    if not field:
        raise _invalid("FieldDelimiter", field, "there must be one")
    if not 1 <= len(record.encode()) <= 2:
        raise _invalid("RecordDelimiter", record, "it has one or two bytes")
    if field in record or record in field:
        raise _invalid("RecordDelimiter", record, "it is not within the field delimiter, nor around it")
    if "\n" in field or "\r" in field:
        raise _invalid("FieldDelimiter", field, "a line end is not one")
    _check_character("QuoteCharacter", quote)
    _check_character("QuoteEscapeCharacter", escape)
    for name, character in (("QuoteCharacter", quote), ("QuoteEscapeCharacter", escape)):
        if character and (character in field or character in record):
            raise _invalid(name, character, "a delimiter is not one")


def _check_character(name: str, value: str) -> None:
    if len(value) > 1:
        raise _invalid(name, value, "it is one character")
    if value in ("\n", "\r"):
        raise _invalid(name, value, "a line end is not one")


def _invalid(name: str, value: str, why: str) -> Exception:
    return failure(SelectCode.INVALID_REQUEST_PARAMETER, f"{name} cannot be this: {why}. value={value!r}")


__all__ = ["HeaderUse", "check_request"]
