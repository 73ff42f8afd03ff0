"""The SelectObjectContent request document: options, errors, and the order of validation."""

from __future__ import annotations

from typing import Any
from xml.sax.saxutils import escape

import botocore.session
import pytest
from botocore.serialize import create_serializer
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.errors import SelectError
from lakebed.select.errors import SelectCode
from lakebed.select.model import (
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
from lakebed.wire.s3.select.document import read_select
from lakebed.wire.s3.xml import MalformedDocument

SQL = "SELECT * FROM S3Object"
EXPRESSION = f"<Expression>{SQL}</Expression>"
TYPE = "<ExpressionType>SQL</ExpressionType>"
INPUT = "<InputSerialization><CSV/></InputSerialization>"
OUTPUT = "<OutputSerialization><JSON/></OutputSerialization>"


def document(*parts: str, root: str = "SelectObjectContentRequest", xmlns: str = "") -> bytes:
    return f"<{root}{xmlns}>{''.join(parts)}</{root}>".encode()


def parsed(*, source: str = "<CSV/>", target: str = "<JSON/>", more: str = "") -> SelectRequest:
    return read_select(
        document(
            EXPRESSION,
            TYPE,
            f"<InputSerialization>{source}</InputSerialization>",
            f"<OutputSerialization>{target}</OutputSerialization>",
            more,
        )
    )


def code_of(*parts: str) -> str:
    with pytest.raises(SelectError) as caught:
        read_select(document(*parts))
    return caught.value.code


def test_minimal_document_has_all_defaults() -> None:
    assert read_select(document(EXPRESSION, TYPE, INPUT, OUTPUT)) == SelectRequest(SQL, CsvInput(), JsonOutput())


@pytest.mark.parametrize("root", ["SelectObjectContentRequest", "SelectRequest"])
@pytest.mark.parametrize("xmlns", ["", ' xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'])
def test_both_root_elements_are_parsed_with_or_without_a_namespace(root: str, xmlns: str) -> None:
    assert read_select(document(EXPRESSION, TYPE, INPUT, OUTPUT, root=root, xmlns=xmlns)).expression == SQL


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("<CSV/>", CsvInput()),
        ("<CSV><FileHeaderInfo>USE</FileHeaderInfo></CSV>", CsvInput(header=HeaderUse.USE)),
        ("<CSV><FileHeaderInfo> ignore\n</FileHeaderInfo></CSV>", CsvInput(header=HeaderUse.IGNORE)),
        ("<CSV><Comments>;</Comments></CSV>", CsvInput(comments=";")),
        ("<CSV><Comments></Comments></CSV>", CsvInput(comments="")),
        ("<CSV><QuoteCharacter/></CSV>", CsvInput(quote="")),
        ("<CSV><QuoteCharacter>'</QuoteCharacter></CSV>", CsvInput(quote="'")),
        ("<CSV><QuoteEscapeCharacter>\\</QuoteEscapeCharacter></CSV>", CsvInput(escape="\\")),
        ("<CSV><FieldDelimiter>\t</FieldDelimiter></CSV>", CsvInput(field_delimiter="\t")),
        ("<CSV><FieldDelimiter> </FieldDelimiter></CSV>", CsvInput(field_delimiter=" ")),
        ("<CSV><FieldDelimiter>&lt;&amp;</FieldDelimiter></CSV>", CsvInput(field_delimiter="<&")),
        ("<CSV><RecordDelimiter>\n</RecordDelimiter></CSV>", CsvInput(record_delimiter="\n")),
        ("<CSV><RecordDelimiter>&#13;&#10;</RecordDelimiter></CSV>", CsvInput(record_delimiter="\r\n")),
        ("<CSV><RecordDelimiter>\r\n</RecordDelimiter></CSV>", CsvInput(record_delimiter="\r\n")),
        ("<CSV><RecordDelimiter>\r</RecordDelimiter></CSV>", CsvInput(record_delimiter="\r")),
        (
            "<CSV><AllowQuotedRecordDelimiter>TRUE</AllowQuotedRecordDelimiter></CSV>",
            CsvInput(allow_quoted_record_delimiter=True),
        ),
        ("<JSON/>", JsonInput(JsonKind.LINES)),
        ("<JSON><Type>Document</Type></JSON>", JsonInput(JsonKind.DOCUMENT)),
        ("<JSON><Type>LINES</Type></JSON>", JsonInput(JsonKind.LINES)),
        ("<Parquet/>", ParquetInput()),
        ("<Parquet>\n  </Parquet>", ParquetInput()),
        ("<Arrow/>", ArrowInput()),
        ("<Avro/>", AvroInput()),
    ],
)
def test_input_options_are_parsed(source: str, expected: Input) -> None:
    assert parsed(source=source).input == expected


@pytest.mark.parametrize("compression", list(Compression))
def test_compression_is_parsed_in_any_case_and_place(compression: Compression) -> None:
    tag = f"<CompressionType>{compression.lower()}</CompressionType>"
    assert parsed(source=f"{tag}<CSV/>").compression is compression
    assert parsed(source=f"<CSV/>{tag}").compression is compression


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("<CSV/>", CsvOutput()),
        ("<CSV><QuoteFields>always</QuoteFields></CSV>", CsvOutput(quote_fields=QuoteFields.ALWAYS)),
        ("<CSV><QuoteCharacter>'</QuoteCharacter></CSV>", CsvOutput(quote="'")),
        ("<CSV><QuoteEscapeCharacter>\\</QuoteEscapeCharacter></CSV>", CsvOutput(escape="\\")),
        ("<CSV><FieldDelimiter>|</FieldDelimiter></CSV>", CsvOutput(field_delimiter="|")),
        ("<CSV><RecordDelimiter>\r\n</RecordDelimiter></CSV>", CsvOutput(record_delimiter="\r\n")),
        ("<JSON/>", JsonOutput()),
        ("<JSON><RecordDelimiter>\r\n</RecordDelimiter></JSON>", JsonOutput("\r\n")),
        ("<JSON><RecordDelimiter/></JSON>", JsonOutput("")),
        ("<Parquet/>", ParquetOutput()),
        ("<Arrow/>", ArrowOutput()),
    ],
)
def test_output_options_are_parsed(target: str, expected: Output) -> None:
    assert parsed(target=target).output == expected


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ("<Start>1</Start><End>100</End>", ScanRange(1, 100)),
        ("<Start> 0\n</Start>", ScanRange(0, None)),
        ("<End>50</End>", ScanRange(None, 50)),
        ("<Start>-1</Start>", ScanRange(-1, None)),
        ("", ScanRange(None, None)),
    ],
)
def test_scan_range_is_parsed_without_validation(bounds: str, expected: ScanRange) -> None:
    assert parsed(more=f"<ScanRange>{bounds}</ScanRange>").scan_range == expected


@pytest.mark.parametrize(("text", "expected"), [("true", True), ("False", False), (" true ", True)])
def test_progress_can_be_requested(text: str, expected: bool) -> None:
    assert parsed(more=f"<RequestProgress><Enabled>{text}</Enabled></RequestProgress>").progress is expected


def test_progress_is_off_by_default() -> None:
    assert parsed(more="<RequestProgress/>").progress is False
    assert parsed().progress is False


def test_expression_keeps_its_white_space_and_line_ends() -> None:
    body = document("<Expression>SELECT *\r\n\tFROM S3Object </Expression>", TYPE, INPUT, OUTPUT)
    assert read_select(body).expression == "SELECT *\r\n\tFROM S3Object "


def test_document_with_cr_lf_line_ends_is_parsed() -> None:
    lines = ('<?xml version="1.0"?>', "<SelectRequest>", EXPRESSION, TYPE, INPUT, OUTPUT, "</SelectRequest>", "")
    assert read_select("\r\n".join(lines).encode()) == SelectRequest(SQL, CsvInput(), JsonOutput())


def test_cdata_is_parsed_literally() -> None:
    body = document("<Expression><![CDATA[SELECT 1 WHERE 2 > 1\r\n]]></Expression>", TYPE, INPUT, OUTPUT)
    assert read_select(body).expression.rstrip() == "SELECT 1 WHERE 2 > 1"


# -- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("body", [b"", b"  \n"])
def test_empty_body_gets_empty_request_body(body: bytes) -> None:
    with pytest.raises(SelectError) as caught:
        read_select(body)
    assert caught.value.code == SelectCode.EMPTY_REQUEST_BODY


@pytest.mark.parametrize(
    "body",
    [
        b"<",
        b"SELECT * FROM S3Object",
        document(EXPRESSION, TYPE, INPUT, OUTPUT, root="Select"),
        document(EXPRESSION, TYPE, INPUT, OUTPUT, "<Unknown/>"),
        document(EXPRESSION, EXPRESSION, TYPE, INPUT, OUTPUT),
        document(EXPRESSION, TYPE, INPUT.replace("<CSV/>", "<CSV><Header>USE</Header></CSV>"), OUTPUT),
        document(EXPRESSION, TYPE, INPUT.replace("<CSV/>", "<CSV/><Excel/>"), OUTPUT),
        document(EXPRESSION, TYPE, INPUT.replace("<CSV/>", "<Parquet><Type>LINES</Type></Parquet>"), OUTPUT),
        document(EXPRESSION, TYPE, INPUT, OUTPUT.replace("<JSON/>", "<JSON><Type>LINES</Type></JSON>")),
        document(EXPRESSION, TYPE, INPUT, OUTPUT, "<ScanRange><Begin>1</Begin></ScanRange>"),
        b"<!DOCTYPE x>" + document(EXPRESSION, TYPE, INPUT, OUTPUT),
    ],
)
def test_invalid_document_is_malformed(body: bytes) -> None:
    with pytest.raises(MalformedDocument):
        read_select(body)


@pytest.mark.parametrize(
    ("parts", "code"),
    [
        ((TYPE, INPUT, OUTPUT), SelectCode.MISSING_REQUIRED_PARAMETER),
        ((EXPRESSION, INPUT, OUTPUT), SelectCode.MISSING_REQUIRED_PARAMETER),
        ((EXPRESSION, TYPE, OUTPUT), SelectCode.MISSING_REQUIRED_PARAMETER),
        ((EXPRESSION, TYPE, INPUT), SelectCode.MISSING_REQUIRED_PARAMETER),
        ((EXPRESSION, TYPE, "<InputSerialization/>", OUTPUT), SelectCode.MISSING_REQUIRED_PARAMETER),
        ((EXPRESSION, TYPE, INPUT, "<OutputSerialization/>"), SelectCode.MISSING_REQUIRED_PARAMETER),
        ((EXPRESSION, TYPE.replace("SQL", "XPATH"), INPUT, OUTPUT), SelectCode.INVALID_EXPRESSION_TYPE),
        ((EXPRESSION, TYPE.replace("SQL", ""), INPUT, OUTPUT), SelectCode.INVALID_EXPRESSION_TYPE),
        (
            (EXPRESSION, TYPE, INPUT.replace("<CSV/>", "<CSV/><JSON/>"), OUTPUT),
            SelectCode.OBJECT_SERIALIZATION_CONFLICT,
        ),
        ((EXPRESSION, TYPE, INPUT.replace("<CSV/>", "<CSV/><CSV/>"), OUTPUT), SelectCode.OBJECT_SERIALIZATION_CONFLICT),
        (
            (EXPRESSION, TYPE, INPUT, OUTPUT.replace("<JSON/>", "<CSV/><JSON/>")),
            SelectCode.OBJECT_SERIALIZATION_CONFLICT,
        ),
    ],
)
def test_missing_and_conflicting_elements_get_specific_codes(parts: tuple[str, ...], code: SelectCode) -> None:
    assert code_of(*parts) == code


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("<CSV><FileHeaderInfo>YES</FileHeaderInfo></CSV>", SelectCode.INVALID_FILE_HEADER_INFO),
        ("<CSV><FileHeaderInfo/></CSV>", SelectCode.INVALID_FILE_HEADER_INFO),
        ("<JSON><Type>ARRAY</Type></JSON>", SelectCode.INVALID_JSON_TYPE),
        ("<CompressionType>RAR</CompressionType><CSV/>", SelectCode.INVALID_COMPRESSION_FORMAT),
        (
            "<CSV><AllowQuotedRecordDelimiter>yes</AllowQuotedRecordDelimiter></CSV>",
            SelectCode.INVALID_REQUEST_PARAMETER,
        ),
    ],
)
def test_invalid_input_values_get_specific_codes(source: str, code: SelectCode) -> None:
    assert code_of(EXPRESSION, TYPE, f"<InputSerialization>{source}</InputSerialization>", OUTPUT) == code


def test_other_invalid_values_get_specific_codes() -> None:
    quoted = OUTPUT.replace("<JSON/>", "<CSV><QuoteFields>NEVER</QuoteFields></CSV>")
    assert code_of(EXPRESSION, TYPE, INPUT, quoted) == SelectCode.INVALID_QUOTE_FIELDS
    progress = "<RequestProgress><Enabled>maybe</Enabled></RequestProgress>"
    assert code_of(EXPRESSION, TYPE, INPUT, OUTPUT, progress) == SelectCode.INVALID_REQUEST_PARAMETER
    for bad in ("x", "", "1.5", "9" * 20):
        bounds = f"<ScanRange><Start>{bad}</Start></ScanRange>"
        assert code_of(EXPRESSION, TYPE, INPUT, OUTPUT, bounds) == SelectCode.INVALID_SCAN_RANGE


def test_expression_length_is_limited_in_bytes() -> None:
    longest = f"<Expression>{'é' * (128 * 1024)}</Expression>"
    assert len(read_select(document(longest, TYPE, INPUT, OUTPUT)).expression) == 128 * 1024
    too_long = longest.replace("</Expression>", "x</Expression>")
    assert code_of(too_long, TYPE, INPUT, OUTPUT) == SelectCode.EXPRESSION_TOO_LONG


def test_first_error_in_validation_order_is_returned() -> None:
    """The order: length of the expression, its type, input, scan range, output."""
    errors = [
        (f"<Expression>{'x' * 262_145}</Expression>", EXPRESSION, SelectCode.EXPRESSION_TOO_LONG),
        (TYPE.replace("SQL", "XPATH"), TYPE, SelectCode.INVALID_EXPRESSION_TYPE),
        ("<InputSerialization/>", INPUT, SelectCode.MISSING_REQUIRED_PARAMETER),
        ("<ScanRange><Start>x</Start></ScanRange>", "", SelectCode.INVALID_SCAN_RANGE),
        (OUTPUT.replace("<JSON/>", "<CSV/><JSON/>"), OUTPUT, SelectCode.OBJECT_SERIALIZATION_CONFLICT),
    ]
    for fixed, (_, _, code) in enumerate(errors):
        parts = [right if number < fixed else wrong for number, (wrong, right, _) in enumerate(errors)]
        # In reverse: the order of the document does not matter.
        assert code_of(*reversed(parts)) == code


# -- requests of SDKs --------------------------------------------------------------------------------------------------

text = st.text(st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="\ufffe\uffff"), max_size=20)
values = st.one_of(text, st.sampled_from(["\n", "\r\n", "\r", "\t", " ", '"', "'", "\\", "<", "&", ">", "]]>", ""]))
_MODEL = botocore.session.Session().get_service_model("s3").operation_model("SelectObjectContent")


@given(expression=text, comments=values, quote=values, field=values, record=values, out=values)
def test_documents_of_botocore_are_parsed_exactly(
    expression: str, comments: str, quote: str, field: str, record: str, out: str
) -> None:
    parameters: dict[str, Any] = {  # Any: botocore has no types
        "Bucket": "b",
        "Key": "k",
        "Expression": expression,
        "ExpressionType": "SQL",
        "InputSerialization": {
            "CompressionType": "GZIP",
            "CSV": {"Comments": comments, "QuoteCharacter": quote, "FieldDelimiter": field, "RecordDelimiter": record},
        },
        "OutputSerialization": {"JSON": {"RecordDelimiter": out}},
        "RequestProgress": {"Enabled": True},
        "ScanRange": {"Start": 3, "End": 9},
    }
    body = create_serializer("rest-xml").serialize_to_request(parameters, _MODEL)["body"]

    assert read_select(body) == SelectRequest(
        expression,
        CsvInput(comments=comments, quote=quote, field_delimiter=field, record_delimiter=record),
        JsonOutput(out),
        Compression.GZIP,
        ScanRange(3, 9),
        progress=True,
    )


@given(st.text(max_size=200).map(escape), st.binary(max_size=60))
def test_random_documents_raise_only_select_errors(words: str, noise: bytes) -> None:
    whole = document(f"<Expression>{words}</Expression>", TYPE, INPUT, OUTPUT)
    for body in (noise, whole + noise, whole[: len(noise)] + noise):
        try:
            read_select(body)
        except (SelectError, MalformedDocument):
            continue
