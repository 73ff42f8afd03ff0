"""Tokens, issued to clients that have shown a secret, and exchanged for fresh ones.

A token may be exchanged without the secret while it is good, so that clients which hold nothing else go on; for how
long after the secret was shown is limited. With the secret an expired token may be exchanged, too: Iceberg's clients
do that where others would ask anew.
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
from .scopes import RoleScope, parse_scope, stored_scope
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
        """`renewal_seconds` is how long after its client has shown the secret a token is exchanged without it."""
        self._keys = keys
        self._verifier = verifier
        self._clock = clock
        self._issuer = issuer
        self._lifetime_seconds = lifetime_seconds
        self._renewal_seconds = renewal_seconds

    async def issue(self, client: AuthenticatedClient, scope: str | None) -> IssuedToken:
        """A token for a client. Raises InvalidScope. Whether it holds the roles is seen when the token is used."""
        now = self._clock.now_ms() // 1000
        return await self._sign(client, parse_scope(scope), now, now, now + self._lifetime_seconds)

    async def exchange(
        self, token: Secret, scope: str | None, client: AuthenticatedClient | None = None
    ) -> IssuedToken:
        """A fresh token for one of ours, of its roles or fewer. `client` has shown its secret besides.

        Raises InvalidScope, Unauthenticated, CredentialsExpired, CredentialsRevoked.
        """
        now = self._clock.now_ms() // 1000
        if client is not None:
            claims = await self._verifier.signed_claims(token)
            if claims.sub != client.user_id:
                raise Unauthenticated("the token is somebody else's")
            within = stored_scope(claims.scope)
            return await self._sign(client, parse_scope(scope, within=within), now, now, now + self._lifetime_seconds)
        claims = (await self._verifier.verify(token)).claims
        ends = claims.auth_time + self._renewal_seconds
        if now >= ends:
            raise CredentialsExpired("the token was exchanged for long enough: show the secret again")
        holder = AuthenticatedClient(claims.client_id, claims.sub, claims.gen)
        asked = parse_scope(scope, within=stored_scope(claims.scope))
        return await self._sign(holder, asked, now, claims.auth_time, min(now + self._lifetime_seconds, ends))

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
