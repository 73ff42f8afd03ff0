"""One connection to a stream server: which calls it knows, who we are, and one call after the other."""

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
_ANSWER: Final = struct.Struct(">bi")
_MAX_ANSWER_BYTES: Final = 256 * 1024 * 1024


class StreamConnection:
    """A connection, for one thread at a time."""

    def __init__(self, host: str, port: int, user: str, secret: Secret | None, timeout_seconds: float = 30.0) -> None:
        """Connect. Error codes: LEADER_NOT_AVAILABLE if nobody answers there, AUTHENTICATE."""
        self._next = 0
        try:
            self._socket = socket.create_connection((host, port), timeout_seconds)
        except OSError as error:
            raise FlussError(
                ErrorCode.LEADER_NOT_AVAILABLE, f"server cannot be reached. address={host}:{port}"
            ) from error
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            known = self._greet(host, port)
            self._known = {number(each, 1) for each in messages(known, 1)}
            if secret is not None:
                token = b"\0" + user.encode() + b"\0" + secret.reveal().encode()
                self._call(AUTHENTICATE, write_fields({1: "PLAIN", 2: token}))
        except BaseException:
            self.close()
            raise

    def _greet(self, host: str, port: int) -> Fields:
        """The calls that the server knows."""
        try:
            return self._call(API_VERSIONS, write_fields({1: "lakebed-python", 2: __version__}))
        except FlussError as failure:
            if isinstance(failure.__cause__, OSError | ValueError):
                raise FlussError(
                    ErrorCode.LEADER_NOT_AVAILABLE,
                    "no stream server answers there: expected the address of streams.listen, not of server.listen."
                    f" address={host}:{port}",
                ) from failure
            raise

    def call(self, key: int, message: bytes) -> Fields:
        """The answer to a call.

        Error codes: UNSUPPORTED_VERSION, LEADER_NOT_AVAILABLE if the connection is lost, the server's own.
        """
        if key not in self._known:
            raise FlussError(ErrorCode.UNSUPPORTED_VERSION, f"server does not know the call. key={key}")
        return self._call(key, message)

    def close(self) -> None:
        """Let go of it. Idempotent."""
        self._socket.close()

    def _call(self, key: int, message: bytes) -> Fields:
        self._next += 1
        try:
            self._socket.sendall(_HEAD.pack(8 + len(message), key, 0, self._next) + message)
            (length,) = _LENGTH.unpack(self._read(4))
            if not _ANSWER.size <= length <= _MAX_ANSWER_BYTES:
                raise ValueError(f"answer has an impossible length. length={length}")
            answer = self._read(length)
            kind, answered = _ANSWER.unpack_from(answer)
            fields = read_fields(answer[_ANSWER.size :])
        except (OSError, ValueError) as error:
            self.close()
            raise FlussError(ErrorCode.LEADER_NOT_AVAILABLE, "connection to the server was lost") from error
        if kind != 0:
            raise failure_of(number(fields, 1), text(fields, 2))
        if answered != self._next:
            self.close()
            raise FlussError(
                ErrorCode.LEADER_NOT_AVAILABLE, f"answer is for another call. call={self._next} answer={answered}"
            )
        return fields

    def _read(self, size: int) -> memoryview:
        view, got = memoryview(bytearray(size)), 0
        while got < size:
            more = self._socket.recv_into(view[got:])
            if not more:
                raise ConnectionError("server closed the connection")
            got += more
        return view


def failure_of(number: int, message: bytes) -> FlussError:
    """The error of a code that the server answered with; UNSUPPORTED_VERSION for one that is not known."""
    code = ErrorCode.STORAGE if number in _STORAGE_CODES else _CODES.get(number, ErrorCode.UNSUPPORTED_VERSION)
    return FlussError(code, message.decode(errors="replace") or f"request failed. code={number}")
