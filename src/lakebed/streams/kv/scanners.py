"""Scans that clients go on with: a session for each, with the moment it shows held for it.

Every call of a session has the number after the last one's, so an answer that was lost is told and not skipped. A
session that nobody goes on with is let go of, and known for a while as one that expired. Any failure of a call ends its
session: what its client has is not whole.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from lakebed.core.clock import Clock
from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.streams.seam import BucketKv, KvScan, TableBucket

__all__ = ["FindKv", "KvScanLimits", "KvScanPage", "KvScanRequest", "KvScanners"]

FindKv = Callable[[TableBucket], Awaitable[BucketKv]]
"""The keys of a bucket; raises what keeps the caller from them (not led here, not keyed, not allowed)."""

_FIRST: Final = 0


@dataclass(frozen=True, slots=True)
class KvScanLimits:
    """How much scans may hold."""

    max_per_server: int = 200
    max_per_bucket: int = 8
    max_batch_bytes: int = 10 * 1024 * 1024
    ttl_seconds: float = 600.0


@dataclass(frozen=True, slots=True)
class KvScanRequest:
    """One call: it opens a scan of `bucket`, or goes on with or closes that of `scanner_id`."""

    scanner_id: bytes | None = None
    bucket: TableBucket | None = None
    limit: int | None = None
    sequence: int | None = None
    batch_bytes: int | None = None
    is_close: bool = False


@dataclass(frozen=True, slots=True)
class KvScanPage:
    """The answer. `log_offset` is told when a scan is opened: where the changes begin that it does not show."""

    scanner_id: bytes | None = None
    has_more: bool = False
    records: Sequence[bytes] | None = None
    """A batch of values, in pieces."""

    log_offset: int | None = None


@dataclass(slots=True, eq=False)
class _Session:
    id: bytes
    bucket: TableBucket
    keys: BucketKv
    scan: KvScan
    used_at: float
    sequence: int = _FIRST
    is_busy: bool = False


class KvScanners:
    """All scans of this process that are not at their end."""

    def __init__(
        self,
        clock: Clock,
        limits: KvScanLimits = KvScanLimits(),  # noqa: B008 - frozen
        new_id: Callable[[], bytes] = lambda: secrets.token_hex(16).encode(),
    ) -> None:
        self._clock = clock
        self._limits = limits
        self._new_id = new_id
        self._sessions: dict[bytes, _Session] = {}
        self._expired: dict[bytes, float] = {}
        self._opening: list[TableBucket] = []

    def __len__(self) -> int:
        return len(self._sessions)

    async def call(self, call: KvScanRequest, find: FindKv) -> KvScanPage:
        """Answer.

        Error codes: INVALID_SCAN_REQUEST, UNKNOWN_SCANNER_ID, SCANNER_EXPIRED, TOO_MANY_SCANNERS, those of `find`.
        """
        if (call.scanner_id is None) == (call.bucket is None) or (call.bucket is not None and call.is_close):
            raise _invalid("a call names a bucket to open or a scanner to go on with, and closes a scanner only")
        if call.is_close:
            return self._close_one(call.scanner_id or b"")
        if call.batch_bytes is None or call.batch_bytes <= 0:
            raise _invalid(f"a call says how many bytes it wants. batch_size_bytes={call.batch_bytes}")
        batch_bytes = min(call.batch_bytes, self._limits.max_batch_bytes)
        if call.bucket is not None:
            return await self._open(call, call.bucket, batch_bytes, find)
        return await self._go_on(call, batch_bytes, find)

    def sweep(self) -> None:
        """Let go of the scans that nobody went on with. To be called every half minute or so."""
        now = self._clock.monotonic()
        for session in list(self._sessions.values()):
            if not session.is_busy and now - session.used_at > self._limits.ttl_seconds:
                self._expire(session)
        for id_, until in list(self._expired.items()):
            if until < now:
                del self._expired[id_]

    def close_bucket(self, bucket: TableBucket) -> None:
        """Let go of the scans of a bucket that is no longer led here."""
        for session in list(self._sessions.values()):
            if session.bucket == bucket:
                self._expire(session)

    def close(self) -> None:
        """Let go of all scans."""
        for session in list(self._sessions.values()):
            self._end(session)

    async def _open(self, call: KvScanRequest, bucket: TableBucket, batch_bytes: int, find: FindKv) -> KvScanPage:
        keys = await find(bucket)
        if call.sequence != _FIRST:
            raise _invalid(f"the first call of a scan has number {_FIRST}. call_seq_id={call.sequence}")
        self.sweep()
        self._check_room(bucket)
        self._opening.append(bucket)
        try:
            scan = await asyncio.to_thread(keys.scan, call.limit)
            try:
                records, has_more = await asyncio.to_thread(scan.next, batch_bytes)
            except BaseException:
                scan.close()
                raise
        finally:
            self._opening.remove(bucket)
        log_offset = scan.log_offset
        if not has_more:
            scan.close()
            # Nine bytes are the head of a batch without rows.
            return KvScanPage(records=records if sum(map(len, records)) > 9 else None, log_offset=log_offset)
        session = _Session(self._new_id(), bucket, keys, scan, self._clock.monotonic())
        self._sessions[session.id] = session
        return KvScanPage(session.id, has_more, records, log_offset)

    async def _go_on(self, call: KvScanRequest, batch_bytes: int, find: FindKv) -> KvScanPage:
        session = self._known(call.scanner_id or b"")
        if session.is_busy:
            raise _invalid("another call of this scanner is under way")
        session.is_busy = True
        try:
            if call.sequence != session.sequence + 1:
                raise _invalid(f"call is out of order. call_seq_id={call.sequence} expected={session.sequence + 1}")
            if await find(session.bucket) is not session.keys:
                # It was let go of and led again since: the moment that was shown is gone.
                self._expire(session)
                raise FlussError(ErrorCode.SCANNER_EXPIRED, "bucket was opened anew since the scan began")
            session.used_at = self._clock.monotonic()
            records, has_more = await asyncio.to_thread(session.scan.next, batch_bytes)
            session.sequence += 1
        except BaseException:
            self._end(session)
            raise
        finally:
            session.is_busy = False
        if not has_more:
            self._end(session)
        return KvScanPage(session.id, has_more, records)

    def _close_one(self, scanner_id: bytes) -> KvScanPage:
        session = self._sessions.get(scanner_id)
        if session is not None:
            self._end(session)
        return KvScanPage(scanner_id)

    def _known(self, scanner_id: bytes) -> _Session:
        session = self._sessions.get(scanner_id)
        if session is not None:
            if session.is_busy or self._clock.monotonic() - session.used_at <= self._limits.ttl_seconds:
                return session
            self._expire(session)
        if scanner_id in self._expired:
            raise FlussError(ErrorCode.SCANNER_EXPIRED, "scanner expired")
        raise FlussError(ErrorCode.UNKNOWN_SCANNER_ID, "no such scanner")

    def _check_room(self, bucket: TableBucket) -> None:
        held = len(self._sessions) + len(self._opening)
        here = sum(each.bucket == bucket for each in self._sessions.values()) + self._opening.count(bucket)
        if held >= self._limits.max_per_server or here >= self._limits.max_per_bucket:
            raise FlussError(ErrorCode.TOO_MANY_SCANNERS, f"too many scans are open. server={held} bucket={here}")

    def _expire(self, session: _Session) -> None:
        self._end(session)
        self._expired[session.id] = self._clock.monotonic() + 2 * self._limits.ttl_seconds

    def _end(self, session: _Session) -> None:
        self._sessions.pop(session.id, None)
        session.scan.close()


def _invalid(message: str) -> FlussError:
    return FlussError(ErrorCode.INVALID_SCAN_REQUEST, message)
