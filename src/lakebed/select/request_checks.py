"""Validates requests before the object is read: CSV characters, and combinations of formats and options."""

from __future__ import annotations

from .errors import SelectCode, failure
from .model import Compression, CsvInput, CsvOutput, HeaderUse, JsonInput, JsonKind, SelectRequest


def check_request(request: SelectRequest) -> None:
    """Raise SelectError for invalid options or combinations."""
    given = request.input
    if isinstance(given, CsvInput):
        _check_csv(given.field_delimiter, given.record_delimiter, given.quote, given.escape)
        _check_character("Comments", given.comments)
        if given.comments and given.comments in (given.quote, given.field_delimiter, given.record_delimiter):
            raise _invalid("Comments", given.comments, "it is used for something else")
    elif not isinstance(given, JsonInput) and request.compression is not Compression.NONE:
        raise failure(
            SelectCode.INVALID_COMPRESSION_FORMAT, "a format with internal compression cannot be compressed as a whole"
        )
    if isinstance(request.output, CsvOutput):
        out = request.output
        _check_csv(out.field_delimiter, out.record_delimiter, out.quote, out.escape)
    if request.scan_range is not None:
        _check_range(request)


def _check_range(request: SelectRequest) -> None:
    given = request.input
    if request.compression is not Compression.NONE:
        raise failure(SelectCode.UNSUPPORTED_SCAN_RANGE_INPUT, "scan ranges require an uncompressed object")
    if isinstance(given, JsonInput) and given.kind is not JsonKind.LINES:
        raise failure(SelectCode.UNSUPPORTED_SCAN_RANGE_INPUT, "scan ranges of JSON require type LINES")
    if isinstance(given, CsvInput) and given.allow_quoted_record_delimiter:
        raise failure(SelectCode.UNSUPPORTED_SCAN_RANGE_INPUT, "scan ranges do not support quoted record delimiters")


def _check_csv(field: str, record: str, quote: str, escape: str) -> None:
    if not field:
        raise _invalid("FieldDelimiter", field, "it must not be empty")
    if not 1 <= len(record.encode()) <= 2:
        raise _invalid("RecordDelimiter", record, "it must have one or two bytes")
    if field in record or record in field:
        raise _invalid("RecordDelimiter", record, "it must not contain the field delimiter or be part of it")
    if "\n" in field or "\r" in field:
        raise _invalid("FieldDelimiter", field, "it must not contain a line end")
    _check_character("QuoteCharacter", quote)
    _check_character("QuoteEscapeCharacter", escape)
    for name, character in (("QuoteCharacter", quote), ("QuoteEscapeCharacter", escape)):
        if character and (character in field or character in record):
            raise _invalid(name, character, "it must not be part of a delimiter")


def _check_character(name: str, value: str) -> None:
    if len(value) > 1:
        raise _invalid(name, value, "it must be one character")
    if value in ("\n", "\r"):
        raise _invalid(name, value, "it must not be a line end")


def _invalid(name: str, value: str, reason: str) -> Exception:
    return failure(SelectCode.INVALID_REQUEST_PARAMETER, f"{name} is invalid: {reason}. value={value!r}")


__all__ = ["HeaderUse", "check_request"]
