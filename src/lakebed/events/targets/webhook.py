"""Webhooks: each event is one POST, signed or with a token, answered with 2xx or not delivered.

Redirects are not followed: the event was meant for who was named.
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
AT_ONCE: Final = 16
CHECK_SECONDS: Final = 5.0
MAX_URL_CHARS: Final = 2048

_MAX_RESPONSE_BYTES: Final = 64 * 1024
_LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})
_HEADER: Final = re.compile(r"[!-~]+( [!-~]+)?")


class WebhookSettings(TargetSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Whom events are posted to, and how both sides know each other."""

    secrets: ClassVar[frozenset[str]] = frozenset({"secret", "auth_token"})

    endpoint: str
    secret: str = ""
    """What messages are signed with: `whsec_` and base64 of 24 to 64 bytes."""
    auth_token: str = ""
    """One word is sent as `Bearer WORD`, two words as they are, in the Authorization header."""
    client_cert: str = ""
    client_key: str = ""
    """Files with the certificate and the key that are shown to the other side."""
    client_ca: str = ""
    """A file with the certificates of the authorities that vouch for it, in place of the system's."""
    skip_tls_verify: bool = False

    def completed(self) -> Self:
        """With a secret to sign with, if nothing else says who sends."""
        if self.secret or self.auth_token:
            return self
        return msgspec.structs.replace(self, secret=new_secret().reveal())

    def validate(self) -> None:
        """Raises InvalidInput with the name of the field that is wrong as its argument."""
        _parsed(self.endpoint)
        if self.secret:
            check_secret(Secret(self.secret))
        elif not self.auth_token:
            raise InvalidInput("a secret or an auth_token tells the other side who sends: give one", argument="secret")
        if self.auth_token and not _HEADER.fullmatch(self.auth_token):
            raise InvalidInput("auth_token has one or two words of visible ASCII characters", argument="auth_token")
        if self.client_ca and self.skip_tls_verify:
            raise InvalidInput("client_ca says whom to trust, skip_tls_verify to trust anybody", argument="client_ca")
        self.tls.validate(("client_ca", "client_cert", "client_key"))

    @property
    def tls(self) -> TlsFiles:
        """What connections are secured with."""
        return TlsFiles(
            self.client_ca or None, self.client_cert or None, self.client_key or None, verifies=not self.skip_tls_verify
        )


class Posting(Protocol):
    """How requests are sent."""

    async def __call__(self, request: HttpRequest) -> HttpResponse:
        """The answer. Raises Unavailable when none came."""
        ...

    async def close(self) -> None:
        """Let go of the connections."""
        ...


class WebhookTarget:
    """Posts to one endpoint."""

    def __init__(self, settings: WebhookSettings, http: Posting, clock: Clock, *, timeout_seconds: float) -> None:
        self._settings = settings
        self._http = http
        self._clock = clock
        self._timeout_seconds = timeout_seconds
        self._secret = Secret(settings.secret) if settings.secret else None
        self._headers = {"User-Agent": "lakebed"}
        if settings.auth_token:
            words = settings.auth_token
            self._headers["Authorization"] = words if " " in words else f"Bearer {words}"

    @property
    def max_in_flight(self) -> int:
        """As many connections are kept."""
        return AT_ONCE

    async def send(self, message: EventMessage) -> None:
        """Post it. Raises Unavailable when there is no answer, or none of success; Undeliverable if it is too large."""
        headers = {**self._headers, "Content-Type": message.content_type, ID_HEADER: message.id}
        if message.proof:
            headers[HEADER] = message.proof
        if self._secret is not None:
            headers |= signed_headers(self._secret, message.id, self._clock.now_ms(), message.body)
        answer = await self._http(
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
        if answer.status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
            raise Undeliverable(f"answered {answer.status}: the event is too large. size={len(message.body)}")
        if not 200 <= answer.status < 300:
            raise _refusal(answer)

    async def check(self) -> None:
        """Ask for the head of whatever is at the root: any answer but that the token is no good will do."""
        parts = urlsplit(self._settings.endpoint)
        url = f"{parts.scheme}://{parts.netloc}/"
        seconds = min(CHECK_SECONDS, self._timeout_seconds)
        answer = await self._http(
            HttpRequest(
                "HEAD", url, self._headers, b"", seconds, through_proxy=True, max_response_bytes=_MAX_RESPONSE_BYTES
            )
        )
        if answer.status == HTTPStatus.UNAUTHORIZED:
            raise _refusal(answer)

    async def close(self) -> None:
        """Let go of the connections."""
        await self._http.close()


def webhook_kind(clock: Clock, *, timeout_seconds: float, allow_http: bool) -> TargetType[WebhookSettings]:
    """Webhooks, as a server's settings have them. Plain HTTP is for this machine, unless it is allowed."""

    def make(settings: WebhookSettings) -> WebhookTarget:
        parts = _parsed(settings.endpoint)
        if parts.scheme == "http" and parts.hostname not in _LOOPBACK and not allow_http:
            raise InvalidInput("events are posted over https, unless targets.allow_http is set", argument="endpoint")
        return WebhookTarget(
            settings, AsyncHttpClient(settings.tls, resends=True), clock, timeout_seconds=timeout_seconds
        )

    return TargetType(NAME, WebhookSettings, make)


def _refusal(answer: HttpResponse) -> Unavailable:
    return Unavailable(f"answered {answer.status}. reason={responses.get(answer.status, 'unknown')}")


def _parsed(url: str) -> SplitResult:
    """The URL, if events can be posted to it. Raises InvalidInput."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise InvalidInput("endpoint is not a URL", argument="endpoint") from error
    if parts.scheme not in ("http", "https") or not host or port == 0 or len(url) > MAX_URL_CHARS:
        raise InvalidInput(
            f"endpoint is an http or https URL of at most {MAX_URL_CHARS} characters", argument="endpoint"
        )
    if parts.username is not None or parts.fragment or re.search(r"[^\x21-\x7e]", url):
        raise InvalidInput(
            "endpoint has no credentials, no fragment, and visible ASCII characters alone", argument="endpoint"
        )
    return parts
