"""Authenticates bearer tokens: the server's own and those of identity providers.

The issuer in the token selects the verification keys. So a provider cannot sign for another provider or the server.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import msgspec

from lakebed.core.access import Principal
from lakebed.core.secrets import Secret

from ..tokens.jws import invalid_token, read_unverified


class PrincipalResolver(Protocol):
    """Verifies the tokens of one issuer."""

    async def principal(self, token: Secret) -> Principal:
        """The principal. Raises Unauthenticated, CredentialsExpired, CredentialsRevoked, Unavailable."""
        ...


class _Issued(msgspec.Struct):
    iss: str


_decode = msgspec.json.Decoder(_Issued).decode


class BearerTokens:
    """Verifies tokens of all accepted issuers."""

    def __init__(self, sources: Mapping[str, PrincipalResolver]) -> None:
        """`sources` are by issuer."""
        self._sources = dict(sources)

    async def principal(self, token: Secret) -> Principal:
        """The principal. Raises Unauthenticated for an unknown issuer, and the errors of the issuer's resolver."""
        try:
            issuer = _decode(read_unverified(token.reveal()).payload).iss
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise invalid_token() from error
        source = self._sources.get(issuer)
        if source is None:
            raise invalid_token()
        return await source.principal(token)
