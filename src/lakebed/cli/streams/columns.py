"""Parses and formats columns of stream tables: `total:decimal(10,2)`, `id:bigint!` for NOT NULL.

Types nest as in SQL: `tags:array<string>`, `marks:map<string,int>`, `home:row<street string, number int!>`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from lakebed.core.errors import InvalidInput

_WORDS: Final = re.compile(r"[<>(),:!]|[^\s<>(),:!]+")
_ROOTS: Final[Mapping[str, str]] = {
    "boolean": "BOOLEAN",
    "tinyint": "TINYINT",
    "smallint": "SMALLINT",
    "int": "INTEGER",
    "bigint": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "char": "CHAR",
    "string": "STRING",
    "decimal": "DECIMAL",
    "date": "DATE",
    "time": "TIME_WITHOUT_TIME_ZONE",
    "timestamp": "TIMESTAMP_WITHOUT_TIME_ZONE",
    "timestamp_ltz": "TIMESTAMP_WITH_LOCAL_TIME_ZONE",
    "bytes": "BYTES",
    "binary": "BINARY",
    "array": "ARRAY",
    "map": "MAP",
    "row": "ROW",
}
_SPELLED: Final = {root: word for word, root in _ROOTS.items()}
_NUMBERS: Final[Mapping[str, tuple[str, ...]]] = {
    "char": ("length",),
    "binary": ("length",),
    "decimal": ("precision", "scale"),
    "time": ("precision",),
    "timestamp": ("precision",),
    "timestamp_ltz": ("precision",),
}
_MAX_DEPTH: Final = 64  # the server's limit


def parse_column(text: str, number: int) -> dict[str, Any]:
    """The column's document; the server numbers nested fields. Raises InvalidInput."""
    name, _, rest = text.partition(":")
    try:
        if not name.strip():
            raise ValueError("expected a name")
        words = _Words(rest)
        type_ = _type(words)
        words.end()
    except ValueError as error:
        known = " ".join(_ROOTS)
        raise InvalidInput(
            f"expected NAME:TYPE, of these types: {known}. reason={error} found={text!r}",
            argument="--column",
        ) from None
    return {"name": name.strip(), "data_type": type_, "id": number}


def spell_type(document: Mapping[str, Any]) -> str:
    """Format a type's document as `parse_column` takes it."""
    word = _SPELLED.get(document["type"], str(document["type"]).lower())
    numbers = [str(document[name]) for name in _NUMBERS.get(word, ()) if document.get(name) is not None]
    if word == "array":
        word += f"<{spell_type(document['element_type'])}>"
    elif word == "map":
        word += f"<{spell_type(document['key_type'])},{spell_type(document['value_type'])}>"
    elif word == "row":
        fields = [f"{field['name']} {spell_type(field['field_type'])}" for field in document["fields"]]
        word += f"<{', '.join(fields)}>"
    return word + (f"({','.join(numbers)})" if numbers else "") + ("" if document.get("nullable", True) else "!")


def parse_aggregation(text: str) -> tuple[str, dict[str, Any]]:
    """Parse `total=sum` or `names=listagg(;)`: the column, and its function's document. Raises InvalidInput."""
    found = re.fullmatch(r"([^=]+)=\s*([A-Za-z_0-9]+)\s*(?:\((.+)\))?\s*", text)
    if found is None:
        raise InvalidInput(f"expected NAME=FUNCTION. found={text!r}", argument="--aggregate")
    parameters = {} if found[3] is None else {"delimiter": found[3]}
    return found[1].strip(), {"type": found[2].lower(), "parameters": parameters}


def spell_aggregation(document: Mapping[str, Any]) -> str:
    """Format a function's document as `parse_aggregation` takes it."""
    delimiter = (document.get("parameters") or {}).get("delimiter")
    return str(document["type"]) + ("" if delimiter is None else f"({delimiter})")


class _Words:
    """The tokens of a type. Raises ValueError for a syntax error."""

    def __init__(self, text: str) -> None:
        self._words: Sequence[str] = _WORDS.findall(text)
        self._at = 0

    def next_is(self, mark: str) -> bool:
        """Skip a mark if it is next."""
        is_next = self._at < len(self._words) and self._words[self._at] == mark
        self._at += is_next
        return is_next

    def expect(self, mark: str) -> None:
        if not self.next_is(mark):
            raise ValueError(f"expected {mark!r} {self._where()}")

    def name(self) -> str:
        if self._at >= len(self._words) or self._words[self._at] in "<>(),:!":
            raise ValueError(f"expected a name {self._where()}")
        self._at += 1
        return self._words[self._at - 1]

    def end(self) -> None:
        if self._at < len(self._words):
            raise ValueError(f"expected nothing more {self._where()}")

    def _where(self) -> str:
        return f"before {self._words[self._at]!r}" if self._at < len(self._words) else "at the end"


def _type(words: _Words, depth: int = 0) -> dict[str, Any]:
    word = words.name().lower()
    if word not in _ROOTS:
        raise ValueError(f"unknown type {word!r}")
    if depth > _MAX_DEPTH:
        raise ValueError("types are nested too deeply")
    type_: dict[str, Any] = {"type": _ROOTS[word]}
    if word in ("array", "map", "row"):
        words.expect("<")
        if word == "array":
            type_["element_type"] = _type(words, depth + 1)
        elif word == "map":
            type_["key_type"] = _type(words, depth + 1)
            words.expect(",")
            type_["value_type"] = _type(words, depth + 1)
        else:
            type_["fields"] = list(_fields(words, depth + 1))
        words.expect(">")
    elif words.next_is("("):
        type_ |= dict(_numbers(words, word))
    if words.next_is("!"):
        type_["nullable"] = False
    return type_


def _fields(words: _Words, depth: int) -> Iterator[dict[str, Any]]:
    while True:
        name = words.name()
        words.next_is(":")
        yield {"name": name, "field_type": _type(words, depth)}
        if not words.next_is(","):
            return


def _numbers(words: _Words, word: str) -> Iterator[tuple[str, int]]:
    for at, name in enumerate(_NUMBERS.get(word, ())):
        if at and not words.next_is(","):
            break
        text = words.name()
        if not text.isdecimal():
            raise ValueError(f"expected a number. found={text!r}")
        yield name, int(text)
    words.expect(")")
