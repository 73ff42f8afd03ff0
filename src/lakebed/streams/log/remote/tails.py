"""The uploaded tail of a log: its newest records in the object store, with `ack_after_upload`.

Each group of appends is one small object, named by its offsets and its writer. Names alone determine which objects are
the log: from an offset on, the newest object that begins there, but none older than its predecessor. So late uploads of
a former leader are never part of the log: a newer object exists at that offset, or will.

Small objects are merged from time to time, because another leader reads all of them before it serves the log. A merged
object has the name of the last one that it replaces, with the start of the first. Of two objects with the same start
and writer, the longer one is the log: after a crash at any time the log is either the merged object or its parts.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Final, NamedTuple

from lakebed.fluss.log_batches import LogBuffer
from lakebed.storage.seam import Key

from .manifest import LogLocation
from .remote_log import RemoteLogs, storage_failures

__all__ = ["Tail", "TailPiece", "chain", "mergeable"]

MERGED: Final = 32
"""The number of consecutive objects of similar size that are merged."""

_SIZES: Final = (64 * 1024, 1024 * 1024, 16 * 1024 * 1024)
_READ_TOGETHER_BYTES: Final = 32 * 1024 * 1024

_NAME: Final = re.compile(r"(\d{20})-(\d{20})-(\d{12})-(\d{6})\.log")


class TailPiece(NamedTuple):
    """An object of a tail: its offsets and its writer."""

    start: int
    end: int
    epoch: int
    opening: int
    """How often the log had been opened in the epoch."""

    @property
    def name(self) -> str:
        """The last part of its key."""
        return f"{self.start:020d}-{self.end:020d}-{self.epoch:012d}-{self.opening:06d}.log"


def chain(pieces: Iterable[TailPiece], offset: int) -> list[TailPiece]:
    """The pieces that are the log from `offset` on."""
    starting: dict[int, list[TailPiece]] = {}
    for piece in pieces:
        starting.setdefault(piece.start, []).append(piece)
    found: list[TailPiece] = []
    writer = (0, 0)
    while offset in starting:
        newest = max(starting[offset], key=lambda piece: (piece.epoch, piece.opening, piece.end))
        if (newest.epoch, newest.opening) < writer or newest.end <= offset:
            break
        found.append(newest)
        writer, offset = (newest.epoch, newest.opening), newest.end
    return found


def mergeable(pieces: Sequence[tuple[TailPiece, int]]) -> list[list[TailPiece]]:
    """Runs of a chain that should be merged; `pieces` come with their sizes.

    Pieces are merged with others of similar size, so that each record is uploaded again only a few times.
    """
    for limit in _SIZES:
        runs: list[list[TailPiece]] = []
        run: list[TailPiece] = []
        total = 0
        for piece, size in pieces:
            if size >= limit or total + size > _SIZES[-1]:
                runs.append(run)
                run, total = [], 0
            if size < limit:
                run.append(piece)
                total += size
        runs.append(run)
        if found := [each for each in runs if len(each) >= MERGED]:
            return found
    return []


class Tail:
    """The tail of one log. Call `load` first."""

    def __init__(self, logs: RemoteLogs, location: LogLocation, epoch: int) -> None:
        self._logs = logs
        self._folder = f"{location.folder}/tail"
        self._epoch = epoch
        self._opening = 0
        self._pieces: dict[TailPiece, int] = {}
        """Sizes by piece."""

    async def load(self, offset: int) -> list[TailPiece]:
        """List the objects. Returns the pieces that are the log from `offset` on. Raises STORAGE."""
        prefix = self._logs.key(self._folder) + "/"
        with storage_failures():
            async for head in self._logs.storage.list_prefix(prefix):
                if match := _NAME.fullmatch(head.key.removeprefix(prefix)):
                    self._pieces[TailPiece(*map(int, match.groups()))] = head.size
        self._opening = 1 + max((it.opening for it in self._pieces if it.epoch == self._epoch), default=0)
        return chain(self._pieces, offset)

    async def read(self, pieces: Sequence[TailPiece]) -> AsyncIterator[bytes]:
        """Read the batches of pieces in order. Raises STORAGE."""
        at = 0
        while at < len(pieces):
            # Concurrently: each is a round trip, and there can be thousands.
            total, end = 0, at
            while end < len(pieces) and end - at < MERGED and (end == at or total < _READ_TOGETHER_BYTES):
                total += self._pieces[pieces[end]]
                end += 1
            with storage_failures():
                bodies = await asyncio.gather(*(self._logs.storage.get(self._key(piece)) for piece in pieces[at:end]))
            for body in bodies:
                yield body
            at = end

    async def put(self, start: int, end: int, batches: Sequence[LogBuffer]) -> None:
        """Upload a piece durably. Raises STORAGE."""
        piece = TailPiece(start, end, self._epoch, self._opening)
        body = b"".join(batches)
        with storage_failures():
            await self._logs.storage.put(self._key(piece), body)
        self._pieces[piece] = len(body)

    def runs(self, uploaded_end: int, start: int, end: int) -> list[list[TailPiece]]:
        """Runs of pieces between `start` and `end` that should be merged. The tail begins at `uploaded_end`."""
        found = [piece for piece in chain(self._pieces, uploaded_end) if start <= piece.start and piece.end <= end]
        return mergeable([(piece, self._pieces[piece]) for piece in found])

    def size_of(self, run: Sequence[TailPiece]) -> int:
        """The size of a run in bytes."""
        return sum(self._pieces[piece] for piece in run)

    async def merge(self, run: Sequence[TailPiece], body: bytes, check: Callable[[], Awaitable[object]]) -> None:
        """Replace a run by one piece with its batches. `check` raises if another server leads.

        Raises STORAGE, NOT_LEADER_OR_FOLLOWER.
        """
        merged = run[-1]._replace(start=run[0].start)
        with storage_failures():
            await self._logs.storage.put(self._key(merged), body)
            self._pieces[merged] = len(body)
            # A leader that lists the tail after the check finds the merged piece; an earlier one needs its parts.
            await check()
            await self._logs.delete([self._key(piece) for piece in run])
        for piece in run:
            del self._pieces[piece]

    async def drop(self, offset: int) -> None:
        """Delete pieces that end at `offset` or before: uploaded segments contain them. Raises STORAGE."""
        obsolete = [piece for piece in self._pieces if piece.end <= offset]
        if not obsolete:
            return
        with storage_failures():
            await self._logs.delete([self._key(piece) for piece in obsolete])
        for piece in obsolete:
            del self._pieces[piece]

    def _key(self, piece: TailPiece) -> Key:
        return self._logs.key(f"{self._folder}/{piece.name}")
