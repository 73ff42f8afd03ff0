"""Skips values of fields that are not projected.

A skipper takes a block's bytes and the start of a value, and returns its end. The end may be past the block; the next
read or the check at the block's end detects that. It is never before the start.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final, TypeAlias

from lakebed.core.errors import InvalidInput

from .binary import read_count, read_long
from .schema import AvroType

__all__ = ["Skipper", "make_skipper"]

Skipper: TypeAlias = Callable[[bytes, int], int]

_PATTERN_ITEMS: Final = 10_000
_WIDTHS: Final = {"boolean": 1, "float": 4, "double": 8}


def make_skipper(avro: AvroType) -> Skipper:
    """The skipper of a type."""
    if avro.is_empty:
        return lambda data, at: at
    match avro.kind:
        case "int" | "long" | "enum":
            return _skip_long
        case "bytes" | "string":
            return _skip_bytes
        case "record":
            return _skip_all([make_skipper(field.type) for field in avro.fields])
        case "array":
            item = avro.inner[0]
            if numbers := _numbers(item):
                return _skip_numbers(numbers)
            return _skip_bounds if _is_bound(item) else _skip_blocks(make_skipper(item))
        case "map":
            return _skip_blocks(_skip_all([_skip_bytes, make_skipper(avro.inner[0])]))
        case "union":
            return _skip_branch([make_skipper(branch) for branch in avro.inner])
        case _:
            size = avro.size if avro.kind == "fixed" else _WIDTHS[avro.kind]
            return lambda data, at: at + size


def _skip_long(data: bytes, at: int) -> int:
    while data[at] >= 0x80:
        at += 1
    return at + 1


def _skip_bytes(data: bytes, at: int) -> int:
    size, at = read_long(data, at)
    if size < 0:
        raise InvalidInput(f"avro value has a negative length. length={size}")
    return at + size


def _skip_all(skippers: Sequence[Skipper]) -> Skipper:
    def skip(data: bytes, at: int) -> int:
        for one in skippers:
            at = one(data, at)
        return at

    return skip


def _skip_branch(skippers: Sequence[Skipper]) -> Skipper:
    def skip(data: bytes, at: int) -> int:
        branch, at = read_long(data, at)
        if not 0 <= branch < len(skippers):
            raise InvalidInput(f"avro union has no such branch. branch={branch}")
        return skippers[branch](data, at)

    return skip


def _numbers(avro: AvroType) -> int:
    """The number of numbers that a value consists of, if it has nothing else; else 0."""
    parts = avro.parts if avro.kind == "record" else (avro,)
    return len(parts) if all(part.kind in ("int", "long") for part in parts) else 0


def _skip_numbers(each: int) -> Skipper:
    # Half of a manifest are arrays of number pairs: one regular expression skips all pairs at once.

    def skip(data: bytes, at: int) -> int:
        while True:
            count, at = read_count(data, at)
            if not count:
                return at
            if count <= _PATTERN_ITEMS:
                found = _run_of(count * each).match(data, at)
                if found is None:
                    raise IndexError
                at = found.end()
            else:
                for _ in range(count * each):
                    at = _skip_long(data, at)

    return skip


def _is_bound(avro: AvroType) -> bool:
    """Whether a value is a column id and bytes."""
    return [part.kind for part in avro.parts] in (["int", "bytes"], ["long", "bytes"]) and avro.kind == "record"


def _skip_bounds(data: bytes, at: int) -> int:
    # Most of the other half: read in place where both numbers are short.
    while True:
        count, at = read_count(data, at)
        if not count:
            return at
        for _ in range(count):
            while data[at] >= 0x80:
                at += 1
            byte = data[at + 1]
            if byte & 0x81:  # long, or negative
                at = _skip_bytes(data, at + 1)
            else:
                at += 2 + (byte >> 1)


@lru_cache(maxsize=1024)
def _run_of(numbers: int) -> re.Pattern[bytes]:
    return re.compile(rb"(?:[\x80-\xff]*+[\x00-\x7f]){%d}" % numbers)


def _skip_blocks(skip_item: Skipper) -> Skipper:
    def skip(data: bytes, at: int) -> int:
        while True:
            count, at = read_long(data, at)
            if count < 0:
                at = _skip_bytes(data, at)
                continue
            if not count:
                return at
            if count > len(data) - at:
                raise IndexError
            for _ in range(count):
                at = skip_item(data, at)

    return skip
