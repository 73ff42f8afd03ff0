"""Client credentials, token claims and issued tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import msgspec

from lakebed.core.access import LongLivedKey
from lakebed.core.secrets import Secret

MAX_TOKEN_CHARS: Final = 16 * 1024
"""Longest accepted token. Tokens of providers can contain many groups."""

MAX_LIFETIME_SECONDS: Final = 86_400
"""Upper limit of the token lifetime setting. Retired keys verify for as long."""


@dataclass(frozen=True, slots=True)
class ClientCredentialInfo:
    """A user's client credentials, without their secrets."""

    client_id: str
    user_id: str
    generation: int
    """The number of the current secret."""
    has_secondary: bool
    """Whether the previous secret is accepted too."""
    created_ms: int
    rotated_ms: int

    def accepts(self, generation: int) -> bool:
        """Whether the secret of that generation is valid, and tokens issued for it."""
        return is_accepted(generation, self.generation, has_secondary=self.has_secondary)


@dataclass(frozen=True, slots=True)
class NewClientCredentials:
    """Created, rotated or reset client credentials with the secret, which is returned only once."""

    client_id: str
    secret: Secret


@dataclass(frozen=True, slots=True)
class HashedSecret:
    """A secret and its hash, computed before the transaction that stores it because hashing is slow."""

    secret: Secret
    hash: str


@dataclass(frozen=True, slots=True)
class AuthenticatedClient:
    """A client that authenticated with its id and secret."""

    client_id: str
    user_id: str
    generation: str
    """The generation of the secret, which tokens are bound to."""


class TokenClaims(msgspec.Struct, frozen=True, kw_only=True):
    """The claims of the server's own tokens."""

    iss: str
    aud: str
    sub: str
    """The user id, which is never reused, unlike the name."""
    client_id: str
    gen: str
    """The generation of the secret that the token was issued for."""
    scope: str
    iat: int
    nbf: int
    exp: int
    auth_time: int
    """When the secret was presented; token exchange keeps it."""
    jti: str


@dataclass(frozen=True, slots=True)
class IssuedToken:
    """An issued access token."""

    token: Secret
    scope: str
    expires_in: int
    """Lifetime in seconds."""


def is_accepted(number: int, current: int, *, has_secondary: bool) -> bool:
    """Whether this is the generation of the current secret, or of the previous one if that is kept."""
    return number == current or (has_secondary and number == current - 1)


def client_key(client_id: str, generation: str) -> LongLivedKey:
    """The parent key of sessions that are requested with a token of these client credentials.

    Access key ids contain no slash, so the two cannot be confused.
    """
    return LongLivedKey(f"client/{client_id}/{generation}", created_ms=0)


def user_key(user_id: str) -> LongLivedKey:
    """The parent key of sessions that are requested with a token of an identity provider."""
    return LongLivedKey(f"user/{user_id}", created_ms=0)
