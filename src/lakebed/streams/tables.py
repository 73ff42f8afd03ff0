"""Stream tables: create, look up, alter, drop, with a cache, because every call to a bucket needs its table.

Only the leader changes tables, so its cache is valid until it changes a table itself.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final

import msgspec

from lakebed.core.clock import Clock
from lakebed.core.json.parsing import parse_body
from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.fluss.schema import Schema
from lakebed.governance.rbac.grant_cleanup import remove_stream_grants
from lakebed.meta.outbox import Outbox
from lakebed.meta.seam import MetaStore, Reader, Row, Transaction
from lakebed.objects.model import Caller

from .authorization import StreamAuthorizer, StreamOperation
from .cluster_configs import ClusterConfigs
from .events import append_event
from .names import check_table_name
from .table import StreamTable, TableDefinition, TablePath

__all__ = ["StreamTables"]

_COLUMNS: Final = """
SELECT t.id, t.database_name, t.name, t.schema_id, t.document, t.created_ms, t.modified_ms, s.document
FROM stream_tables t JOIN stream_schemas s ON s.table_id = t.id AND s.schema_id = t.schema_id
"""
_BY_PATH: Final = f"{_COLUMNS} WHERE t.database_name = ? AND t.name = ?"
_BY_ID: Final = f"{_COLUMNS} WHERE t.id = ?"
_ALL: Final = f"{_COLUMNS} ORDER BY t.id"
_HAS_DATABASE: Final = "SELECT 1 FROM stream_databases WHERE name = ?"
_INSERT: Final = """
INSERT INTO stream_tables (database_name, name, schema_id, document, created_ms, modified_ms) VALUES (?, ?, 1, ?, ?, ?)
ON CONFLICT (database_name, name) DO NOTHING RETURNING id
"""
_INSERT_SCHEMA: Final = "INSERT INTO stream_schemas (table_id, schema_id, document) VALUES (?, ?, ?)"
_SCHEMA: Final = "SELECT document FROM stream_schemas WHERE table_id = ? AND schema_id = ?"
_INSERT_DROPPED: Final = """
INSERT INTO stream_dropped (table_id, partition_id, database_name, table_name, partition_name, dropped_ms)
VALUES (?, 0, ?, ?, '', ?)
"""
_UPDATE: Final = "UPDATE stream_tables SET schema_id = ?, document = ?, modified_ms = ? WHERE id = ?"
_DELETE: Final = "DELETE FROM stream_tables WHERE id = ?"

FIRST_SCHEMA: Final = 1

Dropped = Callable[[int], Awaitable[None]]
Changed = Callable[[StreamTable], Awaitable[None]]


class StreamTables:
    """Creates, finds, alters and drops tables."""

    def __init__(
        self, meta: MetaStore, outbox: Outbox, clock: Clock, authorizer: StreamAuthorizer, configs: ClusterConfigs
    ) -> None:
        self._configs = configs
        self._meta = meta
        self._outbox = outbox
        self._clock = clock
        self._authorizer = authorizer
        self._by_id: dict[int, StreamTable] = {}
        self._ids: dict[TablePath, int] = {}
        self._schemas: dict[tuple[int, int], Schema] = {}
        self._changes = 0
        """Incremented by each change and drop: a row read before one may be stale."""
        self._on_dropped: list[Dropped] = []
        self._on_changed: list[Changed] = []
        self._is_cache_valid: Callable[[], bool] = lambda: True

    def cache_while(self, is_cache_valid: Callable[[], bool]) -> None:
        """Bypass the cache while `is_cache_valid` returns False: another server may change tables."""
        self._is_cache_valid = is_cache_valid

    def on_dropped(self, callback: Dropped) -> None:
        """Await `callback` with the id of each dropped table, to close its files."""
        self._on_dropped.append(callback)

    def on_changed(self, callback: Changed) -> None:
        """Await `callback` with each new or altered table."""
        self._on_changed.append(callback)

    # -- lookup -----------------------------------------------------------------------------------------------------

    def known(self, table_id: int) -> StreamTable | None:
        """The table, if it is cached; outdated while another server leads, where no bucket can be opened either."""
        return self._by_id.get(table_id)

    async def by_id(self, table_id: int) -> StreamTable:
        """The table, without a permission check.

        Error codes: UNKNOWN_TABLE_OR_BUCKET. Clients take it as stale metadata and look the table up by its name.
        """
        found = self._by_id.get(table_id)
        if found is not None and self._is_cache_valid():
            return found
        changes = None
        row = None
        while changes != self._changes:
            # A change during the read may be of this table: a stale row must not be cached.
            changes = self._changes
            row = await self._meta.row(_BY_ID, table_id)
        if row is None:
            self._discard(table_id)
            raise FlussError(ErrorCode.UNKNOWN_TABLE_OR_BUCKET, f"unknown table. table_id={table_id}")
        return self._cache(_table_from(row))

    async def by_path(self, database: str, name: str) -> StreamTable:
        """The table, without a permission check. Error codes: TABLE_NOT_EXIST."""
        known = self._ids.get(TablePath(database, name))
        if known is not None and self._is_cache_valid():
            return self._by_id[known]
        while True:
            changes = self._changes
            found = await self.find(self._meta, database, name)
            if changes == self._changes:
                return self._cache(found)

    async def all(self) -> list[StreamTable]:
        """All tables by id, without a permission check."""
        return [_table_from(row) for row in await self._meta.rows(_ALL)]

    async def schema(self, table: StreamTable, schema_id: int) -> Schema:
        """A schema of the table by id. Error codes: SCHEMA_NOT_EXIST."""
        if schema_id == table.schema_id:
            return table.schema
        known = self._schemas.get((table.id, schema_id))
        if known is not None:
            return known
        row = await self._meta.row(_SCHEMA, table.id, schema_id)
        if row is None:
            raise FlussError(ErrorCode.SCHEMA_NOT_EXIST, f"no such schema. table={table.path} schema_id={schema_id}")
        schema = Schema.parse(msgspec.json.decode(row[0]))
        # Schemas are immutable, so they are cached as long as their table.
        self._schemas[table.id, schema_id] = schema
        return schema

    def forget(self, table_id: int) -> None:
        """Remove a changed table from the cache."""
        self._changes += 1
        self._discard(table_id)

    def forget_all(self) -> None:
        """Clear the cache: another server may have led."""
        self._changes += 1
        self._by_id.clear()
        self._ids.clear()
        self._schemas.clear()

    # -- for callers ------------------------------------------------------------------------------------------------

    async def get(self, caller: Caller, database: str, name: str) -> StreamTable:
        """The table, if the caller may describe it. Error codes: TABLE_NOT_EXIST."""
        await self._authorizer.authorize(caller, StreamOperation.DESCRIBE, database, name)
        return await self.by_path(database, name)

    async def authorized(self, caller: Caller, operation: StreamOperation, table_id: int) -> StreamTable:
        """The table, if the caller is allowed the operation. Error codes: UNKNOWN_TABLE_OR_BUCKET."""
        table = await self.by_id(table_id)
        await self._authorizer.authorize(caller, operation, *table.path)
        return table

    async def exists(self, caller: Caller, database: str, name: str) -> bool:
        """Whether the table exists and the caller may describe it."""
        try:
            await self.by_path(database, name)
        except FlussError:
            return False
        return await self._authorizer.is_authorized(caller, StreamOperation.DESCRIBE, database, name)

    async def create(
        self, caller: Caller, database: str, name: str, document: bytes, *, ignore_if_exists: bool = False
    ) -> None:
        """Create a table.

        Error codes: DATABASE_NOT_EXIST, TABLE_ALREADY_EXIST, INVALID_TABLE, INVALID_CONFIG, BUCKET_MAX_NUM.
        """
        check_table_name(name)
        await self._authorizer.authorize(caller, StreamOperation.CREATE, database)
        buckets = await self._configs.number("default.bucket.number")
        definition = with_defaults(await parse_body(partial(TableDefinition.parse, default_buckets=buckets), document))
        definition.check(max_buckets=await self._configs.number("max.bucket.num"))
        definition.auto_partition_strategy()
        now_ms = self._clock.now_ms()
        rest, schema = _text(definition.rest()), _text(definition.schema.document())

        async def work(tx: Transaction) -> int | None:
            if await tx.row(_HAS_DATABASE, database) is None:
                raise FlussError(ErrorCode.DATABASE_NOT_EXIST, f"no such database. database={database}")
            row = await tx.row(_INSERT, database, name, rest, now_ms, now_ms)
            if row is None:
                return None
            table_id = int(row[0])
            await tx.run(_INSERT_SCHEMA, table_id, FIRST_SCHEMA, schema)
            await append_event(
                self._outbox, tx, "StreamTableCreated", caller, now_ms, database, name, table_id=table_id
            )
            return table_id

        created_id = await self._meta.transact(work)
        if created_id is not None:
            await self.changed(created_id)
        elif not ignore_if_exists:
            raise FlussError(ErrorCode.TABLE_ALREADY_EXIST, f"table exists. table={database}.{name}")

    async def drop(self, caller: Caller, database: str, name: str, *, ignore_if_not_exists: bool = False) -> None:
        """Drop a table; its records are removed soon after. Error codes: TABLE_NOT_EXIST."""
        await self._authorizer.authorize(caller, StreamOperation.DROP, database, name)
        now_ms = self._clock.now_ms()

        async def work(tx: Transaction) -> StreamTable:
            return await self.remove(tx, caller, database, name, now_ms)

        try:
            table = await self._meta.transact(work)
        except FlussError as failure:
            if ignore_if_not_exists and failure.code is ErrorCode.TABLE_NOT_EXIST:
                return
            raise
        await self.dropped(table.id)

    async def remove(self, tx: Transaction, caller: Caller, database: str, name: str, now_ms: int) -> StreamTable:
        """Drop a table within `tx`; call `dropped` after the commit.

        Error codes: TABLE_NOT_EXIST.
        """
        table = await self.find(tx, database, name)
        await tx.run(_INSERT_DROPPED, table.id, database, name, now_ms)
        await tx.run(_DELETE, table.id)
        await remove_stream_grants(tx, database, name)
        await append_event(self._outbox, tx, "StreamTableDropped", caller, now_ms, database, name, table_id=table.id)
        return table

    async def replace(
        self, tx: Transaction, caller: Caller, table: StreamTable, definition: TableDefinition, now_ms: int
    ) -> None:
        """Store a new definition within `tx`; call `changed` after the commit."""
        schema_id = table.schema_id
        if definition.schema != table.schema:
            schema_id += 1
            await tx.run(_INSERT_SCHEMA, table.id, schema_id, _text(definition.schema.document()))
        await tx.run(_UPDATE, schema_id, _text(definition.rest()), now_ms, table.id)
        await append_event(
            self._outbox,
            tx,
            "StreamTableAltered",
            caller,
            now_ms,
            *table.path,
            table_id=table.id,
            schema_id=schema_id,
        )

    async def changed(self, table_id: int) -> None:
        """Refresh a new or altered table, and notify listeners."""
        self.forget(table_id)
        table = await self.by_id(table_id)
        for callback in self._on_changed:
            await callback(table)

    async def find(self, reader: Reader, database: str, name: str) -> StreamTable:
        """The table as `reader` sees it, without a permission check. Error codes: TABLE_NOT_EXIST."""
        row = await reader.row(_BY_PATH, database, name)
        if row is None:
            raise no_table(database, name)
        return _table_from(row)

    async def dropped(self, table_id: int) -> None:
        """Remove a dropped table from the cache, and notify listeners."""
        self.forget(table_id)
        for callback in self._on_dropped:
            await callback(table_id)

    def _discard(self, table_id: int) -> None:
        found = self._by_id.pop(table_id, None)
        if found is not None and self._ids.get(found.path) == table_id:
            del self._ids[found.path]

    def _cache(self, table: StreamTable) -> StreamTable:
        self._by_id[table.id] = table
        self._ids[table.path] = table.id
        return table


def with_defaults(definition: TableDefinition) -> TableDefinition:
    """Add defaults that clients read to the definition of a new table."""
    options = {"table.replication.factor": "1"} | dict(definition.options)
    if definition.schema.has_primary_key:
        options.setdefault("table.kv.format-version", "2")
    return replace(definition, options=options)


def no_table(database: str, name: str) -> FlussError:
    """The error for a missing table."""
    return FlussError(ErrorCode.TABLE_NOT_EXIST, f"no such table. table={database}.{name}")


def _text(document: dict[str, Any]) -> str:
    return msgspec.json.encode(document).decode()


def _table_from(row: Row) -> StreamTable:
    table_id, database, name, schema_id, document, created_ms, modified_ms, schema = row
    definition = TableDefinition.of(Schema.parse(msgspec.json.decode(schema)), msgspec.json.decode(document))
    return StreamTable(table_id, TablePath(database, name), schema_id, definition, created_ms, modified_ms)
