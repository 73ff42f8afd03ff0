"""Decides what the files of a log on this server's disk are, by the log's row and what the disk has.

The invariant behind it: while a row names a tail server, no other server opens the log. It is named only once its files
have every acknowledged record. So its files are the log, whichever epoch they were opened in last. Where no server is
named, the object store has every acknowledged record, and files are only worth keeping if no other server has opened
the log since.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ..remote.log_rows import LogRow

__all__ = ["LocalCopy", "LocalFiles", "classify_local_copy"]


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
