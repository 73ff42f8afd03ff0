"""A server for invalid requests, and checks of its responses."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final
from xml.etree import ElementTree

import pytest

from tests.fixtures.raw_http import Connection, RawResponse, Signer
from tests.fixtures.server import RunningServer

BUCKET: Final = "bad-input"
VERSIONED: Final = "bad-input-versioned"
KEPT: Final = "kept"
BODY: Final = b"body of an invalid request 1234"
HEX: Final = "0" * 64


@dataclass(frozen=True, slots=True)
class Site:
    """A server with two buckets, an object and an upload, none of which an invalid request may change."""

    server: RunningServer
    signer: Signer
    upload: str

    def connect(self) -> Connection:
        return Connection(self.server.port)

    def send(self, request: bytes, *, is_head: bool = False) -> RawResponse:
        with self.connect() as connection:
            return connection.exchange(request, is_head=is_head)

    def signed(
        self, method: str, target: str, extra: Mapping[str, str] | None = None, body: bytes = b"", **how: str
    ) -> bytes:
        return self.signer.request(method, target, extra, body, **how)

    def put(self, extra: Mapping[str, str] | None = None, body: bytes = BODY, key: str = "new", **how: str) -> bytes:
        return self.signed("PUT", f"/{BUCKET}/{key}", extra, body, **how)

    def raw(self, method: str, target: str, *lines: str, body: bytes = b"") -> bytes:
        """A request with a Host header and these header lines."""
        head = "\r\n".join([f"{method} {target} HTTP/1.1", f"host: {self.signer.host}", *lines])
        return head.encode("utf-8", "surrogateescape") + b"\r\n\r\n" + body

    def stored(self) -> tuple[str, ...]:
        """The state of the server as text: buckets, versions, uploads and their parts, settings."""
        seen = []
        for target in (
            "/",
            f"/{BUCKET}?versions",
            f"/{VERSIONED}?versions",
            f"/{BUCKET}?uploads",
            f"/{BUCKET}/upload?uploadId={self.upload}",
            f"/{BUCKET}/{KEPT}?tagging",
            f"/{VERSIONED}?versioning",
        ):
            response = self.send(self.signed("GET", target))
            assert response.status == 200, response
            seen.append(response.body.decode())
        for setting in ("lifecycle", "cors", "tagging", "encryption", "policy", "publicAccessBlock", "object-lock"):
            response = self.send(self.signed("GET", f"/{BUCKET}?{setting}"))
            seen.append(response.body.decode() if response.status == 200 else response.code)
        return tuple(seen)


def assert_error(response: RawResponse, status: int, code: str) -> None:
    """Check an error document, and that it has the request id of the headers."""
    assert (response.status, response.code) == (status, code), response
    assert response.headers["content-type"] == "application/xml"
    assert response.request_id
    assert response.document_request_id == response.request_id
    ElementTree.fromstring(response.body)


@dataclass(frozen=True, slots=True)
class Case:
    """A request and its expected error."""

    name: str
    status: int
    code: str
    make: Callable[[Site], bytes]


def cases(*rows: tuple[str, int, str, Callable[[Site], bytes]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", [pytest.param(Case(*row), id=row[0].replace(" ", "-")) for row in rows])


def sha256(body: bytes) -> str:
    """The digest in base64, as in S3's headers."""
    return base64.b64encode(hashlib.sha256(body).digest()).decode()
