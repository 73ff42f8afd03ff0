"""Sends requests to an external Iceberg REST catalog, according to the configuration that it publishes.

Reads are retried after a failure or a missing response. A change is sent once; it is sent again only where the external
catalog rejected its authentication and a newer token or key exists: then the change was certainly not made.
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
from lakebed.net.http import SAFE_METHODS, Http, HttpRequest, HttpResponse
from lakebed.net.tls import TlsFiles

from .authentication import Authentication, UnsignedRequest, make_authentication, token_uri_of
from .errors import response_error
from .model import AuthKind, RemoteAddress, RemoteAuth, RemoteSecrets

T = TypeVar("T")

MAX_RESPONSE_BYTES: Final = MAX_METADATA_BYTES + 1024 * 1024
"""A loaded table comes with its whole metadata."""

TIMEOUT_SECONDS: Final = 15.0
CONFIG_LIFETIME_MS: Final = 300_000
"""How long a catalog's configuration is cached."""

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
"""The endpoints of a catalog whose configuration lists none, by the Iceberg REST specification."""

_READ_ATTEMPTS: Final = 2
_CONNECTIONS: Final = 64
"""The most concurrent requests to one catalog, and the most idle connections."""
_RETRYABLE: Final = frozenset({429, 500, 502, 503, 504})
"""Statuses after which a read is retried."""
_UNAUTHENTICATED: Final = frozenset({401, 419})


class _ConfigDocument(msgspec.Struct, rename="kebab"):
    defaults: dict[str, str | None] = {}
    overrides: dict[str, str | None] = {}
    endpoints: list[str] | None = None
    idempotency_key_lifetime: str | None = None


class RemoteConfig(NamedTuple):
    """The configuration that an external catalog publishes (`GET /v1/config`)."""

    prefix: str
    """Precedes namespaces in paths."""
    separator: str
    """Joins the levels of a namespace."""
    endpoints: frozenset[str]
    """Supported endpoints, as the specification spells them."""
    keeps_idempotency_keys: bool = False
    """Whether a request repeated with its Idempotency-Key gets the first response."""


@dataclass(frozen=True, slots=True)
class RemoteRequest:
    """A request to an external catalog."""

    method: str
    path: Sequence[str]
    """Segments after the prefix, not encoded."""
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes = field(default=b"", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def changes(self) -> bool:
        """Whether it may change something."""
        return self.method not in SAFE_METHODS


ConfigError = Callable[[HttpResponse, str], LakebedError]
"""Makes the error for a catalog that refuses its configuration; of the response and the host."""


class RemoteCatalog:
    """One external catalog. Used from one event loop."""

    def __init__(
        self,
        http: Http,
        clock: Clock,
        address: RemoteAddress,
        authentication: Authentication,
        timeout_seconds: float,
        config_error: ConfigError,
    ) -> None:
        self._http = http
        self._clock = clock
        self._address = address
        self._authentication = authentication
        self._timeout_seconds = timeout_seconds
        self._config_error = config_error
        self._config: RemoteConfig | None = None
        self._config_until_ms = 0
        base = urlsplit(address.uri)
        self.host: Final = base.netloc
        self._origin = f"{base.scheme}://{base.netloc}"
        self._base = base.path.rstrip("/")

    async def config(self) -> RemoteConfig:
        """Its configuration, cached. Raises as `send` does."""
        now_ms = self._clock.now_ms()
        if self._config is None or now_ms >= self._config_until_ms:
            self._config = await self._load_config()
            self._config_until_ms = now_ms + CONFIG_LIFETIME_MS
        return self._config

    @property
    def keeps_idempotency_keys(self) -> bool:
        """Whether it keeps responses by Idempotency-Key, as far as its configuration is known yet."""
        return self._config is not None and self._config.keeps_idempotency_keys

    async def namespace(self, levels: Sequence[str]) -> str:
        """A namespace as a path segment. Raises InvalidName where a level contains the external catalog's separator."""
        separator = (await self.config()).separator
        if any(separator in level for level in levels):
            raise InvalidName(
                f"a namespace level contains the separator of the external catalog. namespace={'.'.join(levels)}",
                argument="namespace",
            )
        return separator.join(levels)

    async def send(self, request: RemoteRequest) -> HttpResponse:
        """The response, whatever its status. Raises Unavailable, Throttled, ExternalCatalogError when there is none.

        `Unavailable.undecided` says that a change may have been made all the same.
        """
        prefix = (await self.config()).prefix
        # Clients insert the prefix into paths as the configuration spells it, encoded or not.
        start = (quote(prefix, safe="/%"),) if prefix else ()
        path = "/".join(("v1", *start, *(quote(segment, safe="") for segment in request.path)))
        return await self._send(request, path)

    async def _load_config(self) -> RemoteConfig:
        query = {"warehouse": self._address.warehouse} if self._address.warehouse else {}
        response = await self._send(RemoteRequest("GET", (), query), "v1/config")
        if response.status != 200:
            raise self._config_error(response, self.host)
        document = decode_response(response, _ConfigDocument, self.host)
        settings = {**document.defaults, **document.overrides}
        separator = settings.get("namespace-separator")
        endpoints = document.endpoints
        return RemoteConfig(
            (settings.get("prefix") or "").strip("/"),
            unquote(separator) if separator else SEPARATOR,
            DEFAULT_ENDPOINTS if endpoints is None else frozenset(_normalized(endpoints)),
            bool(document.idempotency_key_lifetime),
        )

    async def _send(self, request: RemoteRequest, path: str) -> HttpResponse:
        attempts, may_renew = 1 if request.changes else _READ_ATTEMPTS, True
        while True:
            attempts -= 1
            signed = await self._signed(request, path)
            try:
                response = await self._http(signed)
            except Unavailable as error:
                if attempts <= 0:
                    raise _no_response(error, self.host) from error
                continue
            if response.status in _UNAUTHENTICATED and may_renew and self._authentication.renew(signed.headers):
                # The request was rejected before anything was done: a change was not made.
                attempts, may_renew = max(attempts, 1), False
            elif attempts <= 0 or response.status not in _RETRYABLE:
                return response

    async def _signed(self, request: RemoteRequest, path: str) -> HttpRequest:
        full_path = f"{self._base}/{path}"
        query = urlencode(request.query, quote_via=quote)
        headers = {"accept": "application/json"} | {name.lower(): value for name, value in request.headers.items()}
        if request.body:
            headers["content-type"] = "application/json"
        unsigned = UnsignedRequest(request.method, self.host, full_path, query, headers, request.body)
        return HttpRequest(
            request.method,
            f"{self._origin}{full_path}" + (f"?{query}" if query else ""),
            await self._authentication.headers(unsigned),
            request.body,
            timeout_seconds=self._timeout_seconds,
            through_proxy=True,
            max_response_bytes=MAX_RESPONSE_BYTES,
        )


@dataclass(frozen=True, slots=True)
class RemoteCatalogs:
    """Opens clients for external catalogs on the hosts that the settings allow."""

    http: Http
    clock: Clock
    hosts: AllowedHosts
    timeout_seconds: float = TIMEOUT_SECONDS

    def check_hosts(self, address: RemoteAddress, auth: RemoteAuth, *, uri_field: str = "token-uri") -> None:
        """Return if the catalog and its token endpoint are on allowed hosts. Raises InvalidInput.

        `uri_field` is the API's name of the field with the token endpoint.
        """
        self.hosts.check(address.uri)
        if auth.kind is AuthKind.OAUTH:
            self.hosts.check(token_uri_of(address, auth), argument=uri_field)

    def open(
        self,
        address: RemoteAddress,
        auth: RemoteAuth,
        secrets: RemoteSecrets,
        *,
        config_error: ConfigError | None = None,
    ) -> RemoteCatalog:
        """A client for the catalog at an address. Raises ExternalCatalogError if its host is not allowed any more."""
        try:
            self.check_hosts(address, auth)
        except InvalidInput as error:
            raise ExternalCatalogError(str(error)) from error
        authentication = make_authentication(self.http, self.clock, address, auth, secrets)
        return RemoteCatalog(
            self.http, self.clock, address, authentication, self.timeout_seconds, config_error or _no_config
        )


def catalog_http(ca_bundle: str | None = None) -> AsyncHttpClient:
    """The HTTP client for external catalogs. `ca_bundle` replaces the system's certificate authorities."""
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


def decode_response(
    response: HttpResponse, kind: type[T], host: str, *, changes: bool = False, error: type[LakebedError] | None = None
) -> T:
    """The document of a response. Raises ExternalCatalogError, or `error`, if invalid; a change was made then."""
    try:
        return msgspec.json.decode(response.body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as cause:
        message = f"the response of the external catalog does not match the Iceberg REST specification. host={host}"
        raise (ExternalCatalogError(message, undecided=changes) if error is None else error(message)) from cause


def _normalized(endpoints: Iterable[str]) -> Iterable[str]:
    """Endpoints with single spaces."""
    return (" ".join(endpoint.split()) for endpoint in endpoints)


def _no_config(response: HttpResponse, host: str) -> LakebedError:
    """The error for a catalog that refuses its configuration: a fault of the connection, not of the request."""
    error = response_error(response, host, changes=False)
    if isinstance(error, Unavailable) or error.retryable:
        return error
    return ExternalCatalogError(f"the external catalog refuses its configuration. host={host}: {error}")


def _no_response(error: Unavailable, host: str) -> Unavailable:
    if isinstance(error, ExternalCatalogError):
        return error
    return Unavailable(f"the external catalog does not respond. host={host}: {error}", undecided=error.undecided)
