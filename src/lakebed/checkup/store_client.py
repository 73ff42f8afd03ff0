"""Sends single HTTP requests to an object store, signed or not.

Unlike a client library it returns the raw response, which a check has to show, and does not retry.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit
from xml.etree import ElementTree

from lakebed.core.clock import Clock
from lakebed.core.errors import InvalidSetting, Unavailable
from lakebed.core.sigv4 import SigV4Credentials, canonical_query, signed_headers
from lakebed.net.http import HttpFailure, HttpRequest, Unsendable
from lakebed.net.sync_client import SyncHttpClient
from lakebed.net.tls import TlsFiles

TIMEOUT_SECONDS: Final = 10.0
_MAX_RESPONSE_BYTES: Final = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class StoreResponse:
    """A response. The body may contain credentials."""

    status: int
    headers: Mapping[str, str]
    """By lower-case name."""
    body: bytes = field(repr=False)

    @property
    def code(self) -> str:
        """The S3 error code; empty if there is none."""
        return self.texts().get("Code", "")

    @property
    def message(self) -> str:
        """The store's error message, on one line and shortened."""
        return " ".join(self.texts().get("Message", "").split())[:200]

    @property
    def document(self) -> str:
        """The name of the XML root element; empty for anything else."""
        root = _parsed(self.body)
        return "" if root is None else _local(root.tag)

    def texts(self) -> dict[str, str]:
        """The texts of the leaf elements by name, the first of each."""
        root = _parsed(self.body)
        found: dict[str, str] = {}
        for element in root.iter() if root is not None else ():
            if len(element) == 0:
                found.setdefault(_local(element.tag), (element.text or "").strip())
        return found

    def children(self, *names: str) -> list[dict[str, str]]:
        """The children with these names, each as its leaf texts."""
        root = _parsed(self.body)
        if root is None:
            return []
        return [
            {_local(leaf.tag): (leaf.text or "").strip() for leaf in child}
            for child in root
            if _local(child.tag) in names
        ]


class StoreClient:
    """Sends requests, signed or not."""

    def __init__(self, clock: Clock, region: str, ca_bundle: str | None = None) -> None:
        self._clock = clock
        self._region = region
        self._http = SyncHttpClient(TlsFiles(ca_bundle))

    async def plain(self, method: str, url: str) -> StoreResponse:
        """Send one unsigned request. Raises Unavailable without a response."""
        return await asyncio.to_thread(self._send, method, url, {}, b"")

    async def signed(
        self,
        method: str,
        url: str,
        keys: SigV4Credentials,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        service: str = "s3",
    ) -> StoreResponse:
        """Send one signed request. Raises Unavailable without a response."""
        parts = urlsplit(url)._replace(query=canonical_query((query or {}).items()))
        made = signed_headers(
            method,
            host=parts.netloc,
            path=parts.path or "/",
            query=parts.query,
            headers=headers,
            body=body,
            region=self._region,
            service=service,
            credentials=keys,
            now_ms=self._clock.now_ms(),
        )
        return await asyncio.to_thread(self._send, method, parts.geturl(), made, body)

    def _send(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> StoreResponse:
        request = HttpRequest(method, url, headers, body, TIMEOUT_SECONDS, max_response_bytes=_MAX_RESPONSE_BYTES)
        try:
            response = self._http.send(request)
        except HttpFailure as failure:
            if isinstance(failure.error, Unsendable):
                # The header is not quoted: it may contain a token.
                raise InvalidSetting(
                    "access key or path contains characters that HTTP does not allow", argument="access_key_id"
                ) from None
            parts = urlsplit(url)
            raise Unavailable(
                f"no HTTP response. endpoint={parts.scheme}://{parts.netloc} reason={reason_of(failure.error)}"
            ) from failure.error
        return StoreResponse(response.status, response.headers, response.body)


def reason_of(error: Exception) -> str:
    """The reason of a network error, in a few words."""
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _parsed(body: bytes) -> ElementTree.Element | None:
    if b"<!" in body:  # S3 and STS send no document type; without one no entity can expand
        return None
    try:
        return ElementTree.fromstring(body)  # noqa: S314 - see the line above
    except ElementTree.ParseError:
        return None


def _local(tag: str) -> str:
    return tag.rpartition("}")[2]
