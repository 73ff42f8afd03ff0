"""SASL PLAIN: a name and a secret in one message, and who that proves to be."""

from __future__ import annotations

from typing import Final, Protocol

from lakebed.core.access import Principal
from lakebed.core.secrets import Secret
from lakebed.fluss.errors import ErrorCode, FlussError

__all__ = ["Proof", "SaslAuthenticator", "read_plain"]

_PARTS: Final = 3  # who to act for, which we leave aside; who it is; the secret


class Proof(Protocol):
    """What was shown once, and may be asked again whether it still holds."""

    async def principal(self) -> Principal:
        """Who it is, with the rights of now. Raises Unauthenticated if the secret is not good any more."""
        ...


class SaslAuthenticator(Protocol):
    """Who establishes callers by a name and a secret."""

    async def authenticate(self, name: str, secret: Secret, address: str) -> Proof:
        """Raises Unauthenticated, which does not say what was wrong; CredentialsExpired for the right secret of a key
        that has expired; Throttled after too many mistakes.
        """
        ...


def read_plain(token: bytes) -> tuple[str, Secret]:
    """The name and the secret. Raises AUTHENTICATE for what is not of this form."""
    parts = token.split(b"\0")
    try:
        if len(parts) != _PARTS or not parts[1]:
            raise ValueError
        return parts[1].decode(), Secret(parts[2].decode())
    except ValueError:
        raise FlussError(ErrorCode.AUTHENTICATE, "the message is not of SASL PLAIN") from None
