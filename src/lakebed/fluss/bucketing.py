"""Bucketing functions: from an encoded bucket key to the bucket, as Fluss, Paimon and Iceberg each count."""

from __future__ import annotations

from typing import Final

from lakebed.core.murmur3 import add_words, finish, murmur3_32, signed, whole_words

from .errors import ErrorCode, FlussError

__all__ = ["fluss_bucket", "iceberg_bucket", "paimon_bucket"]

_SEED: Final = 42
_LEAST: Final = -(1 << 31)
_WORD_BYTES: Final = 4


def fluss_bucket(key: bytes, count: int) -> int:
    """The bucket, of `count`, of a table without a lake format: the key's hash, hashed once more as one word."""
    number = signed(finish(add_words(0, (_hash(key),)), _WORD_BYTES))
    # The least number has no positive twin: Java's Math.abs leaves it negative, and Fluss makes it 0.
    return 0 if number == _LEAST else abs(number) % count


def paimon_bucket(key: bytes, count: int) -> int:
    """The bucket of a table with the lake format Paimon, whose keys are whole words."""
    return abs(signed(_hash(key))) % count


def iceberg_bucket(key: bytes, count: int) -> int:
    """The bucket of a table with the lake format Iceberg. Error codes: INVALID_TARGET_COLUMN for an empty key."""
    if not key:
        # The clients of Fluss take it for a row without a key.
        raise FlussError(ErrorCode.INVALID_TARGET_COLUMN, "a bucket key that goes to Iceberg is not empty")
    return (murmur3_32(key) & 0x7FFFFFFF) % count


def _hash(data: bytes) -> int:
    """Murmur3 with seed 42, but with each byte after the last whole word mixed in as a word.

    pyfluss 1.0.0 takes such a byte for 0 to 255, the Java client for -128 to 127: on keys that end in a large one they
    do not agree. This does as pyfluss does.
    """
    tail = data[len(data) & ~3 :]
    return finish(add_words(add_words(_SEED, whole_words(data)), tail), len(data))
