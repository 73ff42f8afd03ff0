"""From the bytes of a bucket key to the bucket: Murmur3, as streams have it themselves and as lakes have it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from .errors import ErrorCode, FlussError

__all__ = ["fluss_bucket", "iceberg_bucket", "paimon_bucket"]

_MASK: Final = 0xFFFFFFFF
_SIGN: Final = 1 << 31
_SEED: Final = 42
_WORD_BYTES: Final = 4


def fluss_bucket(key: bytes, count: int) -> int:
    """The bucket of a row whose bucket key is this, of so many, where no lake has a say."""
    number = _signed(_mixed(_by_words_and_bytes(key)))
    # The least number has no positive twin: who counts in 32 bits makes it 0.
    return 0 if number == -_SIGN else abs(number) % count


def paimon_bucket(key: bytes, count: int) -> int:
    """The same by the rules of Paimon, whose keys are whole words."""
    return abs(_signed(_by_words_and_bytes(key))) % count


def iceberg_bucket(key: bytes, count: int) -> int:
    """The same by the rules of Iceberg. Error codes: INVALID_TARGET_COLUMN for a key of no bytes."""
    if not key:
        # The clients of Fluss take it for a row without a key.
        raise FlussError(ErrorCode.INVALID_TARGET_COLUMN, "a bucket key that goes to Iceberg is not empty")
    whole = len(key) - len(key) % _WORD_BYTES
    tail = int.from_bytes(key[whole:], "little")
    found = _taken(0, _words(key, whole)) ^ _scrambled(tail)
    return (_finished(found ^ len(key)) & ~_SIGN) % count


def _by_words_and_bytes(data: bytes) -> int:
    """Murmur3, but with each byte behind the last whole word taken for a word.

    pyfluss 1.0.0 takes such a byte for 0 to 255, the Java client for -128 to 127: on keys that end in a large one they
    do not agree. This does as pyfluss does.
    """
    whole = len(data) - len(data) % _WORD_BYTES
    return _finished(_taken(_taken(_SEED, _words(data, whole)), data[whole:]) ^ len(data))


def _words(data: bytes, whole: int) -> Iterable[int]:
    return (int.from_bytes(data[at : at + _WORD_BYTES], "little") for at in range(0, whole, _WORD_BYTES))


def _taken(found: int, words: Iterable[int]) -> int:
    for word in words:
        found = _rotated(found ^ _scrambled(word), 13) * 5 + 0xE6546B64 & _MASK
    return found


def _mixed(number: int) -> int:
    """The same once more, of one word and no seed."""
    return _finished(_taken(0, (number,)) ^ _WORD_BYTES)


def _scrambled(word: int) -> int:
    return _rotated(word * 0xCC9E2D51 & _MASK, 15) * 0x1B873593 & _MASK


def _finished(number: int) -> int:
    number = (number ^ number >> 16) * 0x85EBCA6B & _MASK
    number = (number ^ number >> 13) * 0xC2B2AE35 & _MASK
    return number ^ number >> 16


def _rotated(number: int, bits: int) -> int:
    return (number << bits | number >> 32 - bits) & _MASK


def _signed(number: int) -> int:
    return number - (number >> 31 << 32)
