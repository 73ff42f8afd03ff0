"""Stream databases: create, list, describe, alter, drop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from lakebed.core.clock import Clock
from lakebed.core.json.parsing import parse_body
from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.governance.rbac.grant_cleanup import remove_stream_grants
from lakebed.meta.outbox import Outbox
from lakebed.meta.seam import MetaStore, Reader, Transaction
from lakebed.objects.model import Caller

from .authorization import StreamAuthorizer, StreamOperation
from .events import append_event
from .json_documents import read_json
from .names import DEFAULT_DATABASE, check_database_name
from .tables import StreamTables

__all__ = ["DatabaseDefinition", "DatabaseSummary", "StreamDatabase", "StreamDatabases"]

_FIND: Final = "SELECT name, document, created_ms, modified_ms FROM stream_databases WHERE name = ?"
_SUMMARIES: Final = """
SELECT d.name, d.created_ms, (SELECT COUNT(*) FROM stream_tables t WHERE t.database_name = d.name)
FROM stream_databases d ORDER BY d.name
"""
_INSERT: Final = """
INSERT INTO stream_databases (name, document, created_ms, modified_ms) VALUES (?, ?, ?, ?)
ON CONFLICT (name) DO NOTHING
"""
_TABLES: Final = "SELECT name FROM stream_tables WHERE database_name = ? ORDER BY name"
_UPDATE: Final = "UPDATE stream_databases SET document = ?, modified_ms = ? WHERE name = ?"
_DELETE: Final = "DELETE FROM stream_databases WHERE name = ?"


@dataclass(frozen=True, slots=True)
class StreamDatabase:
    """An existing database."""

    name: str
    comment: str | None
    custom_options: Mapping[str, str]
    created_ms: int
    modified_ms: int

    @property
    def document(self) -> bytes:
        """The JSON that clients get."""
        return DatabaseDefinition(self.comment, self.custom_options).document


@dataclass(frozen=True, slots=True)
class DatabaseSummary:
    """An entry of a listing."""

    name: str
    created_ms: int
    table_count: int


@dataclass(frozen=True, slots=True)
class DatabaseDefinition:
    """The definition of a database."""

    comment: str | None = None
    custom_options: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, document: bytes | str) -> DatabaseDefinition:
        """Parse a database's JSON; an empty document is an empty definition. Raises INVALID_DATABASE."""
        if not document:
            return cls()
        fields = read_json(document, ErrorCode.INVALID_DATABASE, "database document")
        options = fields.get("custom_properties") or {} if isinstance(fields, dict) else None
        if not isinstance(options, dict) or not all(isinstance(value, str) for value in options.values()):
            raise FlussError(ErrorCode.INVALID_DATABASE, "expected a JSON object of strings as database document")
        comment = fields.get("comment")
        return cls(None if comment is None else str(comment), options)

    @property
    def document(self) -> bytes:
        """The definition as JSON."""
        fields: dict[str, Any] = {"version": 1}
        if self.comment is not None:
            fields["comment"] = self.comment
        fields["custom_properties"] = dict(self.custom_options)
        return msgspec.json.encode(fields)


class StreamDatabases:
    """Creates, describes, lists, alters and drops databases."""

    def __init__(
        self, meta: MetaStore, outbox: Outbox, clock: Clock, authorizer: StreamAuthorizer, tables: StreamTables
    ) -> None:
        self._meta = meta
        self._outbox = outbox
        self._clock = clock
        self._authorizer = authorizer
        self._tables = tables

    async def create(self, caller: Caller, name: str, document: bytes = b"", *, ignore_if_exists: bool = False) -> None:
        """Create a database. Error codes: INVALID_DATABASE, DATABASE_ALREADY_EXIST."""
        check_database_name(name)
        await self._authorizer.authorize(caller, StreamOperation.CREATE)
        definition = await parse_body(DatabaseDefinition.parse, document)
        now_ms = self._clock.now_ms()

        async def work(tx: Transaction) -> bool:
            if not await tx.run(_INSERT, name, definition.document.decode(), now_ms, now_ms):
                return False
            await append_event(self._outbox, tx, "StreamDatabaseCreated", caller, now_ms, name)
            return True

        if not await self._meta.transact(work) and not ignore_if_exists:
            raise FlussError(ErrorCode.DATABASE_ALREADY_EXIST, f"database exists. database={name}")

    async def drop(
        self, caller: Caller, name: str, *, ignore_if_not_exists: bool = False, cascade: bool = False
    ) -> None:
        """Drop a database, and with `cascade` its tables. Error codes: DATABASE_NOT_EXIST, DATABASE_NOT_EMPTY."""
        await self._authorizer.authorize(caller, StreamOperation.DROP, name)
        if name == DEFAULT_DATABASE:
            raise FlussError(ErrorCode.INVALID_DATABASE, f"the default database cannot be dropped. database={name}")
        now_ms = self._clock.now_ms()

        async def work(tx: Transaction) -> Sequence[int] | None:
            if await tx.row(_FIND, name) is None:
                return None
            names = [str(table) for (table,) in await tx.rows(_TABLES, name)]
            if names and not cascade:
                raise FlussError(ErrorCode.DATABASE_NOT_EMPTY, f"the database has tables. database={name}")
            dropped = [await self._tables.remove(tx, caller, name, table, now_ms) for table in names]
            await tx.run(_DELETE, name)
            await remove_stream_grants(tx, name)
            await append_event(self._outbox, tx, "StreamDatabaseDropped", caller, now_ms, name)
            return [table.id for table in dropped]

        dropped = await self._meta.transact(work)
        if dropped is None:
            if ignore_if_not_exists:
                return
            raise no_database(name)
        for table_id in dropped:
            await self._tables.dropped(table_id)

    async def replace(
        self, tx: Transaction, caller: Caller, name: str, definition: DatabaseDefinition, now_ms: int
    ) -> None:
        """Store a new definition, within `tx`."""
        await tx.run(_UPDATE, definition.document.decode(), now_ms, name)
        await append_event(self._outbox, tx, "StreamDatabaseAltered", caller, now_ms, name)

    async def get(self, caller: Caller, name: str) -> StreamDatabase:
        """The database. Error codes: DATABASE_NOT_EXIST."""
        await self._authorizer.authorize(caller, StreamOperation.DESCRIBE, name)
        return await self.find(self._meta, name)

    async def exists(self, caller: Caller, name: str) -> bool:
        """Whether the database exists and the caller may describe it."""
        found = await self._meta.row(_FIND, name) is not None
        return found and await self._authorizer.is_authorized(caller, StreamOperation.DESCRIBE, name)

    async def list(self, caller: Caller) -> Sequence[DatabaseSummary]:
        """The databases that the caller may describe, by name."""
        found = {str(row[0]): DatabaseSummary(*row) for row in await self._meta.rows(_SUMMARIES)}
        return [found[name] for name in await self._authorizer.visible_databases(caller, found)]

    async def list_tables(self, caller: Caller, name: str) -> Sequence[str]:
        """The names of the tables that the caller may describe. Error codes: DATABASE_NOT_EXIST."""
        await self.find(self._meta, name)
        names = [str(table) for (table,) in await self._meta.rows(_TABLES, name)]
        return await self._authorizer.visible_tables(caller, name, names)

    async def find(self, reader: Reader, name: str) -> StreamDatabase:
        """The database, without a permission check. Error codes: DATABASE_NOT_EXIST."""
        row = await reader.row(_FIND, name)
        if row is None:
            raise no_database(name)
        definition = DatabaseDefinition.parse(row[1])
        return StreamDatabase(row[0], definition.comment, definition.custom_options, row[2], row[3])


def no_database(name: str) -> FlussError:
    """The error for a missing database."""
    return FlussError(ErrorCode.DATABASE_NOT_EXIST, f"no such database. database={name}")
