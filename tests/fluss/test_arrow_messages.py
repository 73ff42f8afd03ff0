"""Arrow messages in the forms that the clients write."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakebed.fluss.arrow_messages import PLACE, ArrowMessage, read_rows

SCHEMA = pa.schema([("id", pa.int32()), ("name", pa.string())])


def message(rows: pa.RecordBatch, compression: str) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, SCHEMA, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_batch(rows)
    reader = pa.ipc.MessageReader.open_stream(sink.getvalue())
    reader.read_next_message()
    return bytes(reader.read_next_message().serialize().to_pybytes())


def as_java_writes_it(written: bytes) -> bytes:
    """Replace each empty buffer with eight zeros at the end of the body."""
    changed = bytearray(written)
    parsed = ArrowMessage.parse(memoryview(changed))
    added = 0
    for at, (start, size) in enumerate(PLACE.iter_unpack(parsed.buffers)):
        if size == 0 and start:
            PLACE.pack_into(parsed.buffers, at * PLACE.size, len(parsed.body) + added, 8)
            added += 8
    assert added
    metadata, body = bytes(changed[: -len(parsed.body)]), bytes(parsed.body)
    lengths = (len(body).to_bytes(8, "little"), (len(body) + added).to_bytes(8, "little"))
    # The length of the body precedes the positions of the buffers.
    return metadata.replace(*lengths, 1) + body + bytes(added)


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_empty_buffers_of_java_and_arrow_are_read(compression: str) -> None:
    rows = pa.record_batch([pa.array([1, 2], pa.int32()), pa.array(["", ""])], schema=SCHEMA)
    written = message(rows, compression)
    assert read_rows(written, SCHEMA).equals(rows)
    from_java = as_java_writes_it(written)
    if compression == "lz4":
        with pytest.raises(OSError, match=r"(?i)lz4"):
            pa.ipc.read_record_batch(pa.py_buffer(from_java), SCHEMA)
    assert read_rows(memoryview(from_java), SCHEMA).equals(rows)


@pytest.mark.parametrize("body", [b"", b"no message", b"\xff\xff\xff\xff\x10\0\0\0" + bytes(16)])
def test_invalid_messages_are_rejected(body: bytes) -> None:
    with pytest.raises((OSError, ValueError, EOFError)):
        read_rows(body, SCHEMA)
