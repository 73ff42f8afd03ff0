"""Request heads: the request line and headers, parsed strictly and kept as they came.

llhttp does the parsing. It is given whole heads only, and a new parser each: one that goes on into bodies would take
the next request for a part of this one.
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
"""Largest request head: 8 KiB of headers is S3's own limit, presigned URLs with session tokens are longer."""

MAX_HEADERS: Final = 1000
"""Most headers of a request: more than 2 KiB of user metadata can make."""


# Clients send the same few names in every request: looking one up takes a third of the time of making it anew.
_known_names: dict[bytes, str] = {}
_MAX_KNOWN_NAMES: Final = 1024

_NO_BODY: Final = RequestBody(0)
"""Of every request without one: nothing about it ever changes."""


class HeadRefused(Exception):
    """The head cannot be served, and where the next request begins is unknown."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.fault = HeadFault(status, reason)


class RequestHead:
    """What a request says before its body."""

    __slots__ = ("_repeats_host", "_url", "headers", "keep_alive", "method", "path", "query", "version_1_0")

    def __init__(self, data: bytes, end: int) -> None:
        """Parse the first `end` bytes of `data`, which end with an empty line. Raises HeadRefused."""
        if data.count(b"\n", 0, end) > MAX_HEADERS + 2:
            raise HeadRefused(431, "the request has too many headers")
        self.headers: dict[str, str] = {}
        """Names in lower case; values of repeated headers joined by commas."""
        self._url = b""
        self._repeats_host = False
        parser = httptools.HttpRequestParser(self)
        try:
            parser.feed_data(data if end == len(data) else memoryview(data)[:end])
        except httptools.HttpParserUpgrade:
            # An offer to speak something else, which we may pass over (RFC 9110 §7.8). CONNECT asks for a tunnel.
            if parser.get_method() == b"CONNECT":
                raise HeadRefused(400, "tunnels are not supported") from None
        except httptools.HttpParserError as error:
            raise HeadRefused(400, f"the request head is malformed: {error}") from error
        line_end = data.find(b"\r\n")
        if data[line_end - 9 : line_end - 1] != b" HTTP/1.":
            raise HeadRefused(400, "the request line does not end with a version of HTTP/1")
        self.version_1_0 = data[line_end - 1 : line_end] == b"0"
        said = self.headers.get("connection")
        # Not asked of the parser: it forgets what was said when a request without a body is complete.
        self.keep_alive = not self.version_1_0 if said is None else said == "keep-alive" or self._keeps_alive(said)
        self.method: str = parser.get_method().decode()
        path, _, self.query = self._url.decode("utf-8", RAW_ERRORS).partition("?")
        self.path = path
        if not path.startswith("/"):
            self._read_absolute(path)
        self._check_host()

    def on_url(self, url: bytes) -> None:
        """The parser has a piece of the target."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """The parser has a header; repeated ones are joined as RFC 9110 §5.3 says."""
        field = _known_names.get(name) or _lower_name(name)
        text = value.decode("utf-8", RAW_ERRORS)
        headers = self.headers
        if field in headers:
            headers[field] = f"{headers[field]},{text}"
            self._repeats_host |= field == "host"
        else:
            headers[field] = text

    def _read_absolute(self, target: str) -> None:
        """Take path and host from an absolute-form target. Raises HeadRefused."""
        found = split_absolute(target)
        if found is None:
            return
        authority, self.path = found
        if not authority or not is_valid_host(authority):
            raise HeadRefused(400, "the host in the request target is not valid")
        if "host" in self.headers and not self._repeats_host and is_valid_host(self.headers["host"].strip(" \t")):
            # The target's host counts, whatever the header says (RFC 9112 §3.2.2).
            self.headers["host"] = authority

    def _check_host(self) -> None:
        """Refuse a request whose host is missing, repeated or invalid (RFC 9112 §3.2). Raises HeadRefused.

        A proxy that picks another one of two hosts than this server would have its access rules applied to the wrong
        bucket.
        """
        host = self.headers.get("host")
        if host is None:
            if not self.version_1_0:
                raise HeadRefused(400, "the request has no Host header, which HTTP/1.1 requires")
        elif self._repeats_host:
            raise HeadRefused(400, "the request has more than one Host header")
        elif not is_valid_host(host):
            stripped = host.strip(" \t")
            if not is_valid_host(stripped):
                raise HeadRefused(400, "the Host header is not a host name or address with an optional port")
            self.headers["host"] = stripped

    def body(self) -> RequestBody:
        """The body that follows, none of it received yet. Raises HeadRefused."""
        headers = self.headers
        if "transfer-encoding" in headers:
            if self.version_1_0:
                # RFC 9112 §6.1: what forwarded it may not know chunks, and see another end of the body.
                raise HeadRefused(400, "HTTP/1.0 has no transfer codings")
            if headers["transfer-encoding"].strip().lower() != "chunked":
                raise HeadRefused(501, "this transfer coding is not supported")
            return RequestBody(None, chunked=True)
        length = headers.get("content-length")
        if length is None:
            return _NO_BODY
        length = length.strip()
        if not (length.isascii() and length.isdigit()):
            raise HeadRefused(400, "the content length is not a number")
        return RequestBody(int(length))

    @property
    def expects_continue(self) -> bool:
        """Whether the client waits for our word before it sends the body."""
        expected = self.headers.get("expect")
        return expected is not None and expected.strip().lower() == "100-continue" and not self.version_1_0

    def _keeps_alive(self, said: str) -> bool:
        options = [option.strip().lower() for option in said.split(",")]
        return "close" not in options and (not self.version_1_0 or "keep-alive" in options)


def _lower_name(name: bytes) -> str:
    field = name.decode("latin-1").lower()
    if len(_known_names) < _MAX_KNOWN_NAMES and len(field) <= 64:
        _known_names[name] = field
    return field


_REG_NAME: Final = re.compile(r"(?:[A-Za-z0-9\-._~!$&'()*+,;=]|%[0-9A-Fa-f]{2})*(?::[0-9]{0,5})?")
"""RFC 3986 §3.2.2: a name or an IPv4 address, which may be empty, and a port."""

_IP_LITERAL: Final = re.compile(r"\[([0-9A-Fa-f:.]{2,45})\](?::[0-9]{0,5})?")
_MAX_CHARS: Final = 1024
_MAX_PORT: Final = 65535


@lru_cache(maxsize=256)
def is_valid_host(text: str) -> bool:
    """Whether a text is `uri-host [ ":" port ]`, without user information."""
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
    """The authority and the path of an absolute-form target (`http://host/path`), as proxies send it; None for others.

    The target comes without its query.
    """
    scheme, separator, rest = target.partition("://")
    if not separator or scheme.lower() not in ("http", "https"):
        return None
    authority, slash, path = rest.partition("/")
    return authority, slash + path or "/"
