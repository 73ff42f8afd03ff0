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
class Ask:
    """One request before it is signed, and what a right answer looks like."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Body | bytes | None = None
    """Bytes, where they are few and of this request alone."""
    status: int = 200
    length: tuple[int, int] = ANY_LENGTH
    """Bounds of the answer's length."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back to a plain call."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def element(self, name: str) -> str:
        """The text of the only XML element of that name."""
        found = re.findall(rf"<{name}>(.*?)</{name}>", self.body.decode())
        if len(found) != 1:
            raise RuntimeError(f"unexpected answer. element={name} body={self.body[:300]!r}")
        return str(found[0])

    def count(self, name: str) -> int:
        """How many XML elements of that name there are."""
        return self.body.count(f"<{name}>".encode())


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a server listens and who we are to it."""

    address: str
    credentials: Credentials | None = field(repr=False)
    """None, if it does not ask."""

    def signer(self) -> Signer | Unsigned:
        """A signer for this moment."""
        if self.credentials is None:
            return Unsigned(self.address)
        return Signer(self.credentials, self.address, datetime.now(UTC))

    def call(self, ask: Ask, signing: Signing = Signing.HEADER) -> Answer:
        """Send one request over its own connection; raises RuntimeError when the answer is not as asked."""
        body = ask.body.path.read_bytes() if isinstance(ask.body, Body) else ask.body or b""
        connection = http.client.HTTPConnection(self.address, timeout=300)
        try:
            connection.connect()
            connection.sock.sendall(request_head(self.signer(), ask, signing).encode() + body)
            response = http.client.HTTPResponse(connection.sock, method=ask.method)
            response.begin()
            headers = {name.lower(): value for name, value in response.getheaders()}
            answer = Answer(response.status, headers, response.read())
        finally:
            connection.close()
        low, high = ask.length
        length = int(headers.get("content-length", 0)) if ask.method == "HEAD" else len(answer.body)
        if answer.status != ask.status or not low <= length <= high:
            raise RuntimeError(
                f"unexpected answer. request={ask.method} {ask.path} status={answer.status} length={length} "
                f"body={answer.body[:300]!r}"
            )
        return answer


def request_head(signer: Signer | Unsigned, ask: Ask, signing: Signing) -> str:
    """The head of `ask`, with a content-length wherever the method can have a body."""
    size, sha256 = 0, EMPTY_SHA256
    if isinstance(ask.body, Body):
        size, sha256 = ask.body.size, ask.body.sha256
    elif ask.body:
        size, sha256 = len(ask.body), hashlib.sha256(ask.body).hexdigest()
    return signer.head(
        ask.method,
        ask.path,
        ask.query,
        ask.headers,
        sha256,
        size if ask.method in ("PUT", "POST") else None,
        signing,
    )
