"""Speaks to another Iceberg REST catalog: finds out how it wants to be spoken to, then asks.

Reads are tried again where the other side failed or was silent. Changes are not, but where the other side refused who
sent them and there is something newer to show: then they certainly were not made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeVar
from urllib.parse import quote, unquote, urlencode, urlsplit

import msgspec

from lakebed.catalog.identifiers import SEPARATOR
from lakebed.catalog.tables.files import MAX_METADATA_BYTES
from lakebed.core.clock import Clock
from lakebed.core.errors import ExternalCatalogError, InvalidInput, InvalidName, LakebedError, Unavailable
from lakebed.net.async_client import AsyncHttpClient
from lakebed.net.hosts import AllowedHosts
from lakebed.net.http import Http, HttpRequest, HttpResponse
from lakebed.net.tls import TlsFiles

from .authentication import Authentication, Unsigned, authentication_of, check_hosts
from .failures import refusal_of
from .model import RemoteAddress, RemoteAuth, RemoteSecrets

T = TypeVar("T")

MAX_RESPONSE_BYTES: Final = MAX_METADATA_BYTES + 1024 * 1024
"""A table is answered with its whole metadata."""

TIMEOUT_SECONDS: Final = 15.0
MANNERS_MS: Final = 300_000
"""How long it is remembered how a catalog wants to be spoken to."""

DEFAULT_ENDPOINTS: Final = frozenset(
    {
        "GET /v1/{prefix}/namespaces",
        "POST /v1/{prefix}/namespaces",
        "GET /v1/{prefix}/namespaces/{namespace}",
        "DELETE /v1/{prefix}/namespaces/{namespace}",
        "POST /v1/{prefix}/namespaces/{namespace}/properties",
        "GET /v1/{prefix}/namespaces/{namespace}/tables",
        "POST /v1/{prefix}/namespaces/{namespace}/tables",
        "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}",
        "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}",
        "DELETE /v1/{prefix}/namespaces/{namespace}/tables/{table}",
        "POST /v1/{prefix}/namespaces/{namespace}/register",
        "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/metrics",
        "POST /v1/{prefix}/tables/rename",
        "POST /v1/{prefix}/transactions/commit",
    }
)
"""What a catalog serves that does not say what it serves."""

_SAFE: Final = frozenset({"GET", "HEAD"})
_READ_TRIES: Final = 2
_CONNECTIONS: Final = 64
"""The most requests under way to one catalog, and connections that are kept to it."""
_PASSING: Final = frozenset({429, 500, 502, 503, 504})
"""Answers to reads after which it is worth to ask once more."""
_UNAUTHENTICATED: Final = frozenset({401, 419})


class _Config(msgspec.Struct, rename="kebab"):
    defaults: dict[str, str | None] = {}
    overrides: dict[str, str | None] = {}
    endpoints: list[str] | None = None
    idempotency_key_lifetime: str | None = None


class Manners(NamedTuple):
    """How a catalog wants to be spoken to."""

    prefix: str
    """What stands before namespaces in paths."""
    separator: str
    """What stands between their levels."""
    endpoints: frozenset[str]
    """What it serves, as the contract spells it."""
    keeps_keys: bool = False
    """Whether a request that is sent again with its Idempotency-Key gets the first one's answer."""


@dataclass(frozen=True, slots=True)
class RemoteRequest:
    """What is asked of a catalog."""

    method: str
    path: Sequence[str]
    """Segments behind the prefix, not encoded."""
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes = field(default=b"", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def changes(self) -> bool:
        """Whether it may change something."""
        return self.method not in _SAFE


class RemoteCatalog:
    """One catalog, and how it is spoken to. Used from one event loop."""

    def __init__(
        self,
        http: Http,
        clock: Clock,
        address: RemoteAddress,
        authentication: Authentication,
        *,
        timeout_seconds: float = TIMEOUT_SECONDS,
        refused: Callable[[HttpResponse, str], LakebedError] | None = None,
    ) -> None:
        """`refused` makes the error for a catalog that does not even say how it wants to be spoken to."""
        self._http = http
        self._clock = clock
        self._address = address
        self._authentication = authentication
        self._timeout_seconds = timeout_seconds
        self._refused = refused or _of_the_connection
        self._manners: Manners | None = None
        self._manners_until_ms = 0
        base = urlsplit(address.uri)
        self.host: Final = base.netloc
        self._origin = f"{base.scheme}://{base.netloc}"
        self._base = base.path.rstrip("/")

    @staticmethod
    def at(
        http: Http,
        clock: Clock,
        address: RemoteAddress,
        auth: RemoteAuth,
        secrets: RemoteSecrets,
        *,
        hosts: AllowedHosts,
        timeout_seconds: float = TIMEOUT_SECONDS,
        refused: Callable[[HttpResponse, str], LakebedError] | None = None,
    ) -> RemoteCatalog:
        """The catalog at an address, with what a connection says of who this server is.

        Raises ExternalCatalogError if the settings do not allow its host, or not any more.
        """
        try:
            check_hosts(hosts, address, auth)
        except InvalidInput as error:
            raise ExternalCatalogError(str(error)) from error
        shown = authentication_of(http, clock, address, auth, secrets)
        return RemoteCatalog(http, clock, address, shown, timeout_seconds=timeout_seconds, refused=refused)

    async def manners(self) -> Manners:
        """How it wants to be spoken to. Raises as `ask` does."""
        now_ms = self._clock.now_ms()
        if self._manners is None or now_ms >= self._manners_until_ms:
            self._manners = await self._find_manners()
            self._manners_until_ms = now_ms + MANNERS_MS
        return self._manners

    @property
    def keeps_keys(self) -> bool:
        """Whether it keeps answers under their Idempotency-Key, as far as it has said yet."""
        return self._manners is not None and self._manners.keeps_keys

    async def namespace(self, levels: Sequence[str]) -> str:
        """A namespace as its paths have it. Raises InvalidName for one that would be read there as another."""
        separator = (await self.manners()).separator
        if any(separator in level for level in levels):
            raise InvalidName(
                f"the catalog behind this one would take the level for several: {'.'.join(levels)}",
                argument="namespace",
            )
        return separator.join(levels)

    async def ask(self, request: RemoteRequest) -> HttpResponse:
        """The answer, whatever it is. Raises Unavailable, Throttled, ExternalCatalogError when there is none to be had.

        `Unavailable.undecided` says that a change may have been made all the same.
        """
        prefix = (await self.manners()).prefix
        # Clients put the prefix into paths as they are told it, encoded or not.
        stated = (quote(prefix, safe="/%"),) if prefix else ()
        path = "/".join(("v1", *stated, *(quote(segment, safe="") for segment in request.path)))
        return await self._send(request, path)

    async def _find_manners(self) -> Manners:
        query = {"warehouse": self._address.warehouse} if self._address.warehouse else {}
        answer = await self._send(RemoteRequest("GET", (), query), "v1/config")
        if answer.status != 200:
            raise self._refused(answer, self.host)
        told = parsed(answer, _Config, self.host)
        settings = {**told.defaults, **told.overrides}
        separator = settings.get("namespace-separator")
        return Manners(
            (settings.get("prefix") or "").strip("/"),
            unquote(separator) if separator else SEPARATOR,
            DEFAULT_ENDPOINTS if told.endpoints is None else frozenset(_spelled(told.endpoints)),
            bool(told.idempotency_key_lifetime),
        )

    async def _send(self, request: RemoteRequest, path: str) -> HttpResponse:
        tries, may_renew = 1 if request.changes else _READ_TRIES, True
        while True:
            tries -= 1
            sent = await self._signed(request, path)
            try:
                answer = await self._http(sent)
            except Unavailable as error:
                if tries <= 0:
                    raise _silence(error, self.host) from error
                continue
            if answer.status in _UNAUTHENTICATED and may_renew and self._authentication.renew(sent.headers):
                # Who sent it was refused, so nothing was done: not even a change.
                tries, may_renew = max(tries, 1), False
            elif tries <= 0 or answer.status not in _PASSING:
                return answer

    async def _signed(self, request: RemoteRequest, path: str) -> HttpRequest:
        whole = f"{self._base}/{path}"
        query = urlencode(request.query, quote_via=quote)
        headers = {"accept": "application/json"} | {name.lower(): value for name, value in request.headers.items()}
        if request.body:
            headers["content-type"] = "application/json"
        unsigned = Unsigned(request.method, self.host, whole, query, headers, request.body)
        return HttpRequest(
            request.method,
            f"{self._origin}{whole}" + (f"?{query}" if query else ""),
            await self._authentication.headers(unsigned),
            request.body,
            timeout_seconds=self._timeout_seconds,
            through_proxy=True,
            max_response_bytes=MAX_RESPONSE_BYTES,
        )


def catalog_http(ca_bundle: str | None = None) -> AsyncHttpClient:
    """The HTTP client for other catalogs. `ca_bundle` replaces the system's authorities."""
    return AsyncHttpClient(
        TlsFiles(ca_bundle),
        max_idle=_CONNECTIONS,
        max_concurrency=_CONNECTIONS,
        # Shorter than servers keep connections: a change is never sent twice, so none may be sent on a stale one.
        idle_seconds=4.0,
        connect_timeout_seconds=5.0,
        # Users name these hosts: none may lead to the metadata service of a cloud.
        link_local=False,
    )


def parsed(answer: HttpResponse, kind: type[T], host: str, *, changes: bool = False) -> T:
    """The parsed answer. Raises ExternalCatalogError if it is not of the protocol; a change has been made then."""
    try:
        return msgspec.json.decode(answer.body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ExternalCatalogError(
            f"the answer is not what the protocol has. host={host}", undecided=changes
        ) from error


def _spelled(endpoints: Iterable[str]) -> Iterable[str]:
    """Endpoints without what servers add to them."""
    return (" ".join(endpoint.split()) for endpoint in endpoints)


def _of_the_connection(answer: HttpResponse, host: str) -> LakebedError:
    """The error for a catalog that does not even say how it wants to be spoken to."""
    error = refusal_of(answer, host, changes=False)
    if isinstance(error, Unavailable) or error.retryable:
        return error
    return ExternalCatalogError(f"the catalog behind this one does not say how to speak to it. host={host}: {error}")


def _silence(error: Unavailable, host: str) -> Unavailable:
    if isinstance(error, ExternalCatalogError):
        return error
    return Unavailable(f"the catalog behind this one does not answer. host={host}: {error}", undecided=error.undecided)
