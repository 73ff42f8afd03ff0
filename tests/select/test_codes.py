"""Error codes: each has a query that raises it."""

from __future__ import annotations

import gzip
import re
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from pyarrow import parquet

from lakebed.core.errors import SelectError
from lakebed.select.errors import SelectCode
from lakebed.select.formats import parquet as parquet_format
from lakebed.select.model import ArrowInput, AvroInput, Compression, CsvInput, Input, ParquetInput

from .running import DOCUMENT, HEADED, LINES, select

FOLDER = Path(__file__).parents[2] / "src" / "lakebed" / "select"
CODES_OF_THE_WIRE = {
    SelectCode.EMPTY_REQUEST_BODY,
    SelectCode.MISSING_REQUIRED_PARAMETER,
    SelectCode.INVALID_EXPRESSION_TYPE,
    SelectCode.INVALID_FILE_HEADER_INFO,
    SelectCode.INVALID_JSON_TYPE,
    SelectCode.INVALID_QUOTE_FIELDS,
    SelectCode.OBJECT_SERIALIZATION_CONFLICT,
    SelectCode.UNSUPPORTED_RANGE_HEADER,
    SelectCode.METHOD_NOT_ALLOWED,
    SelectCode.UNAUTHORIZED_ACCESS,
}
"""Covered by `tests/wire/s3/select/`."""


class Case(NamedTuple):
    """A query and its object."""

    expression: str
    data: bytes = b"1,x\n"
    read: Input | None = None
    options: Mapping[str, Any] = MappingProxyType({})


def table(**columns: object) -> bytes:
    file = BytesIO()
    parquet.write_table(pa.table(columns), file)
    return file.getvalue()


ALL = "SELECT * FROM S3Object"


def lzo_parquet() -> bytes:
    """Parquet whose footer declares LZO compression, which is no longer supported."""
    file = BytesIO()
    parquet.write_table(pa.table({"a": [1]}), file, compression="brotli")
    name, brotli, lzo = b"\x19\x18\x01a", b"\x15\x08", b"\x15\x06"
    assert name + brotli in file.getvalue()
    return file.getvalue().replace(name + brotli, name + lzo)


def durations() -> bytes:
    column = pa.table({"a": pa.array([1], pa.duration("s"))})
    with pa.BufferOutputStream() as sink:
        with pa.ipc.new_file(sink, column.schema) as writer:
            writer.write_table(column)
        return bytes(sink.getvalue())


def of(expression: str) -> Case:
    return Case(expression)


CASES: dict[SelectCode, Case] = {
    SelectCode.INVALID_REQUEST_PARAMETER: Case(ALL, read=CsvInput(quote='""')),
    SelectCode.EXPRESSION_TOO_LONG: of("SELECT '" + "x" * 262_144 + "' FROM S3Object"),
    SelectCode.INVALID_COMPRESSION_FORMAT: Case(ALL, options={"compression": Compression.GZIP}),
    SelectCode.INVALID_SCAN_RANGE: Case(ALL, options={"scan": (100, None)}),
    SelectCode.UNSUPPORTED_SCAN_RANGE_INPUT: Case(ALL, b"{}", DOCUMENT, {"scan": (0, 1)}),
    SelectCode.INVALID_TEXT_ENCODING: Case(ALL, b"\xff\n"),
    SelectCode.TRUNCATED_INPUT: Case(
        ALL, gzip.compress(bytes(range(48, 58)) * 1000)[:-20], options={"compression": Compression.GZIP}
    ),
    SelectCode.UNRECOGNIZED_FORMAT_EXCEPTION: Case(ALL, b"nonsense", AvroInput()),
    SelectCode.OVER_MAX_RECORD_SIZE: Case(ALL, b"x" * (1024 * 1024 + 1)),
    SelectCode.OVER_MAX_COLUMN: Case(ALL, b"," * 10_001),
    SelectCode.CSV_PARSING_ERROR: Case(ALL, b"1\n" * 2000 + b"1,2,3\n"),
    SelectCode.CSV_ESCAPING_RECORD_DELIMITER: Case(ALL, b'"a\nb"\n'),
    SelectCode.CSV_UNESCAPED_QUOTE: Case(ALL, b'"a\n', CsvInput(allow_quoted_record_delimiter=True)),
    SelectCode.JSON_PARSING_ERROR: Case(ALL, b"{\n", LINES),
    SelectCode.PARQUET_PARSING_ERROR: Case(ALL, b"PAR1nonsense", ParquetInput()),
    SelectCode.PARQUET_UNSUPPORTED_COMPRESSION_CODEC: Case(ALL, lzo_parquet(), ParquetInput()),
    SelectCode.UNSUPPORTED_PARQUET_TYPE: Case(ALL, durations(), ArrowInput()),
    SelectCode.LEXER_INVALID_CHAR: of("SELECT ? FROM S3Object"),
    SelectCode.LEXER_INVALID_LITERAL: of("SELECT 'x FROM S3Object"),
    SelectCode.LEXER_INVALID_ION_LITERAL: of("SELECT `x` FROM S3Object"),
    SelectCode.PARSE_EXPECTED_DATE_PART: of("SELECT EXTRACT(week FROM _1) FROM S3Object"),
    SelectCode.PARSE_EXPECTED_KEYWORD: of("UPDATE S3Object"),
    SelectCode.PARSE_EXPECTED_NUMBER: of("SELECT _1 FROM S3Object LIMIT 'x'"),
    SelectCode.PARSE_EXPECTED_TYPE_NAME: of("SELECT CAST(_1 AS nothing) FROM S3Object"),
    SelectCode.PARSE_EXPECTED_WHEN_CLAUSE: of("SELECT CASE END FROM S3Object"),
    SelectCode.PARSE_EXPECTED_EXPRESSION: of("SELECT _1, FROM S3Object"),
    SelectCode.PARSE_EXPECTED_IDENT_FOR_ALIAS: of("SELECT _1 AS 5 FROM S3Object"),
    SelectCode.PARSE_EXPECTED_MEMBER: of("SELECT _1 FROM"),
    SelectCode.PARSE_EXPECTED_LEFT_PAREN_AFTER_CAST: of("SELECT CAST _1 FROM S3Object"),
    SelectCode.PARSE_EXPECTED_LEFT_PAREN_VALUE_CONSTRUCTOR: of("SELECT _1 FROM S3Object WHERE _1 IN _2"),
    SelectCode.PARSE_EXPECTED_LEFT_PAREN_BUILTIN_FUNCTION_CALL: of("SELECT _1 FROM S3Object GROUP BY ROLLUP"),
    SelectCode.PARSE_EXPECTED_RIGHT_PAREN_BUILTIN_FUNCTION_CALL: of("SELECT UPPER(_1 FROM S3Object"),
    SelectCode.PARSE_UNEXPECTED_TOKEN: of("SELECT _1 FROM S3Object s s s"),
    SelectCode.PARSE_UNEXPECTED_TERM: of("SELECT _1 FROM S3Object WHERE _1 IS 5"),
    SelectCode.PARSE_SELECT_MISSING_FROM: of("SELECT _1"),
    SelectCode.PARSE_EMPTY_SELECT: of("SELECT FROM S3Object"),
    SelectCode.PARSE_CAST_ARITY: of("SELECT CAST(_1) FROM S3Object"),
    SelectCode.PARSE_INVALID_TYPE_PARAM: of("SELECT CAST(_1 AS DECIMAL(99, 2)) FROM S3Object"),
    SelectCode.PARSE_INVALID_PATH_COMPONENT: of("SELECT _1 FROM S3Object[x]"),
    SelectCode.PARSE_INVALID_CONTEXT_FOR_WILDCARD_IN_SELECT_LIST: of("SELECT s.a[*] FROM S3Object s"),
    SelectCode.PARSE_ASTERISK_IS_NOT_ALONE_IN_SELECT_LIST: of("SELECT *, _1 FROM S3Object"),
    SelectCode.PARSE_NON_UNARY_AGGREGATE_FUNCTION_CALL: of("SELECT SUM(_1, _2) FROM S3Object"),
    SelectCode.PARSE_UNSUPPORTED_SYNTAX: of("SELECT _1 FROM S3Object WHERE _1 SIMILAR TO 'x'"),
    SelectCode.PARSE_UNSUPPORTED_ALIAS: of("SELECT a AS b, b AS a FROM S3Object"),
    SelectCode.PARSE_UNSUPPORTED_CALL_WITH_STAR: of("SELECT SUM(*) FROM S3Object"),
    SelectCode.PARSE_UNSUPPORTED_LITERALS_GROUP_BY: of("SELECT COUNT(*) FROM S3Object GROUP BY 'x'"),
    SelectCode.EVALUATOR_BINDING_DOES_NOT_EXIST: of("SELECT nothing FROM S3Object"),
    SelectCode.EVALUATOR_INVALID_ARGUMENTS: of("SELECT UPPER() FROM S3Object"),
    SelectCode.EVALUATOR_NEGATIVE_LIMIT: of("SELECT _1 FROM S3Object LIMIT -1"),
    SelectCode.EVALUATOR_LIKE_PATTERN_INVALID_ESCAPE_SEQUENCE: of(
        "SELECT _1 FROM S3Object WHERE _1 LIKE 'a!' ESCAPE '!'"
    ),
    SelectCode.LIKE_INVALID_INPUTS: of("SELECT _1 FROM S3Object WHERE 5 LIKE 'x'"),
    SelectCode.CAST_FAILED: of("SELECT CAST(_2 AS INT) FROM S3Object"),
    SelectCode.INVALID_CAST: of("SELECT CAST(UTCNOW() AS INT) FROM S3Object"),
    SelectCode.INVALID_DATA_TYPE: Case("SELECT SUM(s.a) FROM S3Object s", b'{"a":1}\n' * 2000 + b'{"a":1.5}\n', LINES),
    SelectCode.INVALID_COLUMN_INDEX: of("SELECT _9 FROM S3Object"),
    SelectCode.INVALID_KEY_PATH: of("SELECT s._1.x FROM S3Object s"),
    SelectCode.AMBIGUOUS_FIELD_NAME: Case("SELECT a FROM S3Object", b"a,A\n1,2\n", HEADED),
    SelectCode.MISSING_HEADER_NAME: Case("SELECT b FROM S3Object", b"a\n1\n", HEADED),
    SelectCode.INTEGER_OVERFLOW: of("SELECT 9223372036854775807 + 1 FROM S3Object"),
    SelectCode.INCORRECT_SQL_FUNCTION_ARGUMENT_TYPE: of("SELECT EXTRACT(year FROM TRUE) FROM S3Object"),
    SelectCode.UNSUPPORTED_FUNCTION: of("SELECT NOSUCH(_1) FROM S3Object"),
    SelectCode.UNSUPPORTED_SQL_OPERATION: of("SELECT FIRST_VALUE(_1) IGNORE NULLS OVER () FROM S3Object"),
    SelectCode.UNSUPPORTED_SQL_STRUCTURE: of("SELECT _1 FROM S3Object; SELECT _1 FROM S3Object"),
    SelectCode.DATA_SOURCE_PATH_UNSUPPORTED: of("SELECT _1 FROM elsewhere"),
    SelectCode.MULTIPLE_DATA_SOURCES_UNSUPPORTED: of("SELECT _1 FROM S3Object, S3Object"),
    SelectCode.MAX_OPERATORS_EXCEEDED: of(f"SELECT {'(' * 200}1{')' * 200} FROM S3Object"),
    SelectCode.INVALID_TIMESTAMP_FORMAT_PATTERN: of("SELECT TO_TIMESTAMP('1', 'H') FROM S3Object"),
    SelectCode.INVALID_TIMESTAMP_FORMAT_PATTERN_SYMBOL: of("SELECT TO_STRING(UTCNOW(), 'Q') FROM S3Object"),
    SelectCode.INVALID_TIMESTAMP_FORMAT_PATTERN_SYMBOL_FOR_PARSING: of(
        "SELECT TO_TIMESTAMP('J', 'MMMMM') FROM S3Object"
    ),
    SelectCode.INVALID_TIMESTAMP_FORMAT_PATTERN_TOKEN: of("SELECT TO_STRING(UTCNOW(), 'yyyyyyy') FROM S3Object"),
    SelectCode.UNTERMINATED_TIMESTAMP_FORMAT_PATTERN_TOKEN: of("SELECT TO_STRING(UTCNOW(), '''x') FROM S3Object"),
    SelectCode.TIMESTAMP_FORMAT_PATTERN_DUPLICATE_FIELDS: of("SELECT TO_TIMESTAMP('1 1', 'y yyyy') FROM S3Object"),
    SelectCode.TIMESTAMP_FORMAT_PATTERN_HOUR_CLOCK_AM_PM_MISMATCH: of(
        "SELECT TO_TIMESTAMP('2020 1', 'y h') FROM S3Object"
    ),
}


@pytest.mark.parametrize("code", CASES)
def test_query_raises_its_code(code: SelectCode) -> None:
    case = CASES[code]
    with pytest.raises(SelectError) as caught:
        select(case.expression, case.data, case.read, **case.options)
    assert caught.value.code == code


def test_row_group_has_a_size_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_format, "MAX_ROW_GROUP_BYTES", 8)
    with pytest.raises(SelectError) as caught:
        select(ALL, table(a=[1, 2, 3]), ParquetInput())
    assert caught.value.code == SelectCode.OVER_MAX_PARQUET_BLOCK_SIZE


def test_every_code_has_a_case() -> None:
    raised: set[SelectCode] = set()
    for file in FOLDER.rglob("*.py"):
        raised |= {SelectCode[name] for name in re.findall(r"SelectCode\.([A-Z0-9_]+)", file.read_text())}
    assert raised - CODES_OF_THE_WIRE - CASES.keys() == {SelectCode.OVER_MAX_PARQUET_BLOCK_SIZE}


def test_text_column_must_be_utf8() -> None:
    broken = pa.array([b"\xff"], pa.binary()).view(pa.string())
    with pytest.raises(SelectError) as caught:
        select(ALL, table(a=broken), ParquetInput())
    assert caught.value.code == SelectCode.INVALID_TEXT_ENCODING
