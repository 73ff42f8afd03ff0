"""The schema of an Avro object, checked before a record is decoded by it.

The schema is the writer's, and the decoder is a library in C that trusts it: a type that contains itself overflows the
stack, and items that take no bytes fill the memory. Such schemas are refused (ADR 53).
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import msgspec

from lakebed.core.errors import InvalidInput, SelectError
from lakebed.core.json.bounds import check_json_bounds

from ..errors import SelectCode, failure

MAX_SCHEMA_BYTES: Final = 1024 * 1024
MAX_TYPES: Final = 10_000
"""Types that a record is made of, each counted as often as it occurs."""

MAX_DEPTH: Final = 64
_EMPTY_PER_OTHER: Final = 3
_FREE_EMPTY: Final = 4
"""So many types may take no bytes, such as null, for each other, and besides: a value of each is made in memory."""

_MAX_JSON_DEPTH: Final = 4 * MAX_DEPTH
_PRIMITIVES: Final = frozenset({"boolean", "int", "long", "float", "double", "bytes", "string", "enum"})


class _Size(NamedTuple):
    """The extent of a type."""

    depth: int = 1
    types: int = 1
    empty: int = 0
    """How many of them take no bytes."""
    takes_bytes: bool = True


_EMPTY: Final = _Size(empty=1, takes_bytes=False)


def parse_avro_schema(text: bytes) -> Any:  # Any: as fastavro reads it
    """The schema as fastavro decodes by it. Raises SelectError for one that it cannot decode safely."""
    from fastavro import parse_schema

    if len(text) > MAX_SCHEMA_BYTES:
        raise _refused(f"it is too large. maximum={MAX_SCHEMA_BYTES}")
    try:
        check_json_bounds(text, max_depth=_MAX_JSON_DEPTH)
        document = msgspec.json.decode(text)
        _check_keys(document)
        parsed = parse_schema(document)
    except InvalidInput as error:
        raise _refused(str(error)) from error
    except Exception as error:
        # What is wrong in a schema makes the library raise any error at all.
        raise _refused("it is not a schema of Avro") from error
    if not _Measure().measure(parsed, 1).takes_bytes:
        raise _refused("its records take no bytes")
    return parsed


def _check_keys(document: Any) -> None:
    """Return if no key is one by which fastavro marks a schema that it has parsed."""
    if isinstance(document, dict):
        if any(key.startswith("__") for key in document):
            raise InvalidInput("it has a key that begins with two underscores")
        for value in document.values():
            _check_keys(value)
    elif isinstance(document, list):
        for value in document:
            _check_keys(value)


class _Measure:
    """Measures a parsed schema, in which each name is a full one."""

    def __init__(self) -> None:
        self._named: dict[str, _Size | None] = {}
        """None while the type is being measured."""

    def measure(self, schema: Any, depth: int) -> _Size:
        if depth > _MAX_JSON_DEPTH:
            raise _refused(f"it is nested too deeply. maximum={MAX_DEPTH}")
        if isinstance(schema, str):
            return self._named_size(schema)
        if isinstance(schema, list):
            # A value of a union begins with the number of its branch, and only one of them is made.
            branches = [self.measure(branch, depth + 1) for branch in schema]
            union = _joined(branches, takes_bytes=True)
            return union._replace(empty=max((branch.empty for branch in branches), default=0))
        kind = schema["type"]
        if kind in ("record", "error"):
            return self._record(schema, depth)
        if kind in ("array", "map"):
            inner = self.measure(schema["items" if kind == "array" else "values"], depth + 1)
            if kind == "array" and not inner.takes_bytes:
                raise _refused("it has an array whose items take no bytes")
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
            raise _refused(f"a type {'contains itself' if name in self._named else 'is not defined'}. type={name[:80]}")
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
        raise _refused(f"it is nested too deeply, or has too many types. depth={MAX_DEPTH} types={MAX_TYPES}")
    if joined.empty > _EMPTY_PER_OTHER * (joined.types - joined.empty) + _FREE_EMPTY:
        raise _refused("too many of its types take no bytes")
    return joined


def _refused(reason: str) -> SelectError:
    return failure(
        SelectCode.UNRECOGNIZED_FORMAT_EXCEPTION, f"the schema of the Avro object is not supported: {reason}"
    )
