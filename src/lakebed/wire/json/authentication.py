"""Who sent a request to the catalog: a bearer token in the header, or a signature as S3 has it."""

from __future__ import annotations

from typing import Final, Protocol

from lakebed.core.access import Principal
from lakebed.core.secrets import Secret
from lakebed.wire.aws.authentication import UNSIGNED, Authenticated
from lakebed.wire.http.message import Request

_SCHEME: Final = "bearer "


class RequestAuthenticator(Protocol):
    """Establishes who sent a request."""

    async def authenticate(self, request: Request) -> Authenticated:
        """Raises LakebedError when that cannot be established. Who says nothing of itself is anonymous."""
        ...


class TokenHolders(Protocol):
    """Knows whose a token is."""

    async def principal(self, token: Secret) -> Principal:
        """Raises Unauthenticated, CredentialsExpired, CredentialsRevoked, Unavailable."""
        ...


class BearerAuthenticator:
    """Takes bearer tokens, and leaves everything else to signatures."""

    def __init__(self, tokens: TokenHolders, signatures: RequestAuthenticator) -> None:
        self._tokens = tokens
        self._signatures = signatures

    async def authenticate(self, request: Request) -> Authenticated:
        """Raises Unauthenticated for a token that is not good; what signatures raise."""
        header = request.headers.get("authorization", "")
        if header[: len(_SCHEME)].lower() != _SCHEME:
            return await self._signatures.authenticate(request)
        principal = await self._tokens.principal(Secret(header[len(_SCHEME) :].strip()))
        return Authenticated(principal, UNSIGNED)
