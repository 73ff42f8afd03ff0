"""What was done with keys that the catalog handed out: added up in memory, and written down every second.

A request is noted after it was answered, and costs no wait: a crash takes the last second with it. What it cannot take
is who was handed the keys (`delegations.py`), nor what was written with them, which the outbox tells. A row says for
whom, for what table and by which request the key was made, as the token of the key itself has it. An engine reads one
file in hundreds of ranges: requests of a kind for a key that came to the same are one row, with how many they were.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from lakebed.core.clock import Clock
from lakebed.core.errors import LakebedError
from lakebed.meta.seam import MetaStore, Row, Transaction, Value

from .delegations import DelegationLog

MAX_ROWS: Final = 10_000
"""How many rows wait at most; what comes while the store cannot be written to is then counted and not kept."""

_ROWS_AT_ONCE: Final = 500
_FIRST: Final = ("", "", "", "", 0)

_ADD: Final = """
INSERT INTO delegated_accesses (bucket, key, delegation, operation, status, requests, received_bytes, sent_bytes,
    first_ms, last_ms, last_request_id, principal, table_id, obtained_by)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (bucket, key, delegation, operation, status) DO UPDATE SET
    requests = delegated_accesses.requests + excluded.requests,
    received_bytes = delegated_accesses.received_bytes + excluded.received_bytes,
    sent_bytes = delegated_accesses.sent_bytes + excluded.sent_bytes,
    last_ms = excluded.last_ms, last_request_id = excluded.last_request_id
"""
_COLUMNS: Final = (
    "bucket, key, delegation, operation, status, requests, received_bytes, sent_bytes, first_ms, last_ms,"
    " last_request_id, principal, table_id, obtained_by"
)
_OF_DELEGATION: Final = (
    f"SELECT {_COLUMNS} FROM delegated_accesses WHERE delegation = ? AND (bucket, key, operation, status)"  # noqa: S608
    " > (?, ?, ?, ?) ORDER BY bucket, key, operation, status LIMIT ?"
)
_OF_OBJECT: Final = (
    f"SELECT {_COLUMNS} FROM delegated_accesses WHERE bucket = ? AND key = ? AND (delegation, operation, status)"  # noqa: S608
    " > (?, ?, ?) ORDER BY delegation, operation, status LIMIT ?"
)

log = logging.getLogger("lakebed.governance")


class AccessGroup(NamedTuple):
    """What requests are added up by."""

    bucket: str
    key: str
    """Of a request for the bucket itself: the prefix that it lists, or nothing."""
    delegation: str
    operation: str
    status: int


class CredentialRecipient(NamedTuple):
    """For whom a key was made, as its token has it."""

    principal: str
    table_id: str
    obtained_by: str
    """The id of the request."""


@dataclass(slots=True)
class _Sum:
    holder: CredentialRecipient
    requests: int
    received_bytes: int
    sent_bytes: int
    first_ms: int
    last_ms: int
    last_request_id: str


@dataclass(frozen=True, slots=True)
class DelegatedAccess:
    """Requests of one kind for one key with one pair of keys."""

    place: AccessGroup
    requests: int
    received_bytes: int
    sent_bytes: int
    first_ms: int
    last_ms: int
    last_request_id: str
    holder: CredentialRecipient


class AccessCounter:
    """Adds up, writes down. Used from one event loop."""

    def __init__(self, meta: MetaStore, clock: Clock, *, max_rows: int = MAX_ROWS) -> None:
        self._meta = meta
        self._clock = clock
        self._max_rows = max_rows
        self._sums: dict[AccessGroup, _Sum] = {}
        self._missed = 0
        self.wake: Callable[[], None] = _nobody_waits
        """Called when there is something to be written down: whoever calls `flush` may want to know."""

    def count(
        self, place: AccessGroup, holder: CredentialRecipient, *, received_bytes: int, sent_bytes: int, request_id: str
    ) -> None:
        """Count one request."""
        now_ms = self._clock.now_ms()
        known = self._sums.get(place)
        if known is not None:
            known.requests += 1
            known.received_bytes += received_bytes
            known.sent_bytes += sent_bytes
            known.last_ms, known.last_request_id = now_ms, request_id
        elif len(self._sums) < self._max_rows:
            self._sums[place] = _Sum(holder, 1, received_bytes, sent_bytes, now_ms, now_ms, request_id)
            self.wake()
        else:
            self._missed += 1

    async def flush(self) -> int:
        """Write down all that was noted so far; how many rows. What cannot be written stays for the next time.

        Where the answer of the store was lost, that may count requests twice: better than not at all.
        """
        missed, self._missed = self._missed, 0
        if missed:
            log.warning(
                "requests with keys of the catalog were not traced: too many waited", extra={"requests": missed}
            )
        noted, self._sums = self._sums, {}
        # In order, so that two processes that write the same rows wait for each other and do not lock up.
        rows = [_row(place, noted[place]) for place in sorted(noted)]
        done = 0
        try:
            while done < len(rows):
                await self._write(rows[done : done + _ROWS_AT_ONCE])
                done += _ROWS_AT_ONCE
        except BaseException:
            self._take_back({place: noted[place] for place in sorted(noted)[done:]})
            raise
        return len(rows)

    async def _write(self, rows: list[tuple[Value, ...]]) -> None:
        async def work(tx: Transaction) -> None:
            for row in rows:
                await tx.run(_ADD, *row)

        await self._meta.transact(work)

    def _take_back(self, noted: dict[AccessGroup, _Sum]) -> None:
        for place, old in noted.items():
            newer = self._sums.get(place)
            if newer is not None:
                newer.requests += old.requests
                newer.received_bytes += old.received_bytes
                newer.sent_bytes += old.sent_bytes
                newer.first_ms = old.first_ms
            elif len(self._sums) < self._max_rows:
                self._sums[place] = old
            else:
                self._missed += old.requests


class DelegatedAccesses:
    """Reads what was written down."""

    def __init__(self, meta: MetaStore) -> None:
        self._meta = meta

    async def of_delegation(self, delegation: str, *, after: AccessGroup | None, limit: int) -> list[DelegatedAccess]:
        """What was done with one pair of keys, by bucket and key."""
        bucket, key, _, operation, status = after or _FIRST
        found = await self._meta.rows(_OF_DELEGATION, delegation, bucket, key, operation, status, limit)
        return [_access_from(row) for row in found]

    async def of_object(self, bucket: str, key: str, *, after: AccessGroup | None, limit: int) -> list[DelegatedAccess]:
        """What was done to one object, whoever did it."""
        _, _, delegation, operation, status = after or _FIRST
        found = await self._meta.rows(_OF_OBJECT, bucket, key, delegation, operation, status, limit)
        return [_access_from(row) for row in found]


def _nobody_waits() -> None:
    """For requests that whoever noted them flushes."""


def _row(place: AccessGroup, total: _Sum) -> tuple[Value, ...]:
    return (
        *place,
        total.requests,
        total.received_bytes,
        total.sent_bytes,
        total.first_ms,
        total.last_ms,
        total.last_request_id,
        *total.holder,
    )


def _access_from(row: Row) -> DelegatedAccess:
    requests, received_bytes, sent_bytes, first_ms, last_ms, last_request_id, *holder = row[5:]
    return DelegatedAccess(
        AccessGroup(*row[:5]),
        requests,
        received_bytes,
        sent_bytes,
        first_ms,
        last_ms,
        last_request_id,
        CredentialRecipient(*holder),
    )


FLUSH_SECONDS: Final = 1.0


class DelegationTraceWriter:
    """What was handed out, and what was done with it, on its way to the store. Used from one event loop."""

    def __init__(self, delegations: DelegationLog, accesses: AccessCounter) -> None:
        self._delegations = delegations
        self._accesses = accesses
        self._news = asyncio.Event()
        delegations.wake = accesses.wake = self._news.set

    async def run(self) -> None:
        """Write, whenever something waits; when cancelled, for the last time."""
        try:
            while True:
                await self._news.wait()
                await asyncio.sleep(FLUSH_SECONDS)
                await self._flush_or_wait()
        finally:
            with contextlib.suppress(LakebedError):
                await self.flush()

    async def flush(self) -> None:
        """Write all that waits. What cannot be written stays for the next time."""
        self._news.clear()
        try:
            await self._delegations.flush()
            await self._accesses.flush()
        except BaseException:
            self._news.set()
            raise

    async def _flush_or_wait(self) -> None:
        try:
            await self.flush()
        except LakebedError as error:
            log.warning("the trace of keys and signatures could not be written down yet", exc_info=error)
        except Exception:
            # A mistake of ours must not end the trace for the life of the process.
            log.exception("writing down the trace of keys and signatures crashed")
