"""Single HTTP requests to a store, with all of the answer: its status, its headers and its words.

The byte store's own client tells what an answer means; a check has to tell what it was. Nothing is repeated and no
redirect followed.
"""

from __future__ import annotations

import asyncio
import http.client
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import SplitResult, urlsplit
from xml.etree import ElementTree

from lakebed.core.clock import Clock
from lakebed.core.errors import InvalidSetting, Unavailable
from lakebed.core.sigv4 import SigningKeys, canonical_query, signed_headers

TIMEOUT_SECONDS: Final = 10.0
_MAX_ANSWER_BYTES: Final = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Told:
    """What came back. The body may hold keys."""

    status: int
    headers: Mapping[str, str]
    """By name in lower case."""
    body: bytes = field(repr=False)

    @property
    def code(self) -> str:
        """S3's word for what was wrong; empty where there is none."""
        return self.texts().get("Code", "")

    @property
    def message(self) -> str:
        """The store's own words for it, on one line and not too many."""
        return " ".join(self.texts().get("Message", "").split())[:200]

    @property
    def document(self) -> str:
        """The name of the XML document that it is; empty for anything else."""
        root = _parsed(self.body)
        return "" if root is None else _local(root.tag)

    def texts(self) -> dict[str, str]:
        """The texts of the document's leaves by name, the first of each."""
        root = _parsed(self.body)
        found: dict[str, str] = {}
        for element in root.iter() if root is not None else ():
            if len(element) == 0:
                found.setdefault(_local(element.tag), (element.text or "").strip())
        return found

    def children(self, *names: str) -> list[dict[str, str]]:
        """The children of these names, each with the texts of what is in it."""
        root = _parsed(self.body)
        if root is None:
            return []
        return [
            {_local(leaf.tag): (leaf.text or "").strip() for leaf in child}
            for child in root
            if _local(child.tag) in names
        ]


class Asking:
    """Sends requests, signed or not."""

    def __init__(self, clock: Clock, region: str, ca_bundle: str | None = None) -> None:
        self._clock = clock
        self._region = region
        self._ca_bundle = ca_bundle

    async def plain(self, method: str, url: str) -> Told:
        """One request of nobody's. Raises Unavailable when no answer came."""
        return await asyncio.to_thread(self._send, method, urlsplit(url), {}, b"")

    async def signed(
        self,
        method: str,
        url: str,
        keys: SigningKeys,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        service: str = "s3",
    ) -> Told:
        """One signed request. Raises Unavailable when no answer came."""
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
        return await asyncio.to_thread(self._send, method, parts, made, body)

    def _send(self, method: str, parts: SplitResult, headers: Mapping[str, str], body: bytes) -> Told:
        connection = self._connection(parts)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        try:
            connection.request(method, target, body=body or None, headers=dict(headers))
            answer = connection.getresponse()
            read = answer.read(_MAX_ANSWER_BYTES)
        except ValueError:
            # Its message quotes the header that cannot be sent, which may be a token.
            raise InvalidSetting("a key or path that HTTP cannot carry", argument="access_key_id") from None
        except (OSError, http.client.HTTPException) as error:
            raise Unavailable(
                f"no answer that is HTTP. endpoint={parts.scheme}://{parts.netloc} reason={reason_of(error)}"
            ) from error
        finally:
            connection.close()
        return Told(answer.status, {name.lower(): value for name, value in answer.getheaders()}, read)

    def _connection(self, parts: SplitResult) -> http.client.HTTPConnection:
        host = parts.hostname or ""
        if parts.scheme == "http":
            return http.client.HTTPConnection(host, parts.port, timeout=TIMEOUT_SECONDS)
        context = tls_context(self._ca_bundle)
        return http.client.HTTPSConnection(host, parts.port, timeout=TIMEOUT_SECONDS, context=context)


def tls_context(ca_bundle: str | None) -> ssl.SSLContext:
    """Whom to trust. Raises InvalidSetting."""
    try:
        context = ssl.create_default_context(cafile=ca_bundle)
    except OSError as error:
        raise InvalidSetting(
            f"AWS_CA_BUNDLE: the authorities cannot be read. path={ca_bundle} reason={reason_of(error)}",
            argument="AWS_CA_BUNDLE",
        ) from error
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def reason_of(error: Exception) -> str:
    """An error of the network's in a few words."""
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _parsed(body: bytes) -> ElementTree.Element | None:
    if b"<!" in body:  # no answer of S3 or STS has a document type, and without one no entity can expand
        return None
    try:
        return ElementTree.fromstring(body)  # noqa: S314 - see the line above
    except ElementTree.ParseError:
        return None


def _local(tag: str) -> str:
    return tag.rpartition("}")[2]
