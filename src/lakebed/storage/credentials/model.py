"""Credentials as values: one frozen generation of key, secret and token, and the protocols that hand them out."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

from ...core.errors import Unavailable
from ...core.secrets import Secret


@dataclass(frozen=True, slots=True, repr=False)
class Credentials:
    """One generation of keys. A signature uses one value whole, so a refresh never mixes generations."""

    access_key_id: str
    secret_access_key: Secret
    session_token: Secret | None = None
    expires_ms: int | None = None
    """When they end, in milliseconds since the epoch; None for keys without an end."""

    source: str = field(default="", compare=False)
    """Name of the provider, for logs."""

    def __repr__(self) -> str:
        # Enough to tell generations apart in a log, not enough to use.
        return f"<credentials from {self.source or 'unknown'}: {self.access_key_id[:8]}…>"


class CredentialSource(Protocol):
    """One way to come by credentials. It is asked again, and reads everything again, at every refresh."""

    @property
    def name(self) -> str:
        """Its name in logs and errors."""
        ...

    @property
    def survives_outage(self) -> bool:
        """Whether its keys go on being used past their stated end while it cannot hand out new ones."""
        ...

    async def load(self) -> Credentials | None:
        """Fresh credentials; None if this source does not apply here.

        A source that applies but fails raises: InvalidSetting (incomplete configuration), NotSupported, Unauthenticated
        or AccessDenied (refused), Throttled, Unavailable (cannot be reached).
        """
        ...


class CredentialProvider(Protocol):
    """What a signer asks before each signature."""

    async def credentials(self, rejected: Credentials | None = None) -> Credentials:
        """Credentials that are good now; never `rejected`, which a store has called expired.

        Raises CredentialsExpired when there are none newer than `rejected`, else as `CredentialSource.load`.
        """
        ...

    async def close(self) -> None:
        """Stop refreshing."""
        ...


def parse_expiry(text: str, source: str) -> int:
    """An ISO 8601 time as milliseconds since the epoch. Times without a zone are UTC, as AWS writes them."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise Unavailable(f"credentials with an expiry that is not a time. source={source}") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)
