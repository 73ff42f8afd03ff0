"""Shared access signatures (SAS) that are limited to a container or directory, to reading or writing, and to a time.

A container without a hierarchical namespace cannot be restricted to a prefix: its SAS covers the whole container.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from ...core.errors import InvalidInput
from ...core.secrets import Secret
from ..cloud.scoped import ScopedToken, check_lifetime, check_scope_prefix

if TYPE_CHECKING:
    from azure.storage.blob import UserDelegationKey

MAX_LIFETIME: Final = timedelta(days=7)
"""Azure's limit for keys of an identity, from the start of the validity; applied to account keys too."""

CLOCK_SKEW: Final = timedelta(minutes=15)
"""How far the start of the validity is in the past, as Azure recommends."""

READ_PERMISSIONS: Final = "rl"
WRITE_PERMISSIONS: Final = "racwdl"
"""Read, add, create, write, delete, list: in the order that Azure requires."""


@dataclass(frozen=True, slots=True)
class SasScope:
    """What a SAS permits."""

    container: str
    prefix: str
    """Key prefix with `/` at its end. Only a hierarchical namespace can enforce it."""

    hierarchical: bool
    write: bool
    """Also add, create, write and delete."""

    def __post_init__(self) -> None:
        if self.hierarchical or self.prefix:
            check_scope_prefix(self.prefix)

    @property
    def directory(self) -> str | None:
        """The directory that the SAS is limited to; None for the whole container."""
        return self.prefix[:-1] if self.hierarchical else None

    @property
    def permissions(self) -> str:
        """The permissions in Azure's letters."""
        return WRITE_PERMISSIONS if self.write else READ_PERMISSIONS


@dataclass(frozen=True, slots=True)
class SasValidity:
    """Start and expiry, in UTC."""

    start: datetime
    expiry: datetime

    @property
    def expires_ms(self) -> int:
        """The expiry in milliseconds since the epoch."""
        return round(self.expiry.timestamp() * 1000)


def sas_validity(now_ms: int, lifetime_seconds: float) -> SasValidity:
    """The validity from now, in whole seconds. A longer lifetime than Azure's limit is shortened to it."""
    check_lifetime(lifetime_seconds)
    now = datetime.fromtimestamp(now_ms // 1000, UTC)
    start = now - CLOCK_SKEW
    limit = start + MAX_LIFETIME
    seconds = min(int(lifetime_seconds), int(MAX_LIFETIME.total_seconds()))
    return SasValidity(start, min(now + timedelta(seconds=max(seconds, 1)), limit))


def signed_sas(
    scope: SasScope,
    account: str,
    key: Secret | UserDelegationKey,
    validity: SasValidity,
    *,
    https_only: bool = True,
) -> ScopedToken:
    """A SAS signed with the account key, or with a user delegation key. Needs the extra `azure`."""
    from azure.storage.blob import generate_blob_sas, generate_container_sas

    if isinstance(key, Secret):
        account_key, delegation_key = key.reveal(), None
    else:
        account_key, delegation_key = None, key
        _check_delegation_key(delegation_key, validity)
    protocol = "https" if https_only else "https,http"
    if scope.directory is None:
        token = generate_container_sas(
            account,
            scope.container,
            account_key=account_key,
            user_delegation_key=delegation_key,
            permission=scope.permissions,
            start=validity.start,
            expiry=validity.expiry,
            protocol=protocol,
        )
    else:
        token = generate_blob_sas(
            account,
            scope.container,
            scope.directory,
            account_key=account_key,
            user_delegation_key=delegation_key,
            permission=scope.permissions,
            start=validity.start,
            expiry=validity.expiry,
            protocol=protocol,
            is_directory=True,
        )
    return ScopedToken(Secret(token), validity.expires_ms)


def _check_delegation_key(key: UserDelegationKey, validity: SasValidity) -> None:
    """Raise InvalidInput if the key expires before the SAS: engines would see failures before the stated expiry."""
    expiry = datetime.fromisoformat(str(key.signed_expiry))
    if expiry < validity.expiry:
        raise InvalidInput(f"user delegation key expires before the SAS. key={expiry} sas={validity.expiry}")
