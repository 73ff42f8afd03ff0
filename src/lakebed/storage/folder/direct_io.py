"""Writes the bytes of a large file around the page cache, where the file system lets us (ADR 11).

The disk then takes them from our own memory. What is aligned, as bodies are received, is not copied at all; what is not
goes through one aligned buffer. The end of a file is seldom aligned, and goes through the cache as usual.

None of this makes anything durable: that is still for a sync to do.
"""

from __future__ import annotations

import errno
import fcntl
import os

from lakebed.core.buffers import ALIGNMENT, BODY_BUFFERS, address_of

from ..seam import ByteSource

__all__ = ["DirectWriting"]


class DirectWriting:
    """Appends to one file, of which nothing is written yet. One thread at a time."""

    __slots__ = ("_buffer", "_descriptor", "_held", "_is_direct")

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._buffer: memoryview | None = None
        self._held = 0
        self._is_direct = False
        try:
            self._set_direct(True)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            # A file system that always has a cache between: a memory disk, some network and user-space ones.

    def write(self, body: ByteSource) -> None:
        """Append bytes, of which the last may be kept back. Raises OSError."""
        view = memoryview(body)
        if not self._is_direct:
            self._write_held()
            self._write_out(view)
            return
        if not self._held and _is_aligned(view):
            whole = len(view) - len(view) % ALIGNMENT
            self._write_out(view[:whole])
            view = view[whole:]
        while view:
            view = self._hold(view)

    def finish(self) -> None:
        """Write what was kept back. Raises OSError."""
        if self._is_direct:
            self._set_direct(False)
        self._write_held()

    def _write_held(self) -> None:
        if self._buffer is not None:
            self._write_out(self._buffer[: self._held])
            self._buffer = None
            self._held = 0

    def _hold(self, view: memoryview) -> memoryview:
        """Copy into the aligned buffer, written out when it is full; what is left."""
        if self._buffer is None:
            self._buffer = BODY_BUFFERS.take()
        count = min(len(view), len(self._buffer) - self._held)
        self._buffer[self._held : self._held + count] = view[:count]
        self._held += count
        if self._held == len(self._buffer):
            self._write_out(self._buffer)
            self._held = 0
        return view[count:]

    def _write_out(self, view: memoryview) -> None:
        written = 0
        while written < len(view):
            try:
                written += os.write(self._descriptor, view[written:])
            except OSError as error:
                # A disk of larger blocks than usual, or one that has become full inside a block: the cache can do it,
                # or say that it cannot.
                if error.errno != errno.EINVAL or not self._is_direct:
                    raise
                self._set_direct(False)

    def _set_direct(self, direct: bool) -> None:
        flags = fcntl.fcntl(self._descriptor, fcntl.F_GETFL)
        fcntl.fcntl(self._descriptor, fcntl.F_SETFL, flags | os.O_DIRECT if direct else flags & ~os.O_DIRECT)
        self._is_direct = direct


def _is_aligned(view: memoryview) -> bool:
    """Whether the disk can take at least a block of it as it is."""
    return len(view) >= ALIGNMENT and not view.readonly and address_of(view) % ALIGNMENT == 0
