"""Validates the schema of an Avro object before records are decoded with it.

The schema comes from the file, and the C decoder trusts it: a recursive type overflows the stack, and array items
without bytes exhaust the memory. Such schemas are rejected (ADR 53).
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import msgspec

from lakebed.core.errors import InvalidInput, SelectError
from lakebed.core.json.bounds import check_json_bounds

from ..errors import SelectCode, failure

MAX_SCHEMA_BYTES: Final = 1024 * 1024
MAX_TYPES: Final = 10_000
"""Limit of the types in a record, each counted at every occurrence."""

MAX_DEPTH: Final = 64
_EMPTY_PER_OTHER: Final = 3
_FREE_EMPTY: Final = 4
"""Types without bytes, such as null, allowed per other type, and in addition: each creates a value in memory."""

_MAX_JSON_DEPTH: Final = 4 * MAX_DEPTH
_PRIMITIVES: Final = frozenset({"boolean", "int", "long", "float", "double", "bytes", "string", "enum"})


class _Size(NamedTuple):
    """The size of a type."""

    depth: int = 1
    types: int = 1
    empty: int = 0
    """The number of types without bytes."""
    takes_bytes: bool = True


_EMPTY: Final = _Size(empty=1, takes_bytes=False)


def parse_avro_schema(text: bytes) -> Any:  # Any: fastavro's schema
    """The schema for fastavro. Raises SelectError if it is not safe to decode with."""
    from fastavro import parse_schema

    if len(text) > MAX_SCHEMA_BYTES:
        raise _unsupported(f"it is too large. maximum={MAX_SCHEMA_BYTES}")
    try:
        check_json_bounds(text, max_depth=_MAX_JSON_DEPTH)
        document = msgspec.json.decode(text)
        _check_keys(document)
        parsed = parse_schema(document)
    except InvalidInput as error:
        raise _unsupported(str(error)) from error
    except Exception as error:
        # An invalid schema can make the library raise any exception.
        raise _unsupported("it is not an Avro schema") from error
    if not _Measure().measure(parsed, 1).takes_bytes:
        raise _unsupported("its records take no bytes")
    return parsed


def _check_keys(document: Any) -> None:
    """Reject keys with which fastavro marks parsed schemas."""
    if isinstance(document, dict):
        if any(key.startswith("__") for key in document):
            raise InvalidInput("it has a key that begins with two underscores")
        for value in document.values():
            _check_keys(value)
    elif isinstance(document, list):
        for value in document:
            _check_keys(value)


class _Measure:
    """Measures a parsed schema, in which all names are full names."""

    def __init__(self) -> None:
        self._named: dict[str, _Size | None] = {}
        """None while the type is being measured."""

    def measure(self, schema: Any, depth: int) -> _Size:
        if depth > _MAX_JSON_DEPTH:
            raise _unsupported(f"it is nested too deeply. maximum={MAX_DEPTH}")
        if isinstance(schema, str):
            return self._named_size(schema)
        if isinstance(schema, list):
            # A value of a union starts with the index of its branch, and contains one branch only.
            branches = [self.measure(branch, depth + 1) for branch in schema]
            union = _joined(branches, takes_bytes=True)
            return union._replace(empty=max((branch.empty for branch in branches), default=0))
        kind = schema["type"]
        if kind in ("record", "error"):
            return self._record(schema, depth)
        if kind in ("array", "map"):
            inner = self.measure(schema["items" if kind == "array" else "values"], depth + 1)
            if kind == "array" and not inner.takes_bytes:
                raise _unsupported("it has an array whose items take no bytes")
            return _joined([inner], takes_bytes=True)
        if kind in ("fixed", "enum"):
            size = _Size() if kind == "enum" or schema["size"] > 0 else _EMPTY
            self._named[schema["name"]] = size
            return size
        return self.measure(kind, depth + 1)

    def _named_size(self, name: str) -> _Size:
        if name in _PRIMITIVES:
            return _Size()
        if name == "null":
            return _EMPTY
        size = self._named.get(name)
        if size is None:
            raise _unsupported(
                f"a type {'contains itself' if name in self._named else 'is not defined'}. type={name[:80]}"
            )
        return size

    def _record(self, schema: dict[str, Any], depth: int) -> _Size:
        self._named[schema["name"]] = None
        sizes = [self.measure(field["type"], depth + 1) for field in schema["fields"]]
        size = _joined(sizes, takes_bytes=any(one.takes_bytes for one in sizes))
        self._named[schema["name"]] = size
        return size


def _joined(parts: list[_Size], *, takes_bytes: bool) -> _Size:
    joined = _Size(
        1 + max((part.depth for part in parts), default=0),
        1 + sum(part.types for part in parts),
        sum(part.empty for part in parts) + (not takes_bytes),
        takes_bytes,
    )
    if joined.depth > MAX_DEPTH or joined.types > MAX_TYPES:
        raise _unsupported(f"it is nested too deeply, or has too many types. depth={MAX_DEPTH} types={MAX_TYPES}")
    if joined.empty > _EMPTY_PER_OTHER * (joined.types - joined.empty) + _FREE_EMPTY:
        raise _unsupported("too many of its types take no bytes")
    return joined


def _unsupported(reason: str) -> SelectError:
    return failure(
        SelectCode.UNRECOGNIZED_FORMAT_EXCEPTION, f"the schema of the Avro object is not supported: {reason}"
    )
