"""SASL PLAIN: a user name and a secret in one message, and the principal that they authenticate."""

from __future__ import annotations

from typing import Final, Protocol

from lakebed.core.access import Principal
from lakebed.core.secrets import Secret
from lakebed.fluss.errors import ErrorCode, FlussError

__all__ = ["Proof", "SaslAuthenticator", "read_plain"]

_PARTS: Final = 3  # authorization identity (ignored), user name, secret


class Proof(Protocol):
    """A successful authentication that can be checked again."""

    async def principal(self) -> Principal:
        """The principal with its current permissions. Raises Unauthenticated if the secret is no longer valid."""
        ...


class SaslAuthenticator(Protocol):
    """Authenticates callers by user name and secret."""

    async def authenticate(self, name: str, secret: Secret, address: str) -> Proof:
        """Check a secret. Raises Unauthenticated without details; CredentialsExpired for the correct secret of an
        expired key; Throttled after too many failures.
        """
        ...


def read_plain(token: bytes) -> tuple[str, Secret]:
    """The user name and the secret. Raises AUTHENTICATE for a malformed token."""
    parts = token.split(b"\0")
    try:
        if len(parts) != _PARTS or not parts[1]:
            raise ValueError
        return parts[1].decode(), Secret(parts[2].decode())
    except ValueError:
        raise FlussError(ErrorCode.AUTHENTICATE, "malformed SASL PLAIN token") from None
