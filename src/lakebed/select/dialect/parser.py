"""Reads an expression: what sqlglot cannot know of S3 Select's dialect, and what is wrong in S3's words.

sqlglot parses the statement. Ours is the path after FROM, which no other SQL has: it is taken out of the tokens before
they are parsed.
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
from .paths import FieldName, Index, Path, Step, Wildcard

_MAX_DEPTH: Final = 100
"""Parentheses within parentheses; beyond it neither parser is safe."""

MISSING_WORD: Final = "MISSING"


class _S3Select(Dialect):
    """SQL without the functions that others have: each is a name and its arguments, and judged by `functions.py`."""

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
            if self._match_text_seq(MISSING_WORD):
                found: Any = exp.Is(this=this, expression=exp.Var(this=MISSING_WORD))
                return exp.Not(this=found) if negated else found
            self._retreat(start)
            return super()._parse_is(this)


_DIALECT: Final = _S3Select()


class ParsedSelect(NamedTuple):
    """A statement, and the path after FROM that was taken out of it."""

    select: exp.Select
    source: Path
    named: str | None = None
    """What the source was called, where it is not `S3Object`."""


def parse(expression: str, table: tuple[str, ...] = ()) -> ParsedSelect:
    """Read an expression. Raises SelectError with the code of what is wrong with it.

    `table` is the name of what is selected from, part by part, where it has one besides `S3Object`: it may be said in
    full, by its last part, or as `table`.
    """
    if len(expression.encode()) > MAX_EXPRESSION_BYTES:
        raise failure(SelectCode.EXPRESSION_TOO_LONG, f"the expression is too long. maximum={MAX_EXPRESSION_BYTES}")
    words = tokenize(expression)
    _check_words(words)
    words, named = _rename_source(words, table)
    words, source = _take_source(words)
    try:
        found = _DIALECT.parser(error_level=ErrorLevel.IMMEDIATE).parse(words, expression)
    except ParseError as error:
        raise _refused(error) from error
    except RecursionError as error:
        raise failure(SelectCode.MAX_OPERATORS_EXCEEDED, "the expression is nested too deeply") from error
    statements = [statement for statement in found if statement is not None]
    if len(statements) != 1:
        raise failure(SelectCode.UNSUPPORTED_SQL_STRUCTURE, f"one statement is expected. found={len(statements)}")
    if not isinstance(statements[0], exp.Select):
        raise failure(SelectCode.UNSUPPORTED_SQL_STRUCTURE, "a SELECT is expected")
    return ParsedSelect(statements[0], source, named)


def tokenize(expression: str) -> list[Token]:
    """The words of an expression, each with where it stands. Raises SelectError."""
    try:
        words = list(_DIALECT.tokenize(expression))
    except TokenError as error:
        cause = str(error.__cause__ or error)
        if "Missing" in cause or "unterminated" in cause.lower():
            raise failure(SelectCode.LEXER_INVALID_LITERAL, "a quote is not closed") from error
        raise failure(SelectCode.LEXER_INVALID_CHAR, "the expression has a character that means nothing") from error
    for word in words:
        if word.token_type is TokenType.UNKNOWN or (
            word.token_type in (TokenType.PARAMETER, TokenType.PLACEHOLDER, TokenType.HASH, TokenType.DOLLAR)
        ):
            raise failure(SelectCode.LEXER_INVALID_CHAR, f"a character that means nothing. found={word.text}")
    return words


def _check_words(words: list[Token]) -> None:
    """What sqlglot would let pass, or would tell of in words that have no code."""
    while words and words[-1].token_type is TokenType.SEMICOLON:
        words.pop()
    if not words or words[0].token_type is not TokenType.SELECT:
        if words and words[0].token_type is TokenType.WITH:
            raise failure(SelectCode.UNSUPPORTED_SQL_STRUCTURE, "WITH is not supported")
        found = words[0].text if words else "nothing"
        raise failure(SelectCode.PARSE_EXPECTED_KEYWORD, f"SELECT is expected. found={found}")
    depth = 0
    for number, word in enumerate(words):
        kind = word.token_type
        following = words[number + 1].token_type if number + 1 < len(words) else None
        if kind is TokenType.SEMICOLON:
            raise failure(SelectCode.UNSUPPORTED_SQL_STRUCTURE, "one statement is expected")
        if kind is TokenType.L_PAREN:
            depth += 1
            if following is TokenType.SELECT:
                raise failure(SelectCode.UNSUPPORTED_SQL_STRUCTURE, "a select within the select is not supported")
        elif kind is TokenType.R_PAREN:
            depth -= 1
        if depth > _MAX_DEPTH:
            raise failure(SelectCode.MAX_OPERATORS_EXCEEDED, "the expression is nested too deeply")
        if word.text.upper() == "CAST" and kind is not TokenType.IDENTIFIER and following is not TokenType.L_PAREN:
            raise failure(SelectCode.PARSE_EXPECTED_LEFT_PAREN_AFTER_CAST, "( is expected after CAST")
        if kind is TokenType.CASE and following in (TokenType.END, None):
            raise failure(SelectCode.PARSE_EXPECTED_WHEN_CLAUSE, "WHEN is expected after CASE")
        if kind is TokenType.ALIAS and following in (TokenType.NUMBER, TokenType.FROM, TokenType.COMMA, None):
            raise failure(SelectCode.PARSE_EXPECTED_IDENT_FOR_ALIAS, "a name is expected after AS")
        if kind is TokenType.COMMA and following in (TokenType.FROM, TokenType.COMMA):
            raise failure(SelectCode.PARSE_EXPECTED_EXPRESSION, "an expression is expected after a comma")
    if depth > 0:
        raise failure(SelectCode.PARSE_EXPECTED_RIGHT_PAREN_BUILTIN_FUNCTION_CALL, "a bracket is not closed")


def _find_from(words: list[Token]) -> int:
    """Where the FROM of the statement is: not one of EXTRACT, TRIM or SUBSTRING."""
    depth = 0
    for at, word in enumerate(words):
        if word.token_type is TokenType.FROM and depth == 0:
            return at
        depth += (word.token_type is TokenType.L_PAREN) - (word.token_type is TokenType.R_PAREN)
    raise failure(SelectCode.PARSE_SELECT_MISSING_FROM, "FROM is expected")


def _rename_source(words: list[Token], table: tuple[str, ...]) -> tuple[list[Token], str | None]:
    """The tokens with `S3Object` for the name of the table; and the end of that name, if it was there."""
    if not table:
        return words, None
    at = _find_from(words) + 1
    for name in (table, table[-1:], ("table",)):
        count = 2 * len(name) - 1
        said = words[at : at + count]
        dots = all(word.token_type is TokenType.DOT for word in said[1::2])
        if len(said) == count and dots and [word.text.casefold() for word in said[::2]] == [*map(str.casefold, name)]:
            source = Token(TokenType.VAR, "S3Object", line=said[0].line, col=said[0].col)
            return [*words[:at], source, *words[at + count :]], name[-1]
    return words, None


def _take_source(words: list[Token]) -> tuple[list[Token], Path]:
    """The tokens without the path after FROM, and the path."""
    at = _find_from(words)
    if at == 1:
        raise failure(SelectCode.PARSE_EMPTY_SELECT, "nothing is selected")
    at += 1
    if at >= len(words):
        raise failure(SelectCode.PARSE_EXPECTED_MEMBER, "S3Object is expected after FROM")
    table = words[at]
    if table.text.upper() != "S3OBJECT" or table.token_type is TokenType.STRING:
        if table.token_type is TokenType.L_PAREN:
            raise failure(SelectCode.UNSUPPORTED_SQL_STRUCTURE, "a select within the select is not supported")
        raise failure(SelectCode.DATA_SOURCE_PATH_UNSUPPORTED, f"S3Object is expected after FROM. found={table.text}")
    steps: list[Step] = []
    after = at + 1
    while after < len(words) and words[after].token_type in (TokenType.L_BRACKET, TokenType.DOT):
        step, after = _take_step(words, after)
        steps.append(step)
    return [*words[: at + 1], *words[after:]], _from_root(steps)


def _take_step(words: list[Token], at: int) -> tuple[Step, int]:
    inner = words[at + 1] if at + 1 < len(words) else None
    if inner is None:
        raise failure(SelectCode.PARSE_INVALID_PATH_COMPONENT, "the path after FROM ends early")
    if words[at].token_type is TokenType.DOT:
        if inner.token_type is TokenType.STAR:
            return Wildcard(fields=True), at + 2
        if inner.token_type in (TokenType.NUMBER, TokenType.STRING) or not re.match(r'[\w"]', inner.text):
            raise failure(SelectCode.PARSE_INVALID_PATH_COMPONENT, f"a name is expected in a path. found={inner.text}")
        return FieldName(inner.text, inner.token_type is TokenType.IDENTIFIER), at + 2
    if at + 2 >= len(words) or words[at + 2].token_type is not TokenType.R_BRACKET:
        raise failure(SelectCode.PARSE_INVALID_PATH_COMPONENT, "] is expected in the path after FROM")
    match inner.token_type:
        case TokenType.STAR:
            return Wildcard(), at + 3
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
    """The path from one value of the object: `S3Object` and `S3Object[*]` are the sequence of these values."""
    if steps and steps[0] == Wildcard():
        steps = steps[1:]
    return tuple(steps)


_TOLD: Final = (
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
    (r"Limit", SelectCode.PARSE_EXPECTED_NUMBER, "LIMIT is a whole number"),
    (r"Required (keyword|argument)", SelectCode.PARSE_EXPECTED_EXPRESSION, "an expression is expected"),
    (r"[Aa]lias", SelectCode.PARSE_EXPECTED_IDENT_FOR_ALIAS, "a name is expected"),
)
"""What sqlglot says, and what S3 says to it."""


def _refused(error: ParseError) -> SelectError:
    details = error.errors[0] if error.errors else {}
    said = str(details.get("description") or error)
    near = str(details.get("highlight") or "").strip()
    code, message = next(
        ((code, message) for pattern, code, message in _TOLD if re.search(pattern, said)),
        (SelectCode.PARSE_UNEXPECTED_TOKEN, "something is not expected here"),
    )
    return failure(code, f"the expression cannot be read: {message}. near={near[:40]!r}")
