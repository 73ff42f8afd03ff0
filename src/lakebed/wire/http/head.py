"""Parses request lines and headers strictly, and preserves them unchanged.

The parser is llhttp. Each complete head gets a new parser: one that also read bodies would continue into the next
request.
"""

from __future__ import annotations

import re
from functools import lru_cache
from ipaddress import IPv6Address
from typing import Final

import httptools

from .body import RequestBody
from .message import RAW_ERRORS, HeadFault

MAX_HEAD_BYTES: Final = 64 * 1024
"""Largest request head. S3 limits headers to 8 KiB; presigned URLs with session tokens are longer."""

MAX_HEADERS: Final = 1000
"""Most headers of a request; 2 KiB of user metadata has fewer."""

# Clients send the same few names in every request: a lookup takes a third of the time of decoding.
_known_names: dict[bytes, str] = {}
_MAX_KNOWN_NAMES: Final = 1024

_NO_BODY: Final = RequestBody(0)
"""The body of all requests without one: it never changes, so they share it."""


class HeadRejected(Exception):
    """The head is malformed or not supported. The start of the next request is unknown."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.fault = HeadFault(status, reason)


class RequestHead:
    """The request line and headers."""

    __slots__ = ("_repeats_host", "_url", "headers", "keep_alive", "method", "path", "query", "version_1_0")

    def __init__(self, data: bytes, end: int) -> None:
        """Parse the first `end` bytes of `data`, which end with an empty line. Raises HeadRejected."""
        if data.count(b"\n", 0, end) > MAX_HEADERS + 2:
            raise HeadRejected(431, "the request has too many headers")
        self.headers: dict[str, str] = {}
        """Names in lower case; values of repeated headers joined by commas."""
        self._url = b""
        self._repeats_host = False
        parser = httptools.HttpRequestParser(self)
        try:
            parser.feed_data(data if end == len(data) else memoryview(data)[:end])
        except httptools.HttpParserUpgrade:
            # A server may ignore Upgrade (RFC 9110 §7.8), but not CONNECT.
            if parser.get_method() == b"CONNECT":
                raise HeadRejected(400, "tunnels are not supported") from None
        except httptools.HttpParserError as error:
            raise HeadRejected(400, f"the request head is malformed: {error}") from error
        line_end = data.find(b"\r\n")
        if data[line_end - 9 : line_end - 1] != b" HTTP/1.":
            raise HeadRejected(400, "the request line does not end with a version of HTTP/1")
        self.version_1_0 = data[line_end - 1 : line_end] == b"0"
        connection = self.headers.get("connection")
        # The parser resets its `should_keep_alive` when a request without a body is complete.
        self.keep_alive = (
            not self.version_1_0 if connection is None else connection == "keep-alive" or self._keeps_alive(connection)
        )
        self.method: str = parser.get_method().decode()
        path, _, self.query = self._url.decode("utf-8", RAW_ERRORS).partition("?")
        self.path = path
        if not path.startswith("/"):
            self._read_absolute(path)
        self._check_host()

    def on_url(self, url: bytes) -> None:
        """Append a piece of the request target."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header; repeated ones are joined (RFC 9110 §5.3)."""
        field = _known_names.get(name) or _lower_name(name)
        text = value.decode("utf-8", RAW_ERRORS)
        headers = self.headers
        if field in headers:
            headers[field] = f"{headers[field]},{text}"
            self._repeats_host |= field == "host"
        else:
            headers[field] = text

    def _read_absolute(self, target: str) -> None:
        """Take path and host from an absolute-form target. Raises HeadRejected."""
        found = split_absolute(target)
        if found is None:
            return
        authority, self.path = found
        if not authority or not is_valid_host(authority):
            raise HeadRejected(400, "the host in the request target is not valid")
        if "host" in self.headers and not self._repeats_host and is_valid_host(self.headers["host"].strip(" \t")):
            # The target's host overrides the header (RFC 9112 §3.2.2).
            self.headers["host"] = authority

    def _check_host(self) -> None:
        """Reject a missing, repeated or invalid host (RFC 9112 §3.2). Raises HeadRejected.

        If a proxy chose another one of two hosts than this server, its access rules would apply to the wrong bucket.
        """
        host = self.headers.get("host")
        if host is None:
            if not self.version_1_0:
                raise HeadRejected(400, "the request has no Host header, which HTTP/1.1 requires")
        elif self._repeats_host:
            raise HeadRejected(400, "the request has more than one Host header")
        elif not is_valid_host(host):
            stripped = host.strip(" \t")
            if not is_valid_host(stripped):
                raise HeadRejected(400, "the Host header is not a host name or address with an optional port")
            self.headers["host"] = stripped

    def body(self) -> RequestBody:
        """The body that follows, still empty. Raises HeadRejected."""
        headers = self.headers
        if "transfer-encoding" in headers:
            if self.version_1_0:
                # RFC 9112 §6.1: a proxy that does not know chunked coding would find another end of the body.
                raise HeadRejected(400, "HTTP/1.0 has no transfer codings")
            if headers["transfer-encoding"].strip().lower() != "chunked":
                raise HeadRejected(501, "this transfer coding is not supported")
            return RequestBody(None, chunked=True)
        length = headers.get("content-length")
        if length is None:
            return _NO_BODY
        length = length.strip()
        if not (length.isascii() and length.isdigit()):
            raise HeadRejected(400, "the content length is not a number")
        return RequestBody(int(length))

    @property
    def expects_continue(self) -> bool:
        """Whether the client waits for 100 Continue before it sends the body."""
        expected = self.headers.get("expect")
        return expected is not None and expected.strip().lower() == "100-continue" and not self.version_1_0

    def _keeps_alive(self, connection: str) -> bool:
        options = [option.strip().lower() for option in connection.split(",")]
        return "close" not in options and (not self.version_1_0 or "keep-alive" in options)


def _lower_name(name: bytes) -> str:
    field = name.decode("latin-1").lower()
    if len(_known_names) < _MAX_KNOWN_NAMES and len(field) <= 64:
        _known_names[name] = field
    return field


_REG_NAME: Final = re.compile(r"(?:[A-Za-z0-9\-._~!$&'()*+,;=]|%[0-9A-Fa-f]{2})*(?::[0-9]{0,5})?")
"""RFC 3986 §3.2.2: a name or an IPv4 address, possibly empty, and an optional port."""

_IP_LITERAL: Final = re.compile(r"\[([0-9A-Fa-f:.]{2,45})\](?::[0-9]{0,5})?")
_MAX_CHARS: Final = 1024
_MAX_PORT: Final = 65535


@lru_cache(maxsize=256)
def is_valid_host(text: str) -> bool:
    """Whether the text is `uri-host [ ":" port ]`, without user information."""
    if len(text) > _MAX_CHARS or not text.isascii():
        return False
    literal = _IP_LITERAL.fullmatch(text)
    if literal is not None:
        try:
            IPv6Address(literal[1])
        except ValueError:
            return False
    elif _REG_NAME.fullmatch(text) is None:
        return False
    port = text.rpartition(":")[2] if ":" in text and not text.endswith("]") else ""
    return not port or int(port) <= _MAX_PORT


def split_absolute(target: str) -> tuple[str, str] | None:
    """Authority and path of an absolute-form target without query (`http://host/path`); None for other forms."""
    scheme, separator, rest = target.partition("://")
    if not separator or scheme.lower() not in ("http", "https"):
        return None
    authority, slash, path = rest.partition("/")
    return authority, slash + path or "/"
