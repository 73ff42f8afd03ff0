"""Authorization of stream operations, which are those of Fluss ACLs (ADR 31).

In policies the actions are `streams:Read`, `streams:Write` and so on; the resources are `arn:aws:lakebed:::streams`,
`…/DATABASE` and `…/DATABASE/TABLE`. Each operation has a privilege, granted on the resource or on one that contains it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final

from lakebed.core.access import AccessRequest, Authorizer, Principal, ResourceRules
from lakebed.core.errors import AccessDenied
from lakebed.governance.rbac.privileges import Privilege
from lakebed.governance.rbac.securables import stream_securable
from lakebed.objects.model import Caller

__all__ = ["PRIVILEGES", "StreamAuthorizer", "StreamOperation"]

_ARN: Final = "arn:aws:lakebed:::streams"


class StreamOperation(StrEnum):
    """An operation that requires permission."""

    READ = "Read"
    WRITE = "Write"
    CREATE = "Create"
    DROP = "Drop"
    ALTER = "Alter"
    DESCRIBE = "Describe"


PRIVILEGES: Final[Mapping[StreamOperation, Privilege]] = {
    StreamOperation.READ: Privilege.STREAM_READ,
    StreamOperation.WRITE: Privilege.STREAM_WRITE,
    StreamOperation.CREATE: Privilege.STREAM_CREATE,
    StreamOperation.DROP: Privilege.STREAM_DROP,
    StreamOperation.ALTER: Privilege.STREAM_ALTER,
    StreamOperation.DESCRIBE: Privilege.STREAM_DESCRIBE,
}


class StreamAuthorizer:
    """Authorizes operations on streams. Not within a transaction: the authorizer may call an external service."""

    __slots__ = ("_authorizer", "_rules")

    def __init__(self, authorizer: Authorizer, account: str) -> None:
        """`account` is the account of the server's root, which owns all streams."""
        self._authorizer = authorizer
        self._rules = ResourceRules(owner=account)

    async def authorize(self, caller: Caller, operation: StreamOperation, database: str = "", table: str = "") -> None:
        """Return if the caller is allowed the operation on the table, the database or, without a name, all streams.

        Raises AccessDenied, with the same message whether or not the resource exists; Unavailable.
        """
        await self._authorize(caller.principal, operation, database, table, caller.request_id)

    async def _authorize(
        self, principal: Principal, operation: StreamOperation, database: str, table: str, request_id: str = ""
    ) -> None:
        path = (database, table) if table else (database,) if database else ()
        request = AccessRequest(
            principal,
            f"streams:{operation}",
            "/".join((_ARN, *path)),
            securable=stream_securable(database, table),
            privileges=(PRIVILEGES[operation],),
            request_id=request_id,
        )
        await self._authorizer.authorize(request, self._rules)

    async def is_authorized(
        self, caller: Caller, operation: StreamOperation, database: str = "", table: str = ""
    ) -> bool:
        """Whether the caller is allowed the operation; filters listings."""
        try:
            await self._authorize(caller.principal, operation, database, table)
        except AccessDenied:
            return False
        return True

    async def visible_databases(self, caller: Caller, names: Iterable[str]) -> list[str]:
        """The databases that the caller may describe."""
        if await self.is_authorized(caller, StreamOperation.DESCRIBE):
            return list(names)
        return [name for name in names if await self.is_authorized(caller, StreamOperation.DESCRIBE, name)]

    async def visible_tables(self, caller: Caller, database: str, names: Iterable[str]) -> list[str]:
        """The tables of a database that the caller may describe."""
        if await self.is_authorized(caller, StreamOperation.DESCRIBE, database):
            return list(names)
        return [name for name in names if await self.is_authorized(caller, StreamOperation.DESCRIBE, database, name)]
