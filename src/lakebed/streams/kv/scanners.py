"""Scan sessions: each holds an index snapshot for a client that reads it in several calls.

Each call has the next sequence number, so that a lost response is detected and not skipped. Idle sessions expire, and
are remembered for a while as expired. Any failure of a call ends its session, because the client has an incomplete
result.
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
"""Returns the KV index of a bucket, or raises if this server does not lead, the table has none, or access is denied."""

_FIRST: Final = 0


@dataclass(frozen=True, slots=True)
class KvScanLimits:
    """Limits of scans."""

    max_per_server: int = 200
    max_per_bucket: int = 8
    max_batch_bytes: int = 10 * 1024 * 1024
    ttl_seconds: float = 600.0


@dataclass(frozen=True, slots=True)
class KvScanRequest:
    """One call: opens a scan of `bucket`, or continues or closes the scan of `scanner_id`."""

    scanner_id: bytes | None = None
    bucket: TableBucket | None = None
    limit: int | None = None
    sequence: int | None = None
    batch_bytes: int | None = None
    is_close: bool = False


@dataclass(frozen=True, slots=True)
class KvScanPage:
    """The response. `log_offset` is set when a scan is opened: the first change that the scan does not include."""

    scanner_id: bytes | None = None
    has_more: bool = False
    records: Sequence[bytes] | None = None
    """A value record batch, in pieces."""

    log_offset: int | None = None


@dataclass(slots=True, eq=False)
class _Session:
    id: bytes
    bucket: TableBucket
    kv: BucketKv
    scan: KvScan
    used_at: float
    sequence: int = _FIRST
    is_busy: bool = False


class KvScanners:
    """All open scans of this process."""

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
        """Handle a call.

        Error codes: INVALID_SCAN_REQUEST, UNKNOWN_SCANNER_ID, SCANNER_EXPIRED, TOO_MANY_SCANNERS, those of `find`.
        """
        if (call.scanner_id is None) == (call.bucket is None) or (call.bucket is not None and call.is_close):
            raise _invalid("expected either a bucket to scan, or a scanner to continue or close")
        if call.is_close:
            return self._close_one(call.scanner_id or b"")
        if call.batch_bytes is None or call.batch_bytes <= 0:
            raise _invalid(f"expected a positive batch size. batch_size_bytes={call.batch_bytes}")
        batch_bytes = min(call.batch_bytes, self._limits.max_batch_bytes)
        if call.bucket is not None:
            return await self._open(call, call.bucket, batch_bytes, find)
        return await self._continue(call, batch_bytes, find)

    def sweep(self) -> None:
        """Expire idle scans. Called about every half minute."""
        now = self._clock.monotonic()
        for session in list(self._sessions.values()):
            if not session.is_busy and now - session.used_at > self._limits.ttl_seconds:
                self._expire(session)
        for id_, until in list(self._expired.items()):
            if until < now:
                del self._expired[id_]

    def close_bucket(self, bucket: TableBucket) -> None:
        """Close the scans of a bucket that this server does not lead any more."""
        for session in list(self._sessions.values()):
            if session.bucket == bucket:
                self._expire(session)

    def close(self) -> None:
        """Close all scans."""
        for session in list(self._sessions.values()):
            self._end(session)

    async def _open(self, call: KvScanRequest, bucket: TableBucket, batch_bytes: int, find: FindKv) -> KvScanPage:
        kv = await find(bucket)
        if call.sequence != _FIRST:
            raise _invalid(f"expected sequence {_FIRST} in the first call of a scan. call_seq_id={call.sequence}")
        self.sweep()
        self._check_limits(bucket)
        self._opening.append(bucket)
        try:
            scan = await asyncio.to_thread(kv.scan, call.limit)
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
            # Nine bytes are the header of an empty batch.
            return KvScanPage(records=records if sum(map(len, records)) > 9 else None, log_offset=log_offset)
        session = _Session(self._new_id(), bucket, kv, scan, self._clock.monotonic())
        self._sessions[session.id] = session
        return KvScanPage(session.id, has_more, records, log_offset)

    async def _continue(self, call: KvScanRequest, batch_bytes: int, find: FindKv) -> KvScanPage:
        session = self._known(call.scanner_id or b"")
        if session.is_busy:
            raise _invalid("another call of this scanner is in progress")
        session.is_busy = True
        try:
            if call.sequence != session.sequence + 1:
                raise _invalid(
                    f"call sequence is out of order. call_seq_id={call.sequence} expected={session.sequence + 1}"
                )
            if await find(session.bucket) is not session.kv:
                # The bucket was closed and reopened: the snapshot is lost.
                self._expire(session)
                raise FlussError(ErrorCode.SCANNER_EXPIRED, "bucket was reopened since the scan began")
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
        raise FlussError(ErrorCode.UNKNOWN_SCANNER_ID, "unknown scanner")

    def _check_limits(self, bucket: TableBucket) -> None:
        total = len(self._sessions) + len(self._opening)
        of_bucket = sum(each.bucket == bucket for each in self._sessions.values()) + self._opening.count(bucket)
        if total >= self._limits.max_per_server or of_bucket >= self._limits.max_per_bucket:
            raise FlussError(ErrorCode.TOO_MANY_SCANNERS, f"too many open scans. server={total} bucket={of_bucket}")

    def _expire(self, session: _Session) -> None:
        self._end(session)
        self._expired[session.id] = self._clock.monotonic() + 2 * self._limits.ttl_seconds

    def _end(self, session: _Session) -> None:
        self._sessions.pop(session.id, None)
        session.scan.close()


def _invalid(message: str) -> FlussError:
    return FlussError(ErrorCode.INVALID_SCAN_REQUEST, message)
