"""Reads a range of an object sequentially, decompresses it and counts the bytes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from lakebed.core.errors import LakebedError

from ..errors import SelectCode, failure
from ..model import Compression, QueryStats
from .snappy_frames import ByteReader, SnappyStream

if TYPE_CHECKING:
    from .object_bytes import ObjectBytes

_CODECS: Final = {
    Compression.GZIP: "gzip",
    Compression.BZIP2: "bz2",
    Compression.ZSTD: "zstd",
    Compression.LZ4: "lz4",
}
_MAGIC: Final = {
    Compression.GZIP: b"\x1f\x8b",
    Compression.BZIP2: b"BZh",
    Compression.ZSTD: b"\x28\xb5\x2f\xfd",
    Compression.LZ4: b"\x04\x22\x4d\x18",
    Compression.SNAPPY: b"\xff\x06\x00\x00sNaPpY",
}
_FETCH_BYTES: Final = 1024 * 1024


class Meter:
    """Counts the bytes of a query. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = [0, 0, 0]

    def add(self, *, scanned: int = 0, processed: int = 0, returned: int = 0) -> None:
        """Add to the counts."""
        with self._lock:
            for number, more in enumerate((scanned, processed, returned)):
                self._counts[number] += more

    @property
    def counts(self) -> QueryStats:
        """The current counts."""
        with self._lock:
            return QueryStats(*self._counts)


class ObjectRange:
    """The stored bytes of an object from `start` to `stop`."""

    closed = False

    def __init__(self, source: ObjectBytes, start: int, stop: int, count: Callable[[int], None]) -> None:
        self._source = source
        self._at = start
        self._stop = stop
        self._count = count
        self.failed: LakebedError | None = None
        """The error of a read, which Arrow replaces by its own."""

    def read(self, length: int = -1) -> bytes:
        """The next bytes."""
        length = self._stop - self._at if length < 0 else min(length, self._stop - self._at)
        if length <= 0:
            return b""
        try:
            data = self._source.read_at(self._at, length)
        except LakebedError as error:
            self.failed = error
            raise
        self._at += len(data)
        self._count(len(data))
        return data

    def readable(self) -> bool:
        """Always; called by Arrow."""
        return True

    def close(self) -> None:
        """Do nothing: the caller closes the source."""


def open_stream(
    source: ObjectBytes, compression: Compression, meter: Meter, start: int = 0, stop: int | None = None
) -> ByteReader:
    """A range of the object, decompressed. Raises SelectError (InvalidCompressionFormat)."""
    stop = source.size if stop is None else stop
    if compression is Compression.NONE:
        return ObjectRange(source, start, stop, lambda count: meter.add(scanned=count, processed=count))
    magic = _MAGIC[compression]
    if stop and source.read_at(0, len(magic)) != magic:
        raise failure(
            SelectCode.INVALID_COMPRESSION_FORMAT, f"object does not have this compression. expected={compression}"
        )
    stored = ObjectRange(source, start, stop, lambda count: meter.add(scanned=count))
    if compression is Compression.SNAPPY:
        return _Decompressed(SnappyStream(stored), stored, meter)
    return _Decompressed(pa.CompressedInputStream(pa.PythonFile(stored, mode="r"), _CODECS[compression]), stored, meter)


class _Decompressed:
    """Decompresses a range, and maps errors to S3's."""

    def __init__(self, inner: ByteReader, stored: ObjectRange, meter: Meter) -> None:
        self._inner = inner
        self._stored = stored
        self._meter = meter

    def read(self, length: int) -> bytes:
        """The next bytes."""
        gathered = bytearray()
        while len(gathered) < length:
            # In steps, because a decompressor allocates the whole requested size first.
            part = self._step(min(length - len(gathered), _FETCH_BYTES))
            if not part:
                break
            gathered += part
        self._meter.add(processed=len(gathered))
        return bytes(gathered)

    def _step(self, length: int) -> bytes:
        try:
            return self._inner.read(length)
        except LakebedError:
            raise
        except (OSError, pa.ArrowException, EOFError) as error:
            if self._stored.failed is not None:
                raise self._stored.failed from error
            if isinstance(error, EOFError) or "runcated" in str(error) or "premature" in str(error).lower():
                raise failure(SelectCode.TRUNCATED_INPUT, "compressed object is truncated") from error
            raise failure(SelectCode.INVALID_COMPRESSION_FORMAT, "object cannot be decompressed") from error
