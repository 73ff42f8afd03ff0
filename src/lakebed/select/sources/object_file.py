"""An object as a seekable file for Arrow."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakebed.core.errors import LakebedError

from .byte_streams import Meter

if TYPE_CHECKING:
    from .object_bytes import ObjectBytes


class ObjectFile(io.RawIOBase):
    """A read-only file over an object's bytes. Reads are counted if there is a meter."""

    def __init__(self, source: ObjectBytes, meter: Meter | None = None) -> None:
        super().__init__()
        self._source = source
        self._meter = meter
        self._at = 0
        self.failed: LakebedError | None = None
        """The error of a read, which Arrow replaces by its own."""

    def readable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """Always."""
        return True

    def tell(self) -> int:
        """The current position."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Set the position."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._source.size}[whence]
        self._at = base + offset
        return self._at

    def size(self) -> int:
        """Number of bytes; called by Arrow."""
        return self._source.size

    def read(self, size: int = -1) -> bytes:
        """The next bytes."""
        left = max(0, self._source.size - self._at)
        count = left if size < 0 else min(size, left)
        if count == 0:
            return b""
        try:
            data = self._source.read_at(self._at, count)
        except LakebedError as error:
            self.failed = error
            raise
        self._at += len(data)
        if self._meter is not None:
            self._meter.add(scanned=len(data), processed=len(data))
        return data

    def readinto(self, buffer: Any) -> int:  # any writable buffer
        """Read into a buffer."""
        view = memoryview(buffer).cast("B")
        data = self.read(len(view))
        view[: len(data)] = data
        return len(data)

    def native(self) -> pa.NativeFile:
        """The file for Arrow."""
        return pa.PythonFile(self, mode="r")
