"""A server's address and credentials, requests with their expected responses, and synchronous calls for set-up."""

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
    """Bytes to send, in a file so that the load program can use `sendfile`."""

    path: Path
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Request:
    """An unsigned request and its expected response."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Body | bytes | None = None
    """Inline bytes if the body is small and used once."""
    status: int = 200
    length: tuple[int, int] = ANY_LENGTH
    """Bounds of the response's length."""


@dataclass(frozen=True, slots=True)
class Response:
    """A response to `Endpoint.call`."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def element(self, name: str) -> str:
        """Return the text of the only XML element of that name."""
        found = re.findall(rf"<{name}>(.*?)</{name}>", self.body.decode())
        if len(found) != 1:
            raise RuntimeError(f"unexpected response. element={name} body={self.body[:300]!r}")
        return str(found[0])

    def count(self, name: str) -> int:
        """Return the number of XML elements of that name."""
        return self.body.count(f"<{name}>".encode())


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A server's address and the client's credentials."""

    address: str
    credentials: Credentials | None = field(repr=False)
    """None if the server does not authenticate."""

    def signer(self) -> Signer | Unsigned:
        """Return a signer with the current time."""
        if self.credentials is None:
            return Unsigned(self.address)
        return Signer(self.credentials, self.address, datetime.now(UTC))

    def call(self, request: Request, signing: Signing = Signing.HEADER) -> Response:
        """Send one request over a new connection. Raises RuntimeError if the response is not the expected one."""
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
    """Return the head of `request`, with a content-length if the method can have a body."""
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
