"""Events in a honker database: a SQLite file beside the application that reads them, as a stream, queue or channel.

Spoken with honker itself, which is a library and has no server. It blocks, so it has a thread.

A repeated attempt of a target writes nothing: the table `lakebed_deliveries` has the ids of the events that each target
wrote, inserted in the same transaction. It keeps many times more ids per target than a dispatcher has in flight. The
table `lakebed_delivered` of earlier versions, whose ids are not unique, is not touched.
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
_KEPT: Final = 100_000
"""Ids of a target."""

_MAX_BYTES: Final = 1_000_000_000
"""What SQLite keeps in one value, unless it was built otherwise."""

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
    """Which file, and under which name events are there."""

    path: str
    name: str = "lakebed_events"
    format: str = _STREAM
    """`stream`: kept, read by many; `queue`: worked off by one of many; `notify`: for those who listen now."""
    max_bytes: int = 64 * 1024 * 1024

    secrets: ClassVar[frozenset[str]] = frozenset()

    def validate(self) -> None:
        """Raises InvalidInput."""
        if not os.path.isabs(self.path):
            raise InvalidInput("path is absolute", argument="path", value=self.path[:200])
        check_present(self.name, "name")
        check_one_of(self.format, "format", _FORMATS)
        if not 1 <= self.max_bytes <= _MAX_BYTES:
            raise InvalidInput(f"max_bytes is from 1 to {_MAX_BYTES}", argument="max_bytes")


class _Replaced(Exception):
    """The file is another than the one that was opened: what is written to that one, nobody reads."""


class _Opened:
    """A database, used in one thread."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="honker")
        self.database: Any = None  # Any: honker's own class, which is made at run time
        self.place: Any = None
        self.identity: tuple[int, int] | None = None

    async def run(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    async def close(self) -> None:
        if self.database is not None:
            await self.run(self.database.close)
        self._thread.shutdown(wait=False)


class HonkerTarget(ConnectedTarget[_Opened]):
    """Implements `Target`. One at a time: SQLite has one writer."""

    max_in_flight = 1

    def __init__(self, settings: HonkerSettings, *, deadline_seconds: float = DELIVERY_SECONDS) -> None:
        self._settings = settings
        super().__init__(f"honker:{settings.path}", deadline_seconds=deadline_seconds)

    async def _open(self) -> _Opened:
        opened = _Opened()
        try:
            await opened.run(lambda: self._open_file(opened))
        except BaseException:
            await self._shut_in_time(opened)
            raise
        return opened

    def _open_file(self, opened: _Opened) -> None:
        settings = self._settings
        database = opened.database = honker.open(settings.path, max_readers=1)
        if settings.format == _QUEUE:
            opened.place = database.queue(settings.name)
        elif settings.format == _STREAM:
            opened.place = database.stream(settings.name)
        with database.transaction() as transaction:
            transaction.bootstrap_honker_schema()
            transaction.execute(_DELIVERIES)
        opened.identity = _identity(settings.path)

    async def _shut(self, connection: _Opened) -> None:
        await connection.close()

    async def _deliver(self, connection: _Opened, message: EventMessage) -> None:
        if len(message.body) > self._settings.max_bytes:
            raise Undeliverable(f"the message is too long. target={self._where} maximum={self._settings.max_bytes}")
        payload = msgspec.json.decode(message.body)
        await connection.run(lambda: self._write(connection, message, payload))

    def _write(self, opened: _Opened, message: EventMessage, payload: object) -> None:
        self._check_file(opened)
        with opened.database.transaction() as transaction:
            if transaction.query(_FIND, [message.target, message.id]):
                return
            (last,) = transaction.query(_LAST, [message.target])
            number = last["number"] + 1
            transaction.execute(_ADD, [message.target, number, message.id])
            transaction.execute(_TRIM, [message.target, number - _KEPT])
            if self._settings.format == _STREAM:
                opened.place.publish(payload, key=message.key, tx=transaction)
            elif self._settings.format == _QUEUE:
                opened.place.enqueue(payload, tx=transaction)
            else:
                transaction.notify(self._settings.name, payload)

    async def _probe(self, connection: _Opened) -> None:
        await connection.run(lambda: self._check_writable(connection))

    def _check_writable(self, opened: _Opened) -> None:
        self._check_file(opened)
        with opened.database.transaction() as transaction:
            transaction.query("SELECT 1 FROM lakebed_deliveries LIMIT 1", [])

    def _check_file(self, opened: _Opened) -> None:
        if _identity(self._settings.path) != opened.identity:
            raise _Replaced("the file was replaced")

    def _fault(self, error: Exception) -> Fault:
        return Fault.MESSAGE if isinstance(error, msgspec.DecodeError) else Fault.CONNECTION


def _identity(path: str) -> tuple[int, int]:
    found = os.stat(path)
    return found.st_dev, found.st_ino


KIND: Final = TargetType("honker", HonkerSettings, HonkerTarget)
