"""How requests to another catalog show who sends them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from lakebed.core.clock import Clock
from lakebed.core.errors import AccessDenied, CredentialsExpired, ExternalCatalogError, InvalidSetting, Unauthenticated
from lakebed.core.secrets import Secret
from lakebed.core.sigv4 import signed_headers
from lakebed.net.hosts import AllowedHosts
from lakebed.net.http import Http
from lakebed.storage.credentials import (
    CredentialProvider,
    Credentials,
    HostEnvironment,
    RefreshingCredentials,
    default_chain,
)
from lakebed.storage.credentials.sts import AssumedRole, TokenService

from .model import AuthKind, RemoteAddress, RemoteAuth, RemoteSecrets
from .tokens import ClientTokens

TOKENS_PATH: Final = "v1/oauth/tokens"

_BEARER: Final = "Bearer "
_SESSION: Final = "lakebed-federation"


@dataclass(frozen=True, slots=True)
class Unsigned:
    """A request that does not show yet who sends it. Path and query are as they will be sent."""

    method: str
    netloc: str
    path: str
    query: str
    headers: dict[str, str]
    body: bytes


class Authentication(Protocol):
    """One way to show who sends a request."""

    async def headers(self, request: Unsigned) -> dict[str, str]:
        """All headers of the request. Raises ExternalCatalogError, Unavailable, Throttled without credentials."""
        ...

    def renew(self, sent: Mapping[str, str]) -> bool:
        """The other side has refused what these headers show; whether there can be something newer."""
        ...


class NoAuthentication:
    """Shows nothing."""

    async def headers(self, request: Unsigned) -> dict[str, str]:
        """The headers as they are."""
        return request.headers

    def renew(self, sent: Mapping[str, str]) -> bool:
        """Never."""
        return False


class Bearer:
    """Shows a token that lasts."""

    def __init__(self, token: Secret) -> None:
        self._token = token

    async def headers(self, request: Unsigned) -> dict[str, str]:
        """With the token."""
        return {**request.headers, "authorization": f"{_BEARER}{self._token.reveal()}"}

    def renew(self, sent: Mapping[str, str]) -> bool:
        """Never: an operator has to."""
        return False


class ClientCredentials:
    """Shows tokens that are given out for a client's credentials."""

    def __init__(self, tokens: ClientTokens) -> None:
        self._tokens = tokens
        self._rejected: Secret | None = None

    async def headers(self, request: Unsigned) -> dict[str, str]:
        """With a token that is good now."""
        token = await self._tokens.token(self._rejected)
        return {**request.headers, "authorization": f"{_BEARER}{token.reveal()}"}

    def renew(self, sent: Mapping[str, str]) -> bool:
        """Always: another token may have come meanwhile, or is asked for."""
        self._rejected = Secret(sent["authorization"].removeprefix(_BEARER))
        return True


class Signing:
    """Signs each request (Signature Version 4)."""

    def __init__(self, auth: RemoteAuth, clock: Clock, keys: CredentialProvider) -> None:
        self._auth = auth
        self._clock = clock
        self._keys = keys
        self._shown: Credentials | None = None
        self._rejected: Credentials | None = None

    async def headers(self, request: Unsigned) -> dict[str, str]:
        """Signed, with the digest of the body, which not every service would take from the signature alone."""
        try:
            self._shown = await self._keys.credentials(self._rejected)
        except (AccessDenied, Unauthenticated, InvalidSetting) as error:
            # Of this server's own credentials, not of the caller's.
            raise ExternalCatalogError(f"this server has no keys to sign with: {error}") from error
        return signed_headers(
            request.method,
            host=request.netloc,
            path=request.path,
            query=request.query,
            headers={**request.headers, "x-amz-content-sha256": hashlib.sha256(request.body).hexdigest()},
            body=request.body,
            region=self._auth.region,
            service=self._auth.service,
            credentials=self._shown,
            now_ms=self._clock.now_ms(),
        )

    def renew(self, sent: Mapping[str, str]) -> bool:
        """Whether the keys are temporary ones."""
        if self._shown is None or self._shown.expires_ms is None:
            return False
        if f"Credential={self._shown.access_key_id}/" in sent["authorization"]:
            self._rejected = self._shown
        return True


class LastingKeys:
    """Keys that a connection was given."""

    def __init__(self, keys: Credentials) -> None:
        self._keys = keys

    async def credentials(self, rejected: Credentials | None = None) -> Credentials:
        """The keys. Raises CredentialsExpired if they were refused."""
        if rejected == self._keys:
            raise CredentialsExpired("the keys of the connection are refused")
        return self._keys

    async def close(self) -> None:
        """Nothing to stop."""


class RoleKeys:
    """A source of keys: a role, assumed with the server's own credentials."""

    name = "federation role"
    survives_outage = False

    def __init__(self, host_environment: HostEnvironment, auth: RemoteAuth) -> None:
        self._chain = default_chain(host_environment, region=auth.region)
        self._service = TokenService(host_environment, auth.region)
        self._role = AssumedRole(
            auth.role_arn,
            auth.role_session_name or _SESSION,
            external_id=auth.external_id or None,
            policy=auth.session_policy or None,
        )

    async def load(self) -> Credentials:
        """Fresh keys. Raises as the chain and the service do."""
        return await self._service.assume_role(await self._chain.load(), self._role, self.name)


def authentication_of(
    http: Http,
    clock: Clock,
    address: RemoteAddress,
    auth: RemoteAuth,
    secrets: RemoteSecrets,
    host_environment: HostEnvironment | None = None,
) -> Authentication:
    """What a connection says of who this server is. `host_environment` are where its own credentials are looked for."""
    if auth.kind is AuthKind.BEARER:
        return Bearer(secrets.token)
    if auth.kind is AuthKind.OAUTH:
        token_uri = token_uri_of(address, auth)
        return ClientCredentials(
            ClientTokens(http, clock, token_uri, auth.client_id, secrets.client_secret, auth.scopes)
        )
    if auth.kind is AuthKind.NONE:
        return NoAuthentication()
    if auth.role_arn:
        source = RoleKeys(host_environment or HostEnvironment.of_this_machine(clock=clock), auth)
        return Signing(auth, clock, RefreshingCredentials(source, clock))
    keys = Credentials(auth.access_key_id, secrets.secret_access_key, secrets.session_token or None)
    return Signing(auth, clock, LastingKeys(keys))


def token_uri_of(address: RemoteAddress, auth: RemoteAuth) -> str:
    """Where tokens are requested."""
    return auth.token_uri or f"{address.uri.rstrip('/')}/{TOKENS_PATH}"


def check_hosts(hosts: AllowedHosts, address: RemoteAddress, auth: RemoteAuth, *, uri_field: str = "token-uri") -> None:
    """Return if a catalog and its token endpoint are on allowed hosts. Raises InvalidInput.

    `uri_field` is the name that the caller has for the field with the token endpoint.
    """
    hosts.check(address.uri)
    if auth.kind is AuthKind.OAUTH:
        hosts.check(token_uri_of(address, auth), argument=uri_field)
