"""Issues tokens to authenticated clients, and exchanges tokens for new ones (RFC 8693).

A valid token can be exchanged without the secret, for a limited time after the secret was presented. Together with the
secret an expired token can be exchanged too: Iceberg clients do that in place of requesting a new token.
"""

from __future__ import annotations

import secrets
from typing import Final

import msgspec

from lakebed.core.clock import Clock
from lakebed.core.errors import CredentialsExpired, Unauthenticated
from lakebed.core.secrets import Secret

from .jws import signed
from .model import AuthenticatedClient, IssuedToken, TokenClaims
from .scopes import RoleScope, parse_scope
from .signing_keys import ALGORITHM, TokenSigningKeys
from .verification import TOKEN_TYPE, TokenVerifier

_JTI_BYTES: Final = 12
_encode: Final = msgspec.json.Encoder().encode


class TokenIssuer:
    """Issues tokens."""

    def __init__(
        self,
        keys: TokenSigningKeys,
        verifier: TokenVerifier,
        clock: Clock,
        *,
        issuer: str,
        lifetime_seconds: int,
        renewal_seconds: int,
    ) -> None:
        """`renewal_seconds` limits token exchange without the secret, counted from when it was presented."""
        self._keys = keys
        self._verifier = verifier
        self._clock = clock
        self._issuer = issuer
        self._lifetime_seconds = lifetime_seconds
        self._renewal_seconds = renewal_seconds

    async def issue(self, client: AuthenticatedClient, scope: str | None) -> IssuedToken:
        """Issue a token. Raises InvalidScope. Whether the principal has the roles is checked when it is used."""
        now = self._clock.now_ms() // 1000
        return await self._sign(client, parse_scope(scope), now, now, now + self._lifetime_seconds)

    async def exchange(
        self, token: Secret, scope: str | None, client: AuthenticatedClient | None = None
    ) -> IssuedToken:
        """Exchange a token for a new one with the same roles or fewer. A given `client` presented its secret too.

        Raises InvalidScope, Unauthenticated, CredentialsExpired, CredentialsRevoked.
        """
        now = self._clock.now_ms() // 1000
        if client is not None:
            claims = await self._verifier.signed_claims(token)
            if claims.sub != client.user_id:
                raise Unauthenticated("the token belongs to another user")
            within = parse_scope(claims.scope)
            return await self._sign(client, parse_scope(scope, within=within), now, now, now + self._lifetime_seconds)
        claims = (await self._verifier.verify(token)).claims
        ends = claims.auth_time + self._renewal_seconds
        if now >= ends:
            raise CredentialsExpired("the token cannot be exchanged any longer: authenticate with the client secret")
        holder = AuthenticatedClient(claims.client_id, claims.sub, claims.gen)
        requested = parse_scope(scope, within=parse_scope(claims.scope))
        return await self._sign(holder, requested, now, claims.auth_time, min(now + self._lifetime_seconds, ends))

    async def _sign(
        self, client: AuthenticatedClient, scope: RoleScope, now: int, auth_time: int, expires: int
    ) -> IssuedToken:
        signer = await self._keys.signer()
        claims = TokenClaims(
            iss=self._issuer,
            aud=self._issuer,
            sub=client.user_id,
            client_id=client.client_id,
            gen=client.generation,
            scope=scope.text,
            iat=now,
            nbf=now,
            exp=expires,
            auth_time=auth_time,
            jti=secrets.token_urlsafe(_JTI_BYTES),
        )
        token = signed(_encode(claims), signer.private, ALGORITHM, key_id=signer.id, kind=TOKEN_TYPE)
        return IssuedToken(Secret(token), scope.text, expires - now)
