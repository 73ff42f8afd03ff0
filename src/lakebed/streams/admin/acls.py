"""Fluss ACLs, stored as grants (ADR 31).

resource   CLUSTER → all streams, DATABASE → a database, TABLE → `database.table`; `*` is any of its kind
principal  `User` is a user by name, `*` for any; `Role` is a principal role
operation  READ WRITE CREATE DROP ALTER DESCRIBE ALL, each a privilege
host       only `*`: policies have conditions for addresses
permission only ALLOW: what is not granted is denied, and explicit denials are in policies
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.governance.rbac.privileges import Privilege
from lakebed.governance.rbac.securables import ANY_NAME, stream_key
from lakebed.governance.rbac.stream_grants import GranteeKind, StreamGrant, StreamGrants
from lakebed.objects.model import Caller

from ..authorization import StreamAuthorizer, StreamOperation
from ..names import check_database_name, check_table_name

__all__ = ["CLUSTER", "Acl", "AclFilter", "Acls", "Permission", "ResourceType", "acl_of", "grant_of"]

CLUSTER: Final = "fluss-cluster"
"""The cluster's name in ACLs."""


class ResourceType(IntEnum):
    """The kind of resource of an ACL, by the protocol's number."""

    ANY = 1
    CLUSTER = 2
    DATABASE = 3
    TABLE = 4


class AclOperation(IntEnum):
    """The operation of an ACL, by the protocol's number."""

    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DROP = 6
    ALTER = 7
    DESCRIBE = 8


class Permission(IntEnum):
    """The effect of an ACL, by the protocol's number."""

    ANY = 1
    ALLOW = 2


_PRIVILEGES: Final[Mapping[AclOperation, Privilege]] = {
    AclOperation.ALL: Privilege.STREAM_ALL,
    AclOperation.READ: Privilege.STREAM_READ,
    AclOperation.WRITE: Privilege.STREAM_WRITE,
    AclOperation.CREATE: Privilege.STREAM_CREATE,
    AclOperation.DROP: Privilege.STREAM_DROP,
    AclOperation.ALTER: Privilege.STREAM_ALTER,
    AclOperation.DESCRIBE: Privilege.STREAM_DESCRIBE,
}
_OPERATIONS: Final = {privilege: operation for operation, privilege in _PRIVILEGES.items()}


class Acl(NamedTuple):
    """An ACL, as clients send it."""

    resource_name: str
    resource_type: int
    principal_name: str
    principal_type: str
    host: str
    operation: int
    permission: int


class AclFilter(NamedTuple):
    """A filter of ACLs: None and ANY match any value."""

    resource_name: str | None = None
    resource_type: int = ResourceType.ANY
    principal_name: str | None = None
    principal_type: str | None = None
    host: str | None = None
    operation: int = AclOperation.ANY
    permission: int = Permission.ANY

    def matches(self, acl: Acl) -> bool:
        """Whether the ACL matches."""
        return (
            self.resource_name in (None, acl.resource_name)
            and self.resource_type in (ResourceType.ANY, acl.resource_type)
            and self.principal_name in (None, acl.principal_name)
            and self.principal_type in (None, acl.principal_type)
            and self.host in (None, acl.host)
            and self.operation in (AclOperation.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
        )


def grant_of(acl: Acl) -> StreamGrant:
    """The grant of an ACL. Error codes: INVALID_CONFIG, INVALID_DATABASE, INVALID_TABLE."""
    if acl.permission != Permission.ALLOW:
        raise _invalid(f"only ALLOW is supported in ACLs: deny with a policy. permission={acl.permission}")
    if acl.host != ANY_NAME:
        raise _invalid(f"only host * is supported in ACLs: restrict addresses with a policy. host={acl.host}")
    privilege = _PRIVILEGES.get(AclOperation(acl.operation)) if acl.operation in tuple(AclOperation) else None
    if privilege is None:
        raise _invalid(f"unsupported ACL operation. operation={acl.operation}")
    try:
        kind = GranteeKind(acl.principal_type.capitalize())
    except ValueError:
        raise _invalid(f"expected a User or a Role. principal_type={acl.principal_type}") from None
    return StreamGrant(kind, acl.principal_name, _key(acl.resource_type, acl.resource_name), privilege)


def acl_of(grant: StreamGrant) -> Acl | None:
    """The ACL of a grant; None if no ACL expresses it."""
    operation = _OPERATIONS.get(grant.privilege)
    if operation is None:
        return None
    _, _, path = grant.securable.partition(" ")
    if not path:
        kind, name = ResourceType.CLUSTER, CLUSTER
    elif "." not in path:
        kind, name = ResourceType.DATABASE, path
    else:
        kind, name = ResourceType.TABLE, ANY_NAME if path == f"{ANY_NAME}.{ANY_NAME}" else path
    return Acl(name, kind, grant.name, grant.kind, ANY_NAME, operation, Permission.ALLOW)


class Acls:
    """Creates, lists and drops ACLs."""

    def __init__(self, authorizer: StreamAuthorizer, grants: StreamGrants) -> None:
        self._authorizer = authorizer
        self._grants = grants

    async def authorize(self, caller: Caller, *, to_change: bool) -> None:
        """Return if the caller may list ACLs, or change them. Raises AccessDenied."""
        operation = StreamOperation.ALTER if to_change else StreamOperation.DESCRIBE
        await self._authorizer.authorize(caller, operation)

    async def create(self, caller: Caller, acl: Acl) -> None:
        """Create an ACL for an authorized caller. Idempotent. Error codes: as `grant_of`. Raises NoSuchPrincipal."""
        await self._grants.add(grant_of(acl), caller.principal)

    async def matching(self, filter_: AclFilter) -> list[Acl]:
        """The ACLs that match, for an authorized caller."""
        return [acl for acl in map(acl_of, await self._grants.all()) if acl is not None and filter_.matches(acl)]

    async def drop(self, caller: Caller, filter_: AclFilter) -> list[Acl]:
        """Drop the ACLs that match, all or none, for an authorized caller; the dropped ones."""
        dropped = await self._grants.remove([grant_of(acl) for acl in await self.matching(filter_)], caller.principal)
        return [acl for acl in map(acl_of, dropped) if acl is not None]


def _key(resource_type: int, name: str) -> str:
    if resource_type == ResourceType.CLUSTER:
        return stream_key()
    if resource_type == ResourceType.DATABASE:
        if name != ANY_NAME:
            check_database_name(name)
        return stream_key(name)
    if resource_type != ResourceType.TABLE:
        raise _invalid(f"unsupported ACL resource type. resource_type={resource_type}")
    if name == ANY_NAME:
        return stream_key(ANY_NAME, ANY_NAME)
    database, _, table = name.partition(".")
    check_database_name(database)
    check_table_name(table)
    return stream_key(database, table)


def _invalid(message: str) -> FlussError:
    return FlussError(ErrorCode.INVALID_CONFIG, message)
