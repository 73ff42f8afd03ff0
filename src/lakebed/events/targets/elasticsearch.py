"""The `elasticsearch` target: an index with a document per key, or per event.

Uses plain HTTP requests without a client library. Tested only against recorded responses, not a real server
(`docs/targets.md`).

Document ids are SHA-256 hashes: of the key in a mirror (`namespace`), of event id and target in a log (`access`), so
that repeated attempts change nothing. A missing index is created when the target is added.
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

from .addresses import check_one_of, check_pair, check_tls_files, parse_address
from .connected import DELIVERY_SECONDS, ConnectedTarget
from .formats import Format, records_of
from .seam import EventMessage, TargetSettings, TargetType

_PORTS: Final = {"http": 9200, "https": 9200}
_INDEX: Final = re.compile(r"[a-z0-9][a-z0-9_.-]{0,254}")
_MAX_IN_FLIGHT: Final = 8
_REJECTED: Final = frozenset({400, 413})
"""Documents that do not fit the mapping, or are too long. Operators can fix the causes of other errors."""


class ElasticsearchSettings(TargetSettings, frozen=True):
    """The server and the index."""

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
            raise InvalidInput("index must be lower-case letters, digits, - _ and .", argument="index")
        check_one_of(self.format, "format", tuple(Format))
        check_pair(self.username, self.password)
        encrypted = address.scheme == "https"
        check_tls_files(TlsFiles(self.tls_ca), encrypted=encrypted, argument="url", expected="https://")


class ElasticsearchTarget(ConnectedTarget[AsyncHttpClient]):
    """Implements `EventTarget`."""

    max_in_flight = _MAX_IN_FLIGHT

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
        """Create the index if it does not exist. Raises Unavailable."""
        http = await self._open()
        try:
            response = await self._request(http, "HEAD", "")
            if response.status == 404:
                response = await self._request(http, "PUT", "")
            # Another process may have created it concurrently.
            if response.status >= 300 and b"resource_already_exists_exception" not in response.body:
                raise self._error_response(response)
        finally:
            await self._shut(http)

    async def _open(self) -> AsyncHttpClient:
        return AsyncHttpClient(self._tls_files or TlsFiles(), resends=True)

    async def _shut(self, connection: AsyncHttpClient) -> None:
        await connection.close()

    async def _deliver(self, connection: AsyncHttpClient, message: EventMessage) -> None:
        document = msgspec.json.encode({"Records": records_of(message)})
        accepted: tuple[int, ...] = ()
        if self._format is Format.ACCESS:
            # 409: an earlier attempt created the document.
            method, path, accepted = "PUT", f"/_create/{_id_of(message.deduplication_key)}", (409,)
        elif message.is_removal:
            # 404: the document is already deleted.
            method, path, document, accepted = "DELETE", f"/_doc/{_id_of(message.key)}", b"", (404,)
        else:
            method, path = "PUT", f"/_doc/{_id_of(message.key)}"
        response = await self._request(connection, method, path, document, message.proof)
        if 200 <= response.status < 300 or response.status in accepted:
            return
        if response.status in _REJECTED:
            raise Undeliverable(f"target rejected the message. target={self._where} {_reason(response)}")
        raise self._error_response(response)

    async def _probe(self, connection: AsyncHttpClient) -> None:
        response = await self._request(connection, "HEAD", "")
        if response.status != 200:
            raise self._error_response(response)

    async def _request(
        self, http: AsyncHttpClient, method: str, path: str, body: bytes = b"", proof: str = ""
    ) -> HttpResponse:
        headers = {"Content-Type": "application/json", "User-Agent": "lakebed"}
        if proof:
            headers[HEADER] = proof
        if self._settings.username is not None:
            credentials = f"{self._settings.username}:{self._settings.password}".encode()
            headers["Authorization"] = f"Basic {base64.b64encode(credentials).decode()}"
        return await http(HttpRequest(method, f"{self._base}{path}", headers, body, self._deadline))

    def _error_response(self, response: HttpResponse) -> Unavailable:
        return Unavailable(f"target does not accept messages. target={self._where} {_reason(response)}")


class _Cause(msgspec.Struct):
    type: str = ""


class _Failure(msgspec.Struct):
    error: _Cause | str = ""


def _reason(response: HttpResponse) -> str:
    """Status and error type, without the error's message, which may contain parts of the document."""
    try:
        error = msgspec.json.decode(response.body, type=_Failure).error
    except msgspec.DecodeError:
        error = ""
    error_type = error.type if isinstance(error, _Cause) else ""
    return f"status={response.status} reason={error_type[:100] or responses.get(response.status, 'unknown')}"


def _id_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


async def prepare(settings: ElasticsearchSettings) -> None:
    """Create the index if it does not exist. Raises Unavailable."""
    await ElasticsearchTarget(settings).prepare()


TYPE: Final = TargetType("elasticsearch", ElasticsearchSettings, ElasticsearchTarget, prepare)
