"""Settings of external storage: object stores of catalogs other than the server's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from ..secrets import Secret
from .kinds import SECONDS, Within


@dataclass(frozen=True, slots=True)
class StorageCredentials:
    """A credential set that storage profiles name as `storageName`."""

    access_key_id: str | None = None
    secret_access_key: Secret | None = None
    session_token: Secret | None = None
    use_chain: bool = False
    """Use the server's own AWS credentials: environment, profile, web identity, container or instance metadata. Every
    principal that may create catalogs can then create one over any bucket that these credentials can access."""


@dataclass(frozen=True, slots=True)
class ExternalStorageSettings:
    """Object stores of catalogs other than the server's own."""

    hosts: tuple[str, ...] = ()
    """Allowed hosts of endpoints in storage profiles: `minio.example:9000`, `*.example`, or `*`. Empty: none, and only
    profiles without an endpoint, for AWS, are accepted."""

    credentials: Mapping[str, StorageCredentials] = field(default_factory=dict)
    """By name: `[external_storage.credentials.NAME]`."""

    default_credentials: str = ""
    """The credential set of profiles without a `storageName`. Empty: they must name one, or a role to assume with the
    server's own AWS credentials."""

    allow_http: bool = False
    """Allow plain HTTP to endpoints on other machines."""

    timeout: Annotated[float, SECONDS, Within(0.1, 600)] = 30.0
    """Timeout of a request to an external object store."""
