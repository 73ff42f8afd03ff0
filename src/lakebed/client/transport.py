"""HTTP to one server: connections that are kept between requests, for any number of threads.

What a caller learns of a request that failed: `Unavailable` says by `undecided` whether the server may have acted on
it. It may not when no connection could be opened.
"""

from __future__ import annotations

import http.client
import select
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from lakebed.core.errors import InvalidSetting, Unavailable

MAX_ANSWER_BYTES: Final = 64 * 1024 * 1024
"""Longer answers are refused: no document of these wires comes near."""

KEPT_SECONDS: Final = 60.0
"""How long a connection is kept that nobody uses; servers close theirs after two minutes."""

_MAX_KEPT: Final = 8
_NO_TLS: Final = frozenset({"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG", "HTTP_REQUEST"})
"""What OpenSSL, in its several versions, calls an answer that is no TLS: plain HTTP, most likely."""

_PIECE_BYTES: Final = 256 * 1024


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back."""

    status: int
    body: bytes
    retry_after: str | None = None


@dataclass(frozen=True, slots=True)
class StreamedReply:
    """What comes back, of which the head is there."""

    status: int
    pieces: Iterator[bytes]
    """The body as it comes."""
    retry_after: str | None = None


class Transport:
    """Sends requests to one server. Safe for threads: each request has a connection to itself."""

    def __init__(self, endpoint: str, *, ca_bundle: str | None = None, connect_timeout_seconds: float = 10.0) -> None:
        """Opens nothing yet. Raises InvalidSetting for authorities that cannot be read."""
        parts = urlsplit(endpoint)
        self.endpoint = endpoint
        self.host = parts.netloc
        """As the Host header has it."""
        self._name = parts.hostname or ""
        self._port = parts.port
        self._tls = _tls_context(ca_bundle) if parts.scheme == "https" else None
        self._connect_timeout_seconds = connect_timeout_seconds
        self._kept: list[tuple[http.client.HTTPConnection, float]] = []
        self._lock = threading.Lock()

    def send(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes, *, timeout_seconds: float
    ) -> Reply:
        """One request, one answer. Raises Unavailable, InvalidSetting."""
        connection = self._take() or self._open()
        with self._speaking(connection, timeout_seconds):
            answer = _ask(connection, method, target, headers, body, timeout_seconds)
            read = answer.read(MAX_ANSWER_BYTES + 1)
            if len(read) > MAX_ANSWER_BYTES:
                raise Unavailable(f"the answer is too long. endpoint={self.endpoint} maximum={MAX_ANSWER_BYTES}")
            if answer.length:
                raise http.client.IncompleteRead(read, answer.length)
        self._done_with(connection, answer)
        return Reply(answer.status, read, answer.headers.get("Retry-After"))

    @contextmanager
    def stream(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes, *, timeout_seconds: float
    ) -> Iterator[StreamedReply]:
        """One request, its answer read piece by piece; `timeout_seconds` is for each of them.

        Who leaves before its end hangs up. Raises Unavailable, InvalidSetting; Unavailable while it is read, too.
        """
        connection = self._take() or self._open()
        with self._speaking(connection, timeout_seconds):
            answer = _ask(connection, method, target, headers, body, timeout_seconds)

        is_whole = False

        def pieces() -> Iterator[bytes]:
            nonlocal is_whole
            while True:
                with self._speaking(connection, timeout_seconds):
                    piece = answer.read1(_PIECE_BYTES)
                    if not piece and answer.length:
                        raise http.client.IncompleteRead(b"", answer.length)
                if not piece:
                    is_whole = True
                    return
                yield piece

        try:
            yield StreamedReply(answer.status, pieces(), answer.headers.get("Retry-After"))
        finally:
            answer.close()
            if is_whole:
                self._done_with(connection, answer)
            else:
                connection.close()

    @contextmanager
    def _speaking(self, connection: http.client.HTTPConnection, timeout_seconds: float) -> Iterator[None]:
        """What goes wrong with a connection ends it, and is told as an error of ours."""
        try:
            yield
        except TimeoutError as error:
            connection.close()
            raise Unavailable(
                f"no answer in time. endpoint={self.endpoint} seconds={timeout_seconds:g}", undecided=True
            ) from error
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            if isinstance(error, http.client.BadStatusLine) and _is_tls_alert(str(error)):
                raise InvalidSetting(
                    f"the server speaks TLS there, and the endpoint says plain HTTP: use https://."
                    f" endpoint={self.endpoint}",
                    argument="endpoint",
                ) from None
            raise Unavailable(
                f"the connection broke before the answer was there. endpoint={self.endpoint}"
                f" reason={type(error).__name__}",
                undecided=True,
            ) from error
        except ValueError:
            connection.close()
            # Not quoted: its message shows the header, which may hold a token.
            raise InvalidSetting(
                f"a key, token or path that HTTP cannot carry. endpoint={self.endpoint}", argument="access_key_id"
            ) from None
        except BaseException:
            # Whatever is still to come on it would be taken for the next answer.
            connection.close()
            raise

    def _done_with(self, connection: http.client.HTTPConnection, answer: http.client.HTTPResponse) -> None:
        if answer.will_close:
            connection.close()
        else:
            self._keep(connection)

    def close(self) -> None:
        """Close the connections that nobody uses now."""
        with self._lock:
            kept, self._kept = self._kept, []
        for connection, _ in kept:
            connection.close()

    def _open(self) -> http.client.HTTPConnection:
        timeout = self._connect_timeout_seconds
        if self._tls is None:
            connection = http.client.HTTPConnection(self._name, self._port, timeout=timeout)
        else:
            connection = http.client.HTTPSConnection(self._name, self._port, timeout=timeout, context=self._tls)
        try:
            connection.connect()
        except ssl.SSLCertVerificationError as error:
            raise InvalidSetting(
                f"the server's certificate is not trusted ({error.verify_message}): give the authority that signed it"
                f" as ca_bundle or in AWS_CA_BUNDLE. endpoint={self.endpoint}",
                argument="ca_bundle",
            ) from error
        except (OSError, UnicodeError) as error:
            if isinstance(error, ssl.SSLError) and error.reason in _NO_TLS:
                raise InvalidSetting(
                    f"the server does not speak TLS there: use http://, or the port that it serves HTTPS at."
                    f" endpoint={self.endpoint}",
                    argument="endpoint",
                ) from error
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise Unavailable(
                f"the server cannot be reached: see that it runs and that the endpoint is right."
                f" endpoint={self.endpoint} reason={reason}"
            ) from error
        return connection

    def _take(self) -> http.client.HTTPConnection | None:
        """A kept connection that the server has not closed, if there is one."""
        while True:
            with self._lock:
                if not self._kept:
                    return None
                connection, since = self._kept.pop()
            if time.monotonic() - since < KEPT_SECONDS and _is_quiet(_socket_of(connection)):
                return connection
            connection.close()

    def _keep(self, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            if len(self._kept) < _MAX_KEPT:
                self._kept.append((connection, time.monotonic()))
                return
        connection.close()


def _ask(
    connection: http.client.HTTPConnection,
    method: str,
    target: str,
    headers: Mapping[str, str],
    body: bytes,
    timeout_seconds: float,
) -> http.client.HTTPResponse:
    _socket_of(connection).settimeout(timeout_seconds)
    connection.request(method, target, body=body or None, headers=dict(headers))
    return connection.getresponse()


def _is_tls_alert(line: str) -> bool:
    """Whether it is how a TLS server refuses what is no handshake."""
    return line.startswith(("\x15\x03", repr("\x15\x03")[:-1]))


def _is_quiet(connection: socket.socket) -> bool:
    """Whether nothing is there to be read: between requests that is the server's farewell."""
    watch = select.poll()
    watch.register(connection, select.POLLIN)
    return not watch.poll(0)


def _socket_of(connection: http.client.HTTPConnection) -> socket.socket:
    found = connection.sock
    if not isinstance(found, socket.socket):
        raise RuntimeError("a connection without a socket")
    return found


def _tls_context(ca_bundle: str | None) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=ca_bundle)
    except (OSError, ssl.SSLError) as error:
        raise InvalidSetting(
            f"the authorities cannot be read. ca_bundle={ca_bundle} reason={error.strerror or error}",
            argument="ca_bundle",
        ) from error
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context
