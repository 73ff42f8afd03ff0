"""Bitmaps of 64 bits in the format of Java's `Roaring64Bitmap.serialize`: a radix tree of keys, then containers.

A key has the upper 48 bits of numbers. Its *container* has the lower 16 bits of all numbers with that key: a sorted
list, runs, or a bitmap of 65,536 bits.

    u8 1 if not empty (else u8 0 alone); i64 keys; nodes, each before its children; containers

    node:        u8 kind, i16 children, u8 length of prefix, prefix, then by kind
                 0..3  up to 4, 16, 48, 256 children: which byte of the key leads to each
                 4     a leaf: 6 bytes of key, i64 number of its container
    containers:  i32 arrays; for each u8, i32 slots, for each u8 0, or u8 1, u8 kind, i32 numbers, content
                 (kind 0 runs, 1 bits, 2 list); then i64 containers, i32 last array, i32 last slot

Numbers are little-endian, keys big-endian. Bytes that lead to children are written as words: each group of four or
eight is reversed. The format is not documented; the tests compare with the Java library.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
from pyroaring import BitMap

__all__ = ["Container", "NotABitmap", "check_long_bitmap", "long_union", "read_long_bitmap", "write_long_bitmap"]

_KEY_BYTES: Final = 6
_LEAF: Final = 4
_MOST_CHILDREN: Final = (4, 16, 48, 256)
_BODY_BYTES: Final = (4, 16, 256, 32)
_NO_CHILD: Final = 0xFF
_RUNS, _BITS, _LIST = 0, 1, 2
_WHOLE: Final = b"\xfe"
"""Marks an array of containers that is written with all of its slots, as all are."""

_MOST_IN_CONTAINER: Final = 65_536
_BITS_BYTES: Final = _MOST_IN_CONTAINER // 8
_MOST_IN_LIST: Final = 4096
_HEADER: Final = struct.Struct("<BhB")
_LEAF_BODY: Final = struct.Struct("<6sq")
_LEAF_NODE: Final = struct.Struct("<BhB6sq")
_COUNT: Final = struct.Struct("<q")
_ARRAYS: Final = struct.Struct("<i")
_ARRAY: Final = struct.Struct("<ci")
_CONTAINER: Final = struct.Struct("<BBi")
_RUN_COUNT: Final = struct.Struct("<H")
_END: Final = struct.Struct("<qii")

# A 32-bit bitmap of one container in the portable format: the header before the content.
_SHORT_RUNS: Final = struct.Struct("<IBHH")
_SHORT_PLAIN: Final = struct.Struct("<IIHHI")
_RUNS_COOKIE, _PLAIN_COOKIE = 12347, 12346


class NotABitmap(Exception):
    """The bytes are not a valid bitmap."""


class Container(NamedTuple):
    """The numbers under one key."""

    kind: int
    size: int
    content: bytes


def check_long_bitmap(data: bytes) -> None:
    """Raise NotABitmap unless the bitmap is complete, ordered, and has as many numbers as declared."""
    _check_contents(read_long_bitmap(data).values())


def long_union(old: bytes, new: bytes) -> bytes:
    """The union. Raises NotABitmap."""
    both, more = read_long_bitmap(old), read_long_bitmap(new)
    _check_contents(each for key, each in more.items() if key not in both)
    for key, container in more.items():
        existing = both.get(key)
        both[key] = container if existing is None else _union(existing, container)
    return write_long_bitmap(both)


def read_long_bitmap(data: bytes) -> dict[bytes, Container]:
    """The containers by key, with unchecked content. Raises NotABitmap."""
    try:
        return _read(data)
    except (struct.error, IndexError) as error:
        raise NotABitmap(f"bitmap is truncated. length={len(data)}") from error


def write_long_bitmap(containers: dict[bytes, Container]) -> bytes:
    """The bitmap with these containers."""
    if not containers:
        return b"\0"
    keys = sorted(containers)
    parts = [b"\1", _COUNT.pack(len(keys))]
    if len(keys) == 1:
        parts.append(_LEAF_NODE.pack(_LEAF, 0, 0, keys[0], 0))
    else:
        _add_nodes(parts, keys, 0, len(keys), 0)
    parts += [_ARRAYS.pack(1), _ARRAY.pack(_WHOLE, len(keys))]
    for key in keys:
        kind, count, content = containers[key]
        parts += (_CONTAINER.pack(1, kind, count), content)
    parts.append(_END.pack(len(keys), 0, len(keys) - 1))
    return b"".join(parts)


# -- the tree of keys ---------------------------------------------------------------------------------------------


def _read(data: bytes) -> dict[bytes, Container]:
    if data[0] == 0:
        return {}
    if data[0] != 1:
        raise NotABitmap(f"first byte is neither 0 nor 1. byte={data[0]}")
    (count,) = _COUNT.unpack_from(data, 1)
    leaves: dict[bytes, int] = {}
    position = _read_node(data, 1 + _COUNT.size, 0, leaves)
    if len(leaves) != count:
        raise NotABitmap(f"key count does not match. declared={count} found={len(leaves)}")
    places = _read_containers(data, position)
    found = {}
    for key, place in leaves.items():
        container = places.pop(place, None)
        if container is None:
            raise NotABitmap(f"key without container. place={place}")
        found[key] = container
    return found


def _read_node(data: bytes, position: int, depth: int, leaves: dict[bytes, int]) -> int:
    """Add the leaves of a node with their container numbers. Returns the position after the node.

    Only the full key of a leaf is used. Its prefix means nothing: version 1.3 of the library leaves one there when it
    removes the leaf's siblings.
    """
    kind, count, length = _HEADER.unpack_from(data, position)
    position += _HEADER.size + length
    if kind == _LEAF:
        key, place = _LEAF_BODY.unpack_from(data, position)
        leaves[key] = place
        return position + _LEAF_BODY.size
    if kind > _LEAF or depth == _KEY_BYTES:
        raise NotABitmap(f"invalid node. kind={kind} depth={depth}")
    children = _count_children(kind, data[position : position + _BODY_BYTES[kind]], count)
    if not 1 <= children == count:
        raise NotABitmap(f"child count of a node does not match. declared={count} found={children}")
    position += _BODY_BYTES[kind]
    for _ in range(children):
        position = _read_node(data, position, depth + 1, leaves)
    return position


def _count_children(kind: int, body: bytes, count: int) -> int:
    if kind <= 1:
        return min(count, len(body))
    if kind == 2:
        return len(body) - body.count(_NO_CHILD)
    return int.from_bytes(body, "little").bit_count()


def _add_nodes(parts: list[bytes], keys: Sequence[bytes], start: int, end: int, depth: int) -> None:
    """Add the node of these keys, which share the first `depth` bytes, and its children."""
    first, last = keys[start], keys[end - 1]
    split = depth
    while first[split] == last[split]:
        split += 1
    bounds = [start, *(at for at in range(start + 1, end) if keys[at][split] != keys[at - 1][split]), end]
    ways = bytes(keys[at][split] for at in bounds[:-1])
    kind = next(kind for kind, most in enumerate(_MOST_CHILDREN) if len(ways) <= most)
    parts += (_HEADER.pack(kind, len(ways), split - depth), first[depth:split], _body(kind, ways))
    for child_start, child_end in pairwise(bounds):
        if child_end - child_start == 1:
            parts.append(_LEAF_NODE.pack(_LEAF, 0, 0, keys[child_start], child_start))
        else:
            _add_nodes(parts, keys, child_start, child_end, split + 1)


def _body(kind: int, ways: bytes) -> bytes:
    if kind == 0:
        return ways.ljust(4, b"\0")[::-1]
    if kind == 1:
        return _reverse_words(ways.ljust(16, b"\0"))
    if kind == 2:
        children = bytearray([_NO_CHILD]) * 256
        for child, way in enumerate(ways):
            children[way] = child
        return _reverse_words(children)
    return sum(1 << way for way in ways).to_bytes(32, "little")


def _reverse_words(words: bytes | bytearray) -> bytes:
    """Reverse the bytes of each word of eight."""
    return b"".join(words[at : at + 8][::-1] for at in range(0, len(words), 8))


# -- containers ---------------------------------------------------------------------------------------------------


def _read_containers(data: bytes, position: int) -> dict[int, Container]:
    """The containers by number: the array in the upper half, the slot in the lower."""
    (arrays,) = _ARRAYS.unpack_from(data, position)
    position += _ARRAYS.size
    found = {}
    for array in range(arrays):
        _, places = _ARRAY.unpack_from(data, position)
        position += _ARRAY.size
        for place in range(places):
            if data[position] == 0:
                position += 1
                continue
            container, position = _read_container(data, position)
            found[array << 32 | place] = container
    _END.unpack_from(data, position)
    return found


def _read_container(data: bytes, position: int) -> tuple[Container, int]:
    marker, kind, count = _CONTAINER.unpack_from(data, position)
    start = position + _CONTAINER.size
    if kind == _LIST:
        size = 2 * count
    elif kind == _BITS:
        size = _BITS_BYTES
    elif kind == _RUNS:
        size = 2 + 4 * _RUN_COUNT.unpack_from(data, start)[0]
    else:
        raise NotABitmap(f"invalid container. kind={kind}")
    end = start + size
    if marker != 1 or not 1 <= count <= _MOST_IN_CONTAINER or end > len(data):
        raise NotABitmap(f"container is truncated or empty. count={count}")
    return Container(kind, count, data[start:end]), end


def _check_contents(containers: Iterable[Container]) -> None:
    """Raise NotABitmap for invalid content. Checks all lists, the most frequent kind, at once."""
    lists: list[Container] = []
    for each in containers:
        if each.kind == _LIST:
            lists.append(each)
        else:
            _as_short(each)
    if not lists:
        return
    numbers = np.frombuffer(b"".join(each.content for each in lists), "<u2").astype(np.int32)
    is_first = np.zeros(len(numbers), bool)
    is_first[np.cumsum([0, *(each.size for each in lists[:-1])])] = True
    if ((np.diff(numbers) <= 0) & ~is_first[1:]).any():
        raise NotABitmap("list is not in ascending order")


def _union(one: Container, other: Container) -> Container:
    return _as_container(_as_short(one) | _as_short(other))


def _as_short(container: Container) -> BitMap:
    """A container as a 32-bit bitmap of the lower halves of its numbers. Raises NotABitmap."""
    kind, count, content = container
    if kind == _RUNS:
        head = _SHORT_RUNS.pack(_RUNS_COOKIE, 1, 0, count - 1)
    elif (kind == _BITS) == (count > _MOST_IN_LIST):
        head = _SHORT_PLAIN.pack(_PLAIN_COOKIE, 1, 0, count - 1, _SHORT_PLAIN.size)
    else:
        # The portable format infers the kind from the count. Java writes other combinations too.
        return _listed(container)
    try:
        found = BitMap.deserialize(head + content)
    except ValueError as error:
        raise NotABitmap(str(error)) from error
    if len(found) != count:
        raise NotABitmap(f"number count of a container does not match. declared={count} found={len(found)}")
    return found


def _listed(container: Container) -> BitMap:
    kind, count, content = container
    if kind == _BITS:
        numbers = np.flatnonzero(np.unpackbits(np.frombuffer(content, np.uint8), bitorder="little"))
    else:
        numbers = np.frombuffer(content, "<u2")
    found = BitMap(numbers.tolist())
    if len(found) != count:
        raise NotABitmap(f"number count of a container does not match. declared={count} found={len(found)}")
    return found


def _as_container(short: BitMap) -> Container:
    short.run_optimize()
    written, count = short.serialize(), len(short)
    if int.from_bytes(written[:2], "little") == _RUNS_COOKIE:
        return Container(_RUNS, count, written[_SHORT_RUNS.size :])
    return Container(_BITS if count > _MOST_IN_LIST else _LIST, count, written[_SHORT_PLAIN.size :])
