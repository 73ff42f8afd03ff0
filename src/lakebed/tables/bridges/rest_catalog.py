"""Asks an Iceberg REST catalog where a table of its is."""

from __future__ import annotations

from typing import Final, TypeVar
from urllib.parse import quote, unquote, urlencode, urlsplit

import msgspec

from lakebed.core.clock import Clock
from lakebed.core.errors import AccessDenied, InvalidInput, LakebedError, NotFound, Throttled, Unavailable
from lakebed.core.sigv4 import signed_headers
from lakebed.storage.credentials.http import Http, HttpAnswer, HttpRequest, ask
from lakebed.storage.credentials.model import Credentials

from ..files import MAX_METADATA_BYTES
from ..identifiers import SEPARATOR
from .model import AuthKind, BridgeConfig, BridgeSecrets, ExternalTable

T = TypeVar("T")

MAX_ANSWER_BYTES: Final = MAX_METADATA_BYTES + 1024 * 1024
"""A table is answered with its whole metadata."""

_TIMEOUT_SECONDS: Final = 15.0
_TRIES: Final = 2
_EMPTY_SHA256: Final = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


class _Config(msgspec.Struct):
    defaults: dict[str, str | None] = {}
    overrides: dict[str, str | None] = {}


class _LogEntry(msgspec.Struct, rename="kebab"):
    metadata_file: str


class _Metadata(msgspec.Struct, rename="kebab"):
    table_uuid: str | None = None
    metadata_log: list[_LogEntry] = []


class _Table(msgspec.Struct, rename="kebab"):
    metadata: _Metadata
    metadata_location: str | None = None


class _ErrorModel(msgspec.Struct):
    type: str = ""


class _Error(msgspec.Struct):
    error: _ErrorModel


class RestCatalog:
    """One catalog, and how it is spoken to."""

    def __init__(self, http: Http, clock: Clock, config: BridgeConfig, secrets: BridgeSecrets) -> None:
        self._http = http
        self._clock = clock
        self._config = config
        self._secrets = secrets

    async def current(self) -> ExternalTable:
        """Where the table is. Raises Unavailable, Throttled, AccessDenied, NotFound, InvalidInput.

        Two requests: how the catalog wants to be spoken to, then the table. Redirects are not followed.
        """
        config = self._config
        prefix, separator = await self._manners()
        namespace = quote(separator.join(config.external_namespace), safe="")
        table = quote(config.external_table, safe="")
        path = "/".join(part for part in ("v1", prefix, "namespaces", namespace, "tables", table) if part)
        found = _parsed(await self._ask(path, {"snapshots": "refs"}), _Table)
        if not found.metadata_location:
            raise InvalidInput("the other catalog does not say where the table's metadata file is")
        log = frozenset(entry.metadata_file for entry in found.metadata.metadata_log)
        return ExternalTable(found.metadata_location, found.metadata.table_uuid, log)

    async def _manners(self) -> tuple[str, str]:
        """What stands before namespaces in paths, and between their levels."""
        query = {"warehouse": self._config.warehouse} if self._config.warehouse else {}
        told = _parsed(await self._ask("v1/config", query), _Config)
        settings = {**told.defaults, **told.overrides}
        separator = settings.get("namespace-separator")
        return (settings.get("prefix") or "").strip("/"), unquote(separator) if separator else SEPARATOR

    async def _ask(self, path: str, query: dict[str, str]) -> HttpAnswer:
        base = urlsplit(self._config.uri)
        whole = f"{base.path.rstrip('/')}/{path}"
        asked = urlencode(query, quote_via=quote)
        request = HttpRequest(
            "GET",
            f"{base.scheme}://{base.netloc}{whole}" + (f"?{asked}" if asked else ""),
            self._headers(base.netloc, whole, asked),
            timeout_seconds=_TIMEOUT_SECONDS,
            through_proxy=True,
            max_answer_bytes=MAX_ANSWER_BYTES,
        )
        answer = await ask(self._http, request, tries=_TRIES, who=f"the other catalog at {base.netloc}")
        if answer.status != 200:
            raise _refusal(answer, base.netloc)
        return answer

    def _headers(self, host: str, path: str, query: str) -> dict[str, str]:
        auth, secrets = self._config.auth, self._secrets
        headers = {"accept": "application/json"}
        if auth.kind is AuthKind.BEARER:
            return {**headers, "authorization": f"Bearer {secrets.token.reveal()}"}
        if auth.kind is AuthKind.NONE:
            return headers
        return signed_headers(
            "GET",
            host=host,
            path=path,
            query=query,
            headers={**headers, "x-amz-content-sha256": _EMPTY_SHA256},
            region=auth.region,
            service=auth.service,
            credentials=Credentials(auth.access_key_id, secrets.secret_access_key, secrets.session_token or None),
            now_ms=self._clock.now_ms(),
        )


def _parsed(answer: HttpAnswer, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(answer.body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput("the other catalog's answer is not what the protocol has") from error


def _refusal(answer: HttpAnswer, host: str) -> LakebedError:
    """The error for an answer that is none. Of what it says only the type is told: the rest may be anything."""
    try:
        kind = msgspec.json.decode(answer.body, type=_Error).error.type[:100]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        kind = ""
    said = f"the other catalog answered {answer.status}. host={host} type={kind or 'unknown'}"
    if answer.status in (401, 403):
        return AccessDenied(said)
    if answer.status == 404:
        return NotFound(said)
    if answer.status == 429:
        return Throttled(said)
    return Unavailable(said) if answer.status >= 500 else InvalidInput(said)
