"""Parses expressions with sqlglot, adapted to S3 Select's dialect, and maps syntax errors to S3's codes.

The path after FROM exists in no other SQL: it is extracted from the tokens before sqlglot parses them.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from sqlglot import exp, parser, tokens
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ErrorLevel, ParseError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from ..errors import SelectCode, SelectError, failure
from ..model import MAX_EXPRESSION_BYTES
from .paths import FieldName, Index, Path, PathWildcard, Step

_MAX_DEPTH: Final = 100
"""Limit of nested parentheses; deeper nesting is not safe to parse."""

MISSING_KEYWORD: Final = "MISSING"


class _S3Select(Dialect):
    """SQL without known functions: each is a name with arguments, which `functions.py` checks."""

    INDEX_OFFSET = 0

    class Tokenizer(tokens.Tokenizer):
        IDENTIFIERS = ['"']  # noqa: RUF012
        QUOTES = ["'"]  # noqa: RUF012
        BYTE_STRINGS = [("`", "`")]  # noqa: RUF012
        COMMENTS = ["--", ("/*", "*/")]  # noqa: RUF012

    class Parser(parser.Parser):
        FUNCTIONS = {}  # noqa: RUF012
        FUNCTION_PARSERS = {  # noqa: RUF012
            name: parser.Parser.FUNCTION_PARSERS[name] for name in ("CAST", "EXTRACT", "SUBSTRING", "TRIM")
        }
        NO_PAREN_FUNCTIONS = {}  # noqa: RUF012

        def _parse_is(self, this: Any) -> Any:  # sqlglot's own signature
            """Also `IS [NOT] MISSING`."""
            start = self._index
            negated = self._match(TokenType.NOT)
            if self._match_text_seq(MISSING_KEYWORD):
                found: Any = exp.Is(this=this, expression=exp.Var(this=MISSING_KEYWORD))
                return exp.Not(this=found) if negated else found
            self._retreat(start)
            return super()._parse_is(this)


_DIALECT: Final = _S3Select()


class ParsedSelect(NamedTuple):
    """A statement, and the path after FROM that was extracted from it."""

    select: exp.Select
    source: Path
    named: str | None = None
    """The name of the source, if it is not `S3Object`."""


def parse(expression: str, table: tuple[str, ...] = ()) -> ParsedSelect:
    """Parse an expression. Raises SelectError with its S3 code.

    `table` is the table's name by parts, if it has one besides `S3Object`: statements may use the full name, its last
    part, or `table`.
    """
    if len(expression.encode()) > MAX_EXPRESSION_BYTES:
        raise failure(SelectCode.EXPRESSION_TOO_LONG, f"expression is too long. maximum={MAX_EXPRESSION_BYTES}")
    sql_tokens = tokenize(expression)
    _check_tokens(sql_tokens)
    sql_tokens, named = _rename_source(sql_tokens, table)
    sql_tokens, source = _extract_source(sql_tokens)
    try:
        found = _DIALECT.parser(error_level=ErrorLevel.IMMEDIATE).parse(sql_tokens, expression)
    except ParseError as error:
        raise _parse_error(error) from error
    except RecursionError as error:
        raise failure(SelectCode.MAX_OPERATORS_EXCEEDED, "expression is nested too deeply") from error
    statements = [statement for statement in found if statement is not None]
    if len(statements) != 1:
        raise failure(SelectCode.UNSUPPORTED_SQL_STRUCTURE, f"one statement is expected. found={len(statements)}")
    if not isinstance(statements[0], exp.Select):
        raise failure(SelectCode.UNSUPPORTED_SQL_STRUCTURE, "a SELECT is expected")
    return ParsedSelect(statements[0], source, named)


def tokenize(expression: str) -> list[Token]:
    """The tokens of an expression, with positions. Raises SelectError."""
    try:
        sql_tokens = list(_DIALECT.tokenize(expression))
    except TokenError as error:
        cause = str(error.__cause__ or error)
        if "Missing" in cause or "unterminated" in cause.lower():
            raise failure(SelectCode.LEXER_INVALID_LITERAL, "unterminated quote") from error
        raise failure(SelectCode.LEXER_INVALID_CHAR, "invalid character in the expression") from error
    for token in sql_tokens:
        if token.token_type is TokenType.UNKNOWN or (
            token.token_type in (TokenType.PARAMETER, TokenType.PLACEHOLDER, TokenType.HASH, TokenType.DOLLAR)
        ):
            raise failure(SelectCode.LEXER_INVALID_CHAR, f"invalid character. found={token.text}")
    return sql_tokens


def _check_tokens(sql_tokens: list[Token]) -> None:
    """Check for errors that sqlglot accepts, or reports without a distinct message."""
    while sql_tokens and sql_tokens[-1].token_type is TokenType.SEMICOLON:
        sql_tokens.pop()
    if not sql_tokens or sql_tokens[0].token_type is not TokenType.SELECT:
        if sql_tokens and sql_tokens[0].token_type is TokenType.WITH:
            raise failure(SelectCode.UNSUPPORTED_SQL_STRUCTURE, "WITH is not supported")
        found = sql_tokens[0].text if sql_tokens else "nothing"
        raise failure(SelectCode.PARSE_EXPECTED_KEYWORD, f"SELECT is expected. found={found}")
    depth = 0
    for number, token in enumerate(sql_tokens):
        kind = token.token_type
        following = sql_tokens[number + 1].token_type if number + 1 < len(sql_tokens) else None
        if kind is TokenType.SEMICOLON:
            raise failure(SelectCode.UNSUPPORTED_SQL_STRUCTURE, "one statement is expected")
        if kind is TokenType.L_PAREN:
            depth += 1
            if following is TokenType.SELECT:
                raise failure(SelectCode.UNSUPPORTED_SQL_STRUCTURE, "subqueries are not supported")
        elif kind is TokenType.R_PAREN:
            depth -= 1
        if depth > _MAX_DEPTH:
            raise failure(SelectCode.MAX_OPERATORS_EXCEEDED, "expression is nested too deeply")
        if token.text.upper() == "CAST" and kind is not TokenType.IDENTIFIER and following is not TokenType.L_PAREN:
            raise failure(SelectCode.PARSE_EXPECTED_LEFT_PAREN_AFTER_CAST, "( is expected after CAST")
        if kind is TokenType.CASE and following in (TokenType.END, None):
            raise failure(SelectCode.PARSE_EXPECTED_WHEN_CLAUSE, "WHEN is expected after CASE")
        if kind is TokenType.ALIAS and following in (TokenType.NUMBER, TokenType.FROM, TokenType.COMMA, None):
            raise failure(SelectCode.PARSE_EXPECTED_IDENT_FOR_ALIAS, "a name is expected after AS")
        if kind is TokenType.COMMA and following in (TokenType.FROM, TokenType.COMMA):
            raise failure(SelectCode.PARSE_EXPECTED_EXPRESSION, "an expression is expected after a comma")
    if depth > 0:
        raise failure(SelectCode.PARSE_EXPECTED_RIGHT_PAREN_BUILTIN_FUNCTION_CALL, "a bracket is not closed")


def _find_from(sql_tokens: list[Token]) -> int:
    """The position of the statement's FROM, not one of EXTRACT, TRIM or SUBSTRING."""
    depth = 0
    for at, token in enumerate(sql_tokens):
        if token.token_type is TokenType.FROM and depth == 0:
            return at
        depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
    raise failure(SelectCode.PARSE_SELECT_MISSING_FROM, "FROM is expected")


def _rename_source(sql_tokens: list[Token], table: tuple[str, ...]) -> tuple[list[Token], str | None]:
    """The tokens with `S3Object` in place of the table's name, and the last part of that name if it was used."""
    if not table:
        return sql_tokens, None
    at = _find_from(sql_tokens) + 1
    for name in (table, table[-1:], ("table",)):
        count = 2 * len(name) - 1
        candidate = sql_tokens[at : at + count]
        dots = all(token.token_type is TokenType.DOT for token in candidate[1::2])
        parts = [token.text.casefold() for token in candidate[::2]]
        if len(candidate) == count and dots and parts == [*map(str.casefold, name)]:
            source = Token(TokenType.VAR, "S3Object", line=candidate[0].line, col=candidate[0].col)
            return [*sql_tokens[:at], source, *sql_tokens[at + count :]], name[-1]
    return sql_tokens, None


def _extract_source(sql_tokens: list[Token]) -> tuple[list[Token], Path]:
    """The tokens without the path after FROM, and the path."""
    at = _find_from(sql_tokens)
    if at == 1:
        raise failure(SelectCode.PARSE_EMPTY_SELECT, "the select list is empty")
    at += 1
    if at >= len(sql_tokens):
        raise failure(SelectCode.PARSE_EXPECTED_MEMBER, "S3Object is expected after FROM")
    table = sql_tokens[at]
    if table.text.upper() != "S3OBJECT" or table.token_type is TokenType.STRING:
        if table.token_type is TokenType.L_PAREN:
            raise failure(SelectCode.UNSUPPORTED_SQL_STRUCTURE, "subqueries are not supported")
        raise failure(SelectCode.DATA_SOURCE_PATH_UNSUPPORTED, f"S3Object is expected after FROM. found={table.text}")
    steps: list[Step] = []
    after = at + 1
    while after < len(sql_tokens) and sql_tokens[after].token_type in (TokenType.L_BRACKET, TokenType.DOT):
        step, after = _parse_step(sql_tokens, after)
        steps.append(step)
    return [*sql_tokens[: at + 1], *sql_tokens[after:]], _from_root(steps)


def _parse_step(sql_tokens: list[Token], at: int) -> tuple[Step, int]:
    inner = sql_tokens[at + 1] if at + 1 < len(sql_tokens) else None
    if inner is None:
        raise failure(SelectCode.PARSE_INVALID_PATH_COMPONENT, "the path after FROM ends early")
    if sql_tokens[at].token_type is TokenType.DOT:
        if inner.token_type is TokenType.STAR:
            return PathWildcard(fields=True), at + 2
        if inner.token_type in (TokenType.NUMBER, TokenType.STRING) or not re.match(r'[\w"]', inner.text):
            raise failure(SelectCode.PARSE_INVALID_PATH_COMPONENT, f"a name is expected in a path. found={inner.text}")
        return FieldName(inner.text, inner.token_type is TokenType.IDENTIFIER), at + 2
    if at + 2 >= len(sql_tokens) or sql_tokens[at + 2].token_type is not TokenType.R_BRACKET:
        raise failure(SelectCode.PARSE_INVALID_PATH_COMPONENT, "] is expected in the path after FROM")
    match inner.token_type:
        case TokenType.STAR:
            return PathWildcard(), at + 3
        case TokenType.NUMBER if inner.text.isdigit():
            return Index(int(inner.text)), at + 3
        case TokenType.STRING:
            return FieldName(inner.text, quoted=True), at + 3
        case _:
            raise failure(
                SelectCode.PARSE_INVALID_PATH_COMPONENT,
                f"a number, a name in quotes or * is expected in brackets. found={inner.text}",
            )


def _from_root(steps: list[Step]) -> Path:
    """The path from one value of the object: `S3Object` and `S3Object[*]` both mean the sequence of values."""
    if steps and steps[0] == PathWildcard():
        steps = steps[1:]
    return tuple(steps)


_ERRORS: Final = (
    (r"Expected type after", SelectCode.PARSE_EXPECTED_TYPE_NAME, "a type is expected"),
    (r"Expected AS after CAST", SelectCode.PARSE_CAST_ARITY, "CAST takes a value AS a type"),
    (
        r"Required keyword: 'ifs'|Expected END|THEN|WHEN",
        SelectCode.PARSE_EXPECTED_KEYWORD,
        "WHEN, THEN or END is expected",
    ),
    (r"after EXTRACT|FROM or comma", SelectCode.PARSE_EXPECTED_KEYWORD, "EXTRACT takes a part FROM a timestamp"),
    (
        r"Expecting \)",
        SelectCode.PARSE_EXPECTED_RIGHT_PAREN_BUILTIN_FUNCTION_CALL,
        "a bracket is not closed",
    ),
    (r"Expecting \(", SelectCode.PARSE_EXPECTED_LEFT_PAREN_BUILTIN_FUNCTION_CALL, "a bracket is expected"),
    (r"\]", SelectCode.PARSE_INVALID_PATH_COMPONENT, "a path is not closed"),
    (r"Limit", SelectCode.PARSE_EXPECTED_NUMBER, "LIMIT must be an integer"),
    (r"Required (keyword|argument)", SelectCode.PARSE_EXPECTED_EXPRESSION, "an expression is expected"),
    (r"[Aa]lias", SelectCode.PARSE_EXPECTED_IDENT_FOR_ALIAS, "a name is expected"),
)
"""Patterns of sqlglot's messages, with S3's code and message."""


def _parse_error(error: ParseError) -> SelectError:
    details = error.errors[0] if error.errors else {}
    description = str(details.get("description") or error)
    near = str(details.get("highlight") or "").strip()
    code, message = next(
        ((code, message) for pattern, code, message in _ERRORS if re.search(pattern, description)),
        (SelectCode.PARSE_UNEXPECTED_TOKEN, "unexpected token"),
    )
    return failure(code, f"expression cannot be parsed: {message}. near={near[:40]!r}")
