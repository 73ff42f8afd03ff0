"""Errors of S3 Select with S3's codes."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from lakebed.core.errors import SelectError

_LISTED_COLUMNS: Final = 50
_NAME_CHARS: Final = 80


class SelectCode(StrEnum):
    """The error codes of S3 Select, with the spelling of the wire."""

    # The request.
    EMPTY_REQUEST_BODY = "EmptyRequestBody"
    MALFORMED_XML = "MalformedXML"
    MISSING_REQUIRED_PARAMETER = "MissingRequiredParameter"
    INVALID_REQUEST_PARAMETER = "InvalidRequestParameter"
    OBJECT_SERIALIZATION_CONFLICT = "ObjectSerializationConflict"
    INVALID_EXPRESSION_TYPE = "InvalidExpressionType"
    EXPRESSION_TOO_LONG = "ExpressionTooLong"
    INVALID_FILE_HEADER_INFO = "InvalidFileHeaderInfo"
    INVALID_JSON_TYPE = "InvalidJsonType"
    INVALID_QUOTE_FIELDS = "InvalidQuoteFields"
    INVALID_COMPRESSION_FORMAT = "InvalidCompressionFormat"
    INVALID_DATA_SOURCE = "InvalidDataSource"
    UNSUPPORTED_RANGE_HEADER = "UnsupportedRangeHeader"
    INVALID_SCAN_RANGE = "InvalidScanRange"
    UNSUPPORTED_SCAN_RANGE_INPUT = "UnsupportedScanRangeInput"
    METHOD_NOT_ALLOWED = "MethodNotAllowed"
    UNAUTHORIZED_ACCESS = "UnauthorizedAccess"

    # The object.
    UNSUPPORTED_STORAGE_CLASS = "UnsupportedStorageClass"
    INVALID_TEXT_ENCODING = "InvalidTextEncoding"
    TRUNCATED_INPUT = "TruncatedInput"
    UNRECOGNIZED_FORMAT_EXCEPTION = "UnrecognizedFormatException"
    OVER_MAX_RECORD_SIZE = "OverMaxRecordSize"
    OVER_MAX_COLUMN = "OverMaxColumn"
    COLUMN_TOO_LONG = "ColumnTooLong"
    OVER_MAX_PARQUET_BLOCK_SIZE = "OverMaxParquetBlockSize"

    # CSV, JSON, Parquet.
    CSV_PARSING_ERROR = "CSVParsingError"
    CSV_ESCAPING_RECORD_DELIMITER = "CSVEscapingRecordDelimiter"
    CSV_UNESCAPED_QUOTE = "CSVUnescapedQuote"
    JSON_PARSING_ERROR = "JSONParsingError"
    PARQUET_PARSING_ERROR = "ParquetParsingError"
    PARQUET_UNSUPPORTED_COMPRESSION_CODEC = "ParquetUnsupportedCompressionCodec"
    UNSUPPORTED_PARQUET_TYPE = "UnsupportedParquetType"

    # Tokens of the expression.
    LEXER_INVALID_CHAR = "LexerInvalidChar"
    LEXER_INVALID_OPERATOR = "LexerInvalidOperator"
    LEXER_INVALID_LITERAL = "LexerInvalidLiteral"
    LEXER_INVALID_ION_LITERAL = "LexerInvalidIONLiteral"

    # Missing syntax.
    PARSE_EXPECTED_DATE_PART = "ParseExpectedDatePart"
    PARSE_EXPECTED_KEYWORD = "ParseExpectedKeyword"
    PARSE_EXPECTED_TOKEN_TYPE = "ParseExpectedTokenType"  # noqa: S105
    PARSE_EXPECTED_2_TOKEN_TYPES = "ParseExpected2TokenTypes"  # noqa: S105
    PARSE_EXPECTED_NUMBER = "ParseExpectedNumber"
    PARSE_EXPECTED_TYPE_NAME = "ParseExpectedTypeName"
    PARSE_EXPECTED_WHEN_CLAUSE = "ParseExpectedWhenClause"
    PARSE_EXPECTED_EXPRESSION = "ParseExpectedExpression"
    PARSE_EXPECTED_ARGUMENT_DELIMITER = "ParseExpectedArgumentDelimiter"
    PARSE_EXPECTED_IDENT_FOR_ALIAS = "ParseExpectedIdentForAlias"
    PARSE_EXPECTED_IDENT_FOR_AT = "ParseExpectedIdentForAt"
    PARSE_EXPECTED_IDENT_FOR_GROUP_NAME = "ParseExpectedIdentForGroupName"
    PARSE_EXPECTED_MEMBER = "ParseExpectedMember"
    PARSE_EXPECTED_LEFT_PAREN_AFTER_CAST = "ParseExpectedLeftParenAfterCast"
    PARSE_EXPECTED_LEFT_PAREN_VALUE_CONSTRUCTOR = "ParseExpectedLeftParenValueConstructor"
    PARSE_EXPECTED_LEFT_PAREN_BUILTIN_FUNCTION_CALL = "ParseExpectedLeftParenBuiltinFunctionCall"
    PARSE_EXPECTED_RIGHT_PAREN_BUILTIN_FUNCTION_CALL = "ParseExpectedRightParenBuiltinFunctionCall"

    # Unexpected syntax.
    PARSE_UNEXPECTED_TOKEN = "ParseUnexpectedToken"  # noqa: S105
    PARSE_UNEXPECTED_TERM = "ParseUnexpectedTerm"
    PARSE_UNEXPECTED_OPERATOR = "ParseUnexpectedOperator"
    PARSE_UNEXPECTED_KEYWORD = "ParseUnExpectedKeyword"
    PARSE_UNKNOWN_OPERATOR = "ParseUnknownOperator"
    PARSE_MISSING_IDENT_AFTER_AT = "ParseMissingIdentAfterAt"
    PARSE_SELECT_MISSING_FROM = "ParseSelectMissingFrom"
    PARSE_EMPTY_SELECT = "ParseEmptySelect"
    PARSE_MALFORMED_JOIN = "ParseMalformedJoin"
    PARSE_CAST_ARITY = "ParseCastArity"
    PARSE_INVALID_TYPE_PARAM = "ParseInvalidTypeParam"
    PARSE_INVALID_PATH_COMPONENT = "ParseInvalidPathComponent"
    PARSE_INVALID_CONTEXT_FOR_WILDCARD_IN_SELECT_LIST = "ParseInvalidContextForWildcardInSelectList"
    PARSE_ASTERISK_IS_NOT_ALONE_IN_SELECT_LIST = "ParseAsteriskIsNotAloneInSelectList"
    PARSE_CANNOT_MIX_SQB_AND_WILDCARD_IN_SELECT_LIST = "ParseCannotMixSqbAndWildcardInSelectList"
    PARSE_NON_UNARY_AGGREGATE_FUNCTION_CALL = "ParseNonUnaryAgregateFunctionCall"

    # Unsupported syntax.
    PARSE_UNSUPPORTED_TOKEN = "ParseUnsupportedToken"  # noqa: S105
    PARSE_UNSUPPORTED_SYNTAX = "ParseUnsupportedSyntax"
    PARSE_UNSUPPORTED_SELECT = "ParseUnsupportedSelect"
    PARSE_UNSUPPORTED_ALIAS = "ParseUnsupportedAlias"
    PARSE_UNSUPPORTED_CASE = "ParseUnsupportedCase"
    PARSE_UNSUPPORTED_CASE_CLAUSE = "ParseUnsupportedCaseClause"
    PARSE_UNSUPPORTED_CALL_WITH_STAR = "ParseUnsupportedCallWithStar"
    PARSE_UNSUPPORTED_LITERALS_GROUP_BY = "ParseUnsupportedLiteralsGroupBy"

    # Evaluation.
    EVALUATOR_BINDING_DOES_NOT_EXIST = "EvaluatorBindingDoesNotExist"
    EVALUATOR_INVALID_ARGUMENTS = "EvaluatorInvalidArguments"
    EVALUATOR_NEGATIVE_LIMIT = "EvaluatorNegativeLimit"
    EVALUATOR_LIKE_PATTERN_INVALID_ESCAPE_SEQUENCE = "EvaluatorLikePatternInvalidEscapeSequence"
    LIKE_INVALID_INPUTS = "LikeInvalidInputs"
    CAST_FAILED = "CastFailed"
    INVALID_CAST = "InvalidCast"
    INVALID_DATA_TYPE = "InvalidDataType"
    INVALID_COLUMN_INDEX = "InvalidColumnIndex"
    INVALID_KEY_PATH = "InvalidKeyPath"
    INVALID_TABLE_ALIAS = "InvalidTableAlias"
    AMBIGUOUS_FIELD_NAME = "AmbiguousFieldName"
    MISSING_HEADER_NAME = "MissingHeaderName"
    INTEGER_OVERFLOW = "IntegerOverflow"
    NUMBER_FORMAT_ERROR = "NumberFormatError"
    VALUE_PARSE_FAILURE = "ValueParseFailure"
    ILLEGAL_SQL_FUNCTION_ARGUMENT = "IllegalSqlFunctionArgument"
    INCORRECT_SQL_FUNCTION_ARGUMENT_TYPE = "IncorrectSqlFunctionArgumentType"
    UNSUPPORTED_FUNCTION = "UnsupportedFunction"
    UNSUPPORTED_SQL_OPERATION = "UnsupportedSqlOperation"
    UNSUPPORTED_SQL_STRUCTURE = "UnsupportedSqlStructure"
    UNSUPPORTED_SYNTAX = "UnsupportedSyntax"
    UNSUPPORTED_TYPE_FOR_QUERYING = "UnsupportedTypeForQuerying"
    DATA_SOURCE_PATH_UNSUPPORTED = "DataSourcePathUnsupported"
    MULTIPLE_DATA_SOURCES_UNSUPPORTED = "MultipleDataSourcesUnsupported"
    MAX_OPERATORS_EXCEEDED = "MaxOperatorsExceeded"
    EXTERNAL_EVAL_EXCEPTION = "ExternalEvalException"

    # Patterns of timestamps.
    INVALID_TIMESTAMP_FORMAT_PATTERN = "EvaluatorInvalidTimestampFormatPattern"
    INVALID_TIMESTAMP_FORMAT_PATTERN_SYMBOL = "EvaluatorInvalidTimestampFormatPatternSymbol"
    INVALID_TIMESTAMP_FORMAT_PATTERN_SYMBOL_FOR_PARSING = "EvaluatorInvalidTimestampFormatPatternSymbolForParsing"
    INVALID_TIMESTAMP_FORMAT_PATTERN_TOKEN = "EvaluatorInvalidTimestampFormatPatternToken"  # noqa: S105
    UNTERMINATED_TIMESTAMP_FORMAT_PATTERN_TOKEN = "EvaluatorUnterminatedTimestampFormatPatternToken"  # noqa: S105
    TIMESTAMP_FORMAT_PATTERN_DUPLICATE_FIELDS = "EvaluatorTimestampFormatPatternDuplicateFields"
    TIMESTAMP_FORMAT_PATTERN_HOUR_CLOCK_AM_PM_MISMATCH = "EvaluatorTimestampFormatPatternHourClockAmPmMismatch"

    # The service. Raised as `Unavailable` (Busy) and `Throttled` (SlowDown), which are retryable.
    BUSY = "Busy"
    INTERNAL_ERROR = "InternalError"


def failure(code: SelectCode, message: str) -> SelectError:
    """An error with an S3 code."""
    return SelectError(message, code=code)


def nested_too_deeply() -> SelectError:
    """The error for JSON that is nested too deeply."""
    return failure(SelectCode.JSON_PARSING_ERROR, "JSON value is nested too deeply")


def no_such_column(code: SelectCode, name: str, columns: Sequence[str]) -> SelectError:
    """The error for an unknown column. It lists the existing ones, up to a limit."""
    listed = ", ".join(column[:_NAME_CHARS] for column in columns[:_LISTED_COLUMNS])
    more = f", … {len(columns) - _LISTED_COLUMNS} more" if len(columns) > _LISTED_COLUMNS else ""
    return failure(code, f"no such column. name={name[:_NAME_CHARS]} columns={listed}{more}")


__all__ = ["SelectCode", "SelectError", "failure", "nested_too_deeply", "no_such_column"]
