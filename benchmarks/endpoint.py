"""A server as its clients see it: an address, a key pair if it asks for one, requests, and plain calls for set-up."""

from __future__ import annotations

import hashlib
import http.client
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.signing import EMPTY_SHA256, Credentials, Signer, Signing, Unsigned

ANY_LENGTH = (0, 1 << 62)


@dataclass(frozen=True, slots=True)
class Body:
    """Bytes to send, kept in a file so that the load program can `sendfile` them."""

    path: Path
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Request:
    """One request before it is signed, and what a right response looks like."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Body | bytes | None = None
    """Bytes, where they are few and of this request alone."""
    status: int = 200
    length: tuple[int, int] = ANY_LENGTH
    """Bounds of the response's length."""


@dataclass(frozen=True, slots=True)
class Response:
    """What came back to a plain call."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def element(self, name: str) -> str:
        """The text of the only XML element of that name."""
        found = re.findall(rf"<{name}>(.*?)</{name}>", self.body.decode())
        if len(found) != 1:
            raise RuntimeError(f"unexpected response. element={name} body={self.body[:300]!r}")
        return str(found[0])

    def count(self, name: str) -> int:
        """How many XML elements of that name there are."""
        return self.body.count(f"<{name}>".encode())


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a server listens and who we are to it."""

    address: str
    credentials: Credentials | None = field(repr=False)
    """None, if it does not request."""

    def signer(self) -> Signer | Unsigned:
        """A signer for this moment."""
        if self.credentials is None:
            return Unsigned(self.address)
        return Signer(self.credentials, self.address, datetime.now(UTC))

    def call(self, request: Request, signing: Signing = Signing.HEADER) -> Response:
        """Send one request over its own connection; raises RuntimeError when the response is not as options."""
        body = request.body.path.read_bytes() if isinstance(request.body, Body) else request.body or b""
        connection = http.client.HTTPConnection(self.address, timeout=300)
        try:
            connection.connect()
            connection.sock.sendall(request_head(self.signer(), request, signing).encode() + body)
            received = http.client.HTTPResponse(connection.sock, method=request.method)
            received.begin()
            headers = {name.lower(): value for name, value in received.getheaders()}
            response = Response(received.status, headers, received.read())
        finally:
            connection.close()
        low, high = request.length
        length = int(headers.get("content-length", 0)) if request.method == "HEAD" else len(response.body)
        if response.status != request.status or not low <= length <= high:
            raise RuntimeError(
                f"unexpected response. request={request.method} {request.path} status={response.status} "
                f"length={length} body={response.body[:300]!r}"
            )
        return response


def request_head(signer: Signer | Unsigned, request: Request, signing: Signing) -> str:
    """The head of `request`, with a content-length wherever the method can have a body."""
    size, sha256 = 0, EMPTY_SHA256
    if isinstance(request.body, Body):
        size, sha256 = request.body.size, request.body.sha256
    elif request.body:
        size, sha256 = len(request.body), hashlib.sha256(request.body).hexdigest()
    return signer.head(
        request.method,
        request.path,
        request.query,
        request.headers,
        sha256,
        size if request.method in ("PUT", "POST") else None,
        signing,
    )
