"""Who calls with a bearer token: the server's own tokens and those of providers, told apart by who issued them.

A token says itself by whom it was issued, and only that one's keys are tried on it. So no provider can sign for
another, nor for the server.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import msgspec

from lakebed.core.access import Principal
from lakebed.core.secrets import Secret

from ..tokens.jws import invalid_token, read_unverified


class PrincipalResolver(Protocol):
    """Somebody's tokens."""

    async def principal(self, token: Secret) -> Principal:
        """Who calls with one of them. Raises Unauthenticated, CredentialsExpired, CredentialsRevoked, Unavailable."""
        ...


class _Issued(msgspec.Struct):
    iss: str


_decode = msgspec.json.Decoder(_Issued).decode


class BearerTokens:
    """All tokens that are accepted."""

    def __init__(self, sources: Mapping[str, PrincipalResolver]) -> None:
        """`sources` by their issuer."""
        self._sources = dict(sources)

    async def principal(self, token: Secret) -> Principal:
        """Who calls with the token. Raises as the sources do; Unauthenticated for a token of nobody here."""
        try:
            issuer = _decode(read_unverified(token.reveal()).payload).iss
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise invalid_token() from error
        source = self._sources.get(issuer)
        if source is None:
            raise invalid_token()
        return await source.principal(token)
