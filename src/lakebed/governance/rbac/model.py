"""Principals, roles, catalogs and grants of the management API, and their name rules."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec

from lakebed.core.errors import InvalidInput, InvalidName, PreconditionFailed

from .privileges import GrantKind, Privilege

SERVICE_ADMIN: Final = "service_admin"
"""The principal role that manages access to the service. Root has it from the first start."""

CATALOG_ADMIN: Final = "catalog_admin"
"""The role of every catalog that manages its access and metadata. `service_admin` has it."""

ROOT: Final = "root"
"""Root is configured in the settings and has no row."""

LEVEL_SEPARATOR: Final = "\x1f"
"""Separates the levels of a namespace in its row."""

MAX_NAME_CHARS: Final = 256
MAX_PROPERTIES: Final = 256
MAX_PROPERTIES_BYTES: Final = 64 * 1024

_FORBIDDEN: Final = frozenset('/\\:*?"<>#+|`')
_SYSTEM: Final = re.compile(r"\s*system\$", re.IGNORECASE)

Properties = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ManagedPrincipal:
    """A principal of the management API."""

    name: str
    client_id: str | None
    """None without client credentials."""
    properties: Properties
    version: int
    """Incremented with every change of the properties."""
    created_ms: int | None
    updated_ms: int | None
    """None for root."""


@dataclass(frozen=True, slots=True)
class PrincipalRole:
    """A role that is assigned to principals."""

    id: int
    name: str
    federated: bool
    """Whether the identity provider assigns it: then it cannot be assigned here."""
    properties: Properties
    version: int
    created_ms: int
    updated_ms: int


@dataclass(frozen=True, slots=True)
class CatalogRole:
    """A role of one catalog, with privileges. It is assigned to principal roles."""

    id: int
    name: str
    properties: Properties
    version: int
    created_ms: int
    updated_ms: int


@dataclass(frozen=True, slots=True)
class ManagedCatalog:
    """A catalog of the management API."""

    id: int
    name: str
    owner: str
    """The account that owns its bucket."""
    region: str
    bucket: str
    base_prefix: str
    """The directory of its files in the bucket, with a final slash; empty for the entire bucket."""
    allowed: tuple[str, ...]
    """Further directories of the bucket where tables may be."""
    kind: str
    """INTERNAL or EXTERNAL."""
    properties: Properties
    version: int
    """Incremented with every change."""
    created_ms: int
    updated_ms: int

    @property
    def base_location(self) -> str:
        """The directory of its files."""
        return f"s3://{self.bucket}/{self.base_prefix}"

    @property
    def allowed_locations(self) -> list[str]:
        """The directories where tables may be."""
        return [self.base_location, *(f"s3://{self.bucket}/{directory}" for directory in self.allowed)]

    @property
    def arn(self) -> str:
        """The catalog's ARN."""
        return f"arn:aws:s3tables:{self.region}:{self.owner}:bucket/{self.name}"


def levels_of(path: str) -> tuple[str, ...]:
    """The levels of a namespace, from its row."""
    return tuple(path.split(LEVEL_SEPARATOR))


class GrantTarget(NamedTuple):
    """The securable of a grant, by name."""

    kind: GrantKind
    namespace: tuple[str, ...] = ()
    name: str = ""
    """Of the table, view or policy."""

    def __str__(self) -> str:
        path = ".".join((*self.namespace, self.name) if self.name else self.namespace)
        return f"{self.kind} {path}" if path else str(self.kind)

    def contains(self, other: GrantTarget) -> bool:
        """Whether `other` is the same or inside it."""
        if self.kind is GrantKind.CATALOG or self == other:
            return True
        return self.kind is GrantKind.NAMESPACE and other.namespace[: len(self.namespace)] == self.namespace


class RoleGrant(NamedTuple):
    """A privilege granted to a catalog role."""

    target: GrantTarget
    privilege: Privilege


def check_role_name(name: str) -> str:
    """Return a name that is valid for a role or a catalog. Raises InvalidName."""
    if not 1 <= len(name) <= MAX_NAME_CHARS or name in (".", "..") or name != name.strip():
        raise _refused(f"a name has 1 to {MAX_NAME_CHARS} characters and no blank at its ends", name)
    if any(character in _FORBIDDEN or not character.isprintable() for character in name):
        raise _refused(f"a name has no control character and none of {' '.join(sorted(_FORBIDDEN))}", name)
    if _SYSTEM.match(name):
        raise _refused("names that begin with system$ are reserved", name)
    return name


def check_principal_role_name(name: str) -> str:
    """Return a name that is valid for a principal role. Raises InvalidName."""
    check_role_name(name)
    if " " in name:
        raise _refused("the name of a principal role has no blank: blanks separate scopes in tokens", name)
    if name.upper() == "ALL":
        raise _refused("the name means all roles in scopes of tokens", name)
    return name


def check_properties(properties: Properties) -> dict[str, str]:
    """Return valid properties. Raises InvalidInput."""
    if len(properties) > MAX_PROPERTIES:
        raise InvalidInput(f"too many properties. limit={MAX_PROPERTIES}", argument="properties")
    total = 0
    for key, value in properties.items():
        if not key or "\0" in key or "\0" in value:
            raise InvalidInput("a property has a name and contains no NUL", argument="properties")
        try:
            total += len(key.encode()) + len(value.encode())
        except UnicodeEncodeError as error:
            raise InvalidInput("a property must be valid UTF-8", argument="properties") from error
    if total > MAX_PROPERTIES_BYTES:
        raise InvalidInput(f"properties are too large. limit={MAX_PROPERTIES_BYTES}", argument="properties")
    return dict(properties)


def check_version(found: int, expected: int) -> None:
    """Raise PreconditionFailed unless the versions match."""
    if found != expected:
        raise PreconditionFailed(
            f"the entity has changed: read it again and repeat the update. version={found} expected={expected}",
            condition="currentEntityVersion",
        )


def pack_properties(properties: Properties) -> bytes | None:
    """Properties, encoded for their column."""
    return _encode(dict(properties)) if properties else None


def unpack_properties(packed: bytes | None) -> dict[str, str]:
    """Properties from their column."""
    return {} if packed is None else _decode(packed)


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(dict[str, str]).decode


def unpack_directories(packed: bytes | None) -> tuple[str, ...]:
    """Directories from their column."""
    return () if packed is None else _decode_directories(packed)


_decode_directories = msgspec.msgpack.Decoder(tuple[str, ...]).decode


def _refused(message: str, name: str) -> InvalidName:
    return InvalidName(f"{message}: {name[:80]!r}", argument="name", value=name[:80])
