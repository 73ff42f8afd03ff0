"""The `honker` target: a stream, queue or channel in a SQLite file beside the consuming application.

honker is a library without a server. It blocks, so each connection has a thread.

Repeated attempts write nothing: the same transaction inserts the event id in the table `lakebed_deliveries`, which
keeps many more ids per target than a dispatcher has in flight. The table `lakebed_delivered` of earlier versions, whose
ids are not unique, is not used.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar, Final, TypeVar

import honker
import msgspec

from lakebed.core.errors import InvalidInput, Undeliverable

from .addresses import check_one_of, check_present
from .connected import DELIVERY_SECONDS, ConnectedTarget
from .failures import Fault
from .seam import EventMessage, TargetSettings, TargetType

T = TypeVar("T")

_STREAM: Final = "stream"
_QUEUE: Final = "queue"
_NOTIFY: Final = "notify"
_FORMATS: Final = (_STREAM, _QUEUE, _NOTIFY)
_MAX_IDS: Final = 100_000
"""Event ids per target."""

_MAX_BYTES: Final = 1_000_000_000
"""SQLite's default maximum of a value."""

_DELIVERIES: Final = """
CREATE TABLE IF NOT EXISTS lakebed_deliveries (
    target TEXT NOT NULL,
    number INTEGER NOT NULL,
    event_id TEXT NOT NULL,
    PRIMARY KEY (target, number),
    UNIQUE (target, event_id)
) WITHOUT ROWID
"""
_FIND: Final = "SELECT 1 FROM lakebed_deliveries WHERE target = ? AND event_id = ?"
_LAST: Final = "SELECT coalesce(max(number), 0) AS number FROM lakebed_deliveries WHERE target = ?"
_ADD: Final = "INSERT INTO lakebed_deliveries (target, number, event_id) VALUES (?, ?, ?)"
_TRIM: Final = "DELETE FROM lakebed_deliveries WHERE target = ? AND number <= ?"


class HonkerSettings(TargetSettings, frozen=True):
    """The file, and the stream, queue or channel in it."""

    path: str
    name: str = "lakebed_events"
    format: str = _STREAM
    """`stream`: stored, for many readers; `queue`: each message for one consumer; `notify`: for current listeners."""
    max_bytes: int = 64 * 1024 * 1024

    secrets: ClassVar[frozenset[str]] = frozenset()

    def validate(self) -> None:
        """Raises InvalidInput."""
        if not os.path.isabs(self.path):
            raise InvalidInput("path must be absolute", argument="path", value=self.path[:200])
        check_present(self.name, "name")
        check_one_of(self.format, "format", _FORMATS)
        if not 1 <= self.max_bytes <= _MAX_BYTES:
            raise InvalidInput(f"max_bytes must be from 1 to {_MAX_BYTES}", argument="max_bytes")


class _FileReplaced(Exception):
    """The path names another file than the open one, which no consumer reads any more."""


class _Connection:
    """An open database, used in one thread."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="honker")
        self.database: Any = None  # Any: honker creates its classes at run time
        self.destination: Any = None
        self.identity: tuple[int, int] | None = None

    async def run(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    async def close(self) -> None:
        if self.database is not None:
            await self.run(self.database.close)
        self._thread.shutdown(wait=False)


class HonkerTarget(ConnectedTarget[_Connection]):
    """Implements `EventTarget`."""

    max_in_flight = 1  # SQLite has one writer

    def __init__(self, settings: HonkerSettings, *, deadline_seconds: float = DELIVERY_SECONDS) -> None:
        self._settings = settings
        super().__init__(f"honker:{settings.path}", deadline_seconds=deadline_seconds)

    async def _open(self) -> _Connection:
        connection = _Connection()
        try:
            await connection.run(lambda: self._open_file(connection))
        except BaseException:
            await self._shut_in_time(connection)
            raise
        return connection

    def _open_file(self, connection: _Connection) -> None:
        settings = self._settings
        database = connection.database = honker.open(settings.path, max_readers=1)
        if settings.format == _QUEUE:
            connection.destination = database.queue(settings.name)
        elif settings.format == _STREAM:
            connection.destination = database.stream(settings.name)
        with database.transaction() as transaction:
            transaction.bootstrap_honker_schema()
            transaction.execute(_DELIVERIES)
        connection.identity = _identity(settings.path)

    async def _shut(self, connection: _Connection) -> None:
        await connection.close()

    async def _deliver(self, connection: _Connection, message: EventMessage) -> None:
        if len(message.body) > self._settings.max_bytes:
            raise Undeliverable(f"message too long. target={self._where} maximum={self._settings.max_bytes}")
        payload = msgspec.json.decode(message.body)
        await connection.run(lambda: self._write(connection, message, payload))

    def _write(self, connection: _Connection, message: EventMessage, payload: object) -> None:
        self._check_file(connection)
        with connection.database.transaction() as transaction:
            if transaction.query(_FIND, [message.target, message.id]):
                return
            (last,) = transaction.query(_LAST, [message.target])
            number = last["number"] + 1
            transaction.execute(_ADD, [message.target, number, message.id])
            transaction.execute(_TRIM, [message.target, number - _MAX_IDS])
            if self._settings.format == _STREAM:
                connection.destination.publish(payload, key=message.key, tx=transaction)
            elif self._settings.format == _QUEUE:
                connection.destination.enqueue(payload, tx=transaction)
            else:
                transaction.notify(self._settings.name, payload)

    async def _probe(self, connection: _Connection) -> None:
        await connection.run(lambda: self._check_writable(connection))

    def _check_writable(self, connection: _Connection) -> None:
        self._check_file(connection)
        with connection.database.transaction() as transaction:
            transaction.query("SELECT 1 FROM lakebed_deliveries LIMIT 1", [])

    def _check_file(self, connection: _Connection) -> None:
        if _identity(self._settings.path) != connection.identity:
            raise _FileReplaced("the file was replaced")

    def _fault(self, error: Exception) -> Fault:
        return Fault.MESSAGE if isinstance(error, msgspec.DecodeError) else Fault.CONNECTION


def _identity(path: str) -> tuple[int, int]:
    status = os.stat(path)
    return status.st_dev, status.st_ino


TYPE: Final = TargetType("honker", HonkerSettings, HonkerTarget)
