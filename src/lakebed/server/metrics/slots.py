"""A process's metric values in a memory-mapped file, which every worker can read.

    header: magic, bytes of names in use | 16,384 slots of float64 | names: length, msgpack of a `SeriesName`, …

Names are append-only and valid up to the length in the header; the slots of a name follow those of the previous one.
Each file has one writer. A restarted process continues its file: counters never go back.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from lakebed.core.errors import StateConflict

MAX_WIDTH: Final = 64
"""The most slots of one series."""

_MAGIC: Final = b"LKBDMET1"
_HEADER: Final = struct.Struct("=8sQ")
_LENGTH: Final = struct.Struct("=I")
_SLOTS_AT: Final = 64
_SLOTS: Final = 16_384
_NAMES_AT: Final = _SLOTS_AT + 8 * _SLOTS
_FILE_BYTES: Final = _NAMES_AT + 1024 * 1024
_FILES: Final = "worker-*.metrics"


class SeriesName(msgspec.Struct, frozen=True, array_like=True):
    """The series of a range of slots."""

    family: str
    labels: tuple[str, ...]
    """Values, in the order of the family's labels."""

    width: int


class SlotFile:
    """The file of one process, opened by that process for writing."""

    def __init__(self, folder: Path, worker: int) -> None:
        """Open or create the file. Raises StateConflict while another process has it open."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = folder / _FILES.replace("*", str(worker))
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(self._file)
            raise StateConflict(f"metrics file in use by another process. path={path}") from error
        os.ftruncate(self._file, _FILE_BYTES)
        self._map = mmap.mmap(self._file, _FILE_BYTES)
        self.slots = _slots_of(self._map)
        """The values. Under the GIL `slots[i] += x` is atomic, so any thread may do it."""

        if self._map[: len(_MAGIC)] != _MAGIC:
            _HEADER.pack_into(self._map, 0, _MAGIC, 0)
        self._allocated = dict(_names(self._map))
        # The first slots have no name: series without a slot of their own count there, unrendered.
        self._next = max((slot + name.width for name, slot in self._allocated.items()), default=MAX_WIDTH)

    def allocate(self, name: SeriesName) -> int | None:
        """The first slot of the series, the same one each time; None if the file is full."""
        if (slot := self._allocated.get(name)) is not None:
            return slot
        text = msgspec.msgpack.encode(name)
        _, used = _HEADER.unpack_from(self._map)
        at, end = _NAMES_AT + used, _NAMES_AT + used + _LENGTH.size + len(text)
        if end > _FILE_BYTES or self._next + name.width > _SLOTS:
            return None
        slot = self._allocated[name] = self._next
        self._next += name.width
        self._map[at:end] = _LENGTH.pack(len(text)) + text
        _HEADER.pack_into(self._map, 0, _MAGIC, end - _NAMES_AT)
        return slot

    def zero(self, family: str) -> None:
        """Set all series of the family to zero."""
        for name, slot in self._allocated.items():
            if name.family == family:
                for index in range(slot, slot + name.width):
                    self.slots[index] = 0.0

    def close(self) -> None:
        """Close the file; its values stay."""
        self.slots.release()
        self._map.close()
        os.close(self._file)


def read_all(folder: Path) -> Iterator[tuple[SeriesName, list[float]]]:
    """Every series of every process, with its values."""
    for path in sorted(folder.glob(_FILES)):
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_size != _FILE_BYTES:
                continue  # being created
            with mmap.mmap(file.fileno(), _FILE_BYTES, access=mmap.ACCESS_READ) as mapped, _slots_of(mapped) as slots:
                for name, slot in _names(mapped):
                    yield name, [slots[index] for index in range(slot, slot + name.width)]


def clear_metrics(folder: Path) -> None:
    """Remove the metrics of earlier runs. For the start of the server, before its processes."""
    for path in folder.glob(_FILES):
        path.unlink(missing_ok=True)


def _slots_of(mapped: mmap.mmap) -> memoryview[float]:
    return memoryview(mapped)[_SLOTS_AT:_NAMES_AT].cast("d")


def _names(mapped: mmap.mmap) -> Iterator[tuple[SeriesName, int]]:
    """Each name of a file and its first slot."""
    decoder = msgspec.msgpack.Decoder(SeriesName)
    _, used = _HEADER.unpack_from(mapped)
    at, slot = _NAMES_AT, MAX_WIDTH
    while at < _NAMES_AT + used:
        (length,) = _LENGTH.unpack_from(mapped, at)
        at += _LENGTH.size
        name = decoder.decode(mapped[at : at + length])
        yield name, slot
        at += length
        slot += name.width
