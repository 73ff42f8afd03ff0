"""Opens the log of a bucket on this server, or uploads its tail for the leader (ADR 30, ADR 45).

While the log's row names a tail server, no other server opens the log. A server is named only once its files have every
acknowledged record. So its files are the log, whichever epoch it opened them in. Where no server is named, the object
store has every acknowledged record, and local files are kept only if no other server opened the log since.
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

__all__ = ["LocalCopy", "LocalFiles", "classify_local_copy", "open_remote_backed_log", "return_tail"]

_EPOCH: Final = "epoch"
_LIFE: Final = "life"


class LocalCopy(Enum):
    """What the files on this disk are."""

    CURRENT = "current"
    """The log, or a beginning of it that the object store has the rest of."""

    STALE = "stale"
    """Files of no use: another server may have gone on with the log. The object store has every acknowledged record."""

    LOST = "lost"
    """Less than what was acknowledged, and no other server or store has the rest."""


@dataclass(frozen=True, slots=True)
class LocalFiles:
    """What the disk has of a log."""

    epoch: int | None = None
    """In which this server opened the log last; None if it never did."""

    end_offset: int | None = None
    """The offset after its last record; None if there are no files."""


def classify_local_copy(row: LogRow, server: str, files: LocalFiles, copied_end: int) -> LocalCopy:
    """What `files` of `server` are. `row` names this server or none; the object store has all before `copied_end`."""
    if row.tail_server == server:
        acknowledged = max(copied_end, row.recorded_end)
        is_whole = files.end_offset is not None and files.end_offset >= acknowledged
        return LocalCopy.CURRENT if is_whole else LocalCopy.LOST
    is_newest = files.epoch == row.epoch and files.end_offset is not None and files.end_offset >= copied_end
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
    """Open a bucket's log here, with all that was acknowledged of it anywhere.

    Raises LEADER_NOT_AVAILABLE if only another server has some of that; NOT_LEADER_OR_FOLLOWER, LOG_STORAGE, STORAGE.
    """
    bucket, folder = location.bucket, logs.folder_of(location.bucket)
    row, epoch = await remotes.claim(location, server)
    remote = await remotes.open(location, row.manifest)
    copied = remote.manifest.copied_end
    local = await _open_current(logs, bucket, read_format, row, server, copied, is_leader)
    try:
        incarnation = await logs.run(_prepare, folder, epoch, copied, await remote.writers())
        if local is None:
            local = await logs.open(bucket, read_format, is_leader=is_leader, first_offset=copied)
        tail = Tail(remotes, location, epoch)
        pieces = await tail.look(copied)
        if row.tail_server != server:
            copied = pieces[-1].end if pieces else copied
            end = local.end_offset
            async for body in tail.read([piece for piece in pieces if piece.end > end]):
                await local.restore(body)
        log = RemoteBackedLog(local, remote, read_format, tail, clock, incarnation, ack_after_upload=ack_after_upload)
        if ack_after_upload:
            await log.upload_tail(copied)
            if row.tail_server:
                await remotes.release_tail(bucket)
            else:
                # Otherwise another server may have opened the log before it could find what was uploaded.
                await remote.check_leads()
        elif not row.tail_server:
            await remotes.keep_tail(bucket, server, remote.manifest.copied_end, local.stable_offset)
    except BaseException:
        if local is not None:
            await local.close()
        raise
    return log


async def return_tail(
    logs: Logs, remotes: RemoteLogs, location: LogLocation, read_format: ReadFormat, *, server: str, clock: Clock
) -> bool:
    """Upload the records of a log that only this disk has, for the leader to continue; False if there are none.

    For a server that is not the leader, or not yet: nothing of the log is open here. What was uploaded before a crash
    stays, and the next call goes on behind it. Raises LOG_STORAGE, STORAGE; NOT_LEADER_OR_FOLLOWER if the log was
    dropped or given up meanwhile.
    """
    bucket = location.bucket
    with storage_failures():
        row = await remotes.rows.find(bucket)
    if row.tail_server != server:
        return False
    remotes = remotes.fenced_by(tail_fence(bucket, row))
    remote = await remotes.open(location, row.manifest)
    local = await _open_current(logs, bucket, read_format, row, server, remote.manifest.copied_end)
    if local is None:
        raise RuntimeError("the files of a tail server are the log, or lost")
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
    copied_end: int,
    is_leader: Callable[[], bool] = lambda: True,
) -> FolderLog | None:
    """The log from this disk, if its files are current. Stale ones are removed. Raises LOG_STORAGE if some are lost."""
    folder = logs.folder_of(bucket)
    epoch = await logs.run(_opened_in, folder)
    verdict = classify_local_copy(row, server, LocalFiles(epoch), copied_end)
    if await logs.run(_has_files, folder) and (row.tail_server == server or row.epoch == epoch):
        local = await logs.open(bucket, read_format, is_leader=is_leader)
        verdict = classify_local_copy(row, server, LocalFiles(epoch, local.end_offset), copied_end)
        if verdict is LocalCopy.CURRENT:
            return local
        await local.close()
    if verdict is LocalCopy.LOST:
        raise FlussError(
            ErrorCode.LOG_STORAGE,
            "acknowledged records are missing on this server's disk: restore the folder, or give them up with "
            f"`lakebed streams forget-server {server}` while this server is stopped. folder={folder} "
            f"uploaded_end={copied_end} recorded_end={row.recorded_end}",
        )
    with storage_failures():
        await logs.discard(bucket)
    if await logs.run(_has_files, folder):
        raise FlussError(
            ErrorCode.LOG_STORAGE, f"stale files of a log cannot be removed: remove the folder. folder={folder}"
        )
    return None


def _opened_in(folder: str) -> int | None:
    """In a thread: the epoch in which this server opened the log last."""
    try:
        with open(os.path.join(folder, _EPOCH), encoding="ascii") as file:
            return int(file.read())
    except (OSError, ValueError):
        return None


def _has_files(folder: str) -> bool:
    """In a thread: whether this disk has some of the log."""
    return os.path.isdir(folder) and any(name.endswith(".log") for name in os.listdir(folder))


def _prepare(folder: str, epoch: int, first_offset: int, writers: bytes) -> str:
    """In a thread: note who opens the log, and who had written what if it begins here where the byte store's ends.

    The name of its life here.
    """
    make_folder(folder)
    named = os.path.join(folder, _LIFE)
    if not os.path.exists(named):
        replace_file(named, secrets.token_hex(8).encode())
    if not _has_files(folder):
        document = crc32c(writers).to_bytes(4, "little") + writers
        replace_file(segment_path(folder, first_offset, "writers"), document)
    replace_file(os.path.join(folder, _EPOCH), str(epoch).encode())
    with open(named, encoding="ascii") as file:
        return file.read()
