"""Projects an Arrow batch to columns without decoding it: selects buffers, and writes new metadata.

The buffers of a column follow from its type. So a projection copies only the bytes of the requested columns, compressed
or not.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

import pyarrow as pa

from lakebed.fluss.arrow_messages import CONTINUATION, PLACE, RECORD_BATCH, ArrowMessage
from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.fluss.log_batches import APPEND_ONLY, LogBuffer, LogRecordBatch, stored_header

__all__ = ["ColumnShape", "project", "shape_of"]


class ColumnShape(NamedTuple):
    """The numbers of nodes and buffers of a column, including nested ones."""

    nodes: int
    buffers: int


_I32: Final = struct.Struct("<i")


def shape_of(kind: pa.DataType) -> ColumnShape:
    """The shape of a column type."""
    if pa.types.is_null(kind):
        return ColumnShape(1, 0)
    if pa.types.is_struct(kind):
        own, nested = 1, [shape_of(kind.field(at).type) for at in range(kind.num_fields)]
    elif pa.types.is_map(kind):
        # Its entries are a nested struct.
        own, nested = 2, [ColumnShape(1, 1), shape_of(kind.key_type), shape_of(kind.item_type)]
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        own, nested = 2, [shape_of(kind.value_type)]
    elif pa.types.is_fixed_size_list(kind):
        own, nested = 1, [shape_of(kind.value_type)]
    elif pa.types.is_string(kind) or pa.types.is_binary(kind):
        own, nested = 3, []
    else:
        own, nested = 2, []
    return ColumnShape(1 + sum(it.nodes for it in nested), own + sum(it.buffers for it in nested))


def project(batch: LogRecordBatch, columns: Sequence[int], shapes: Sequence[ColumnShape]) -> list[LogBuffer]:
    """Project a batch to columns, in ascending order. Columns added after its schema are missing.

    Keeps the checksum of the original batch, which clients expect. Raises INVALID_COLUMN_PROJECTION, CORRUPT_RECORD.
    """
    if batch.record_count == 0:
        return [batch.view]
    body = batch.body
    kinds = 0 if batch.attributes & APPEND_ONLY else batch.record_count
    try:
        message = ArrowMessage.parse(body[kinds:])
        taken = _take(message, columns, shapes)
    except (struct.error, IndexError, ValueError) as error:
        raise FlussError(
            ErrorCode.CORRUPT_RECORD, f"invalid Arrow batch. offset={batch.base_offset} reason={error}"
        ) from error
    size = kinds + sum(map(len, taken))
    return [stored_header(batch, size), body[:kinds], *taken]


def _take(message: ArrowMessage, columns: Sequence[int], shapes: Sequence[ColumnShape]) -> list[LogBuffer]:
    if (
        len(message.nodes) != 16 * sum(shape.nodes for shape in shapes)
        or len(message.buffers) != 16 * sum(shape.buffers for shape in shapes)
    ):  # fmt: skip
        raise ValueError("columns do not match the schema")
    nodes: list[memoryview] = []
    places: list[bytes] = []
    pieces: list[LogBuffer] = []
    end = 0
    wanted = set(columns)
    node = buffer = 0
    for number, shape in enumerate(shapes):
        if number in wanted:
            nodes.append(message.nodes[16 * node : 16 * (node + shape.nodes)])
            for start, size in PLACE.iter_unpack(message.buffers[16 * buffer : 16 * (buffer + shape.buffers)]):
                if start < 0 or size < 0 or start + size > len(message.body):
                    raise ValueError("buffer extends beyond the message")
                places.append(PLACE.pack(end, size))
                pieces.append(message.body[start : start + size])
                if size % 8:
                    pieces.append(bytes(-size % 8))
                    size += -size % 8
                end += size
        node += shape.nodes
        buffer += shape.buffers
    return [_write(message, b"".join(nodes), b"".join(places), end), *pieces]


# The flatbuffer is written with one fixed layout, so that only numbers are filled in. Tables follow their vtables;
# 64-bit fields and vector items are aligned to 8.
_ROOT: Final = struct.Struct("<i 2H4H iiqhBx")  # 0: position of the root, its vtable, the root at 16
_BATCH: Final = struct.Struct("<2H4H iiqii")  # 36: vtable, the record batch at 48
_COMPRESSION: Final = struct.Struct("<2H2H iBB2x")  # 72: vtable, the compression at 80
_NODES_AT: Final = 92


def _write(message: ArrowMessage, nodes: bytes, buffers: bytes, body_bytes: int) -> bytes:
    """A message with this metadata, padded to 8 bytes."""
    buffers_at = _NODES_AT + 4 + len(nodes) + 4
    codec = message.codec
    metadata = b"".join(
        (
            _ROOT.pack(16, 12, 20, 16, 18, 4, 8, 12, 48 - 20, body_bytes, message.version, RECORD_BATCH),
            _BATCH.pack(
                *(12, 24, 8, 4, 16, 0 if codec is None else 20),
                *(12, _NODES_AT - 52, message.length, buffers_at - 64, 80 - 68),
            ),
            _COMPRESSION.pack(8, 8, 4, 5, 8, codec or 0, 0),
            bytes(4),
            _I32.pack(len(nodes) // 16),
            nodes,
            bytes(4),
            _I32.pack(len(buffers) // 16),
            buffers,
        )
    )
    return b"".join((CONTINUATION, _I32.pack(len(metadata)), metadata))
