"""A server that is asked badly, and what its answer must look like."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final
from xml.etree import ElementTree

import pytest

from tests.fixtures.raw_http import Answer, Connection, Signer
from tests.fixtures.server import RunningServer

BUCKET: Final = "bad-input"
VERSIONED: Final = "bad-input-versioned"
KEPT: Final = "kept"
BODY: Final = b"what is sent with a bad request"
HEX: Final = "0" * 64


@dataclass(frozen=True, slots=True)
class Site:
    """A server with two buckets, one object and one upload: none of which a bad request may change."""

    server: RunningServer
    signer: Signer
    upload: str

    def connect(self) -> Connection:
        return Connection(self.server.port)

    def ask(self, request: bytes, *, is_head: bool = False) -> Answer:
        with self.connect() as connection:
            return connection.ask(request, is_head=is_head)

    def signed(
        self, method: str, target: str, extra: Mapping[str, str] | None = None, body: bytes = b"", **how: str
    ) -> bytes:
        return self.signer.request(method, target, extra, body, **how)

    def put(self, extra: Mapping[str, str] | None = None, body: bytes = BODY, key: str = "new", **how: str) -> bytes:
        return self.signed("PUT", f"/{BUCKET}/{key}", extra, body, **how)

    def raw(self, method: str, target: str, *lines: str, body: bytes = b"") -> bytes:
        """A request with no headers but the host's and these lines."""
        head = "\r\n".join([f"{method} {target} HTTP/1.1", f"host: {self.signer.host}", *lines])
        return head.encode("utf-8", "surrogateescape") + b"\r\n\r\n" + body

    def stored(self) -> tuple[str, ...]:
        """All that the server keeps, as text: buckets, versions, uploads and their parts, settings."""
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
            answer = self.ask(self.signed("GET", target))
            assert answer.status == 200, answer
            seen.append(answer.body.decode())
        for setting in ("lifecycle", "cors", "tagging", "encryption", "policy", "publicAccessBlock", "object-lock"):
            answer = self.ask(self.signed("GET", f"/{BUCKET}?{setting}"))
            seen.append(answer.body.decode() if answer.status == 200 else answer.code)
        return tuple(seen)


def assert_refused(answer: Answer, status: int, code: str) -> None:
    """An error document of that code, which names the request as the headers do."""
    assert (answer.status, answer.code) == (status, code), answer
    assert answer.headers["content-type"] == "application/xml"
    assert answer.request_id
    assert answer.document_request_id == answer.request_id
    ElementTree.fromstring(answer.body)


@dataclass(frozen=True, slots=True)
class Case:
    """A request and the error it earns."""

    name: str
    status: int
    code: str
    make: Callable[[Site], bytes]


def cases(*rows: tuple[str, int, str, Callable[[Site], bytes]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", [pytest.param(Case(*row), id=row[0].replace(" ", "-")) for row in rows])


def sha256(body: bytes) -> str:
    """The digest as S3's headers have it."""
    return base64.b64encode(hashlib.sha256(body).digest()).decode()
