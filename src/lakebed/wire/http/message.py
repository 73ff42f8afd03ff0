"""HTTP requests and responses."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote_to_bytes

from lakebed.core.errors import InvalidInput

if TYPE_CHECKING:
    from lakebed.core.access import Session

    from .body import RequestBody
    from .request_audit import RequestRecord

Headers = list[tuple[str, str]]
"""Response headers, in order."""

RAW_ERRORS: Final = "surrogateescape"
"""Error handler that decodes header bytes which are not UTF-8, and encodes them back unchanged."""

_MAX_CACHED_CHARS: Final = 2048
"""Longer queries are not cached, so that unauthenticated clients cannot grow the cache."""


def _always() -> bool:
    return True


class Request:
    """A request. Target and header values are unchanged, because signatures are computed over them."""

    __slots__ = (
        "_query",
        "body",
        "delegated",
        "headers",
        "may_wait",
        "method",
        "peer",
        "principal",
        "raw_path",
        "raw_query",
        "record",
        "request_id",
        "scheme",
        "tls_version",
    )

    def __init__(
        self,
        method: str,
        raw_path: str,
        raw_query: str,
        headers: dict[str, str],
        body: RequestBody,
        scheme: str,
        peer: str,
        request_id: str,
        tls_version: str = "",
        may_wait: Callable[[], bool] = _always,
    ) -> None:
        self.method = method
        self.raw_path = raw_path
        self.raw_query = raw_query
        self.headers = headers
        """Names in lower case; values of repeated headers joined by commas."""
        self.body = body
        self.scheme = scheme
        self.peer = peer
        """The client's address, without port."""
        self.request_id = request_id
        self.tls_version = tls_version
        """As OpenSSL names it: `TLSv1.3`; empty over plain HTTP."""
        self.may_wait = may_wait
        """Whether a long poll may continue: false once the client has disconnected or the server stops."""
        self.principal = ""
        """The caller's name, once authenticated; for logs."""
        self.delegated: Session | None = None
        """The session of vended credentials, if the request is signed with them; for logs and the delegation trace."""
        self.record: RequestRecord | None = None
        """The audit record, while a target subscribes to requests."""
        self._query: dict[str, str] | None = None

    @property
    def query(self) -> dict[str, str]:
        """Decoded query parameters: the first of repeated ones; an empty value for a bare name.

        Raises InvalidInput if a parameter is not UTF-8 or contains NUL.
        """
        if self._query is None:
            self._query = parse_query(self.raw_query) if self.raw_query else {}
        return self._query


def parse_query(raw: str) -> dict[str, str]:
    """Split a raw query string and decode its names and values; `+` is a space. Raises InvalidInput."""
    parsed: dict[str, str] = {}
    is_plain = "+" not in raw and raw.isascii()
    # Clients repeat the same encoded parameters: their credentials, a delimiter, a prefix.
    decode = _decode_pair_cached if len(raw) <= _MAX_CACHED_CHARS else _decode_pair
    for pair in raw.split("&"):
        if not pair:
            continue
        if is_plain and "%" not in pair:
            name, _, value = pair.partition("=")
        else:
            name, value = decode(pair)
        parsed.setdefault(name, value)
    return parsed


def _decode_pair(pair: str) -> tuple[str, str]:
    name, _, value = pair.partition("=")
    return decode_component(name), decode_component(value)


_decode_pair_cached: Final = lru_cache(maxsize=1024)(_decode_pair)


def decode_component(text: str) -> str:
    """Decode a query name or value. Raises InvalidInput if it is not UTF-8 or contains NUL, which no store accepts."""
    if "%" not in text and "+" not in text and text.isascii():
        return text
    try:
        decoded = unquote_to_bytes(text.replace("+", " ").encode("utf-8", RAW_ERRORS)).decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidInput("query parameter is not utf-8", argument=text) from error
    if "\0" in decoded:
        raise InvalidInput("query parameter contains nul", argument=text)
    return decoded


@dataclass(frozen=True, slots=True)
class FileSlice:
    """A byte range of an open file. The responder closes the descriptor."""

    descriptor: int
    offset: int
    length: int


async def close_stream(stream: AsyncIterator[bytes]) -> None:
    """Close a stream with its `aclose`, if it has one.

    A generator that was never started is closed without running any of its code. So a stream that holds resources from
    its creation must be a class.
    """
    aclose: Callable[[], Awaitable[None]] | None = getattr(stream, "aclose", None)
    if aclose is not None:
        await aclose()


class Response:
    """A response. Its body is bytes, a sequence of file slices and bytes, or a stream."""

    __slots__ = ("body", "close", "files", "headers", "length", "status", "stream")

    def __init__(
        self,
        status: int,
        headers: Headers | None = None,
        body: bytes = b"",
        *,
        files: Sequence[FileSlice | bytes] = (),
        stream: AsyncIterator[bytes] | None = None,
        length: int | None = None,
        close: bool = False,
    ) -> None:
        self.status = status
        self.headers: Headers = headers if headers is not None else []
        self.body = body
        self.files = files
        """File slices and bytes, sent in order."""
        self.stream = stream
        self.length = length
        """Content-Length of `files`, of a `stream`, or of the body that a HEAD omits; None for that of `body`.

        A stream without a length is sent chunked.
        """
        self.close = close


REASONS: Final[dict[int, str]] = {
    100: "Continue",
    200: "OK",
    201: "Created",
    204: "No Content",
    206: "Partial Content",
    301: "Moved Permanently",
    303: "See Other",
    304: "Not Modified",
    307: "Temporary Redirect",
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    409: "Conflict",
    411: "Length Required",
    412: "Precondition Failed",
    413: "Content Too Large",
    416: "Range Not Satisfiable",
    429: "Too Many Requests",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    501: "Not Implemented",
    502: "Bad Gateway",
    503: "Service Unavailable",
    507: "Insufficient Storage",
}


@dataclass(frozen=True, slots=True)
class HeadFault:
    """Why a request head was rejected."""

    status: int
    reason: str


Rejecter = Callable[[HeadFault, str], Response]
"""Creates the response to a rejected head, in the protocol's error format; called with the request id."""
