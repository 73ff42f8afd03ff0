"""Traces the use of vended credentials and signed requests: counted in memory, written every second.

Counting does not delay responses. A crash loses the last second, but neither the record of the delegation
(`delegations.py`) nor the events of changes. The principal, table and request of each delegation come from its session
token. Requests with the same key, operation and status share a row with a count, because engines read a file in
hundreds of ranges.
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
"""Most rows buffered. While the store is unavailable, requests beyond are only counted in a warning."""

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
    """The key that requests are grouped by."""

    bucket: str
    key: str
    """For requests on a bucket: the listed prefix, or empty."""
    delegation: str
    operation: str
    status: int


class CredentialRecipient(NamedTuple):
    """The recipient of vended credentials, from the session token."""

    principal: str
    table_id: str
    obtained_by: str
    """The id of the request."""


@dataclass(slots=True)
class _Sum:
    recipient: CredentialRecipient
    requests: int
    received_bytes: int
    sent_bytes: int
    first_ms: int
    last_ms: int
    last_request_id: str


@dataclass(frozen=True, slots=True)
class DelegatedAccess:
    """Requests of one group."""

    group: AccessGroup
    requests: int
    received_bytes: int
    sent_bytes: int
    first_ms: int
    last_ms: int
    last_request_id: str
    recipient: CredentialRecipient


class AccessCounter:
    """Counts requests and writes the counts. Used from one event loop."""

    def __init__(self, meta: MetaStore, clock: Clock, *, max_rows: int = MAX_ROWS) -> None:
        self._meta = meta
        self._clock = clock
        self._max_rows = max_rows
        self._sums: dict[AccessGroup, _Sum] = {}
        self._missed = 0
        self.wake: Callable[[], None] = lambda: None
        """Called when a row is added."""

    def count(
        self,
        group: AccessGroup,
        recipient: CredentialRecipient,
        *,
        received_bytes: int,
        sent_bytes: int,
        request_id: str,
    ) -> None:
        """Count a request."""
        now_ms = self._clock.now_ms()
        total = self._sums.get(group)
        if total is not None:
            total.requests += 1
            total.received_bytes += received_bytes
            total.sent_bytes += sent_bytes
            total.last_ms, total.last_request_id = now_ms, request_id
        elif len(self._sums) < self._max_rows:
            self._sums[group] = _Sum(recipient, 1, received_bytes, sent_bytes, now_ms, now_ms, request_id)
            self.wake()
        else:
            self._missed += 1

    async def flush(self) -> int:
        """Write all counts. Returns the number of rows; rows that cannot be written are kept.

        If a commit succeeds without a response, its requests are counted twice.
        """
        missed, self._missed = self._missed, 0
        if missed:
            log.warning(
                "buffer of the access trace is full; requests with vended credentials are not traced",
                extra={"requests": missed},
            )
        counted, self._sums = self._sums, {}
        # Sorted, so that two processes that write the same rows do not deadlock.
        rows = [_row(group, counted[group]) for group in sorted(counted)]
        done = 0
        try:
            while done < len(rows):
                await self._write(rows[done : done + _ROWS_AT_ONCE])
                done += _ROWS_AT_ONCE
        except BaseException:
            self._take_back({group: counted[group] for group in sorted(counted)[done:]})
            raise
        return len(rows)

    async def _write(self, rows: list[tuple[Value, ...]]) -> None:
        async def work(tx: Transaction) -> None:
            for row in rows:
                await tx.run(_ADD, *row)

        await self._meta.transact(work)

    def _take_back(self, counted: dict[AccessGroup, _Sum]) -> None:
        for group, old in counted.items():
            newer = self._sums.get(group)
            if newer is not None:
                newer.requests += old.requests
                newer.received_bytes += old.received_bytes
                newer.sent_bytes += old.sent_bytes
                newer.first_ms = old.first_ms
            elif len(self._sums) < self._max_rows:
                self._sums[group] = old
            else:
                self._missed += old.requests


class DelegatedAccesses:
    """Reads the access trace."""

    def __init__(self, meta: MetaStore) -> None:
        self._meta = meta

    async def of_delegation(self, delegation: str, *, after: AccessGroup | None, limit: int) -> list[DelegatedAccess]:
        """Requests with one delegation, by bucket and key."""
        bucket, key, _, operation, status = after or _FIRST
        found = await self._meta.rows(_OF_DELEGATION, delegation, bucket, key, operation, status, limit)
        return [_access_from(row) for row in found]

    async def of_object(self, bucket: str, key: str, *, after: AccessGroup | None, limit: int) -> list[DelegatedAccess]:
        """Requests on one object with any delegation."""
        _, _, delegation, operation, status = after or _FIRST
        found = await self._meta.rows(_OF_OBJECT, bucket, key, delegation, operation, status, limit)
        return [_access_from(row) for row in found]


def _row(group: AccessGroup, total: _Sum) -> tuple[Value, ...]:
    return (
        *group,
        total.requests,
        total.received_bytes,
        total.sent_bytes,
        total.first_ms,
        total.last_ms,
        total.last_request_id,
        *total.recipient,
    )


def _access_from(row: Row) -> DelegatedAccess:
    requests, received_bytes, sent_bytes, first_ms, last_ms, last_request_id, *recipient = row[5:]
    return DelegatedAccess(
        AccessGroup(*row[:5]),
        requests,
        received_bytes,
        sent_bytes,
        first_ms,
        last_ms,
        last_request_id,
        CredentialRecipient(*recipient),
    )


FLUSH_SECONDS: Final = 1.0


class DelegationTraceWriter:
    """Writes delegations and their use to the store. Used from one event loop."""

    def __init__(self, delegations: DelegationLog, accesses: AccessCounter) -> None:
        self._delegations = delegations
        self._accesses = accesses
        self._pending = asyncio.Event()
        delegations.wake = accesses.wake = self._pending.set

    async def run(self) -> None:
        """Write whenever records are pending; a last time when cancelled."""
        try:
            while True:
                await self._pending.wait()
                await asyncio.sleep(FLUSH_SECONDS)
                await self._flush_or_wait()
        finally:
            with contextlib.suppress(LakebedError):
                await self.flush()

    async def flush(self) -> None:
        """Write all pending records. Those that cannot be written are kept."""
        self._pending.clear()
        try:
            await self._delegations.flush()
            await self._accesses.flush()
        except BaseException:
            self._pending.set()
            raise

    async def _flush_or_wait(self) -> None:
        try:
            await self.flush()
        except LakebedError as error:
            log.warning("writing the delegation trace failed; retrying", exc_info=error)
        except Exception:
            # An unexpected error must not end the trace for the life of the process.
            log.exception("writing the delegation trace crashed; retrying")
