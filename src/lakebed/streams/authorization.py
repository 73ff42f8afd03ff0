"""The question asked before every call of streams, in the words that their ACLs have for it (ADR 31).

Policies call what is needed `streams:Read`, `streams:Write` and so on, and what it is needed on
`arn:aws:lakebed:::streams`, `…/DATABASE` or `…/DATABASE/TABLE`. Grants have a privilege for each, which they hold on
the same, or on what it lies in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final

from lakebed.core.access import AccessRequest, Authorizer, Principal, ResourceRules
from lakebed.core.errors import AccessDenied
from lakebed.governance.rbac.privileges import Privilege
from lakebed.governance.rbac.securables import stream_securable

__all__ = ["PRIVILEGES", "StreamAuthorizer", "StreamOperation"]

_ARN: Final = "arn:aws:lakebed:::streams"


class StreamOperation(StrEnum):
    """What a call needs."""

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
    """Asks the one authorizer. Not within a transaction: the answer may come from elsewhere."""

    __slots__ = ("_authorizer", "_rules")

    def __init__(self, authorizer: Authorizer, account: str) -> None:
        """`account` owns all streams: the one of the server's root."""
        self._authorizer = authorizer
        self._rules = ResourceRules(owner=account)

    async def check(
        self, caller: Principal, need: StreamOperation, database: str = "", table: str = "", *, request_id: str = ""
    ) -> None:
        """Return if the caller may on the table, the database, or all streams if none is named.

        Raises AccessDenied, in the same words whether there is something of the name or not; Unavailable.
        """
        path = (database, table) if table else (database,) if database else ()
        request = AccessRequest(
            caller,
            f"streams:{need}",
            "/".join((_ARN, *path)),
            securable=stream_securable(database, table),
            privileges=(PRIVILEGES[need],),
            request_id=request_id,
        )
        await self._authorizer.authorize(request, self._rules)

    async def may(self, caller: Principal, need: StreamOperation, database: str = "", table: str = "") -> bool:
        """Whether the caller may, for answers that leave out what is not to be seen."""
        try:
            await self.check(caller, need, database, table)
        except AccessDenied:
            return False
        return True

    async def databases(self, caller: Principal, names: Iterable[str]) -> list[str]:
        """Those of the databases that the caller may see."""
        if await self.may(caller, StreamOperation.DESCRIBE):
            return list(names)
        return [name for name in names if await self.may(caller, StreamOperation.DESCRIBE, name)]

    async def tables(self, caller: Principal, database: str, names: Iterable[str]) -> list[str]:
        """Those of a database's tables that the caller may see."""
        if await self.may(caller, StreamOperation.DESCRIBE, database):
            return list(names)
        return [name for name in names if await self.may(caller, StreamOperation.DESCRIBE, database, name)]
