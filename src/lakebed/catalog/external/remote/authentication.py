"""Authentication of requests to external catalogs: bearer tokens, OAuth client credentials, SigV4."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from lakebed.core.clock import Clock
from lakebed.core.errors import AccessDenied, CredentialsExpired, ExternalCatalogError, InvalidSetting, Unauthenticated
from lakebed.core.secrets import Secret
from lakebed.core.sigv4 import signed_headers
from lakebed.net.http import Http
from lakebed.storage.credentials import (
    CredentialProvider,
    Credentials,
    HostEnvironment,
    RefreshingCredentials,
    default_chain,
)
from lakebed.storage.credentials.sts import AssumedRole, AssumedRoleSource, TokenService

from .model import AuthKind, RemoteAddress, RemoteAuth, RemoteSecrets
from .tokens import OAuthTokens

TOKENS_PATH: Final = "v1/oauth/tokens"

_BEARER: Final = "Bearer "
_SESSION: Final = "lakebed-federation"


@dataclass(frozen=True, slots=True)
class UnsignedRequest:
    """A request before authentication. Path and query are encoded as they will be sent."""

    method: str
    netloc: str
    path: str
    query: str
    headers: dict[str, str]
    body: bytes


class Authentication(Protocol):
    """One way to authenticate requests."""

    async def headers(self, request: UnsignedRequest) -> dict[str, str]:
        """All headers of the authenticated request. Raises ExternalCatalogError, Unavailable, Throttled."""
        ...

    def renew(self, sent: Mapping[str, str]) -> bool:
        """The external catalog rejected these headers; whether newer credentials can exist."""
        ...


class NoAuthentication:
    """Requests without authentication."""

    async def headers(self, request: UnsignedRequest) -> dict[str, str]:
        """The headers as they are."""
        return request.headers

    def renew(self, sent: Mapping[str, str]) -> bool:
        """Never."""
        return False


class BearerToken:
    """A long-lived bearer token."""

    def __init__(self, token: Secret) -> None:
        self._token = token

    async def headers(self, request: UnsignedRequest) -> dict[str, str]:
        """With the token."""
        return {**request.headers, "authorization": f"{_BEARER}{self._token.reveal()}"}

    def renew(self, sent: Mapping[str, str]) -> bool:
        """Never: an operator replaces the token."""
        return False


class OAuthClient:
    """Tokens of the OAuth client credentials grant."""

    def __init__(self, tokens: OAuthTokens) -> None:
        self._tokens = tokens
        self._rejected: Secret | None = None

    async def headers(self, request: UnsignedRequest) -> dict[str, str]:
        """With a valid token."""
        token = await self._tokens.token(self._rejected)
        return {**request.headers, "authorization": f"{_BEARER}{token.reveal()}"}

    def renew(self, sent: Mapping[str, str]) -> bool:
        """Always: another request may have fetched a token meanwhile; otherwise the next one does."""
        self._rejected = Secret(sent["authorization"].removeprefix(_BEARER))
        return True


class RequestSigning:
    """AWS Signature Version 4 on each request."""

    def __init__(self, auth: RemoteAuth, clock: Clock, keys: CredentialProvider) -> None:
        self._auth = auth
        self._clock = clock
        self._keys = keys
        self._used: Credentials | None = None
        self._rejected: Credentials | None = None

    async def headers(self, request: UnsignedRequest) -> dict[str, str]:
        """Signed, with the digest of the body as a header, which some services require."""
        try:
            self._used = await self._keys.credentials(self._rejected)
        except (AccessDenied, Unauthenticated, InvalidSetting) as error:
            # The server's own credentials failed, not the caller's.
            raise ExternalCatalogError(f"no AWS credentials to sign requests with: {error}") from error
        return signed_headers(
            request.method,
            host=request.netloc,
            path=request.path,
            query=request.query,
            headers={**request.headers, "x-amz-content-sha256": hashlib.sha256(request.body).hexdigest()},
            body=request.body,
            region=self._auth.region,
            service=self._auth.service,
            credentials=self._used,
            now_ms=self._clock.now_ms(),
        )

    def renew(self, sent: Mapping[str, str]) -> bool:
        """Whether the credentials are temporary."""
        if self._used is None or self._used.expires_ms is None:
            return False
        if f"Credential={self._used.access_key_id}/" in sent["authorization"]:
            self._rejected = self._used
        return True


class StaticCredentials:
    """The access key of a connection."""

    def __init__(self, keys: Credentials) -> None:
        self._keys = keys

    async def credentials(self, rejected: Credentials | None = None) -> Credentials:
        """The access key. Raises CredentialsExpired if it was rejected."""
        if rejected == self._keys:
            raise CredentialsExpired("the external catalog rejects the access key of the connection")
        return self._keys

    async def close(self) -> None:
        """Does nothing: no refresh runs."""


def _assumed_role(environment: HostEnvironment, auth: RemoteAuth) -> AssumedRoleSource:
    """Temporary credentials: the role of a connection, assumed with the server's own credentials."""
    role = AssumedRole(
        auth.role_arn,
        auth.role_session_name or _SESSION,
        external_id=auth.external_id or None,
        policy=auth.session_policy or None,
    )
    chain = default_chain(environment, region=auth.region)
    return AssumedRoleSource(chain, TokenService(environment, auth.region), role, "federation role")


def make_authentication(
    http: Http,
    clock: Clock,
    address: RemoteAddress,
    auth: RemoteAuth,
    secrets: RemoteSecrets,
    environment: HostEnvironment | None = None,
) -> Authentication:
    """The authentication of a connection. `environment` is where the server finds its own AWS credentials."""
    if auth.kind is AuthKind.BEARER:
        return BearerToken(secrets.token)
    if auth.kind is AuthKind.OAUTH:
        token_uri = token_uri_of(address, auth)
        return OAuthClient(OAuthTokens(http, clock, token_uri, auth.client_id, secrets.client_secret, auth.scopes))
    if auth.kind is AuthKind.NONE:
        return NoAuthentication()
    if auth.role_arn:
        source = _assumed_role(environment or HostEnvironment.of_this_machine(clock=clock), auth)
        return RequestSigning(auth, clock, RefreshingCredentials(source, clock))
    keys = Credentials(auth.access_key_id, secrets.secret_access_key, secrets.session_token or None)
    return RequestSigning(auth, clock, StaticCredentials(keys))


def token_uri_of(address: RemoteAddress, auth: RemoteAuth) -> str:
    """The token endpoint."""
    return auth.token_uri or f"{address.uri.rstrip('/')}/{TOKENS_PATH}"
