"""Maintains logs: uploads sealed segments, applies the retention, and uploads the rest at a planned shutdown.

Each round covers all open buckets. Closed buckets get no records, but their records age, and a crash may have left some
not uploaded: they are opened for maintenance from time to time.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, NamedTuple

from lakebed.core.clock import Clock
from lakebed.core.errors import LakebedError
from lakebed.fluss.errors import ErrorCode, FlussError

from ..log.remote.log_rows import LogRows
from ..log.remote.remote_backed_log import RemoteBackedLog
from ..log.retention import retention_of
from ..seam import TableBucket
from ..tables import StreamTables
from .open_buckets import OpenBucket, OpenBuckets

__all__ = ["LogMaintenance", "UploadCounts"]

log = logging.getLogger("lakebed.streams")

VISITS: Final = 64
"""Closed buckets to maintain per round. The limit leaves resources for clients after a start."""

VISIT_SECONDS: Final = 3600.0
"""Interval between maintenance of the same closed bucket. It gets no records, so only their age matters."""

RETRY_SECONDS: Final = 300.0
"""Interval after a failure to open or upload a closed bucket."""

_Work = Callable[[OpenBucket], Awaitable[None]]


class UploadCounts(NamedTuple):
    """Uploads over a period."""

    segments: int = 0
    size_bytes: int = 0
    failures: int = 0
    """Failed uploads of logs; repeated failures count each time."""


class LogMaintenance:
    """Maintains the logs of all buckets. A failure of one does not affect the others."""

    def __init__(
        self,
        buckets: OpenBuckets,
        tables: StreamTables,
        rows: LogRows,
        clock: Clock,
        is_leader: Callable[[], bool],
        *,
        server: str,
    ) -> None:
        self._buckets = buckets
        self._tables = tables
        self._rows = rows
        self._clock = clock
        self._is_leader = is_leader
        self._server = server
        self._visited_at: dict[TableBucket, float] = {}
        self._not_uploaded: set[TableBucket] = set()
        self._uploads = UploadCounts()
        self._recorded: dict[TableBucket, int] = {}

    @property
    def not_uploaded(self) -> frozenset[TableBucket]:
        """Buckets whose last upload failed."""
        return frozenset(self._not_uploaded)

    def take_upload_counts(self) -> UploadCounts:
        """Return and reset the counts."""
        uploads, self._uploads = self._uploads, UploadCounts()
        return uploads

    async def maintain(self) -> int:
        """Maintain all open buckets and some closed ones. Returns the number of failures."""
        failed = await self._each_open(self._maintain)
        now = self._clock.monotonic()
        idle = [bucket for bucket, _ in await self._idle()]
        at = self._visited_at = {bucket: self._visited_at[bucket] for bucket in idle if bucket in self._visited_at}
        due = [bucket for bucket in idle if bucket not in at or now - at[bucket] >= VISIT_SECONDS]
        due.sort(key=lambda bucket: at.get(bucket, -math.inf))  # repeated failures do not starve the others
        for bucket in due[:VISITS]:
            at[bucket] = now
            failed += await self._visit(bucket, self._maintain)
        for bucket in self._buckets.broken().keys() | self._not_uploaded:
            if at.get(bucket) == now:
                at[bucket] = now - VISIT_SECONDS + RETRY_SECONDS
        self._not_uploaded &= {each.bucket for each in self._buckets} | set(idle)  # forget dropped buckets
        await self._record_ends()
        return failed

    async def _record_ends(self) -> None:
        """Record the changed ends of open logs whose newest records are on this disk only."""
        ends = {
            each.bucket: each.log.high_watermark
            for each in self._buckets
            if isinstance(each.log, RemoteBackedLog) and each.log.is_tail_here
        }
        changed = [(bucket, end) for bucket, end in ends.items() if self._recorded.get(bucket) != end]
        if changed and self._is_leader():
            await self._rows.record_ends(changed)
        self._recorded = ends

    async def hand_over(self) -> int:
        """Upload all acknowledged records, so that another server can continue. Returns the number of failures."""
        failed = await self._each_open(self._hand_over)
        for bucket, tail_server in await self._idle():
            if tail_server == self._server:
                failed += await self._visit(bucket, self._hand_over)
        return failed

    async def _idle(self) -> list[tuple[TableBucket, str]]:
        opened = {each.bucket for each in self._buckets}
        return [(bucket, tail) for bucket, tail in await self._rows.all() if bucket not in opened]

    async def _each_open(self, work: _Work) -> int:
        failed = 0
        for opened in self._buckets:
            failed += await self._try(opened.bucket, partial(work, opened))
        return failed

    async def _visit(self, bucket: TableBucket, work: _Work) -> int:
        return await self._try(bucket, partial(self._buckets.visit, bucket, work))

    async def _try(self, bucket: TableBucket, work: Callable[[], Awaitable[None]]) -> int:
        if not self._is_leader():
            return 0
        try:
            await work()
        except LakebedError as error:
            if isinstance(error, FlussError) and error.code is ErrorCode.UNKNOWN_TABLE_OR_BUCKET:
                return 0  # dropped meanwhile
            log.warning("log maintenance failed", extra={"bucket": str(bucket)}, exc_info=error)
            return 1
        return 0

    async def _maintain(self, opened: OpenBucket) -> None:
        if isinstance(opened.log, RemoteBackedLog) and opened.log.failure is None:
            table = await self._tables.by_id(opened.bucket.table_id)
            retention = retention_of(table.definition.options)
            await self._upload(opened.bucket, opened.log, lambda log: log.maintain(retention))

    async def _hand_over(self, opened: OpenBucket) -> None:
        if isinstance(opened.log, RemoteBackedLog) and opened.log.failure is None:
            await self._upload(opened.bucket, opened.log, RemoteBackedLog.hand_over)

    async def _upload(
        self, bucket: TableBucket, log: RemoteBackedLog, work: Callable[[RemoteBackedLog], Awaitable[None]]
    ) -> None:
        """Run work that uploads segments of a log, and count them."""
        end, failures = log.remote.manifest.uploaded_end, 0
        try:
            await work(log)
            self._not_uploaded.discard(bucket)
        except LakebedError as error:
            # A server that does not lead any more has nothing to upload.
            if not (isinstance(error, FlussError) and error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER):
                self._not_uploaded.add(bucket)
                failures = 1
            raise
        finally:
            fresh = [segment for segment in log.remote.manifest.segments if segment.start_offset >= end]
            segments, size, before = self._uploads
            self._uploads = UploadCounts(
                segments + len(fresh), size + sum(each.size_bytes for each in fresh), before + failures
            )
