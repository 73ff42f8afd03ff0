"""Uploads the acknowledged records that only this server's disk has, whenever this server is not the leader (ADR 45).

Such records remain after it was killed, paused or cut off while it led without `ack_after_upload`. The leader cannot
open those buckets until their records are uploaded. Leadership does not change for that.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from lakebed.core.errors import LakebedError
from lakebed.fluss.errors import ErrorCode, FlussError

from ..buckets.open_buckets import OpenBuckets
from ..log.remote.log_rows import LogRows
from ..partitions import StreamPartition
from ..seam import TableBucket
from ..table import StreamTable

__all__ = ["TailUpload", "UploadLocalTail"]

log = logging.getLogger("lakebed.streams")

UploadLocalTail = Callable[[StreamTable, StreamPartition | None, TableBucket], Awaitable[bool]]
"""Uploads the records of a closed bucket that only this disk has; False if there are none."""

_PAUSE_SECONDS: Final = 2.0

_NOT_FAILURES: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TABLE_OR_BUCKET,
        ErrorCode.PARTITION_NOT_EXISTS,
        ErrorCode.TABLE_NOT_EXIST,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    }
)
"""The bucket was dropped, or its records were given up, while it was uploaded."""


class TailUpload:
    """The background task. A failure of one bucket does not affect the others."""

    def __init__(
        self,
        buckets: OpenBuckets,
        rows: LogRows,
        upload_local_tail: UploadLocalTail,
        holds_lease: Callable[[], bool],
        *,
        server: str,
    ) -> None:
        self._buckets = buckets
        self._rows = rows
        self._upload_local_tail = upload_local_tail
        self._holds_lease = holds_lease
        self._server = server
        self.failure = ""
        """Why uploads failed in the last round; empty if none failed."""

    async def run(self) -> None:
        """Upload at intervals, until cancelled."""
        while True:
            try:
                if not self._holds_lease():
                    await self.upload()
            except LakebedError as error:
                log.warning("tail upload failed, retrying", exc_info=error)
            except Exception:
                # A bug must not stop uploads until the next restart.
                log.exception("tail upload crashed, retrying")
            await asyncio.sleep(_PAUSE_SECONDS)

    async def upload(self) -> int:
        """Upload every bucket whose newest records only this disk has. Returns the number of buckets.

        If this server becomes the leader meanwhile, it stops: it opens the remaining buckets from its disk.
        """
        buckets = await self._rows.with_tail_on(self._server)
        failures: list[str] = []
        returned = 0
        for bucket in buckets:
            if self._holds_lease():
                break
            try:
                returned += await self._buckets.while_closed(bucket, partial(self._upload_one, bucket))
            except LakebedError as error:
                if isinstance(error, FlussError) and error.code in _NOT_FAILURES:
                    continue
                failures.append(f"table_id={bucket.table_id} bucket={bucket.bucket}: {error}")
                log.warning("tail upload failed, retrying", extra={"bucket": str(bucket)}, exc_info=error)
        more = f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
        self.failure = failures[0] + more if failures else ""
        if returned:
            log.info("uploaded records that only this disk had", extra={"buckets": returned})
        return returned

    async def _upload_one(self, bucket: TableBucket, table: StreamTable, partition: StreamPartition | None) -> None:
        await self._upload_local_tail(table, partition, bucket)
