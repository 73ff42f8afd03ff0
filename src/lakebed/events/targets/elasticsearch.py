"""Events in an Elasticsearch index: a document a key, or a document an event.

Spoken over our own HTTP: four requests need no client library.

Not tried against a real server: there is a contract of recorded answers, and `docs/targets.md` says so. The mirror
(`namespace`) has the SHA-256 of the key as the id of its document; the log (`access`) that of the event id and the
target, so that a repeated attempt changes nothing. An index that is not there is made when the target is
added.
"""

from __future__ import annotations

import base64
import hashlib
import re
from http.client import responses
from typing import ClassVar, Final

import msgspec

from lakebed.core.errors import InvalidInput, Unavailable, Undeliverable
from lakebed.core.loop_guard import HEADER
from lakebed.net.async_client import AsyncHttpClient
from lakebed.net.http import HttpRequest, HttpResponse
from lakebed.net.tls import TlsFiles

from .addresses import check_one_of, check_pair, parse_address
from .connected import DELIVERY_SECONDS, ConnectedTarget
from .formats import Format, records_of
from .seam import EventMessage, TargetSettings, TargetType

_PORTS: Final = {"http": 9200, "https": 9200}
_INDEX: Final = re.compile(r"[a-z0-9][a-z0-9_.-]{0,254}")
_AT_ONCE: Final = 8
_NEVER: Final = frozenset({400, 413})
"""A document that does not fit the index, or is too long. Elsewhere somebody can do something about the answer."""


class ElasticsearchSettings(TargetSettings, frozen=True):
    """Where the server is, and which index."""

    secrets: ClassVar[frozenset[str]] = frozenset({"password"})

    url: str
    index: str
    format: str = Format.NAMESPACE
    username: str | None = None
    password: str | None = None
    tls_ca: str | None = None

    def validate(self) -> None:
        """Raises InvalidInput."""
        address = parse_address(self.url, "url", _PORTS, credentials=False, path=True)
        if not _INDEX.fullmatch(self.index):
            raise InvalidInput("index has lower-case letters, digits, - _ and .", argument="index")
        check_one_of(self.format, "format", tuple(Format))
        check_pair(self.username, self.password)
        files = TlsFiles(self.tls_ca)
        if files.are_named and address.scheme != "https":
            raise InvalidInput("files for TLS go with https://", argument="url")
        files.validate()


class ElasticsearchTarget(ConnectedTarget[AsyncHttpClient]):
    """Implements `Target`."""

    max_in_flight = _AT_ONCE

    def __init__(self, settings: ElasticsearchSettings, *, deadline_seconds: float = DELIVERY_SECONDS) -> None:
        self._settings = settings
        self._format = Format(settings.format)
        address = parse_address(settings.url, "url", _PORTS, credentials=False, path=True)
        self._base = f"{address.where}{address.path.rstrip('/')}/{settings.index}"
        super().__init__(
            self._base,
            tls=TlsFiles(settings.tls_ca) if address.scheme == "https" else None,
            secrets=(settings.password or "",),
            deadline_seconds=deadline_seconds,
        )

    async def prepare(self) -> None:
        """Make the index, unless there is one. Raises Unavailable."""
        http = await self._open()
        try:
            answer = await self._ask(http, "HEAD", "")
            if answer.status == 404:
                answer = await self._ask(http, "PUT", "")
            # Somebody else may have made it meanwhile.
            if answer.status >= 300 and b"resource_already_exists_exception" not in answer.body:
                raise self._refusal(answer)
        finally:
            await self._shut(http)

    async def _open(self) -> AsyncHttpClient:
        return AsyncHttpClient(self._tls_files or TlsFiles(), resends=True)

    async def _shut(self, connection: AsyncHttpClient) -> None:
        await connection.close()

    async def _deliver(self, connection: AsyncHttpClient, message: EventMessage) -> None:
        document = msgspec.json.encode({"Records": records_of(message)})
        taken: tuple[int, ...] = ()
        if self._format is Format.ACCESS:
            # 409: it is there.
            method, path, taken = "PUT", f"/_create/{_id_of(message.deduplication_key)}", (409,)
        elif message.is_removal:
            # 404: nothing is there to be forgotten.
            method, path, document, taken = "DELETE", f"/_doc/{_id_of(message.key)}", b"", (404,)
        else:
            method, path = "PUT", f"/_doc/{_id_of(message.key)}"
        answer = await self._ask(connection, method, path, document, message.proof)
        if 200 <= answer.status < 300 or answer.status in taken:
            return
        if answer.status in _NEVER:
            raise Undeliverable(f"the target refuses the message. target={self._where} {_reason(answer)}")
        raise self._refusal(answer)

    async def _probe(self, connection: AsyncHttpClient) -> None:
        answer = await self._ask(connection, "HEAD", "")
        if answer.status != 200:
            raise self._refusal(answer)

    async def _ask(
        self, http: AsyncHttpClient, method: str, path: str, body: bytes = b"", proof: str = ""
    ) -> HttpResponse:
        headers = {"Content-Type": "application/json", "User-Agent": "lakebed"}
        if proof:
            headers[HEADER] = proof
        if self._settings.username is not None:
            who = f"{self._settings.username}:{self._settings.password}".encode()
            headers["Authorization"] = f"Basic {base64.b64encode(who).decode()}"
        return await http(HttpRequest(method, f"{self._base}{path}", headers, body, self._deadline))

    def _refusal(self, answer: HttpResponse) -> Unavailable:
        return Unavailable(f"the target does not take messages. target={self._where} {_reason(answer)}")


class _Cause(msgspec.Struct):
    type: str = ""


class _Failure(msgspec.Struct):
    error: _Cause | str = ""


def _reason(answer: HttpResponse) -> str:
    """What may be told of an answer: its class, never what it quotes of the document."""
    try:
        error = msgspec.json.decode(answer.body, type=_Failure).error
    except msgspec.DecodeError:
        error = ""
    kind = error.type if isinstance(error, _Cause) else ""
    return f"status={answer.status} reason={kind[:100] or responses.get(answer.status, 'unknown')}"


def _id_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


async def prepare(settings: ElasticsearchSettings) -> None:
    """Make the index, unless there is one. Raises Unavailable."""
    await ElasticsearchTarget(settings).prepare()


KIND: Final = TargetType("elasticsearch", ElasticsearchSettings, ElasticsearchTarget, prepare)
