"""Parses the SelectObjectContent request document, with white space preserved.

Validated in the order of S3: length and type of the expression, input, scan range, output. Combinations of options and
the expression itself are validated by the select service.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final, TypeVar

from lakebed.select.errors import SelectCode, failure
from lakebed.select.model import (
    MAX_EXPRESSION_BYTES,
    ArrowInput,
    ArrowOutput,
    AvroInput,
    Compression,
    CsvInput,
    CsvOutput,
    HeaderUse,
    Input,
    JsonInput,
    JsonKind,
    JsonOutput,
    Output,
    ParquetInput,
    ParquetOutput,
    QuoteFields,
    ScanRange,
    SelectRequest,
)

from ..xml import MalformedDocument, XmlElement, parse_document

__all__ = ["read_select"]

_ROOTS: Final = ("SelectObjectContentRequest", "SelectRequest")
"""The element name of SDKs, and that of S3's documentation and other servers."""

_PARTS: Final = (
    "Expression",
    "ExpressionType",
    "RequestProgress",
    "InputSerialization",
    "OutputSerialization",
    "ScanRange",
)

Choice = TypeVar("Choice", bound=StrEnum)
Format = TypeVar("Format")


def read_select(body: bytes) -> SelectRequest:
    """Parse a request. Raises SelectError, MalformedDocument."""
    if not body.strip():
        raise failure(SelectCode.EMPTY_REQUEST_BODY, "Request body cannot be empty.")
    root = parse_document(_with_carriage_returns(body), *_ROOTS).only(*_PARTS)
    expression = _required(root, "Expression").text
    if len(expression.encode()) > MAX_EXPRESSION_BYTES:
        raise failure(
            SelectCode.EXPRESSION_TOO_LONG,
            f"The SQL expression is too long: the maximum is {MAX_EXPRESSION_BYTES} bytes.",
        )
    kind = _required(root, "ExpressionType").text
    if kind.strip().upper() != "SQL":
        raise failure(SelectCode.INVALID_EXPRESSION_TYPE, "The ExpressionType is invalid. Only SQL is supported.")
    source = _required(root, "InputSerialization").only("CompressionType", *_INPUTS)
    compression = _choice(
        source, "CompressionType", Compression, Compression.NONE, SelectCode.INVALID_COMPRESSION_FORMAT
    )
    read_as = _one_format(source, _INPUTS)
    scan_range = _scan_range(root.optional("ScanRange"))
    written_as = _one_format(_required(root, "OutputSerialization").only(*_OUTPUTS), _OUTPUTS)
    progress = root.optional("RequestProgress")
    return SelectRequest(
        expression,
        read_as,
        written_as,
        compression,
        scan_range,
        progress is not None and _flag(progress.only("Enabled"), "Enabled"),
    )


def _with_carriage_returns(body: bytes) -> bytes:
    """Escape carriage returns in values, so that the XML parser keeps them.

    XML parsers normalize line ends to a newline, but SDKs send a CR LF delimiter literally.
    """
    if b"\r" not in body or b"<![CDATA[" in body:  # references are literal in CDATA
        return body
    pieces = body.split(b"<")
    for index, following in enumerate(pieces[1:]):
        if following.startswith(b"/") and b"\r" in pieces[index]:
            tag, closed, text = pieces[index].partition(b">")
            pieces[index] = tag + closed + text.replace(b"\r", b"&#13;")
    return b"<".join(pieces)


def _required(parent: XmlElement, name: str) -> XmlElement:
    found = parent.optional(name)
    if found is None:
        raise failure(
            SelectCode.MISSING_REQUIRED_PARAMETER, f"The SelectRequest entity is missing a required parameter: {name}."
        )
    return found


def _one_format(parent: XmlElement, readers: Mapping[str, Callable[[XmlElement], Format]]) -> Format:
    found = [child for child in parent.children if child.name in readers]
    if not found:
        raise failure(
            SelectCode.MISSING_REQUIRED_PARAMETER,
            f"{parent.name} requires a format: one of {', '.join(readers)}.",
        )
    if len(found) > 1:
        raise failure(SelectCode.OBJECT_SERIALIZATION_CONFLICT, f"{parent.name} can have one format only.")
    return readers[found[0].name](found[0])


def _scan_range(element: XmlElement | None) -> ScanRange | None:
    if element is None:
        return None
    element.only("Start", "End")
    try:
        return ScanRange(element.optional_int("Start"), element.optional_int("End"))
    except MalformedDocument as error:
        raise failure(SelectCode.INVALID_SCAN_RANGE, "The bounds of a scan range must be integers.") from error


def _csv_input(element: XmlElement) -> CsvInput:
    element.only(
        "FileHeaderInfo",
        "Comments",
        "QuoteEscapeCharacter",
        "RecordDelimiter",
        "FieldDelimiter",
        "QuoteCharacter",
        "AllowQuotedRecordDelimiter",
    )
    default = CsvInput()
    return CsvInput(
        _choice(element, "FileHeaderInfo", HeaderUse, default.header, SelectCode.INVALID_FILE_HEADER_INFO),
        _text(element, "Comments", default.comments),
        _text(element, "QuoteCharacter", default.quote),
        _text(element, "QuoteEscapeCharacter", default.escape),
        _text(element, "FieldDelimiter", default.field_delimiter),
        _text(element, "RecordDelimiter", default.record_delimiter),
        _flag(element, "AllowQuotedRecordDelimiter"),
    )


def _json_input(element: XmlElement) -> JsonInput:
    return JsonInput(_choice(element.only("Type"), "Type", JsonKind, JsonInput().kind, SelectCode.INVALID_JSON_TYPE))


def _csv_output(element: XmlElement) -> CsvOutput:
    element.only("QuoteFields", "QuoteEscapeCharacter", "RecordDelimiter", "FieldDelimiter", "QuoteCharacter")
    default = CsvOutput()
    return CsvOutput(
        _choice(element, "QuoteFields", QuoteFields, default.quote_fields, SelectCode.INVALID_QUOTE_FIELDS),
        _text(element, "QuoteCharacter", default.quote),
        _text(element, "QuoteEscapeCharacter", default.escape),
        _text(element, "FieldDelimiter", default.field_delimiter),
        _text(element, "RecordDelimiter", default.record_delimiter),
    )


def _json_output(element: XmlElement) -> JsonOutput:
    return JsonOutput(_text(element.only("RecordDelimiter"), "RecordDelimiter", JsonOutput().record_delimiter))


def _plain(kind: Callable[[], Format]) -> Callable[[XmlElement], Format]:
    """A format without options."""

    def read(element: XmlElement) -> Format:
        element.only()
        return kind()

    return read


_INPUTS: Final[Mapping[str, Callable[[XmlElement], Input]]] = {
    "CSV": _csv_input,
    "JSON": _json_input,
    "Parquet": _plain(ParquetInput),
    "Arrow": _plain(ArrowInput),
    "Avro": _plain(AvroInput),
}
_OUTPUTS: Final[Mapping[str, Callable[[XmlElement], Output]]] = {
    "CSV": _csv_output,
    "JSON": _json_output,
    "Parquet": _plain(ParquetOutput),
    "Arrow": _plain(ArrowOutput),
}


def _text(parent: XmlElement, name: str, default: str) -> str:
    """The text with its white space: delimiters often consist of white space alone."""
    found = parent.optional_text(name)
    return default if found is None else found


def _choice(parent: XmlElement, name: str, kind: type[Choice], default: Choice, code: SelectCode) -> Choice:
    found = parent.optional_text(name)
    if found is None:
        return default
    try:
        return kind(found.strip().upper())
    except ValueError:
        raise failure(
            code, f"The {name} is invalid. Only {', '.join(kind)} are supported. found={found[:100]!r}"
        ) from None


def _flag(parent: XmlElement, name: str) -> bool:
    found = parent.optional_text(name)
    word = "false" if found is None else found.strip().lower()
    if word not in ("true", "false"):
        raise failure(SelectCode.INVALID_REQUEST_PARAMETER, f"{name} must be true or false.")
    return word == "true"
