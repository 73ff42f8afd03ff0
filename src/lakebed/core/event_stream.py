"""Event stream framing (`application/vnd.amazon.eventstream`) of S3 Select responses.

    total length u32 | headers length u32 | CRC-32 of these 8 bytes u32 | headers | payload | CRC-32 of all before u32
    header: name length u8 | name | type u8 (7: text) | value length u16 | value

All numbers are big-endian. Select responses have text headers only; the decoder accepts no others.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from .errors import Incomplete, IntegrityMismatch, InvalidInput

__all__ = [
    "MAX_HEADER_BYTES",
    "MAX_PAYLOAD_BYTES",
    "OVERHEAD_BYTES",
    "EventStreamDecoder",
    "EventStreamMessage",
    "encode_headers",
    "frame",
]

OVERHEAD_BYTES: Final = 16
"""Bytes of a message besides its headers and payload."""

MAX_HEADER_BYTES: Final = 131_072
MAX_PAYLOAD_BYTES: Final = 24 * 1024 * 1024
"""The protocol's own limits."""

_PRELUDE: Final = struct.Struct(">II")
_CHECK: Final = struct.Struct(">I")
_TEXT: Final = 7
_PRELUDE_BYTES: Final = _PRELUDE.size + _CHECK.size
_CRC: Final = "crc32"


@dataclass(frozen=True, slots=True)
class EventStreamMessage:
    """One decoded message."""

    headers: Mapping[str, str]
    payload: bytes


def encode_headers(headers: Iterable[tuple[str, str]]) -> bytes:
    """Encode text headers in order. Raises InvalidInput for a name or value that is too long."""
    pieces = []
    for name, value in headers:
        raw_name, raw_value = name.encode(), value.encode()
        if not 1 <= len(raw_name) <= 0xFF or len(raw_value) > 0xFFFF:
            raise InvalidInput(f"event stream header too long. name={name[:100]!r} bytes={len(raw_value)}")
        pieces.append(b"%c%b%c%b%b" % (len(raw_name), raw_name, _TEXT, len(raw_value).to_bytes(2, "big"), raw_value))
    return b"".join(pieces)


def frame(headers: bytes, payload: bytes | memoryview = b"") -> bytes:
    """A complete message. Takes encoded headers, because those of most messages never change."""
    prelude = _PRELUDE.pack(OVERHEAD_BYTES + len(headers) + len(payload), len(headers))
    check = zlib.crc32(prelude)
    prelude_check = _CHECK.pack(check)
    check = zlib.crc32(payload, zlib.crc32(headers, zlib.crc32(prelude_check, check)))
    return b"".join((prelude, prelude_check, headers, payload, _CHECK.pack(check)))


class EventStreamDecoder:
    """Decodes messages from a byte stream.

    Raises IntegrityMismatch for a wrong checksum and InvalidInput for a malformed message; unusable after either.
    """

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, data: bytes) -> Iterator[EventStreamMessage]:
        """The messages completed by these bytes; the rest is buffered."""
        self._held += data
        while (message := self._take()) is not None:
            yield message

    def finish(self) -> None:
        """End the stream. Raises Incomplete inside a message."""
        if self._held:
            raise Incomplete(f"the stream ended inside a message. bytes={len(self._held)}")

    def _take(self) -> EventStreamMessage | None:
        held = self._held
        if len(held) < _PRELUDE_BYTES:
            return None
        total, headers_length = _PRELUDE.unpack_from(held)
        check = zlib.crc32(held[: _PRELUDE.size])
        # Before the lengths are used: a corrupt one would make the decoder wait for gigabytes.
        _verify(check, held, _PRELUDE.size)
        payload_length = total - OVERHEAD_BYTES - headers_length
        if headers_length > MAX_HEADER_BYTES or not 0 <= payload_length <= MAX_PAYLOAD_BYTES:
            raise InvalidInput(f"invalid event stream message lengths. total={total} headers={headers_length}")
        if len(held) < total:
            return None
        whole = bytes(held[:total])
        del held[:total]
        end = total - _CHECK.size
        _verify(zlib.crc32(whole[_PRELUDE.size : end], check), whole, end)
        payload_at = _PRELUDE_BYTES + headers_length
        return EventStreamMessage(_decode_headers(whole[_PRELUDE_BYTES:payload_at]), whole[payload_at:end])


def _verify(calculated: int, data: bytes | bytearray, at: int) -> None:
    (claimed,) = _CHECK.unpack_from(data, at)
    if claimed != calculated:
        raise IntegrityMismatch(
            "event stream message checksum mismatch",
            digest=_CRC,
            claimed=f"{claimed:08x}",
            calculated=f"{calculated:08x}",
        )


def _decode_headers(data: bytes) -> dict[str, str]:
    headers: dict[str, str] = {}
    at = 0
    try:
        while at < len(data):
            name_end = at + 1 + data[at]
            name = data[at + 1 : name_end].decode()
            if data[name_end] != _TEXT:
                raise InvalidInput(f"event stream header is not text. name={name!r} type={data[name_end]}")
            length = int.from_bytes(data[name_end + 1 : name_end + 3], "big")
            at = name_end + 3 + length
            if at > len(data) or not name or name in headers:
                raise InvalidInput(f"event stream header truncated, repeated or unnamed. name={name!r}")
            headers[name] = data[at - length : at].decode()
    except (IndexError, UnicodeDecodeError) as error:
        raise InvalidInput("malformed event stream headers") from error
    return headers
