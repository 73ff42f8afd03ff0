"""Opens the log of a bucket on this server, or uploads its tail for the leader (ADR 30, ADR 45).

While the log row names a tail server, no other server opens the log. A server is named only once its files contain
every acknowledged record, so its files are the log, in whichever epoch they were opened. If no server is named, the
object store has every acknowledged record, and local files are kept only if no other server opened the log since.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from awscrt.checksums import crc32c

from lakebed.core.clock import Clock
from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.storage.folder.files import make_folder
from lakebed.streams.seam import TableBucket

from ..local.folder_log import FolderLog
from ..local.logs import Logs
from ..local.recovery import replace_file
from ..local.segment import segment_path
from ..reading.read_format import AS_STORED, ReadFormat
from .log_rows import LogRow, tail_fence
from .manifest import LogLocation
from .remote_backed_log import RemoteBackedLog
from .remote_log import RemoteLogs, storage_failures
from .tails import Tail

__all__ = ["LocalCopy", "LocalFiles", "classify_local_copy", "open_remote_backed_log", "upload_local_tail"]

_EPOCH_FILE: Final = "epoch"
_INCARNATION_FILE: Final = "life"


class LocalCopy(Enum):
    """The state of a log's files on this disk."""

    CURRENT = "current"
    """The log, or a prefix of it whose continuation the object store has."""

    STALE = "stale"
    """Another server may have continued the log. The object store has every acknowledged record."""

    LOST = "lost"
    """Acknowledged records are missing, and exist nowhere else."""


@dataclass(frozen=True, slots=True)
class LocalFiles:
    """A log's files on this disk."""

    epoch: int | None = None
    """The epoch in which this server last opened the log; None if it never did."""

    end_offset: int | None = None
    """The end of the local log; None without files."""


def classify_local_copy(row: LogRow, server: str, files: LocalFiles, uploaded_end: int) -> LocalCopy:
    """The state of `files` on `server`. `row` names this server or none; records before `uploaded_end` are remote."""
    if row.tail_server == server:
        acknowledged = max(uploaded_end, row.recorded_end)
        is_whole = files.end_offset is not None and files.end_offset >= acknowledged
        return LocalCopy.CURRENT if is_whole else LocalCopy.LOST
    is_newest = files.epoch == row.epoch and files.end_offset is not None and files.end_offset >= uploaded_end
    return LocalCopy.CURRENT if is_newest else LocalCopy.STALE


async def open_remote_backed_log(
    logs: Logs,
    remotes: RemoteLogs,
    location: LogLocation,
    read_format: ReadFormat = AS_STORED,
    *,
    server: str,
    clock: Clock,
    is_leader: Callable[[], bool] = lambda: True,
    ack_after_upload: bool = False,
) -> RemoteBackedLog:
    """Open a bucket's log with every acknowledged record of any server.

    Raises LEADER_NOT_AVAILABLE if only another server's disk has some; NOT_LEADER_OR_FOLLOWER, LOG_STORAGE, STORAGE.
    """
    bucket, folder = location.bucket, logs.folder_of(location.bucket)
    row, epoch = await remotes.claim(location, server)
    remote = await remotes.open(location, row.manifest)
    uploaded = remote.manifest.uploaded_end
    local = await _open_current(logs, bucket, read_format, row, server, uploaded, is_leader)
    try:
        incarnation = await logs.run(_prepare, folder, epoch, uploaded, await remote.writers())
        if local is None:
            local = await logs.open(bucket, read_format, is_leader=is_leader, first_offset=uploaded)
        tail = Tail(remotes, location, epoch)
        pieces = await tail.load(uploaded)
        if row.tail_server != server:
            uploaded = pieces[-1].end if pieces else uploaded
            end = local.end_offset
            async for body in tail.read([piece for piece in pieces if piece.end > end]):
                await local.restore(body)
        log = RemoteBackedLog(local, remote, read_format, tail, clock, incarnation, ack_after_upload=ack_after_upload)
        if ack_after_upload:
            await log.upload_tail(uploaded)
            if row.tail_server:
                await remotes.release_tail(bucket)
            else:
                # Otherwise another server may have opened the log before it could find the upload.
                await remote.check_leader()
        elif not row.tail_server:
            await remotes.keep_tail(bucket, server, remote.manifest.uploaded_end, local.high_watermark)
    except BaseException:
        if local is not None:
            await local.close()
        raise
    return log


async def upload_local_tail(
    logs: Logs, remotes: RemoteLogs, location: LogLocation, read_format: ReadFormat, *, server: str, clock: Clock
) -> bool:
    """Upload the records of a closed log that only this disk has, so that the leader can continue it.

    Returns False if there are none. For a server that does not lead. After a crash, the next call resumes the upload.
    Raises LOG_STORAGE, STORAGE; NOT_LEADER_OR_FOLLOWER if the log was dropped or given up meanwhile.
    """
    bucket = location.bucket
    with storage_failures():
        row = await remotes.rows.find(bucket)
    if row.tail_server != server:
        return False
    remotes = remotes.fenced_by(tail_fence(bucket, row))
    remote = await remotes.open(location, row.manifest)
    local = await _open_current(logs, bucket, read_format, row, server, remote.manifest.uploaded_end)
    if local is None:
        raise RuntimeError("local files of a tail server are neither current nor lost")
    log = RemoteBackedLog(local, remote, read_format, Tail(remotes, location, row.epoch), clock, incarnation="")
    try:
        await log.hand_over()
    finally:
        await log.close()
    return True


async def _open_current(
    logs: Logs,
    bucket: TableBucket,
    read_format: ReadFormat,
    row: LogRow,
    server: str,
    uploaded_end: int,
    is_leader: Callable[[], bool] = lambda: True,
) -> FolderLog | None:
    """The local log, if its files are current. Removes stale files. Raises LOG_STORAGE for lost records."""
    folder = logs.folder_of(bucket)
    epoch = await logs.run(_opened_in, folder)
    state = classify_local_copy(row, server, LocalFiles(epoch), uploaded_end)
    if await logs.run(_has_files, folder) and (row.tail_server == server or row.epoch == epoch):
        local = await logs.open(bucket, read_format, is_leader=is_leader)
        state = classify_local_copy(row, server, LocalFiles(epoch, local.end_offset), uploaded_end)
        if state is LocalCopy.CURRENT:
            return local
        await local.close()
    if state is LocalCopy.LOST:
        raise FlussError(
            ErrorCode.LOG_STORAGE,
            "acknowledged records are missing on this server's disk: restore the folder, or give them up with "
            f"`lakebed streams forget-server {server}` while this server is stopped. folder={folder} "
            f"uploaded_end={uploaded_end} recorded_end={row.recorded_end}",
        )
    with storage_failures():
        await logs.discard(bucket)
    if await logs.run(_has_files, folder):
        raise FlussError(
            ErrorCode.LOG_STORAGE, f"stale log files cannot be deleted: remove the folder. folder={folder}"
        )
    return None


def _opened_in(folder: str) -> int | None:
    """In a thread: the epoch in which this server last opened the log."""
    try:
        with open(os.path.join(folder, _EPOCH_FILE), encoding="ascii") as file:
            return int(file.read())
    except (OSError, ValueError):
        return None


def _has_files(folder: str) -> bool:
    """In a thread: whether this disk has files of the log."""
    return os.path.isdir(folder) and any(name.endswith(".log") for name in os.listdir(folder))


def _prepare(folder: str, epoch: int, first_offset: int, writers: bytes) -> str:
    """In a thread: store the epoch and, for a new local log that continues the remote one, the writer state.

    Returns the incarnation.
    """
    make_folder(folder)
    path = os.path.join(folder, _INCARNATION_FILE)
    if not os.path.exists(path):
        replace_file(path, secrets.token_hex(8).encode())
    if not _has_files(folder):
        document = crc32c(writers).to_bytes(4, "little") + writers
        replace_file(segment_path(folder, first_offset, "writers"), document)
    replace_file(os.path.join(folder, _EPOCH_FILE), str(epoch).encode())
    with open(path, encoding="ascii") as file:
        return file.read()
