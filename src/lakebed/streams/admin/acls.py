"""ACLs, in the words of clients of streams, as the grants that they are (ADR 31).

resource   CLUSTER → all streams, DATABASE → a database, TABLE → `database.table`; `*` is any of its kind
principal  `User` is a user by name, `*` for any; `Role` is a principal role
operation  READ WRITE CREATE DROP ALTER DESCRIBE ALL, each a privilege
host       `*` alone: where somebody calls from is what policies ask
permission ALLOW alone: what is not granted is refused, and denials are those of policies
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
"""What clients call all streams."""


class ResourceType(IntEnum):
    """What an ACL is on, by the protocol's number."""

    ANY = 1
    CLUSTER = 2
    DATABASE = 3
    TABLE = 4


class AclOperation(IntEnum):
    """What an ACL allows, by the protocol's number."""

    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DROP = 6
    ALTER = 7
    DESCRIBE = 8


class Permission(IntEnum):
    """Whether it allows, by the protocol's number."""

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
    """One of them, as clients write it."""

    resource_name: str
    resource_type: int
    principal_name: str
    principal_type: str
    host: str
    operation: int
    permission: int


class AclFilter(NamedTuple):
    """What of ACLs is meant: None and ANY are any."""

    resource_name: str | None = None
    resource_type: int = ResourceType.ANY
    principal_name: str | None = None
    principal_type: str | None = None
    host: str | None = None
    operation: int = AclOperation.ANY
    permission: int = Permission.ANY

    def matches(self, acl: Acl) -> bool:
        """Whether it is meant."""
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
    """The grant that an ACL is. Error codes: INVALID_CONFIG, INVALID_DATABASE, INVALID_TABLE."""
    if acl.permission != Permission.ALLOW:
        raise _refused(f"an ACL allows: denials are those of policies. permission={acl.permission}")
    if acl.host != ANY_NAME:
        raise _refused(f"an ACL is for all hosts: policies ask where somebody calls from. host={acl.host}")
    privilege = _PRIVILEGES.get(AclOperation(acl.operation)) if acl.operation in tuple(AclOperation) else None
    if privilege is None:
        raise _refused(f"no operation that an ACL allows. operation={acl.operation}")
    try:
        kind = GranteeKind(acl.principal_type.capitalize())
    except ValueError:
        raise _refused(f"a principal is a User or a Role. principal_type={acl.principal_type}") from None
    return StreamGrant(kind, acl.principal_name, _key(acl.resource_type, acl.resource_name), privilege)


def acl_of(grant: StreamGrant) -> Acl | None:
    """The ACL that a grant is; None if there is no word for it."""
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
    """The use cases of ACLs."""

    def __init__(self, authorizer: StreamAuthorizer, grants: StreamGrants) -> None:
        self._authorizer = authorizer
        self._grants = grants

    async def admit(self, caller: Caller, *, to_change: bool) -> None:
        """Return if the caller may see ACLs, or change them. Raises AccessDenied."""
        operation = StreamOperation.ALTER if to_change else StreamOperation.DESCRIBE
        await self._authorizer.authorize(caller, operation)

    async def create(self, caller: Caller, acl: Acl) -> None:
        """Let one hold, for who was admitted. Idempotent. Error codes: those of `grant_of`. Raises NoSuchPrincipal."""
        await self._grants.add(grant_of(acl), caller.principal)

    async def matching(self, meant: AclFilter) -> list[Acl]:
        """Those that hold and are meant, for who was admitted."""
        return [acl for acl in map(acl_of, await self._grants.all()) if acl is not None and meant.matches(acl)]

    async def drop(self, caller: Caller, meant: AclFilter) -> list[Acl]:
        """End those that are meant, all at once, for who was admitted; which they were."""
        gone = await self._grants.remove([grant_of(acl) for acl in await self.matching(meant)], caller.principal)
        return [acl for acl in map(acl_of, gone) if acl is not None]


def _key(resource_type: int, name: str) -> str:
    if resource_type == ResourceType.CLUSTER:
        return stream_key()
    if resource_type == ResourceType.DATABASE:
        if name != ANY_NAME:
            check_database_name(name)
        return stream_key(name)
    if resource_type != ResourceType.TABLE:
        raise _refused(f"no kind of resource that an ACL is on. resource_type={resource_type}")
    if name == ANY_NAME:
        return stream_key(ANY_NAME, ANY_NAME)
    database, _, table = name.partition(".")
    check_database_name(database)
    check_table_name(table)
    return stream_key(database, table)


def _refused(message: str) -> FlussError:
    return FlussError(ErrorCode.INVALID_CONFIG, message)
