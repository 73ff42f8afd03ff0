"""Wildcards and variables of the policy language.

`*` matches any text, `?` one character. In documents of version 2012-10-17 `${key}` and `${key, 'default'}` are
replaced by a value of the request, and `${*}`, `${?}`, `${$}` by the plain characters. Values are matched literally: a
user named `*` matches no other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Final, TypeAlias

from lakebed.core.errors import InvalidPolicy

ConditionValues: TypeAlias = Callable[[str], "tuple[str, ...] | None"]
"""The request's values of a lower-case condition key; None if it does not have the key."""


class Wildcard(Enum):
    """A wildcard."""

    ANY = "*"
    ONE = "?"


@dataclass(frozen=True, slots=True)
class PolicyVariable:
    """A variable, replaced by a value of the request."""

    key: str
    default: str | None = None

    def resolve(self, values: ConditionValues) -> str | None:
        """The value, the default, or None. A key with several values has no single value."""
        found = values(self.key)
        return found[0] if found is not None and len(found) == 1 else self.default


Plain: TypeAlias = str | Wildcard
Piece: TypeAlias = str | Wildcard | PolicyVariable

_VARIABLE: Final = re.compile(r"\$\{\s*([^{},'\s]+)\s*(?:,\s*'([^']*)'\s*)?\}")
_ESCAPED: Final = {"${*}": "*", "${?}": "?", "${$}": "$"}


def fold_key(key: str) -> str:
    """Normalizes a condition key: lower case, except a tag key after `/`, which is case-sensitive."""
    head, slash, tag = key.partition("/")
    return head.lower() + slash + tag


def split_template(text: str, *, wildcards: bool, variables: bool) -> tuple[Piece, ...]:
    """Split a text into plain text, wildcards and variables. Raises InvalidPolicy for an invalid variable."""
    pieces: list[Piece] = []
    run: list[str] = []
    at = 0
    while at < len(text):
        char = text[at]
        if variables and text.startswith("${", at):
            if (plain := _ESCAPED.get(text[at : at + 4])) is not None:
                run.append(plain)
                at += 4
                continue
            found = _VARIABLE.match(text, at)
            if found is None or ":" not in found[1]:
                raise InvalidPolicy(f"invalid policy variable. text={text}")
            if run:
                pieces.append("".join(run))
                run = []
            pieces.append(PolicyVariable(fold_key(found[1]), found[2]))
            at = found.end()
            continue
        if wildcards and char in "*?":
            if run:
                pieces.append("".join(run))
                run = []
            pieces.append(Wildcard(char))
        else:
            run.append(char)
        at += 1
    if run:
        pieces.append("".join(run))
    return tuple(pieces)


def _resolve(pieces: tuple[Piece, ...], values: ConditionValues, *, fold: bool) -> tuple[Plain, ...] | None:
    """Replace variables by their values; None if one has no value."""
    plain: list[Plain] = []
    for piece in pieces:
        text = piece.resolve(values) if isinstance(piece, PolicyVariable) else piece
        if text is None:
            return None
        plain.append(text.casefold() if fold and isinstance(text, str) else text)
    return tuple(plain)


def _expression(pieces: tuple[Plain, ...], *, arn: bool) -> str:
    """A regular expression whose cost is at most proportional to pattern times text.

    After each `*` the next run matches only at its first occurrence (an atomic group). For wildcards that is enough,
    and it prevents backtracking, which makes hostile patterns slow.
    """
    groups: list[list[str]] = [[]]
    stars: list[str] = []
    colons = 0
    for piece in pieces:
        # Wildcards do not cross a colon in the first five parts of an ARN.
        one = "[^:]" if arn and colons < 5 else "."
        if piece is Wildcard.ANY:
            stars.append(one + "*")
            groups.append([])
        elif piece is Wildcard.ONE:
            groups[-1].append(one)
        else:
            colons += piece.count(":")
            groups[-1].append(re.escape(piece))
    head, *rest = ["".join(group) for group in groups]
    if not rest:
        return head
    middle = "".join(f"(?>{star}?{group})" for star, group in zip(stars[:-1], rest[:-1], strict=True) if group)
    return f"{head}{middle}{stars[-1]}{rest[-1]}"


@lru_cache(maxsize=4096)
def _predicate(pieces: tuple[Plain, ...], arn: bool = False) -> Callable[[str], object]:
    """The fastest equivalent test: equality, a prefix, or a regular expression."""
    if not arn:
        if pieces == (Wildcard.ANY,):
            return _anything
        if Wildcard.ANY not in pieces and Wildcard.ONE not in pieces:
            return "".join(str(piece) for piece in pieces).__eq__
        if len(pieces) == 2 and isinstance(pieces[0], str) and pieces[1] is Wildcard.ANY:
            return _StartsWith(pieces[0])
    return re.compile(_expression(pieces, arn=arn), re.DOTALL).fullmatch


def _anything(text: str) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class _StartsWith:
    prefix: str

    def __call__(self, text: str) -> bool:
        return text.startswith(self.prefix)


def no_values(key: str) -> None:
    """Condition values of a request without any."""
    return


def _each(piece: Plain) -> Iterable[str | Wildcard]:
    return (piece,) if isinstance(piece, Wildcard) else piece


class PolicyPattern:
    """A compiled pattern with wildcards and variables."""

    __slots__ = ("_arn", "_fixed", "_fold", "_pieces", "text", "variables")

    def __init__(
        self,
        text: str,
        *,
        wildcards: bool = True,
        variables: bool = True,
        arn: bool = False,
        ignore_case: bool = False,
    ) -> None:
        self.text = text
        self._arn = arn
        self._fold = ignore_case
        self._pieces = split_template(text, wildcards=wildcards, variables=variables)
        self.variables = tuple(piece for piece in self._pieces if isinstance(piece, PolicyVariable))
        """The pattern's variables."""
        plain = None if self.variables else _resolve(self._pieces, no_values, fold=ignore_case)
        self._fixed = None if plain is None else _predicate(plain, arn)

    def matches(self, text: str, values: ConditionValues) -> bool:
        """Whether the pattern matches. A variable without a value matches nothing."""
        if self._fold:
            text = text.casefold()
        fixed = self._fixed
        if fixed is not None:
            return True if fixed(text) else False  # noqa: SIM210 - faster than bool()
        plain = _resolve(self._pieces, values, fold=self._fold)
        return plain is not None and bool(_predicate(plain, self._arn)(text))

    def elements(self, values: ConditionValues) -> tuple[str | Wildcard, ...] | None:
        """Characters and wildcards of the pattern, with variables replaced; None if one has no value."""
        plain = _resolve(self._pieces, values, fold=self._fold)
        return None if plain is None else tuple(one for piece in plain for one in _each(piece))

    @property
    def is_fixed(self) -> bool:
        """Whether it matches only one text, the same for every request."""
        return not any(isinstance(piece, Wildcard | PolicyVariable) for piece in self._pieces)

    def __repr__(self) -> str:
        return f"PolicyPattern({self.text!r})"


def any_matches(patterns: tuple[PolicyPattern, ...], text: str, values: ConditionValues) -> bool:
    """Whether a pattern matches `text`."""
    for pattern in patterns:  # noqa: SIM110 - hot path: a generator expression is slower
        if pattern.matches(text, values):
            return True
    return False
