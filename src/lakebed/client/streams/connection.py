"""A connection to a stream server: API versions, authentication, and one request at a time."""

from __future__ import annotations

import socket
import struct
from typing import Final

from lakebed import __version__
from lakebed.core.secrets import Secret
from lakebed.fluss.errors import ErrorCode, FlussError

from .messages import Fields, messages, number, read_fields, text, write_fields

__all__ = ["StreamConnection", "failure_of"]

API_VERSIONS: Final = 1000
AUTHENTICATE: Final = 1038

_CODES: Final = {code.number: code for code in ErrorCode}
_STORAGE_CODES: Final = frozenset({1, 3, 14, 28, 29, 70, 73})
"""Codes of requests that may succeed later and that the client reports as STORAGE."""

_HEAD: Final = struct.Struct(">ihhi")
_LENGTH: Final = struct.Struct(">i")
_RESPONSE: Final = struct.Struct(">bi")
_MAX_RESPONSE_BYTES: Final = 256 * 1024 * 1024


class StreamConnection:
    """A connection, not thread-safe."""

    def __init__(self, host: str, port: int, user: str, secret: Secret | None, timeout_seconds: float = 30.0) -> None:
        """Connect and authenticate. Error codes: LEADER_NOT_AVAILABLE, AUTHENTICATE."""
        self._next = 0
        try:
            self._socket = socket.create_connection((host, port), timeout_seconds)
        except OSError as error:
            raise FlussError(ErrorCode.LEADER_NOT_AVAILABLE, f"server unreachable. address={host}:{port}") from error
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            supported = self._load_versions(host, port)
            self._supported = {number(each, 1) for each in messages(supported, 1)}
            if secret is not None:
                token = b"\0" + user.encode() + b"\0" + secret.reveal().encode()
                self._call(AUTHENTICATE, write_fields({1: "PLAIN", 2: token}))
        except BaseException:
            self.close()
            raise

    def _load_versions(self, host: str, port: int) -> Fields:
        """The API keys that the server supports."""
        try:
            return self._call(API_VERSIONS, write_fields({1: "lakebed-python", 2: __version__}))
        except FlussError as failure:
            if isinstance(failure.__cause__, OSError | ValueError):
                raise FlussError(
                    ErrorCode.LEADER_NOT_AVAILABLE,
                    "not a stream server: expected the address of streams.listen, not of server.listen."
                    f" address={host}:{port}",
                ) from failure
            raise

    def call(self, key: int, message: bytes) -> Fields:
        """Send a request and return the response.

        Error codes: UNSUPPORTED_VERSION, LEADER_NOT_AVAILABLE if the connection is lost, and the server's.
        """
        if key not in self._supported:
            raise FlussError(ErrorCode.UNSUPPORTED_VERSION, f"API not supported by the server. key={key}")
        return self._call(key, message)

    def close(self) -> None:
        """Close the connection. Idempotent."""
        self._socket.close()

    def _call(self, key: int, message: bytes) -> Fields:
        self._next += 1
        try:
            self._socket.sendall(_HEAD.pack(8 + len(message), key, 0, self._next) + message)
            (length,) = _LENGTH.unpack(self._read(4))
            if not _RESPONSE.size <= length <= _MAX_RESPONSE_BYTES:
                raise ValueError(f"invalid response length. length={length}")
            response = self._read(length)
            kind, request_id = _RESPONSE.unpack_from(response)
            fields = read_fields(response[_RESPONSE.size :])
        except (OSError, ValueError) as error:
            self.close()
            raise FlussError(ErrorCode.LEADER_NOT_AVAILABLE, "connection to the server lost") from error
        if kind != 0:
            raise failure_of(number(fields, 1), text(fields, 2))
        if request_id != self._next:
            self.close()
            raise FlussError(
                ErrorCode.LEADER_NOT_AVAILABLE,
                f"response to a different request. request={self._next} response={request_id}",
            )
        return fields

    def _read(self, size: int) -> memoryview:
        view, received = memoryview(bytearray(size)), 0
        while received < size:
            count = self._socket.recv_into(view[received:])
            if not count:
                raise ConnectionError("server closed the connection")
            received += count
        return view


def failure_of(number: int, message: bytes) -> FlussError:
    """The error of a response's code; UNSUPPORTED_VERSION for unknown codes."""
    code = ErrorCode.STORAGE if number in _STORAGE_CODES else _CODES.get(number, ErrorCode.UNSUPPORTED_VERSION)
    return FlussError(code, message.decode(errors="replace") or f"request failed. code={number}")
