"""The newest records of a log in the byte store, for homes that acknowledge nothing that is only on their disk.

Each group of appends is one small object, named by its offsets and by who wrote it. Which of them are the log is told
by their names alone: from an offset on the object that begins there and was written last, and never one that was
written before its predecessor. So what a former home sends too late is not the log, whenever it arrives: by then
somebody else has written at that offset, or will.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from lakebed.storage.seam import Key

from .batches import Buffer
from .manifest import LogPlace
from .remote import RemoteLogs, storage_failures

__all__ = ["Tail", "TailPiece", "chain"]

_NAME: Final = re.compile(r"(\d{20})-(\d{20})-(\d{12})-(\d{6})\.log")


class TailPiece(NamedTuple):
    """An object of a tail: its offsets, and who wrote it."""

    start: int
    end: int
    epoch: int
    opening: int
    """How often the log had been opened in that epoch."""

    @property
    def name(self) -> str:
        """The last part of its key."""
        return f"{self.start:020d}-{self.end:020d}-{self.epoch:012d}-{self.opening:06d}.log"


def chain(pieces: Iterable[TailPiece], offset: int) -> list[TailPiece]:
    """Those that are the log from `offset` on."""
    starting: dict[int, list[TailPiece]] = {}
    for piece in pieces:
        starting.setdefault(piece.start, []).append(piece)
    found: list[TailPiece] = []
    author = (0, 0)
    while offset in starting:
        newest = max(starting[offset], key=lambda piece: (piece.epoch, piece.opening, piece.end))
        if (newest.epoch, newest.opening) < author or newest.end <= offset:
            break
        found.append(newest)
        author, offset = (newest.epoch, newest.opening), newest.end
    return found


class Tail:
    """The tail of one log. `look` is called before anything else."""

    def __init__(self, logs: RemoteLogs, place: LogPlace, epoch: int) -> None:
        self._logs = logs
        self._folder = f"{place.folder}/tail"
        self._epoch = epoch
        self._opening = 0
        self._pieces: set[TailPiece] = set()

    async def look(self, offset: int) -> list[TailPiece]:
        """See what is there: the pieces that are the log from `offset` on. Raises STORAGE."""
        prefix = self._logs.key(self._folder) + "/"
        with storage_failures():
            async for head in self._logs.storage.list_prefix(prefix):
                if match := _NAME.fullmatch(head.key.removeprefix(prefix)):
                    self._pieces.add(TailPiece(*map(int, match.groups())))
        self._opening = 1 + max((it.opening for it in self._pieces if it.epoch == self._epoch), default=0)
        return chain(self._pieces, offset)

    async def read(self, piece: TailPiece) -> bytes:
        """The batches of a piece, as they were appended. Raises STORAGE."""
        with storage_failures():
            return await self._logs.storage.get(self._key(piece))

    async def put(self, start: int, end: int, batches: Sequence[Buffer]) -> None:
        """Write a piece; when this returns it is on the store's stable storage. Raises STORAGE."""
        piece = TailPiece(start, end, self._epoch, self._opening)
        body = b"".join(batches)
        with storage_failures():
            await self._logs.storage.put(self._key(piece), body)
        self._pieces.add(piece)

    async def drop(self, offset: int) -> None:
        """Remove what ends at `offset` or before: sealed segments have it. Raises STORAGE."""
        gone = [piece for piece in self._pieces if piece.end <= offset]
        with storage_failures():
            await self._logs.delete([self._key(piece) for piece in gone])
        self._pieces.difference_update(gone)

    def _key(self, piece: TailPiece) -> Key:
        return self._logs.key(f"{self._folder}/{piece.name}")
