"""Tokens for a client's credentials (RFC 6749 §4.4): asked for once, used while they are good, and asked for again."""

from __future__ import annotations

import asyncio
from typing import Final
from urllib.parse import urlencode, urlsplit

import msgspec

from lakebed.core.clock import Clock
from lakebed.core.errors import ExternalCatalogError, Throttled, Unavailable
from lakebed.core.secrets import Secret
from lakebed.net.http import Http, HttpRequest, HttpResponse, send_with_retries

from .checking import is_token

FORM: Final = "application/x-www-form-urlencoded"
DEFAULT_SCOPE: Final = "catalog"
"""What clients of Iceberg ask for."""

_TIMEOUT_SECONDS: Final = 15.0
_TRIES: Final = 2
_DEFAULT_LIFETIME_SECONDS: Final = 3600
"""Where the answer does not say: a recommendation of the RFC's that nobody has to follow, so a refusal renews too."""
_MARGIN_SECONDS: Final = 30


class _Token(msgspec.Struct):
    access_token: str
    expires_in: int | None = None


class _Refusal(msgspec.Struct):
    error: str | dict[str, object] = ""


class ClientTokens:
    """Tokens of one client at one endpoint. Used from one event loop."""

    def __init__(
        self, http: Http, clock: Clock, token_uri: str, client_id: str, client_secret: Secret, scopes: tuple[str, ...]
    ) -> None:
        self._http = http
        self._clock = clock
        self._token_uri = token_uri
        self._client_id = client_id
        self._client_secret = client_secret
        self._scopes = scopes
        self._held: Secret | None = None
        self._renew_ms = 0
        self._fetch: asyncio.Task[Secret] | None = None

    async def token(self, rejected: Secret | None = None) -> Secret:
        """A token that is good now; never `rejected`. Raises ExternalCatalogError, Throttled, Unavailable."""
        held = self._held
        if held is not None and held != rejected and self._clock.now_ms() < self._renew_ms:
            return held
        if self._fetch is None or self._fetch.done():
            self._fetch = asyncio.get_running_loop().create_task(self._fetch_once())
        # Shielded: one who gives up must not take the token from the others who wait for it.
        return await asyncio.shield(self._fetch)

    async def _fetch_once(self) -> Secret:
        fields = {
            "grant_type": "client_credentials",
            "client_id": self._client_id,
            "client_secret": self._client_secret.reveal(),
            "scope": " ".join(self._scopes) or DEFAULT_SCOPE,
        }
        request = HttpRequest(
            "POST",
            self._token_uri,
            {"content-type": FORM, "accept": "application/json"},
            urlencode(fields).encode(),
            timeout_seconds=_TIMEOUT_SECONDS,
            through_proxy=True,
        )
        host = urlsplit(self._token_uri).netloc
        try:
            answer = await send_with_retries(self._http, request, tries=_TRIES, service=f"the token endpoint at {host}")
        except Unavailable as error:
            # A token that was made and lost changes nothing for who asks for one.
            raise Unavailable(str(error)) from error
        if answer.status != 200:
            raise _refusal(answer, host)
        try:
            told = msgspec.json.decode(answer.body, type=_Token)
        except (msgspec.DecodeError, UnicodeDecodeError):
            told = _Token("")
        if not is_token(told.access_token):
            # Outside of `except`: the decoder's own error may quote the token.
            raise ExternalCatalogError(f"the token endpoint gave no token. host={host}")
        lifetime = _DEFAULT_LIFETIME_SECONDS if told.expires_in is None else max(told.expires_in, 0)
        margin = min(_MARGIN_SECONDS, lifetime // 10)
        self._held, self._renew_ms = Secret(told.access_token), self._clock.now_ms() + (lifetime - margin) * 1000
        return self._held


def _refusal(answer: HttpResponse, host: str) -> Unavailable | Throttled:
    """The error for an answer without a token. Its free text is dropped: it can quote what was sent."""
    try:
        code = msgspec.json.decode(answer.body, type=_Refusal).error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        code = ""
    shown = code if isinstance(code, str) and code.replace("_", "").isalnum() and len(code) <= 64 else "unknown"
    if answer.status == 429:
        return Throttled(f"the token endpoint asks for a pause. host={host}")
    if answer.status == 503:
        return Unavailable(f"the token endpoint is not available. host={host}")
    return ExternalCatalogError(
        f"the token endpoint refuses this server. host={host} status={answer.status} error={shown}"
    )
