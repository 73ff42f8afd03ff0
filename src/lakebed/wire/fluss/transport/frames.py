"""Encodes and decodes frames: a length, a header and a message. Integers are big-endian."""

from __future__ import annotations

import struct
from typing import Final

__all__ = ["HEAD_BYTES", "LENGTH_BYTES", "error_head", "read_head", "read_length", "response_head"]

LENGTH_BYTES: Final = 4
HEAD_BYTES: Final = 8
"""A request's header after the length: API key, API version and request id."""

_LENGTH: Final = struct.Struct(">i")
_HEAD: Final = struct.Struct(">hhi")
_RESPONSE: Final = struct.Struct(">ibi")
_RESPONSE_HEAD_BYTES: Final = 5  # the response type and the request id
_SUCCESS: Final = 0
_FAILURE: Final = 1


def read_length(data: memoryview, at: int) -> int:
    """The number of bytes after the length. Negative if the data is not a frame."""
    return int(_LENGTH.unpack_from(data, at)[0])


def read_head(frame: memoryview) -> tuple[int, int, int]:
    """The API key, the API version and the request id."""
    key, version, request_id = _HEAD.unpack_from(frame)
    return key, version, request_id


def response_head(request_id: int, body_bytes: int) -> bytes:
    """The header of a response."""
    return _RESPONSE.pack(_RESPONSE_HEAD_BYTES + body_bytes, _SUCCESS, request_id)


def error_head(request_id: int, body_bytes: int) -> bytes:
    """The header of an error response."""
    return _RESPONSE.pack(_RESPONSE_HEAD_BYTES + body_bytes, _FAILURE, request_id)
