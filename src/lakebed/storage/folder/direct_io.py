"""Writes large files with direct I/O, bypassing the page cache, if the file system supports it (ADR 11).

The disk reads from process memory. Aligned buffers, as bodies are received in, are not copied; others go through one
aligned buffer. The end of a file is seldom aligned, and goes through the cache.

Direct I/O does not make writes durable; that still requires a sync.
"""

from __future__ import annotations

import errno
import fcntl
import os

from lakebed.core.buffers import ALIGNMENT, BODY_BUFFERS, address_of

from ..seam import ByteSource

__all__ = ["DirectWriting"]


class DirectWriting:
    """Appends to an empty file. One thread at a time."""

    __slots__ = ("_buffer", "_buffered", "_descriptor", "_is_direct")

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._buffer: memoryview | None = None
        self._buffered = 0
        self._is_direct = False
        try:
            self._set_direct(True)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            # Some file systems always cache: tmpfs, some network and FUSE ones.

    def write(self, body: ByteSource) -> None:
        """Append bytes, the last of which may be buffered. Raises OSError."""
        view = memoryview(body)
        if not self._is_direct:
            self._write_buffer()
            self._write_out(view)
            return
        if not self._buffered and _is_aligned(view):
            whole = len(view) - len(view) % ALIGNMENT
            self._write_out(view[:whole])
            view = view[whole:]
        while view:
            view = self._copy(view)

    def finish(self) -> None:
        """Write buffered bytes. Raises OSError."""
        if self._is_direct:
            self._set_direct(False)
        self._write_buffer()

    def _write_buffer(self) -> None:
        if self._buffer is not None:
            self._write_out(self._buffer[: self._buffered])
            self._buffer = None
            self._buffered = 0

    def _copy(self, view: memoryview) -> memoryview:
        """Copy into the aligned buffer and write it when it is full; the remaining bytes."""
        if self._buffer is None:
            self._buffer = BODY_BUFFERS.take()
        count = min(len(view), len(self._buffer) - self._buffered)
        self._buffer[self._buffered : self._buffered + count] = view[:count]
        self._buffered += count
        if self._buffered == len(self._buffer):
            self._write_out(self._buffer)
            self._buffered = 0
        return view[count:]

    def _write_out(self, view: memoryview) -> None:
        written = 0
        while written < len(view):
            try:
                written += os.write(self._descriptor, view[written:])
            except OSError as error:
                # A disk with larger blocks, or one that became full inside a block: the cached write succeeds or
                # reports the error.
                if error.errno != errno.EINVAL or not self._is_direct:
                    raise
                self._set_direct(False)

    def _set_direct(self, direct: bool) -> None:
        flags = fcntl.fcntl(self._descriptor, fcntl.F_GETFL)
        fcntl.fcntl(self._descriptor, fcntl.F_SETFL, flags | os.O_DIRECT if direct else flags & ~os.O_DIRECT)
        self._is_direct = direct


def _is_aligned(view: memoryview) -> bool:
    """Whether at least one block of the buffer can be written directly."""
    return len(view) >= ALIGNMENT and not view.readonly and address_of(view) % ALIGNMENT == 0
