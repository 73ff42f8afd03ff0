"""Bucketing functions of Fluss, Paimon and Iceberg: from an encoded bucket key to the bucket."""

from __future__ import annotations

from typing import Final

from lakebed.core.murmur3 import add_words, finish, murmur3_32, signed, whole_words

from .errors import ErrorCode, FlussError

__all__ = ["fluss_bucket", "iceberg_bucket", "paimon_bucket"]

_SEED: Final = 42
_LEAST: Final = -(1 << 31)
_WORD_BYTES: Final = 4


def fluss_bucket(key: bytes, count: int) -> int:
    """The bucket in a table without a lake format: the key's hash, hashed once more as one word."""
    number = signed(finish(add_words(0, (_hash(key),)), _WORD_BYTES))
    # Java's Math.abs leaves the smallest integer negative; Fluss uses bucket 0.
    return 0 if number == _LEAST else abs(number) % count


def paimon_bucket(key: bytes, count: int) -> int:
    """The bucket in a table with lake format Paimon, whose keys are whole words."""
    return abs(signed(_hash(key))) % count


def iceberg_bucket(key: bytes, count: int) -> int:
    """The bucket in a table with lake format Iceberg. Error codes: INVALID_TARGET_COLUMN for an empty key."""
    if not key:
        # Fluss clients treat an empty key as a row without a key.
        raise FlussError(ErrorCode.INVALID_TARGET_COLUMN, "bucket key is empty, which lake format Iceberg forbids")
    return (murmur3_32(key) & 0x7FFFFFFF) % count


def _hash(data: bytes) -> int:
    """Murmur3 with seed 42, but with each byte after the last whole word mixed in as a word.

    pyfluss 1.0.0 reads these bytes as unsigned, the Java client as signed: they disagree on keys that end in a byte
    above 127. This follows pyfluss.
    """
    tail = data[len(data) & ~3 :]
    return finish(add_words(add_words(_SEED, whole_words(data)), tail), len(data))
