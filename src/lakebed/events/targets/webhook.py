"""The `webhook` target: one POST per event, signed or with a token. A 2xx response acknowledges it.

Redirects are not followed, since events must not reach hosts that are not configured.
"""

from __future__ import annotations

import re
from http import HTTPStatus
from http.client import responses
from typing import ClassVar, Final, Protocol, Self
from urllib.parse import SplitResult, urlsplit

import msgspec

from lakebed.core.clock import Clock
from lakebed.core.errors import InvalidInput, Unavailable, Undeliverable
from lakebed.core.loop_guard import HEADER
from lakebed.core.secrets import Secret
from lakebed.core.webhooks import ID_HEADER, check_secret, new_secret, signed_headers
from lakebed.net.async_client import AsyncHttpClient
from lakebed.net.http import HttpRequest, HttpResponse
from lakebed.net.tls import TlsFiles

from .seam import EventMessage, TargetSettings, TargetType

NAME: Final = "webhook"
MAX_IN_FLIGHT: Final = 16
CHECK_SECONDS: Final = 5.0
MAX_URL_CHARS: Final = 2048

_MAX_RESPONSE_BYTES: Final = 64 * 1024
_LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})
_HEADER: Final = re.compile(r"[!-~]+( [!-~]+)?")


class WebhookSettings(TargetSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The endpoint, and the authentication of both sides."""

    secrets: ClassVar[frozenset[str]] = frozenset({"secret", "auth_token"})

    endpoint: str
    secret: str = ""
    """The signing secret: `whsec_` and base64 of 24 to 64 bytes."""
    auth_token: str = ""
    """The Authorization header. A single word is sent as `Bearer WORD`."""
    client_cert: str = ""
    """Certificate file for mutual TLS."""
    client_key: str = ""
    """Key file for mutual TLS."""
    client_ca: str = ""
    """File of authorities that the server's certificate is verified with, in place of the system's."""
    skip_tls_verify: bool = False

    def completed(self) -> Self:
        """With a generated signing secret, unless a secret or token is given."""
        if self.secret or self.auth_token:
            return self
        return msgspec.structs.replace(self, secret=new_secret().reveal())

    def validate(self) -> None:
        """Raises InvalidInput."""
        _parsed(self.endpoint)
        if self.secret:
            check_secret(Secret(self.secret))
        elif not self.auth_token:
            raise InvalidInput("a webhook requires a secret or an auth_token", argument="secret")
        if self.auth_token and not _HEADER.fullmatch(self.auth_token):
            raise InvalidInput("auth_token must be one or two words of visible ASCII characters", argument="auth_token")
        if self.client_ca and self.skip_tls_verify:
            raise InvalidInput("client_ca and skip_tls_verify exclude each other", argument="client_ca")
        self.tls.validate(("client_ca", "client_cert", "client_key"))

    @property
    def tls(self) -> TlsFiles:
        """The TLS configuration of connections."""
        return TlsFiles(
            self.client_ca or None, self.client_cert or None, self.client_key or None, verifies=not self.skip_tls_verify
        )


class HttpSender(Protocol):
    """An HTTP client."""

    async def __call__(self, request: HttpRequest) -> HttpResponse:
        """Send a request and return the response. Raises Unavailable without one."""
        ...

    async def close(self) -> None:
        """Close the connections."""
        ...


class WebhookTarget:
    """Posts to one endpoint."""

    def __init__(self, settings: WebhookSettings, http: HttpSender, clock: Clock, *, timeout_seconds: float) -> None:
        self._settings = settings
        self._http = http
        self._clock = clock
        self._timeout_seconds = timeout_seconds
        self._secret = Secret(settings.secret) if settings.secret else None
        self._headers = {"User-Agent": "lakebed"}
        if settings.auth_token:
            token = settings.auth_token
            self._headers["Authorization"] = token if " " in token else f"Bearer {token}"

    @property
    def max_in_flight(self) -> int:
        """Also the number of connections."""
        return MAX_IN_FLIGHT

    async def send(self, message: EventMessage) -> None:
        """Post the message. Raises Undeliverable on 413, Unavailable on other errors or without a response."""
        headers = {**self._headers, "Content-Type": message.content_type, ID_HEADER: message.id}
        if message.proof:
            headers[HEADER] = message.proof
        if self._secret is not None:
            headers |= signed_headers(self._secret, message.id, self._clock.now_ms(), message.body)
        response = await self._http(
            HttpRequest(
                "POST",
                self._settings.endpoint,
                headers,
                message.body,
                self._timeout_seconds,
                through_proxy=True,
                max_response_bytes=_MAX_RESPONSE_BYTES,
            )
        )
        if response.status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
            raise Undeliverable(f"event too large. status={response.status} size={len(message.body)}")
        if not 200 <= response.status < 300:
            raise _error_response(response)

    async def check(self) -> None:
        """Send HEAD to the root of the host. Any response except 401 passes."""
        parts = urlsplit(self._settings.endpoint)
        url = f"{parts.scheme}://{parts.netloc}/"
        seconds = min(CHECK_SECONDS, self._timeout_seconds)
        response = await self._http(
            HttpRequest(
                "HEAD", url, self._headers, b"", seconds, through_proxy=True, max_response_bytes=_MAX_RESPONSE_BYTES
            )
        )
        if response.status == HTTPStatus.UNAUTHORIZED:
            raise _error_response(response)

    async def close(self) -> None:
        """Close the connections."""
        await self._http.close()


def webhook_type(clock: Clock, *, timeout_seconds: float, allow_http: bool) -> TargetType[WebhookSettings]:
    """The target type `webhook`. Plain HTTP is limited to loopback addresses, unless `allow_http` is set."""

    def make(settings: WebhookSettings) -> WebhookTarget:
        parts = _parsed(settings.endpoint)
        if parts.scheme == "http" and parts.hostname not in _LOOPBACK and not allow_http:
            raise InvalidInput("endpoint must be https, unless targets.allow_http is set", argument="endpoint")
        return WebhookTarget(
            settings, AsyncHttpClient(settings.tls, resends=True), clock, timeout_seconds=timeout_seconds
        )

    return TargetType(NAME, WebhookSettings, make)


def _error_response(response: HttpResponse) -> Unavailable:
    reason = responses.get(response.status, "unknown")
    return Unavailable(f"error response. status={response.status} reason={reason}")


def _parsed(url: str) -> SplitResult:
    """Parse and check the endpoint. Raises InvalidInput."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise InvalidInput("endpoint is not a URL", argument="endpoint") from error
    if parts.scheme not in ("http", "https") or not host or port == 0 or len(url) > MAX_URL_CHARS:
        raise InvalidInput(
            f"endpoint must be an http or https URL of at most {MAX_URL_CHARS} characters", argument="endpoint"
        )
    if parts.username is not None or parts.fragment or re.search(r"[^\x21-\x7e]", url):
        raise InvalidInput(
            "endpoint must have only visible ASCII characters, and no credentials or fragment", argument="endpoint"
        )
    return parts
