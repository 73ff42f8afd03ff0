"""Murmur3, the 32-bit variant for x86: the hash of bucket partitions in Iceberg and of bucket keys in Fluss and Paimon.

Fluss and Paimon differ from the standard in the bytes after the last whole word, so the steps are exported too.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

__all__ = ["add_words", "finish", "murmur3_32", "signed", "whole_words"]

_MASK: Final = 0xFFFFFFFF
_C1: Final = 0xCC9E2D51
_C2: Final = 0x1B873593


def murmur3_32(data: bytes) -> int:
    """The standard hash with seed 0, as a signed 32-bit number."""
    state = add_words(0, whole_words(data))
    tail = data[len(data) & ~3 :]
    if tail:
        state ^= _scramble(int.from_bytes(tail, "little"))
    return signed(finish(state, len(data)))


def whole_words(data: bytes) -> Iterable[int]:
    """The 32-bit words of the data, without the bytes after the last whole one."""
    return struct.unpack_from(f"<{len(data) >> 2}I", data)


def add_words(state: int, words: Iterable[int]) -> int:
    """The state after mixing in words."""
    for word in words:
        state ^= _scramble(word)
        state = ((state << 13) | (state >> 19)) & _MASK
        state = (state * 5 + 0xE6546B64) & _MASK
    return state


def finish(state: int, length: int) -> int:
    """The unsigned hash: the length mixed in, and all bits spread."""
    state ^= length
    state ^= state >> 16
    state = (state * 0x85EBCA6B) & _MASK
    state ^= state >> 13
    state = (state * 0xC2B2AE35) & _MASK
    return state ^ state >> 16


def signed(number: int) -> int:
    """The same 32 bits as a signed number."""
    return number - (number >> 31 << 32)


def _scramble(word: int) -> int:
    word = (word * _C1) & _MASK
    word = ((word << 15) | (word >> 17)) & _MASK
    return (word * _C2) & _MASK
