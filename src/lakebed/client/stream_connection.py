"""One connection to a stream server: which calls it knows, who we are, and one call after the other."""

from __future__ import annotations

import socket
import struct
from typing import Final

from lakebed import __version__
from lakebed.core.secrets import Secret
from lakebed.fluss.errors import ErrorCode, FlussError

from .stream_messages import Fields, messages, number, read_fields, text, write_fields

__all__ = ["REASONS", "StreamConnection", "failure_of"]

API_VERSIONS: Final = 1000
AUTHENTICATE: Final = 1038

REASONS: Final = {
    2: ErrorCode.UNSUPPORTED_VERSION,
    4: ErrorCode.NO_DATABASE,
    6: ErrorCode.DATABASE_EXISTS,
    7: ErrorCode.NO_TABLE,
    8: ErrorCode.TABLE_EXISTS,
    9: ErrorCode.NO_SCHEMA,
    10: ErrorCode.LOG_STORAGE,
    11: ErrorCode.KEY_STORAGE,
    12: ErrorCode.NOT_LEADER,
    13: ErrorCode.RECORD_TOO_LARGE,
    15: ErrorCode.INVALID_TABLE,
    16: ErrorCode.INVALID_DATABASE,
    17: ErrorCode.INVALID_REPLICATION,
    19: ErrorCode.OFFSET_OUT_OF_RANGE,
    20: ErrorCode.NOT_KEYED,
    21: ErrorCode.UNKNOWN_BUCKET,
    25: ErrorCode.TIMED_OUT,
    26: ErrorCode.STORAGE,
    31: ErrorCode.OUT_OF_ORDER,
    33: ErrorCode.UNKNOWN_WRITER,
    35: ErrorCode.INVALID_TARGET_COLUMN,
    36: ErrorCode.NO_PARTITION,
    37: ErrorCode.NOT_PARTITIONED,
    39: ErrorCode.INVALID_CONFIG,
    42: ErrorCode.PARTITION_EXISTS,
    43: ErrorCode.INVALID_PARTITION,
    44: ErrorCode.NO_LEADER,
    45: ErrorCode.TOO_MANY_PARTITIONS,
    46: ErrorCode.AUTHENTICATION_FAILED,
    48: ErrorCode.NOT_AUTHORIZED,
    49: ErrorCode.TOO_MANY_BUCKETS,
    50: ErrorCode.FENCED_TIERING,
    51: ErrorCode.RETRY_AUTHENTICATION,
    53: ErrorCode.NO_LAKE_SNAPSHOT,
    57: ErrorCode.DELETION_DISABLED,
    66: ErrorCode.SCANNER_EXPIRED,
    67: ErrorCode.UNKNOWN_SCANNER,
    68: ErrorCode.INVALID_SCAN,
    69: ErrorCode.TOO_MANY_SCANNERS,
    72: ErrorCode.BACKPRESSURE,
}
"""What the numbers mean that calls made here are answered with."""

_HEAD: Final = struct.Struct(">ihhi")
_LENGTH: Final = struct.Struct(">i")
_ANSWER: Final = struct.Struct(">bi")
_MAX_ANSWER_BYTES: Final = 256 * 1024 * 1024


class StreamConnection:
    """A connection, for one thread at a time."""

    def __init__(self, host: str, port: int, user: str, secret: Secret | None, timeout_seconds: float = 30.0) -> None:
        """Connect. Reasons: NO_LEADER if nobody answers there, AUTHENTICATION_FAILED."""
        self._next = 0
        try:
            self._socket = socket.create_connection((host, port), timeout_seconds)
        except OSError as error:
            raise FlussError(ErrorCode.NO_LEADER, f"server cannot be reached. address={host}:{port}") from error
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
                    ErrorCode.NO_LEADER,
                    "no stream server answers there: expected the address of streams.listen, not of server.listen."
                    f" address={host}:{port}",
                ) from failure
            raise

    def call(self, key: int, message: bytes) -> Fields:
        """The answer to a call. Reasons: UNSUPPORTED_VERSION, NO_LEADER if the connection is lost, the server's own."""
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
            raise FlussError(ErrorCode.NO_LEADER, "connection to the server was lost") from error
        if kind != 0:
            raise failure_of(number(fields, 1), text(fields, 2))
        if answered != self._next:
            self.close()
            raise FlussError(ErrorCode.NO_LEADER, f"answer is for another call. call={self._next} answer={answered}")
        return fields

    def _read(self, size: int) -> memoryview:
        view, got = memoryview(bytearray(size)), 0
        while got < size:
            more = self._socket.recv_into(view[got:])
            if not more:
                raise ConnectionError("server closed the connection")
            got += more
        return view


def failure_of(code: int, message: bytes) -> FlussError:
    """What a number of the server means."""
    reason = REASONS.get(
        code, ErrorCode.STORAGE if code in (1, 3, 14, 28, 29, 70, 73) else ErrorCode.UNSUPPORTED_VERSION
    )
    return FlussError(reason, message.decode(errors="replace") or f"server refused. code={code}")
