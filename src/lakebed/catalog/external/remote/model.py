"""Where another catalog is, and how this server shows there who it is; the secrets apart from it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

import msgspec

from lakebed.core.secrets import Secret


class AuthKind(StrEnum):
    """How this server shows who it is."""

    NONE = "none"
    BEARER = "bearer"
    OAUTH = "oauth"
    """With tokens that it is given for a client's credentials."""
    SIGV4 = "sigv4"


class RemoteAuth(msgspec.Struct, frozen=True, kw_only=True):
    """How this server shows who it is, without the secrets. Of rows: new fields have defaults."""

    kind: AuthKind = AuthKind.NONE
    access_key_id: str = ""
    region: str = ""
    service: str = ""
    role_arn: str = ""
    """A role to be assumed with the server's own credentials, in place of an access key."""
    role_session_name: str = ""
    external_id: str = ""
    session_policy: str = ""
    client_id: str = ""
    token_uri: str = ""
    """Where tokens are given out; empty: where the contract has it, under the catalog's own address."""
    scopes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RemoteSecrets:
    """What opens the other side. Never shown, stored sealed."""

    token: Secret = field(default=Secret(""), repr=False)
    secret_access_key: Secret = field(default=Secret(""), repr=False)
    session_token: Secret = field(default=Secret(""), repr=False)
    client_secret: Secret = field(default=Secret(""), repr=False)

    def __bool__(self) -> bool:
        return any(self._all())

    def packed(self) -> bytes:
        """For the vault."""
        return msgspec.msgpack.encode([secret.reveal() for secret in self._all()])

    @classmethod
    def unpacked(cls, packed: bytes) -> RemoteSecrets:
        """From the vault. What was sealed before there were as many secrets has fewer."""
        return cls(*map(Secret, msgspec.msgpack.decode(packed, type=list[str])))

    def _all(self) -> tuple[Secret, ...]:
        return self.token, self.secret_access_key, self.session_token, self.client_secret


NO_SECRETS: Final = RemoteSecrets()


@dataclass(frozen=True, slots=True)
class RemoteAddress:
    """Where a catalog is."""

    uri: str
    warehouse: str = ""
    """Which of the catalogs that are served there; empty if it does not have to be told."""
