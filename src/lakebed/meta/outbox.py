"""The outbox: events that commit with their change, and are read in commit order.

Invariant: after a reader has read up to a sequence number, no event appears below it. Numbers may have gaps (rolled
back transactions), reads have none.

On SQLite one writer at a time assigns numbers and commits, so both orders agree. On PostgreSQL a number is assigned
some time before its transaction commits; a lock from just before the insert to the end of the transaction makes the
orders agree. So append last in a work: everything after the append runs under that lock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from lakebed.core.operations import AFTER, current_operation

from .commit_notifier import CommitNotifier
from .seam import MetaStore, Reader, Transaction


class LogTables(NamedTuple):
    """The tables of a log: its entries and the cursors of its readers."""

    entries: str
    cursors: str
    order_lock: int
    """The advisory lock that orders appends on PostgreSQL."""


CHANGES: Final = LogTables("outbox", "outbox_cursors", 0x6C616B65_6F757462)
REQUESTS: Final = LogTables("request_log", "request_log_cursors", 0x6C616B65_72657173)
"""The request log: the same structure as the outbox, in separate tables."""

FIRST_REQUEST: Final = 2**52
"""The first sequence number of requests, above all numbers of changes."""


class _Statements:
    """The statements of one log."""

    def __init__(self, tables: LogTables) -> None:
        entries, cursors, self.order_lock = tables
        columns = "kind, subject, payload, occurred_ms, operation"
        # The names are ours.
        self.append = f"INSERT INTO {entries} ({columns}) VALUES (?, ?, ?, ?, ?) RETURNING seq"  # noqa: S608
        self.append_in_turn = (
            "WITH turn AS MATERIALIZED (SELECT pg_advisory_xact_lock(?)) "  # noqa: S608
            f"INSERT INTO {entries} ({columns}) SELECT ?, ?, ?, ?, ? FROM turn RETURNING seq"
        )
        self.read = f"SELECT seq, {columns} FROM {entries} WHERE seq > ? ORDER BY seq LIMIT ?"  # noqa: S608
        self.read_kinds = (
            f"SELECT seq, {columns} FROM {entries} WHERE seq > ? AND seq <= ? AND kind IN (%s) ORDER BY seq"  # noqa: S608
        )
        self.first = f"SELECT seq FROM {entries} ORDER BY seq LIMIT 1"  # noqa: S608
        self.last = f"SELECT seq FROM {entries} ORDER BY seq DESC LIMIT 1"  # noqa: S608
        self.first_ages = f"SELECT seq, occurred_ms FROM {entries} WHERE seq <= ? ORDER BY seq LIMIT ?"  # noqa: S608
        self.delete = f"DELETE FROM {entries} WHERE seq <= ?"  # noqa: S608
        self.cursor = f"SELECT seq FROM {cursors} WHERE name = ?"  # noqa: S608
        self.all_cursors = f"SELECT name, seq FROM {cursors} ORDER BY name"  # noqa: S608
        self.open_cursor = f"INSERT INTO {cursors} (name, seq) VALUES (?, ?) ON CONFLICT (name) DO NOTHING"  # noqa: S608
        self.advance = f"UPDATE {cursors} SET seq = ? WHERE name = ? AND seq < ?"  # noqa: S608
        self.drop_cursor = f"DELETE FROM {cursors} WHERE name = ?"  # noqa: S608
        self.slowest = f"SELECT seq FROM {cursors} ORDER BY seq LIMIT 1"  # noqa: S608


@dataclass(frozen=True, slots=True)
class OutboxEvent:
    """An event. The payload is opaque here."""

    kind: str
    subject: str
    payload: bytes
    occurred_ms: int
    operation: str = ""
    """The operation that caused it; by default the current one, if any."""

    @property
    def type(self) -> str:
        """`AFTER_X` for an event of operation X; otherwise empty."""
        return AFTER + self.operation if self.operation else ""


@dataclass(frozen=True, slots=True)
class OutboxEntry:
    """An event with its sequence number."""

    seq: int
    event: OutboxEvent


class Outbox:
    """Appends, reads by cursor, trimming, and waiting for new events."""

    def __init__(self, store: MetaStore, tables: LogTables = CHANGES) -> None:
        self._store = store
        self._sql = _Statements(tables)
        self._notifier = CommitNotifier()

    async def append(self, tx: Transaction, event: OutboxEvent) -> int:
        """Append an event to the transaction; returns its sequence number."""
        columns = (
            event.kind,
            event.subject,
            event.payload,
            event.occurred_ms,
            event.operation or current_operation.get(),
        )
        if self._store.dialect == "postgres":
            appended = await tx.row(self._sql.append_in_turn, self._sql.order_lock, *columns)
        else:
            appended = await tx.row(self._sql.append, *columns)
        if appended is None:
            raise RuntimeError("an insert returned no row")
        tx.on_commit(self._notifier.notify)
        return int(appended[0])

    async def read_after(self, reader: Reader, seq: int, limit: int) -> list[OutboxEntry]:
        """The events after `seq`, oldest first. Some may not be durable yet: use `read_durable` before publishing."""
        return [
            OutboxEntry(number, OutboxEvent(*event)) for number, *event in await reader.rows(self._sql.read, seq, limit)
        ]

    async def read_durable(self, seq: int, limit: int) -> list[OutboxEntry]:
        """The events after `seq` that are on stable storage, and so may be published."""
        entries = await self.read_after(self._store, seq, limit)
        if entries:
            await self._store.sync()
        return entries

    async def read_kinds(self, reader: Reader, seq: int, up_to: int, kinds: Sequence[str]) -> list[OutboxEntry]:
        """The events of these kinds after `seq` and not after `up_to`, oldest first.

        For readers of a few kinds among many: the store skips the others.
        """
        statement = self._sql.read_kinds % ", ".join("?" * len(kinds))
        return [
            OutboxEntry(number, OutboxEvent(*event))
            for number, *event in await reader.rows(statement, seq, up_to, *kinds)
        ]

    async def last_seq(self, reader: Reader) -> int:
        """The sequence number of the newest event; 0 if there is none."""
        found = await reader.row(self._sql.last)
        return int(found[0]) if found else 0

    async def first_seq(self, reader: Reader) -> int:
        """The sequence number of the oldest event that is not trimmed; 0 if there is none."""
        found = await reader.row(self._sql.first)
        return int(found[0]) if found else 0

    async def wait_for_event(self, seq: int, timeout_seconds: float) -> bool:
        """Wait for an event after `seq`; False on timeout."""

        async def has_event() -> bool:
            return await self.last_seq(self._store) > seq

        return await self._notifier.wait_until(has_event, timeout_seconds)

    async def open_cursor(self, tx: Transaction, name: str, *, at_seq: int = 0) -> int:
        """Create a cursor at `at_seq` unless it exists; returns its position. Trimming waits for it from now on."""
        await tx.run(self._sql.open_cursor, name, at_seq)
        position = await self.cursor(tx, name)
        if position is None:
            raise RuntimeError("a cursor vanished inside a transaction")
        return position

    async def cursor(self, reader: Reader, name: str) -> int | None:
        """The number of the last event that the cursor's owner has processed; None for an unknown cursor."""
        found = await reader.row(self._sql.cursor, name)
        return int(found[0]) if found else None

    async def cursors(self, reader: Reader) -> Sequence[tuple[str, int]]:
        """All cursors with their positions, by name."""
        return [(name, seq) for name, seq in await reader.rows(self._sql.all_cursors)]

    async def advance(self, tx: Transaction, name: str, seq: int) -> bool:
        """Move a cursor forward; False if it is at or after `seq` already, or does not exist."""
        return await tx.run(self._sql.advance, seq, name, seq) > 0

    async def drop_cursor(self, tx: Transaction, name: str) -> None:
        """Remove a cursor: trimming no longer waits for it. Idempotent."""
        await tx.run(self._sql.drop_cursor, name)

    async def trim(self, *, occurred_before_ms: int, limit: int = 1000) -> int:
        """Remove up to `limit` of the oldest events that every cursor has passed; returns the number.

        The age serves readers without a cursor, such as a live feed that reconnects.
        """

        async def work(tx: Transaction) -> int:
            slowest = await tx.row(self._sql.slowest)
            passed = int(slowest[0]) if slowest else await self.last_seq(tx)
            last = 0
            for seq, occurred_ms in await tx.rows(self._sql.first_ages, passed, limit):
                if occurred_ms >= occurred_before_ms:
                    break
                last = seq
            return await tx.run(self._sql.delete, last) if last else 0

        return await self._store.transact(work)
