"""Requests and responses as the edges see them."""

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
"""How header bytes that are not UTF-8 are carried in text: they come back unchanged when encoded the same way."""

_MAX_REMEMBERED_CHARS: Final = 2048
"""Longer queries are decoded anew each time: what is remembered must not grow with what strangers send."""


def _always() -> bool:
    return True


class Request:
    """One request, with its target and header values exactly as they came: signatures are computed over them."""

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
        """The address of the other side, without its port."""
        self.request_id = request_id
        self.tls_version = tls_version
        """As OpenSSL names it: `TLSv1.3`; empty over plain HTTP."""
        self.may_wait = may_wait
        """Whether an answer may wait for news: not when the client has hung up, nor when the server ends."""
        self.principal = ""
        """Who asks, once an edge has found out; for logs."""
        self.delegated: Session | None = None
        """What came with keys that the catalog handed out, if it was sent with such; for logs and the trace."""
        self.record: RequestRecord | None = None
        """What is noted of it, while somebody is sent requests."""
        self._query: dict[str, str] | None = None

    @property
    def query(self) -> dict[str, str]:
        """Decoded query parameters; the first of repeated ones; a bare name has an empty value.

        Raises InvalidInput when one is not UTF-8 or holds a NUL.
        """
        if self._query is None:
            self._query = parse_query(self.raw_query) if self.raw_query else {}
        return self._query


def parse_query(raw: str) -> dict[str, str]:
    """Split a raw query string and decode its names and values; `+` is a space. Raises InvalidInput."""
    parsed: dict[str, str] = {}
    is_plain = "+" not in raw and raw.isascii()
    # What clients encode is mostly what they encoded the last time: their credentials, a delimiter, a prefix.
    decode = _remembered_pair if len(raw) <= _MAX_REMEMBERED_CHARS else _decode_pair
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


_remembered_pair: Final = lru_cache(maxsize=1024)(_decode_pair)


def decode_component(text: str) -> str:
    """Decode one query name or value. Raises InvalidInput when it is not UTF-8, or holds a NUL: no store keeps that."""
    if "%" not in text and "+" not in text and text.isascii():
        return text
    try:
        decoded = unquote_to_bytes(text.replace("+", " ").encode("utf-8", RAW_ERRORS)).decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidInput("a query parameter is not utf-8", argument=text) from error
    if "\0" in decoded:
        raise InvalidInput("a query parameter holds a nul", argument=text)
    return decoded


@dataclass(frozen=True, slots=True)
class FileSlice:
    """A run of bytes of an open file. Whoever sends it closes the descriptor."""

    descriptor: int
    offset: int
    length: int


async def close_stream(stream: AsyncIterator[bytes]) -> None:
    """Let go of what a stream holds, whether or not anybody has begun to read it.

    By its own method, if it has one. A generator that was never begun is closed without running a line of it: a stream
    that holds something from its making on is a class of its own.
    """
    aclose: Callable[[], Awaitable[None]] | None = getattr(stream, "aclose", None)
    if aclose is not None:
        await aclose()


class Response:
    """One answer: its body is bytes, a row of slices of files and bytes, or a stream.

    Its length is known beforehand unless it is chunked.
    """

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
        """What goes out one after the other: runs of files, and bytes that are not joined before."""
        self.stream = stream
        self.length = length
        """Content-Length where it is not the body's: of `files`, of a `stream`, or of what a HEAD leaves out.

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
    """A request head that could not be read."""

    status: int
    reason: str


Rejecter = Callable[[HeadFault, str], Response]
"""Makes the answer to a head that could not be read, in the protocol's own form; given the request id."""
