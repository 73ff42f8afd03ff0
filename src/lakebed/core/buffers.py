"""A pool of page-aligned buffers for large bodies.

A buffer returns to the pool when the last view of it is garbage collected, in whatever thread: holders of a view or
slice own its bytes and release nothing explicitly.

Page-aligned, because the kernel writes such memory to a disk without copying it. Pooled, because the kernel clears new
memory, which costs as much as a checksum.
"""

from __future__ import annotations

import ctypes
import mmap
import weakref
from typing import Final

__all__ = ["ALIGNMENT", "BODY_BUFFERS", "BUFFER_BYTES", "BufferPool", "address_of"]

ALIGNMENT: Final = 4096
"""The alignment that direct I/O requires on every usual disk."""

BUFFER_BYTES: Final = 512 * 1024

_KEPT: Final = 32
"""Idle buffers in the pool: 16 MiB."""


class BufferPool:
    """Buffers of one size. Safe for threads."""

    def __init__(self, size: int = BUFFER_BYTES, kept: int = _KEPT) -> None:
        """Raises ValueError for a size that is not a whole number of pages."""
        if size % ALIGNMENT:
            raise ValueError(f"a buffer is a whole number of pages. size={size} page={ALIGNMENT}")
        self.size = size
        self._kept = kept
        self._idle: list[mmap.mmap] = []
        # One type for all buffers: creating a ctypes array type is slow.
        self._lease_type: type[ctypes.Array[ctypes.c_ubyte]] = ctypes.c_ubyte * size

    @property
    def idle(self) -> int:
        """The number of idle buffers."""
        return len(self._idle)

    def take(self) -> memoryview:
        """A buffer with undefined content: the caller must only expose bytes that it has written."""
        try:
            memory = self._idle.pop()
        except IndexError:
            memory = mmap.mmap(-1, self.size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        # Every view references the lease, not the view that it slices: the lease is collected after the last of them.
        lease = self._lease_type.from_buffer(memory)
        weakref.finalize(lease, self._give_back, memory).atexit = False
        return memoryview(lease).cast("B")

    def _give_back(self, memory: mmap.mmap) -> None:
        if len(self._idle) < self._kept:
            self._idle.append(memory)


BODY_BUFFERS: Final = BufferPool()
"""The process-wide pool: bodies are received into it, and unaligned data is copied into it."""


def address_of(buffer: bytearray | memoryview) -> int:
    """The memory address of a writable, non-empty buffer."""
    return ctypes.addressof(ctypes.c_char.from_buffer(buffer))
