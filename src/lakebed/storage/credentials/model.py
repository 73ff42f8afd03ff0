"""Credentials, and the protocols of their sources and providers."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

from ...core.errors import Unavailable
from ...core.secrets import Secret


@dataclass(frozen=True, slots=True, repr=False)
class Credentials:
    """Immutable credentials. A signature uses one value, so a refresh never mixes old and new keys."""

    access_key_id: str
    secret_access_key: Secret
    session_token: Secret | None = None
    expires_ms: int | None = None
    """Expiry in milliseconds since the epoch; None for permanent keys."""

    source: str = field(default="", compare=False)
    """Name of the source, for logs."""

    def __repr__(self) -> str:
        # Enough to distinguish credentials in a log, not enough to use them.
        return f"<credentials from {self.source or 'unknown'}: {self.access_key_id[:8]}…>"


class CredentialSource(Protocol):
    """A source of credentials. Every refresh loads it again."""

    @property
    def name(self) -> str:
        """Its name in logs and errors."""
        ...

    @property
    def survives_outage(self) -> bool:
        """Whether expired credentials stay in use while the source cannot return new ones."""
        ...

    async def load(self) -> Credentials | None:
        """Current credentials; None if this source does not apply.

        A source that applies but fails raises: InvalidSetting (incomplete configuration), NotSupported, Unauthenticated
        or AccessDenied (rejected), Throttled, Unavailable.
        """
        ...


class CredentialProvider(Protocol):
    """Provides credentials to a signer, before each signature."""

    async def credentials(self, rejected: Credentials | None = None) -> Credentials:
        """Valid credentials; never `rejected`, which a store reported as expired.

        Raises CredentialsExpired if there are none newer than `rejected`, else as `CredentialSource.load`.
        """
        ...

    async def close(self) -> None:
        """Stop refreshing."""
        ...


def parse_expiry(text: str, source: str) -> int:
    """Parse an ISO 8601 time to milliseconds since the epoch. Times without a zone are UTC, as in AWS responses."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise Unavailable(f"credentials have an invalid expiry. source={source}") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)
