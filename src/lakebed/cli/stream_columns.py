"""Columns of stream tables as words of a command line: `total:decimal(10,2)`, `id:bigint!` for one without null."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from lakebed.core.errors import InvalidInput

_SAID: Final = re.compile(r"([^:]+):\s*([a-z_]+)\s*(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?\s*(!?)", re.IGNORECASE)
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
}
_FIRST: Final[Mapping[str, str]] = {
    "char": "length",
    "binary": "length",
    "decimal": "precision",
    "time": "precision",
    "timestamp": "precision",
    "timestamp_ltz": "precision",
}


def parse_column(said: str, number: int) -> dict[str, Any]:
    """The column's document. Raises InvalidInput. Nested types are for clients."""
    found = _SAID.fullmatch(said.strip())
    word = "" if found is None else found[2].lower()
    if found is None or word not in _ROOTS:
        known = " ".join(sorted(_ROOTS))
        raise InvalidInput(f"a column is NAME:TYPE, of these types: {known}. found={said!r}", argument="--column")
    type_: dict[str, Any] = {"type": _ROOTS[word]}
    for name, text in ((_FIRST.get(word), found[3]), ("scale" if word == "decimal" else None, found[4])):
        if text is not None:
            if name is None:
                raise InvalidInput(f"the type takes no such number. found={said!r}", argument="--column")
            type_[name] = int(text)
    if found[5]:
        type_["nullable"] = False
    return {"name": found[1].strip(), "data_type": type_, "id": number}
