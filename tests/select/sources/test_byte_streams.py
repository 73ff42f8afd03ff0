from __future__ import annotations

import bz2
import gzip
from collections.abc import Callable

import cramjam
import pyarrow as pa
import pytest
import zstandard

from lakebed.core.errors import SelectError
from lakebed.select.model import Compression
from lakebed.select.sources.byte_streams import Meter, open_stream
from lakebed.select.sources.object_bytes import LocalBytes

DATA = b"".join(b"%d,some text\n" % number for number in range(200_000))


def lz4(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "lz4") as stream:
        stream.write(data)
    return bytes(sink.getvalue().to_pybytes())


PACKED: dict[Compression, Callable[[bytes], bytes]] = {
    Compression.GZIP: gzip.compress,
    Compression.BZIP2: bz2.compress,
    Compression.ZSTD: zstandard.compress,
    Compression.LZ4: lz4,
    Compression.SNAPPY: lambda data: bytes(cramjam.snappy.compress(data)),
}


def read(stored: bytes, compression: Compression, step: int = 100_000) -> tuple[bytes, Meter]:
    meter = Meter()
    stream = open_stream(LocalBytes([stored]), compression, meter)
    parts = []
    while True:
        part = stream.read(step)
        parts.append(part)
        if len(part) < step:
            return b"".join(parts), meter


@pytest.mark.parametrize("compression", PACKED)
def test_compressed_object_is_decompressed(compression: Compression) -> None:
    stored = PACKED[compression](DATA)
    data, meter = read(stored, compression)
    assert data == DATA
    assert (meter.counts.scanned, meter.counts.processed) == (len(stored), len(DATA))


@pytest.mark.parametrize("compression", [Compression.GZIP, Compression.BZIP2, Compression.SNAPPY])
def test_concatenated_streams_are_read(compression: Compression) -> None:
    stored = PACKED[compression](DATA[:1000]) + PACKED[compression](DATA[1000:])
    assert read(stored, compression)[0] == DATA


@pytest.mark.parametrize("compression", PACKED)
def test_other_compression_is_rejected(compression: Compression) -> None:
    with pytest.raises(SelectError) as raised:
        read(b"plain text, not compressed at all", compression)
    assert raised.value.code == "InvalidCompressionFormat"


@pytest.mark.parametrize("compression", [Compression.GZIP, Compression.BZIP2, Compression.SNAPPY])
def test_truncated_compressed_object_is_rejected(compression: Compression) -> None:
    stored = PACKED[compression](DATA)
    with pytest.raises(SelectError) as raised:
        read(stored[: len(stored) // 2], compression)
    assert raised.value.code == "TruncatedInput"


@pytest.mark.parametrize("compression", PACKED)
def test_empty_object_is_empty(compression: Compression) -> None:
    assert read(b"", compression)[0] == b""


def test_bytes_are_read_across_extents() -> None:
    source = LocalBytes([b"abc", b"", b"defg", b"h"])
    assert source.size == 8
    assert [source.read_at(start, 3) for start in range(8)] == [
        b"abc",
        b"bcd",
        b"cde",
        b"def",
        b"efg",
        b"fgh",
        b"gh",
        b"h",
    ]
