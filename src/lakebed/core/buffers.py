"""Page-aligned memory for large bodies, used again and again.

A buffer comes back by itself when the last view on it is gone, as Python's counting of references says: whoever holds
a view or a slice of one, in whatever thread, owns its bytes, and nobody has to say that they are done with it.

Page-aligned, because the kernel writes such memory to a disk without copying it; used again, because new memory has to
be cleared first, which costs as much as a checksum.
"""

from __future__ import annotations

import ctypes
import mmap
import weakref
from typing import Final

__all__ = ["ALIGNMENT", "BODY_BUFFERS", "BUFFER_BYTES", "BufferPool", "address_of"]

ALIGNMENT: Final = 4096
"""What begins at a multiple of this is aligned for every usual disk."""

BUFFER_BYTES: Final = 512 * 1024

_KEPT: Final = 32
"""Idle buffers that are kept: 16 MiB."""


class BufferPool:
    """Buffers of one size. Any thread may take one."""

    def __init__(self, size: int = BUFFER_BYTES, kept: int = _KEPT) -> None:
        """Raises ValueError for a size that is not a whole number of pages."""
        if size % ALIGNMENT:
            raise ValueError(f"a buffer is a whole number of pages. size={size} page={ALIGNMENT}")
        self.size = size
        self._kept = kept
        self._idle: list[mmap.mmap] = []
        # Of one type for all: making a type is slow.
        self._lease_type: type[ctypes.Array[ctypes.c_ubyte]] = ctypes.c_ubyte * size

    @property
    def idle(self) -> int:
        """How many wait to be used again."""
        return len(self._idle)

    def take(self) -> memoryview:
        """A buffer with anything in it: only what the taker has written may be shown to others."""
        try:
            memory = self._idle.pop()
        except IndexError:
            memory = mmap.mmap(-1, self.size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        # Every view refers to the lease, not to the view that it is a slice of: when the lease goes, all have gone.
        lease = self._lease_type.from_buffer(memory)
        weakref.finalize(lease, self._give_back, memory).atexit = False
        return memoryview(lease).cast("B")

    def _give_back(self, memory: mmap.mmap) -> None:
        if len(self._idle) < self._kept:
            self._idle.append(memory)


BODY_BUFFERS: Final = BufferPool()
"""Those of the process: bodies are received into them, and what is to be aligned is copied into them."""


def address_of(buffer: bytearray | memoryview) -> int:
    """Where writable memory begins; it must not be empty."""
    return ctypes.addressof(ctypes.c_char.from_buffer(buffer))
