"""Values of tokens: client credentials, what a token says, and what is handed out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import msgspec

from lakebed.core.access import LongLivedKey
from lakebed.core.secrets import Secret

MAX_TOKEN_CHARS: Final = 16 * 1024
"""Longest token that is looked at. Those of providers carry groups, ours do not."""

MAX_LIFETIME_SECONDS: Final = 86_400
"""Longest lifetime of a token, whatever the settings say: a retired key verifies for as long."""


@dataclass(frozen=True, slots=True)
class ClientCredentialInfo:
    """A user's client credentials, without their secrets."""

    client_id: str
    user_id: str
    generation: int
    """The number of the present secret."""
    has_secondary: bool
    """Whether the secret before it is accepted too."""
    created_ms: int
    rotated_ms: int

    def accepts(self, generation: int) -> bool:
        """Whether a secret of that number is still good, and with it the tokens that it was given for."""
        return is_accepted(generation, self.generation, has_secondary=self.has_secondary)


@dataclass(frozen=True, slots=True)
class NewClientCredentials:
    """Client credentials just made, rotated or reset: the only time that the secret is shown."""

    client_id: str
    secret: Secret


@dataclass(frozen=True, slots=True)
class HashedSecret:
    """A secret and its hash, made before the transaction that stores it: hashing takes its time."""

    secret: Secret
    hash: str


@dataclass(frozen=True, slots=True)
class AuthenticatedClient:
    """Who has proved to be somebody by a client id and its secret."""

    client_id: str
    user_id: str
    generation: str
    """Which of the client's secrets it was: what a token is bound to."""


class TokenClaims(msgspec.Struct, frozen=True, kw_only=True):
    """What one of our tokens says."""

    iss: str
    aud: str
    sub: str
    """The user's id, which is never used again, unlike the name."""
    client_id: str
    gen: str
    """The generation of the secret that it was given for."""
    scope: str
    iat: int
    nbf: int
    exp: int
    auth_time: int
    """When the secret was shown; kept when a token is exchanged."""
    jti: str


@dataclass(frozen=True, slots=True)
class IssuedToken:
    """A token for who asked."""

    token: Secret
    scope: str
    expires_in: int
    """Seconds that it is good."""


def is_accepted(number: int, present: int, *, has_secondary: bool) -> bool:
    """Whether the secret of that number is the present one, or the one before it where that is kept."""
    return number == present or (has_secondary and number == present - 1)


def client_key(client_id: str, generation: str) -> LongLivedKey:
    """What sessions are bound to that a caller makes who came with a token of these credentials.

    No access key has a slash in its id, so neither is taken for the other.
    """
    return LongLivedKey(f"client/{client_id}/{generation}", created_ms=0)


def user_key(user_id: str) -> LongLivedKey:
    """What sessions are bound to of a caller who came with a token of another provider."""
    return LongLivedKey(f"user/{user_id}", created_ms=0)
