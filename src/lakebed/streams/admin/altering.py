"""Alters databases and tables: adds columns and changes options. A change commits with its event."""

from __future__ import annotations

from collections.abc import Sequence

from lakebed.core.clock import Clock
from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.meta.seam import MetaStore, Transaction
from lakebed.objects.model import Caller

from ..authorization import StreamAuthorizer, StreamOperation
from ..databases import DatabaseDefinition, StreamDatabases
from ..schema_evolution import AddColumn, OptionChange, changed_options, evolved
from ..tables import StreamTables

__all__ = ["TableAlterations"]


class TableAlterations:
    """Alters existing databases and tables."""

    def __init__(
        self,
        meta: MetaStore,
        clock: Clock,
        authorizer: StreamAuthorizer,
        databases: StreamDatabases,
        tables: StreamTables,
    ) -> None:
        self._meta = meta
        self._clock = clock
        self._authorizer = authorizer
        self._databases = databases
        self._tables = tables

    async def authorize(self, caller: Caller, database: str, name: str) -> None:
        """Check the permission before the request's changes are parsed. Raises AccessDenied."""
        await self._authorizer.authorize(caller, StreamOperation.ALTER, database, name)

    async def table(
        self,
        caller: Caller,
        database: str,
        name: str,
        columns: Sequence[AddColumn] = (),
        changes: Sequence[OptionChange] = (),
        *,
        ignore_if_not_exists: bool = False,
    ) -> None:
        """Alter a table, all or nothing. Error codes: TABLE_NOT_EXIST, INVALID_ALTER_TABLE, INVALID_CONFIG."""
        await self.authorize(caller, database, name)
        now_ms = self._clock.now_ms()

        async def work(tx: Transaction) -> int | None:
            table = await self._tables.find(tx, database, name)
            after = evolved(table.definition, columns, changes)
            if after is table.definition:
                return None
            after.auto_partition_strategy()
            await self._tables.replace(tx, caller, table, after, now_ms)
            return table.id

        try:
            table_id = await self._meta.transact(work)
        except FlussError as failure:
            if ignore_if_not_exists and failure.code is ErrorCode.TABLE_NOT_EXIST:
                return
            raise
        if table_id is not None:
            await self._tables.changed(table_id)

    async def database(
        self,
        caller: Caller,
        name: str,
        changes: Sequence[OptionChange] = (),
        comment: str | None = None,
        *,
        ignore_if_not_exists: bool = False,
    ) -> None:
        """Change a database's properties, and its comment if given.

        Error codes: DATABASE_NOT_EXIST, INVALID_ALTER_TABLE.
        """
        await self._authorizer.authorize(caller, StreamOperation.ALTER, name)
        now_ms = self._clock.now_ms()

        async def work(tx: Transaction) -> None:
            found = await self._databases.find(tx, name)
            before = DatabaseDefinition(found.comment, dict(found.custom_options))
            after = DatabaseDefinition(
                found.comment if comment is None else comment, changed_options(found.custom_options, changes)
            )
            if after != before:
                await self._databases.replace(tx, caller, name, after, now_ms)

        try:
            await self._meta.transact(work)
        except FlussError as failure:
            if not (ignore_if_not_exists and failure.code is ErrorCode.DATABASE_NOT_EXIST):
                raise
