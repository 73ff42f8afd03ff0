"""Murmur3, the 32-bit variant for x86, seeded with 0: the hash that bucket partitions are made by."""

from __future__ import annotations

from typing import Final

__all__ = ["murmur3_32"]

_MASK: Final = 0xFFFFFFFF
_C1: Final = 0xCC9E2D51
_C2: Final = 0x1B873593


def murmur3_32(data: bytes) -> int:
    """The hash as a signed number of 32 bits."""
    state = 0
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        state ^= _mix(int.from_bytes(data[at : at + 4], "little"))
        state = ((state << 13) | (state >> 19)) & _MASK
        state = (state * 5 + 0xE6546B64) & _MASK
    if whole != len(data):
        state ^= _mix(int.from_bytes(data[whole:], "little"))
    state ^= len(data)
    state ^= state >> 16
    state = (state * 0x85EBCA6B) & _MASK
    state ^= state >> 13
    state = (state * 0xC2B2AE35) & _MASK
    state ^= state >> 16
    return state - (1 << 32) if state >> 31 else state


def _mix(word: int) -> int:
    word = (word * _C1) & _MASK
    word = ((word << 15) | (word >> 17)) & _MASK
    return (word * _C2) & _MASK
