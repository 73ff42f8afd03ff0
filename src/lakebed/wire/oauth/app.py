"""The OAuth token endpoint under each base path of the catalog, and the public keys (JWKS) of its tokens."""

from __future__ import annotations

import logging
from typing import Final

import msgspec

from lakebed.core.clock import Clock
from lakebed.core.errors import LakebedError, Unauthenticated
from lakebed.core.secrets import Secret
from lakebed.governance.tokens import (
    AuthenticatedClient,
    ClientAuthenticator,
    IssuedToken,
    TokenIssuer,
    TokenSigningKeys,
)
from lakebed.wire.audit.refusals import OnRefusal
from lakebed.wire.http.message import Request, Response
from lakebed.wire.json.app import Observe
from lakebed.wire.json.routing import CATALOG_BASES

from .errors import NO_STORE, OAuthFault, oauth_error_model, oauth_error_response
from .form import TokenForm, read_form

log = logging.getLogger("lakebed.oauth")

TOKEN_PATHS: Final = frozenset(f"{mount}/v1/oauth/tokens" for mount in CATALOG_BASES)
KEYS_PATH: Final = "/.well-known/jwks.json"

CLIENT_CREDENTIALS: Final = "client_credentials"
TOKEN_EXCHANGE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"  # noqa: S105 - a name
ACCESS_TOKEN: Final = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105 - a name
_JWT: Final = "urn:ietf:params:oauth:token-type:jwt"

_KEYS_SECONDS: Final = 300
"""Cache lifetime of the keys. A client requests them again when it gets a token with an unknown key."""


class TokenApplication:
    """Issues tokens, and serves the public keys that verify them."""

    def __init__(
        self,
        clients: ClientAuthenticator,
        issuer: TokenIssuer,
        keys: TokenSigningKeys,
        *,
        clock: Clock,
        issues: bool = True,
        observe: Observe | None = None,
        on_refusal: OnRefusal | None = None,
    ) -> None:
        """`issues` is false if an identity provider issues all tokens."""
        self._clients = clients
        self._issuer = issuer
        self._keys = keys
        self._clock = clock
        self._issues = issues
        self._observe = observe
        self._on_refusal = on_refusal

    async def __call__(self, request: Request) -> Response:
        """Respond to one request. Raises only on cancellation."""
        started = self._clock.monotonic()
        is_keys = request.raw_path == KEYS_PATH
        operation = "getTokenKeys" if is_keys else "getToken"
        try:
            response = await (self._public_keys(request) if is_keys else self._token(request))
        except LakebedError as error:
            response = oauth_error_response(error)
            if self._on_refusal is not None:
                client = error.client if isinstance(error, OAuthFault) else ""
                self._on_refusal(request, operation, client or request.raw_path, response.status, error)
            if oauth_error_model(error).status >= 500:
                log.warning("request failed", extra=_log_fields(request, operation), exc_info=error)
        except Exception:
            log.exception("request crashed", extra=_log_fields(request, operation))
            response = oauth_error_response(LakebedError())
        response.headers.append(("x-request-id", request.request_id))
        if request.record is not None:
            request.record.name("oauth", operation)
        if self._observe is not None:
            self._observe(operation, request, response, self._clock.monotonic() - started)
        return response

    async def _public_keys(self, request: Request) -> Response:
        if request.method not in ("GET", "HEAD"):
            raise OAuthFault("invalid_request", "keys can only be read: use GET", status=405)
        keys = [key.jwk() for key in await self._keys.keys()] if self._issues else []
        headers = [("Content-Type", "application/jwk-set+json"), ("Cache-Control", f"max-age={_KEYS_SECONDS}")]
        return Response(200, headers, msgspec.json.encode({"keys": keys}))

    async def _token(self, request: Request) -> Response:
        if request.method != "POST":
            raise OAuthFault("invalid_request", "token requests must use POST", status=405)
        if not self._issues:
            raise OAuthFault(
                "unsupported_grant_type", "this server issues no tokens: use the identity provider", status=501
            )
        form = await read_form(request)
        grant = form.required("grant_type")
        if grant == CLIENT_CREDENTIALS:
            client = await self._client(request, form)
            if client is None:
                raise OAuthFault("invalid_client", "client_id and client_secret are required", status=401)
            return _token_response(await self._issuer.issue(client, form.fields.get("scope")))
        if grant == TOKEN_EXCHANGE:
            return _token_response(await self._exchange(request, form))
        raise OAuthFault("unsupported_grant_type", f"grant_type must be {CLIENT_CREDENTIALS} or {TOKEN_EXCHANGE}")

    async def _exchange(self, request: Request, form: TokenForm) -> IssuedToken:
        token = Secret(form.required("subject_token"))
        if form.required("subject_token_type") not in (ACCESS_TOKEN, _JWT):
            raise OAuthFault("invalid_request", f"subject_token_type must be {ACCESS_TOKEN}")
        if form.fields.get("requested_token_type", ACCESS_TOKEN) not in (ACCESS_TOKEN, _JWT):
            raise OAuthFault("invalid_request", f"requested_token_type must be {ACCESS_TOKEN}")
        if "actor_token" in form.fields:
            raise OAuthFault("invalid_request", "actor_token is not supported")
        return await self._issuer.exchange(token, form.fields.get("scope"), await self._client(request, form))

    async def _client(self, request: Request, form: TokenForm) -> AuthenticatedClient | None:
        if form.client is None:
            return None
        client_id, secret = form.client
        try:
            client = await self._clients.authenticate(client_id, secret, request.peer)
        except Unauthenticated as error:
            raise OAuthFault("invalid_client", str(error), status=401, client=client_id) from error
        request.principal = client.user_id
        return client


def _token_response(issued: IssuedToken) -> Response:
    document = {
        "access_token": issued.token.reveal(),
        "token_type": "bearer",
        "expires_in": issued.expires_in,
        "issued_token_type": ACCESS_TOKEN,
        "scope": issued.scope,
    }
    return Response(200, [*NO_STORE], msgspec.json.encode(document))


def _log_fields(request: Request, operation: str) -> dict[str, str]:
    return {"request_id": request.request_id, "operation": operation}
