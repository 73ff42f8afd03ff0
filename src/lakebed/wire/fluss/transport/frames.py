"""Frames: a length, a head, a message. Integers are big-endian."""

from __future__ import annotations

import struct
from typing import Final

__all__ = ["HEAD_BYTES", "LENGTH_BYTES", "answer_head", "failure_head", "read_head", "read_length"]

LENGTH_BYTES: Final = 4
HEAD_BYTES: Final = 8
"""Of a request, after its length: the key and the version of the call, and the number that its answer carries."""

_LENGTH: Final = struct.Struct(">i")
_HEAD: Final = struct.Struct(">hhi")
_ANSWER: Final = struct.Struct(">ibi")
_ANSWER_HEAD_BYTES: Final = 5  # the kind of answer and the number of the request
_SUCCESS: Final = 0
_FAILURE: Final = 1


def read_length(data: memoryview, at: int) -> int:
    """How many bytes follow the length. Negative for what is no frame."""
    return int(_LENGTH.unpack_from(data, at)[0])


def read_head(frame: memoryview) -> tuple[int, int, int]:
    """The call's key, its version, and the request's number."""
    key, version, number = _HEAD.unpack_from(frame)
    return key, version, number


def answer_head(number: int, body_bytes: int) -> bytes:
    """What comes before the message of an answer."""
    return _ANSWER.pack(_ANSWER_HEAD_BYTES + body_bytes, _SUCCESS, number)


def failure_head(number: int, body_bytes: int) -> bytes:
    """What comes before the message that says why there is no answer."""
    return _ANSWER.pack(_ANSWER_HEAD_BYTES + body_bytes, _FAILURE, number)
