"""Row filters written as SQL conditions: `region IN ('EU', 'UK') AND NOT deleted IS NULL`. Pure.

Parses a small part of SQL to the same filters as JSON; the text is never passed to an engine. Supported are comparisons
of a column with a value, `IS NULL`, `IN`, `BETWEEN`, `LIKE` with a prefix, `AND`, `OR`, `NOT` and parentheses.
Functions, arithmetic and subqueries are refused.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from lakebed.iceberg.expressions.unbound import FALSE, TRUE, And, Not, Or, PredicateOperation

from .json_documents import JsonPath, policy_fault
from .row_filters import RowFilter, Value, column_predicate

__all__ = ["read_sql"]

MAX_DEPTH: Final = 64
MAX_PARTS: Final = 2000

_TOKEN: Final = re.compile(
    r"""\s*(?:
        (?P<text>'(?:[^']|'')*')
      | (?P<quoted>"(?:[^"]|"")+"|`(?:[^`]|``)+`)
      | (?P<number>[+-]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?(?![\w.]))
      | (?P<word>[A-Za-z_]\w*)
      | (?P<sign><=|>=|<>|!=|==|=|<|>|\(|\)|,|\.)
    )""",
    re.X | re.A,
)
_COMPARISONS: Final = {
    "=": PredicateOperation.EQ,
    "==": PredicateOperation.EQ,
    "<>": PredicateOperation.NOT_EQ,
    "!=": PredicateOperation.NOT_EQ,
    "<": PredicateOperation.LT,
    "<=": PredicateOperation.LT_EQ,
    ">": PredicateOperation.GT,
    ">=": PredicateOperation.GT_EQ,
}
_KEYWORDS: Final = frozenset(
    ("AND", "OR", "NOT", "IN", "IS", "NULL", "LIKE", "BETWEEN", "TRUE", "FALSE", "DATE", "TIMESTAMP")
)
_LIKE_SIGNS: Final = re.compile(r"[%_\\]")


class _Token(NamedTuple):
    kind: str
    """`word` also for quoted names; keywords have `keyword`."""
    text: str
    at: int


def read_sql(text: str, at: JsonPath) -> RowFilter:
    """Parse a condition. Raises InvalidPolicy with the position of the error."""
    return _Parser(text, at).whole()


class _Parser:
    def __init__(self, text: str, at: JsonPath) -> None:
        self._at = at
        self._text = text
        self._tokens = self._split()
        self._next = 0
        if len(self._tokens) > 2 * MAX_PARTS:
            raise policy_fault(at, f"has at most {MAX_PARTS} conditions and values")

    def whole(self) -> RowFilter:
        found = self._any_of(0)
        if self._next < len(self._tokens):
            raise self._wrong("AND, OR or the end")
        return found

    # -- operators ------------------------------------------------------------------------------------------------

    def _any_of(self, depth: int) -> RowFilter:
        if depth > MAX_DEPTH:
            raise policy_fault(self._at, f"is nested more than {MAX_DEPTH} levels deep")
        operands = [self._all_of(depth)]
        while self._take("keyword", "OR"):
            operands.append(self._all_of(depth))
        return operands[0] if len(operands) == 1 else Or(tuple(operands))

    def _all_of(self, depth: int) -> RowFilter:
        operands = [self._negated(depth)]
        while self._take("keyword", "AND"):
            operands.append(self._negated(depth))
        return operands[0] if len(operands) == 1 else And(tuple(operands))

    def _negated(self, depth: int) -> RowFilter:
        negations = 0
        while self._take("keyword", "NOT"):
            negations += 1
        found = self._condition(depth)
        return Not(found) if negations % 2 else found

    def _condition(self, depth: int) -> RowFilter:
        if self._take("sign", "("):
            inner = self._any_of(depth + 1)
            self._expect("sign", ")")
            return inner
        for word in ("TRUE", "FALSE"):
            if self._take("keyword", word):
                return TRUE if word == "TRUE" else FALSE
        column = self._column()
        if self._take("keyword", "IS"):
            negated = self._take("keyword", "NOT")
            self._expect("keyword", "NULL")
            return column_predicate(PredicateOperation.NOT_NULL if negated else PredicateOperation.IS_NULL, column)
        negated = self._take("keyword", "NOT")
        if self._take("keyword", "IN"):
            return column_predicate(
                PredicateOperation.NOT_IN if negated else PredicateOperation.IN, column, self._values()
            )
        if self._take("keyword", "BETWEEN"):
            low = self._value()
            self._expect("keyword", "AND")
            between = And(
                (
                    column_predicate(PredicateOperation.GT_EQ, column, (low,)),
                    column_predicate(PredicateOperation.LT_EQ, column, (self._value(),)),
                )
            )
            return Not(between) if negated else between
        if self._take("keyword", "LIKE"):
            return self._like(column, negated=negated)
        sign = None if negated else self._peek()
        relation = None if sign is None or sign.kind != "sign" else _COMPARISONS.get(sign.text)
        if relation is None:
            raise self._wrong("IN, BETWEEN or LIKE" if negated else "a comparison, IS, IN, BETWEEN or LIKE")
        self._next += 1
        return column_predicate(relation, column, (self._value(),))

    def _like(self, column: str, *, negated: bool) -> RowFilter:
        pattern = self._peek()
        if pattern is None or pattern.kind != "text":
            raise self._wrong("a string")
        prefix = pattern.text[:-1]
        if not pattern.text.endswith("%") or _LIKE_SIGNS.search(prefix):
            raise self._wrong("a prefix followed by one %, such as 'ab%'")
        self._next += 1
        return column_predicate(
            PredicateOperation.NOT_STARTS_WITH if negated else PredicateOperation.STARTS_WITH, column, (prefix,)
        )

    # -- names and values -----------------------------------------------------------------------------------------

    def _column(self) -> str:
        names = [self._name()]
        while self._take("sign", "."):
            names.append(self._name())
        return ".".join(names)

    def _name(self) -> str:
        token = self._peek()
        if token is None or token.kind != "word":
            raise self._wrong("a column")
        self._next += 1
        return token.text

    def _values(self) -> tuple[Value, ...]:
        self._expect("sign", "(")
        values = [self._value()]
        while self._take("sign", ","):
            values.append(self._value())
        self._expect("sign", ")")
        return tuple(values)

    def _value(self) -> Value:
        is_time = self._take("keyword", "DATE") or self._take("keyword", "TIMESTAMP")
        token = self._peek()
        if token is not None and token.kind == "text":
            self._next += 1
            return token.text
        if token is None or is_time:
            raise self._wrong("a string")
        if token.kind == "keyword" and token.text in ("TRUE", "FALSE"):
            self._next += 1
            return token.text == "TRUE"
        if token.kind != "number":
            raise self._wrong("a value: 'string', a number, TRUE or FALSE")
        self._next += 1
        # A number with a point may be a decimal; the column's type parses its shortest representation.
        return int(token.text) if re.fullmatch(r"[+-]?\d{1,40}", token.text) else float(token.text)

    # -- tokens ---------------------------------------------------------------------------------------------------

    def _split(self) -> list[_Token]:
        text, position = self._text, 0
        end = len(text.rstrip())
        tokens: list[_Token] = []
        while position < end:
            found = _TOKEN.match(text, position)
            if found is None or found.lastgroup is None:
                raise policy_fault(self._at, f"invalid SQL condition at {text[position : position + 20].strip()!r}")
            position = found.end()
            tokens.append(_token(found.lastgroup, found[found.lastgroup], found.start(found.lastgroup)))
        return tokens

    def _peek(self) -> _Token | None:
        return self._tokens[self._next] if self._next < len(self._tokens) else None

    def _take(self, kind: str, text: str) -> bool:
        token = self._peek()
        if token is None or (token.kind, token.text) != (kind, text):
            return False
        self._next += 1
        return True

    def _expect(self, kind: str, text: str) -> None:
        if not self._take(kind, text):
            raise self._wrong(text)

    def _wrong(self, expected: str) -> Exception:
        token = self._peek()
        here = "at its end" if token is None else f"at {self._text[token.at : token.at + 20]!r}"
        return policy_fault(self._at, f"invalid SQL condition {here}: expected {expected}")


def _token(kind: str, text: str, at: int) -> _Token:
    if kind == "text":
        return _Token(kind, text[1:-1].replace("''", "'"), at)
    if kind == "quoted":
        return _Token("word", text[1:-1].replace(text[0] * 2, text[0]), at)
    if kind == "word" and text.upper() in _KEYWORDS:
        return _Token("keyword", text.upper(), at)
    return _Token(kind, text, at)
