"""HTTP requests to a server: signed, retried where safe, and decoded."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Final, Protocol, TypeVar

import msgspec

from lakebed import __version__
from lakebed.core.clock import Clock, SystemClock
from lakebed.core.errors import InvalidSetting, LakebedError, StorageFull, Unavailable
from lakebed.core.sigv4 import canonical_query, signed_headers
from lakebed.net.http import SAFE_METHODS, HttpFailure, HttpRequest, HttpResponse, split_url
from lakebed.net.sync_client import SyncHttpClient
from lakebed.net.tls import TlsFiles

from .access import ServerAccess
from .errors import connection_failure, failure_of, s3_failure_of

T = TypeVar("T")


class Page(Protocol):
    """A page of a list."""

    @property
    def next_page_token(self) -> str | None:
        """Token of the next page; None at the end."""
        ...


P = TypeVar("P", bound=Page)

ATTEMPTS: Final = 4
"""Attempts of a request that may be repeated."""

_RETRY_AFTER: Final = "retry-after"
_FIRST_PAUSE_SECONDS: Final = 0.2
_LONGEST_PAUSE_SECONDS: Final = 5.0
_MAX_RESPONSE_BYTES: Final = 64 * 1024 * 1024
"""Larger than any response of these APIs."""

_MAX_IDLE: Final = 8
_IDLE_SECONDS: Final = 60.0
"""Idle time after which a connection is closed; servers close theirs after two minutes."""

_CONNECT_SECONDS: Final = 10.0

_encode = msgspec.json.Encoder().encode


class ServerConnection:
    """Requests to one server. Thread-safe."""

    def __init__(
        self,
        access: ServerAccess,
        *,
        timeout_seconds: float = 60.0,
        attempts: int = ATTEMPTS,
        clock: Clock | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`timeout_seconds` is the response timeout, in addition to a request's long-poll time."""
        self.access = access
        self._timeout_seconds = timeout_seconds
        self._attempts = attempts
        self._clock = clock or SystemClock()
        self._sleep = sleep
        self._random = random.Random()  # noqa: S311  # jitter
        self._destination = split_url(access.endpoint)
        self._http = SyncHttpClient(
            TlsFiles(access.ca_bundle),
            max_idle=_MAX_IDLE,
            idle_seconds=_IDLE_SECONDS,
            connect_timeout_seconds=_CONNECT_SECONDS,
        )
        if self._destination.scheme == "https":
            self._load_authorities()

    def close(self) -> None:
        """Close idle connections."""
        self._http.close()

    def read(
        self,
        kind: type[T],
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        document: object = None,
        repeatable: bool | None = None,
        wait_seconds: float = 0.0,
    ) -> T:
        """Send a request, and decode the response as `kind`. Raises as `call`."""
        reply = self.call(
            method, path, query=query, document=document, repeatable=repeatable, wait_seconds=wait_seconds
        )
        return self.decode(reply, kind)

    def pages(
        self, kind: type[P], path: str, query: Mapping[str, str] | None = None, *, parameter: str = "page-token"
    ) -> Iterator[P]:
        """The pages of a list. `parameter` is the query parameter of the page token."""
        # An empty token requests the first page; without the parameter, catalog routes return everything.
        sent = {**(query or {}), parameter: ""}
        while True:
            page = self.read(kind, "GET", path, query=sent)
            yield page
            if not page.next_page_token:
                return
            sent[parameter] = page.next_page_token

    def decode(self, reply: HttpResponse, kind: type[T]) -> T:
        """Decode a response. Raises Unavailable for other documents."""
        try:
            return msgspec.json.decode(reply.body, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise Unavailable(
                f"unexpected response ({error}); check that the endpoint is a Lakebed server of this version."
                f" endpoint={self.access.endpoint}",
                undecided=True,
            ) from error

    def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        document: object = None,
        headers: Mapping[str, str] | None = None,
        repeatable: bool | None = None,
        wait_seconds: float = 0.0,
    ) -> HttpResponse:
        """Send a request and return a successful response.

        The segments of `path` are encoded already. `repeatable` states that repeating the request after a lost response
        is harmless; the default follows from the method. Requests refused as busy are always repeated. Raises the
        server's error, Unavailable without a response, and InvalidSetting.
        """
        may_repeat = method in SAFE_METHODS if repeatable is None else repeatable
        attempt = 0
        while True:
            attempt += 1
            reply = None
            try:
                reply = self._send(method, path, query or {}, document, wait_seconds, headers)
                if 200 <= reply.status < 300:
                    return reply
                raise failure_of(reply.status, reply.body, f"{method} {path}")
            except LakebedError as error:
                if attempt >= self._attempts or not _is_worth_repeating(error, may_repeat):
                    raise
                self._sleep(self._pause_seconds(attempt, None if reply is None else reply.headers.get(_RETRY_AFTER)))

    @contextmanager
    def stream(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str],
        body: bytes = b"",
        failure: Callable[[int, bytes, str], LakebedError] = s3_failure_of,
    ) -> Iterator[Iterator[bytes]]:
        """Send a read-only S3 request and yield its response body. Leaving the context early closes the connection.

        `failure` translates error responses. Raises its errors, Unavailable and InvalidSetting.
        """
        attempt = 0
        while True:
            attempt += 1
            with ExitStack() as stack:
                headers = {"content-type": "application/xml"}
                request = self._signed(method, path, query, body, headers, self._timeout_seconds)
                refused: str | None = None
                try:
                    with self._failures():
                        reply = stack.enter_context(self._http.stream(request))
                    pieces = self._read(reply.pieces)
                    refused = reply.headers.get(_RETRY_AFTER)
                    if not 200 <= reply.status < 300:
                        raise failure(reply.status, b"".join(pieces), f"{method} {path}")
                except LakebedError as error:
                    if attempt >= self._attempts or not _is_worth_repeating(error, may_repeat=True):
                        raise
                    self._sleep(self._pause_seconds(attempt, refused))
                    continue
                yield pieces
                return

    def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        document: object,
        wait_seconds: float,
        extra: Mapping[str, str] | None = None,
    ) -> HttpResponse:
        body = b"" if document is None else _encode(document)
        headers = {"accept": "application/json", **(extra or {})}
        if document is not None:
            headers["content-type"] = "application/json"
        request = self._signed(method, path, query, body, headers, self._timeout_seconds + wait_seconds)
        with self._failures():
            return self._http.send(request)

    def _read(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        with self._failures():
            yield from pieces

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Translate failures of the HTTP client."""
        try:
            yield
        except HttpFailure as failure:
            raise connection_failure(failure, self.access.endpoint) from failure.error

    def _load_authorities(self) -> None:
        try:
            self._http.load_tls()
        except Unavailable as error:
            reason = getattr(error.__cause__, "strerror", None) or error.__cause__
            raise InvalidSetting(
                f"unreadable CA bundle. ca_bundle={self.access.ca_bundle} reason={reason}",
                argument="ca_bundle",
            ) from error

    def _signed(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: bytes,
        headers: Mapping[str, str],
        timeout_seconds: float,
    ) -> HttpRequest:
        access, destination = self.access, self._destination
        sent_query = canonical_query(query.items())
        signed = signed_headers(
            method,
            host=destination.netloc,
            path=path,
            query=sent_query,
            headers={"user-agent": f"lakebed/{__version__}", **headers},
            body=body,
            region=access.region,
            service="s3",
            credentials=access,
            now_ms=self._clock.now_ms(),
        )
        url = f"{destination.scheme}://{destination.netloc}{path}" + (f"?{sent_query}" if sent_query else "")
        return HttpRequest(method, url, signed, body, timeout_seconds, max_response_bytes=_MAX_RESPONSE_BYTES)

    def _pause_seconds(self, attempt: int, retry_after: str | None) -> float:
        """Exponential backoff with jitter, at least the server's Retry-After."""
        longest = min(_LONGEST_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2.0 ** (attempt - 1))
        pause = longest * (1 - self._random.random() / 2)
        if retry_after is not None and retry_after.isascii() and retry_after.isdigit():
            pause = max(pause, min(float(retry_after), _LONGEST_PAUSE_SECONDS))
        return pause


def _is_worth_repeating(error: LakebedError, may_repeat: bool) -> bool:
    if not error.retryable or isinstance(error, StorageFull):
        return False
    return may_repeat or not (isinstance(error, Unavailable) and error.undecided)
