"""Authentication of requests to the JSON APIs: a bearer token in the header, or SigV4."""

from __future__ import annotations

from typing import Final, Protocol

from lakebed.core.secrets import Secret
from lakebed.governance.credentials.bearer_tokens import PrincipalResolver
from lakebed.wire.aws.authentication import UNSIGNED, Authenticated
from lakebed.wire.http.message import Request

_SCHEME: Final = "bearer "


class RequestAuthenticator(Protocol):
    """Authenticates requests."""

    async def authenticate(self, request: Request) -> Authenticated:
        """The caller; anonymous without credentials. Raises LakebedError for invalid ones."""
        ...


class BearerAuthenticator:
    """Authenticates bearer tokens, and all other requests by their signature."""

    def __init__(self, tokens: PrincipalResolver, signatures: RequestAuthenticator) -> None:
        self._tokens = tokens
        self._signatures = signatures

    async def authenticate(self, request: Request) -> Authenticated:
        """The caller. Raises Unauthenticated for an invalid token, and the errors of the signature authenticator."""
        header = request.headers.get("authorization", "")
        if header[: len(_SCHEME)].lower() != _SCHEME:
            return await self._signatures.authenticate(request)
        principal = await self._tokens.principal(Secret(header[len(_SCHEME) :].strip()))
        return Authenticated(principal, UNSIGNED)
