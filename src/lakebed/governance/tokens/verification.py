"""Verifies the server's own access tokens.

One read finds the signing key, the user with its policies, and the generation of its client credentials. So a disabled
or deleted user, a replaced secret or a revoked signing key invalidates tokens at once on every server. ADR 17 has the
reasons.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import msgspec

from lakebed.core.access import ActivatedRoles, Principal
from lakebed.core.clock import Clock
from lakebed.core.errors import CredentialsExpired, CredentialsRevoked, Unauthenticated
from lakebed.core.secrets import Secret
from lakebed.meta.seam import MetaStore, Row

from ..credentials.access_keys import AccessKeys
from ..credentials.vault import MasterKeys
from ..principals import principal_from, user_from
from ..rbac.caller_grants import CallerGrants
from ..rbac.rows import CHANGE_NUMBER, LATEST_CHANGE
from ..validated_cache import ValidatedCache
from .clients import is_generation
from .jws import invalid_token, read_unverified, verified_payload
from .model import TokenClaims, client_key, is_accepted
from .scopes import parse_scope
from .signing_keys import ALGORITHM, public_key

TOKEN_TYPE: Final = "at+jwt"  # noqa: S105 - a media type: RFC 9068
"""The `typ` of access tokens, so that no other signed document is accepted as one."""

_SKEW_SECONDS: Final = 60
"""Allowed clock difference of servers that share a store."""

_LOOKUP: Final = (
    f"SELECT k.algorithm, k.public, k.expires_ms, c.generation, c.secondary IS NOT NULL, {CHANGE_NUMBER},"  # noqa: S608 - ours
    " c.rotate_only,"
    " p.name, p.user_id, p.account, p.enabled, p.created_ms, g.kind, g.name, g.document"
    " FROM token_keys k LEFT JOIN principals p ON p.user_id = ?"
    " LEFT JOIN client_credentials c ON c.user_id = p.user_id AND c.client_id = ?"
    " LEFT JOIN principal_policies g ON g.principal = p.name"
    " WHERE k.id = ? ORDER BY g.kind, g.name"
)

_decode_claims: Final = msgspec.json.Decoder(TokenClaims).decode


@dataclass(frozen=True, slots=True)
class VerifiedToken:
    """A valid token and its principal."""

    claims: TokenClaims
    principal: Principal


@dataclass(frozen=True, slots=True)
class _Signed:
    """A token whose signature was verified with this key."""

    key_id: str
    public: bytes
    claims: TokenClaims


class TokenVerifier:
    """Verifies tokens of all servers on the metadata store."""

    def __init__(
        self,
        store: MetaStore,
        access_keys: AccessKeys,
        master: MasterKeys,
        clock: Clock,
        *,
        issuer: str,
    ) -> None:
        self._store = store
        self._access_keys = access_keys
        self._master = master
        self._clock = clock
        self._issuer = issuer
        self._grants = CallerGrants(store)
        self._signed: ValidatedCache[None, _Signed] = ValidatedCache(4096)
        self._callers: ValidatedCache[list[Row], Principal] = ValidatedCache(4096)

    async def verify(self, token: Secret) -> VerifiedToken:
        """The claims and principal. Raises Unauthenticated, CredentialsExpired, CredentialsRevoked."""
        text = token.reveal()
        signed, rows = await self._open(text)
        claims = signed.claims
        now_ms = self._clock.now_ms()
        if now_ms >= claims.exp * 1000:
            raise CredentialsExpired("the token has expired")
        if now_ms < (claims.nbf - _SKEW_SECONDS) * 1000:
            raise invalid_token()
        generation, has_secondary, number, rotate_only = rows[0][3:7]
        if generation is None:
            return VerifiedToken(claims, await self._by_access_key(claims, number))
        if not claims.gen.isdecimal() or not is_accepted(
            int(claims.gen), generation, has_secondary=bool(has_secondary)
        ):
            raise CredentialsRevoked("the client secret of the token was replaced")
        cached = self._callers.get(text, rows)
        if cached is None:
            user = user_from(rows[0][7:12])
            if not user.enabled:
                raise CredentialsRevoked("the user is disabled")
            key = client_key(claims.client_id, claims.gen)
            caller = principal_from(user, (row[12:] for row in rows), key)
            # Only for this generation: an administrator knows the first secret, and only the user the next one.
            caller = replace(caller, must_rotate=int(claims.gen) == rotate_only)
            cached = self._callers.put(text, rows, await self._activated(caller, claims, number))
        return VerifiedToken(claims, cached)

    async def principal(self, token: Secret) -> Principal:
        """The principal. Raises like `verify`."""
        return (await self.verify(token)).principal

    async def signed_claims(self, token: Secret) -> TokenClaims:
        """The claims of a token that this server signed, even if expired or revoked. Raises Unauthenticated."""
        return (await self._open(token.reveal()))[0].claims

    async def _open(self, text: str) -> tuple[_Signed, list[Row]]:
        """Verify the signature. Returns the claims and the rows of the key, user and credentials."""
        signed = self._signed.get(text, None)
        if signed is not None:
            rows = await self._rows(signed.key_id, signed.claims)
            if signed.public == rows[0][1]:
                return signed, rows
            raise invalid_token()
        unverified = read_unverified(text)
        header = unverified.header
        if header.typ != TOKEN_TYPE or header.alg != ALGORITHM or not header.kid:
            raise invalid_token()
        claimed = _claims(unverified.payload)
        rows = await self._rows(header.kid, claimed)
        algorithm, public = rows[0][:2]
        claims = _claims(verified_payload(text, public_key(public), algorithm))
        if claims.iss != self._issuer or claims.aud != self._issuer:
            raise invalid_token()
        return self._signed.put(text, None, _Signed(header.kid, public, claims)), rows

    async def _rows(self, key_id: str, claims: TokenClaims) -> list[Row]:
        if "\0" in key_id or "\0" in claims.sub or "\0" in claims.client_id:
            # Metadata stores do not accept NUL.
            raise invalid_token()
        rows = await self._store.rows(_LOOKUP, claims.sub, claims.client_id, key_id)
        if not rows:
            raise invalid_token()
        expires_ms = rows[0][2]
        if expires_ms is not None and self._clock.now_ms() >= expires_ms:
            raise CredentialsExpired("the token has expired")
        return rows

    async def _activated(self, caller: Principal, claims: TokenClaims, number: int | None) -> Principal:
        """The caller with the grants of the roles that the token activates.

        A token of root with named roles has only their grants and is not root.
        """
        roles = parse_scope(claims.scope).roles
        if caller.is_root:
            if roles is None:
                return caller
            # Root is in no table, so the number was not read above.
            row = await self._store.row(LATEST_CHANGE)
            number = None if row is None else row[0]
        return replace(
            caller,
            is_root=False,
            grants=await self._grants.of(caller.name, number, roles),
            activated=None if roles is None else ActivatedRoles(roles),
        )

    async def _by_access_key(self, claims: TokenClaims, number: int | None) -> Principal:
        """The principal of a token that was issued for an access key."""
        try:
            credential = await self._access_keys.lookup(claims.client_id)
        except CredentialsExpired:
            raise
        except Unauthenticated as error:
            raise CredentialsRevoked("the access key of the token is disabled or deleted") from error
        if credential.principal.user_id != claims.sub or not is_generation(
            self._master, claims.gen, claims.client_id, credential.secret
        ):
            raise CredentialsRevoked("the access key of the token has another secret")
        return await self._activated(credential.principal, claims, number)


def _claims(payload: bytes) -> TokenClaims:
    try:
        return _decode_claims(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise invalid_token() from error
