"""Tokens of the OAuth client credentials grant (RFC 6749 §4.4), cached until shortly before they expire."""

from __future__ import annotations

import asyncio
from typing import Final
from urllib.parse import urlencode, urlsplit

import msgspec

from lakebed.core.clock import Clock
from lakebed.core.errors import ExternalCatalogError, Throttled, Unavailable
from lakebed.core.secrets import Secret
from lakebed.net.http import Http, HttpRequest, HttpResponse, send_with_retries

from .validation import is_token

FORM: Final = "application/x-www-form-urlencoded"
DEFAULT_SCOPE: Final = "catalog"
"""The scope that Iceberg clients request."""

_TIMEOUT_SECONDS: Final = 15.0
_ATTEMPTS: Final = 2
_DEFAULT_LIFETIME_SECONDS: Final = 3600
"""Where the response has no `expires_in`, which the RFC only recommends. A rejected token is renewed earlier."""
_MARGIN_SECONDS: Final = 30


class _Token(msgspec.Struct):
    access_token: str
    expires_in: int | None = None


class _ErrorDocument(msgspec.Struct):
    error: str | dict[str, object] = ""


class OAuthTokens:
    """The tokens of one client at one endpoint. Used from one event loop."""

    def __init__(
        self, http: Http, clock: Clock, token_uri: str, client_id: str, client_secret: Secret, scopes: tuple[str, ...]
    ) -> None:
        self._http = http
        self._clock = clock
        self._token_uri = token_uri
        self._client_id = client_id
        self._client_secret = client_secret
        self._scopes = scopes
        self._current: Secret | None = None
        self._renew_ms = 0
        self._fetch: asyncio.Task[Secret] | None = None

    async def token(self, rejected: Secret | None = None) -> Secret:
        """A valid token; never `rejected`. Raises ExternalCatalogError, Throttled, Unavailable."""
        current = self._current
        if current is not None and current != rejected and self._clock.now_ms() < self._renew_ms:
            return current
        if self._fetch is None or self._fetch.done():
            self._fetch = asyncio.get_running_loop().create_task(self._fetch_once())
        # Shielded: a cancelled request must not cancel the fetch that others wait for.
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
            response = await send_with_retries(
                self._http, request, tries=_ATTEMPTS, service=f"the token endpoint at {host}"
            )
        except Unavailable as error:
            # A token that was issued and lost does not leave the caller's request undecided.
            raise Unavailable(str(error)) from error
        if response.status != 200:
            raise _token_error(response, host)
        try:
            token = msgspec.json.decode(response.body, type=_Token)
        except (msgspec.DecodeError, UnicodeDecodeError):
            token = _Token("")
        if not is_token(token.access_token):
            # Outside of `except`: the decoder's own error may quote the token.
            raise ExternalCatalogError(f"the token endpoint returned no token. host={host}")
        lifetime = _DEFAULT_LIFETIME_SECONDS if token.expires_in is None else max(token.expires_in, 0)
        margin = min(_MARGIN_SECONDS, lifetime // 10)
        self._current, self._renew_ms = Secret(token.access_token), self._clock.now_ms() + (lifetime - margin) * 1000
        return self._current


def _token_error(response: HttpResponse, host: str) -> Unavailable | Throttled:
    """The error for a response without a token. Its message is dropped: it can quote the request."""
    try:
        code = msgspec.json.decode(response.body, type=_ErrorDocument).error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        code = ""
    error = code if isinstance(code, str) and code.replace("_", "").isalnum() and len(code) <= 64 else "unknown"
    if response.status == 429:
        return Throttled(f"the token endpoint throttles requests. host={host}")
    if response.status == 503:
        return Unavailable(f"the token endpoint is not available. host={host}")
    return ExternalCatalogError(
        f"the token endpoint rejects the client credentials. host={host} status={response.status} error={error}"
    )
