"""Opens the local logs of all buckets, each in its own folder. Locks the common folder against other processes."""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, ParamSpec, TypeVar

from lakebed.core.clock import Clock
from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.storage.folder.files import make_folder, remove_logged, sync_folder
from lakebed.streams.durations import Durations
from lakebed.streams.seam import TableBucket

from ..reading.read_format import AS_STORED, ReadFormat
from ..settings import LogSizes
from .folder_log import FolderLog

__all__ = ["Logs"]

_logger = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

_THREADS: Final = 16
"""More than one, because the disk can combine the syncs of several logs."""


class Logs:
    """Opens and removes logs under `folder`. Raises LOG_STORAGE if another process has locked it."""

    def __init__(
        self,
        folder: str,
        clock: Clock,
        settings: LogSizes | None = None,
        confirm_ownership: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """`confirm_ownership` runs before removals; raises StoreMismatch if the folder is another deployment's."""
        self._folder = folder
        self._confirm_ownership = confirm_ownership
        self._clock = clock
        self._settings = LogSizes() if settings is None else settings
        self._threads = ThreadPoolExecutor(_THREADS, "streams-log")
        self._lock = _lock(folder)
        self.flushes = Durations()
        """Durations of group commits."""

    async def open(
        self,
        bucket: TableBucket,
        read_format: ReadFormat = AS_STORED,
        *,
        is_leader: Callable[[], bool] = lambda: True,
        first_offset: int = 0,
    ) -> FolderLog:
        """Open a bucket's log, or create it at `first_offset`."""
        return await FolderLog.open(
            self.folder_of(bucket),
            clock=self._clock,
            threads=self._threads,
            settings=self._settings,
            read_format=read_format,
            is_leader=is_leader,
            first_offset=first_offset,
            flushes=self.flushes,
        )

    def folder_of(self, bucket: TableBucket) -> str:
        """The folder of a bucket's log."""
        partition = "all" if bucket.partition_id is None else f"p{bucket.partition_id}"
        return os.path.join(self._folder, str(bucket.table_id), partition, str(bucket.bucket))

    async def run(self, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Run file operations in a thread. Raises LOG_STORAGE."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, partial(work, *arguments, **named))
        except OSError as error:
            raise FlussError(ErrorCode.LOG_STORAGE, f"disk error. reason={error}") from error

    async def remove(self, table_id: int, partition_id: int | None) -> None:
        """Remove the logs of a table or partition, which are closed. Idempotent.

        Raises StoreMismatch, Unavailable.
        """
        table = os.path.join(self._folder, str(table_id))
        path = table if partition_id is None else os.path.join(table, f"p{partition_id}")
        await self._remove(path, "local logs of a dropped table deleted")

    async def discard(self, bucket: TableBucket) -> None:
        """Remove the stale files of a bucket. Raises StoreMismatch, Unavailable."""
        await self._remove(self.folder_of(bucket), "stale local log deleted")

    @property
    def threads(self) -> ThreadPoolExecutor:
        """The threads for file operations."""
        return self._threads

    def close(self) -> None:
        """Unlock the folder. All logs must be closed."""
        self._threads.shutdown()
        os.close(self._lock)

    async def _remove(self, path: str, event: str) -> None:
        if await self.run(os.path.isdir, path):
            if self._confirm_ownership is not None:
                await self._confirm_ownership()
            await self.run(remove_logged, path, _logger, event)
            await self.run(sync_folder, self._folder)


def _lock(folder: str) -> int:
    try:
        make_folder(folder)
        descriptor = os.open(os.path.join(folder, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise FlussError(ErrorCode.LOG_STORAGE, f"log folder is not usable. folder={folder} reason={error}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise FlussError(ErrorCode.LOG_STORAGE, f"log folder is locked by another process. folder={folder}") from error
    return descriptor
