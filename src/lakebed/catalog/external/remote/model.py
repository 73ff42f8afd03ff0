"""The address of an external catalog and how this server authenticates to it; secrets are separate.

One model for federated catalogs and bridges.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

import msgspec

from lakebed.core.secrets import Secret
from lakebed.governance.credentials.vault import Vault


class AuthKind(StrEnum):
    """How this server authenticates to an external catalog."""

    NONE = "none"
    BEARER = "bearer"
    OAUTH = "oauth"
    """Client credentials (RFC 6749 §4.4)."""
    SIGV4 = "sigv4"


class RemoteAuth(msgspec.Struct, frozen=True, kw_only=True):
    """Authentication without the secrets. Stored in rows: new fields need defaults."""

    kind: AuthKind = AuthKind.NONE
    access_key_id: str = ""
    region: str = ""
    service: str = ""
    role_arn: str = ""
    """A role to assume with the server's own AWS credentials, instead of an access key."""
    role_session_name: str = ""
    external_id: str = ""
    session_policy: str = ""
    client_id: str = ""
    token_uri: str = ""
    """The token endpoint; empty for the one that the Iceberg REST specification puts under the catalog's URI."""
    scopes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RemoteSecrets:
    """Credentials for an external catalog. Never returned, stored encrypted."""

    token: Secret = field(default=Secret(""), repr=False)
    secret_access_key: Secret = field(default=Secret(""), repr=False)
    session_token: Secret = field(default=Secret(""), repr=False)
    client_secret: Secret = field(default=Secret(""), repr=False)

    def __bool__(self) -> bool:
        return any(self._all())

    def sealed(self, vault: Vault, revision: str) -> bytes | None:
        """Encrypted for a row; None without secrets. Bound to the unique revision of a configuration: names change."""
        packed = msgspec.msgpack.encode([secret.reveal() for secret in self._all()])
        return vault.seal(packed, revision.encode()) if self else None

    @classmethod
    def opened(cls, vault: Vault, sealed: bytes | None, revision: str) -> RemoteSecrets:
        """Decrypted from a row. Older rows hold fewer secrets. Raises Corrupted."""
        if sealed is None:
            return NO_SECRETS
        return cls(*map(Secret, msgspec.msgpack.decode(vault.open(sealed, revision.encode()), type=list[str])))

    def _all(self) -> tuple[Secret, ...]:
        return self.token, self.secret_access_key, self.session_token, self.client_secret


NO_SECRETS: Final = RemoteSecrets()


@dataclass(frozen=True, slots=True)
class RemoteAddress:
    """The address of an external catalog."""

    uri: str
    warehouse: str = ""
    """The `warehouse` parameter of its configuration request; empty for none."""
