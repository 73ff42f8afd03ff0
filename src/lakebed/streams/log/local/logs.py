"""The logs of a folder: each in a folder of its own, by table, partition and bucket. One process at a time has them."""

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
"""Syncs of several logs wait for one disk, which does them together."""


class Logs:
    """Opens and removes logs under `folder`. Raises LOG_STORAGE if another process has it."""

    def __init__(
        self,
        folder: str,
        clock: Clock,
        settings: LogSizes | None = None,
        confirm_ownership: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """`confirm_ownership` raises StoreMismatch if the folder is another deployment's. It precedes every removal."""
        self._folder = folder
        self._confirm_ownership = confirm_ownership
        self._clock = clock
        self._settings = LogSizes() if settings is None else settings
        self._threads = ThreadPoolExecutor(_THREADS, "streams-log")
        self._lock = _lock(folder)
        self.flushes = Durations()
        """How long it takes to write and sync a group of appends."""

    async def open(
        self,
        bucket: TableBucket,
        read_format: ReadFormat = AS_STORED,
        *,
        is_leader: Callable[[], bool] = lambda: True,
        first_offset: int = 0,
    ) -> FolderLog:
        """A bucket's log, as a crash or the last `close` left it; a new one begins at `first_offset`."""
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
        """Where a bucket's log is."""
        partition = "all" if bucket.partition_id is None else f"p{bucket.partition_id}"
        return os.path.join(self._folder, str(bucket.table_id), partition, str(bucket.bucket))

    async def run(self, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Do something with files in a thread. Raises LOG_STORAGE."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, partial(work, *arguments, **named))
        except OSError as error:
            raise FlussError(ErrorCode.LOG_STORAGE, f"the disk refuses. reason={error}") from error

    async def remove(self, table_id: int, partition_id: int | None) -> None:
        """Remove all logs of a table, or of one of its partitions. Idempotent. They are closed before.

        Raises StoreMismatch, Unavailable.
        """
        table = os.path.join(self._folder, str(table_id))
        path = table if partition_id is None else os.path.join(table, f"p{partition_id}")
        await self._remove(path, "local logs of a dropped table deleted")

    async def discard(self, bucket: TableBucket) -> None:
        """Remove files of a bucket that are not its log any more. Raises StoreMismatch, Unavailable."""
        await self._remove(self.folder_of(bucket), "stale local log deleted")

    @property
    def threads(self) -> ThreadPoolExecutor:
        """Where files are read and synced."""
        return self._threads

    def close(self) -> None:
        """Let others have the folder. All logs are closed before."""
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
        raise FlussError(
            ErrorCode.LOG_STORAGE, f"folder of logs cannot be used. folder={folder} reason={error}"
        ) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise FlussError(ErrorCode.LOG_STORAGE, f"another process has the folder of logs. folder={folder}") from error
    return descriptor
