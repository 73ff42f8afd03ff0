"""Columns taken out of an Arrow batch without decoding it: buffers are chosen, the list of them is written anew.

Which buffers are a column's follows from its type alone. So a projection copies the bytes of the columns that were
asked for and touches no others, whether they are compressed or not.
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
    """What a column is made of in a message: itself and all that is nested in it."""

    nodes: int
    buffers: int


_I32: Final = struct.Struct("<i")


def shape_of(kind: pa.DataType) -> ColumnShape:
    """The shape of columns of a type."""
    if pa.types.is_null(kind):
        return ColumnShape(1, 0)
    if pa.types.is_struct(kind):
        own, nested = 1, [shape_of(kind.field(at).type) for at in range(kind.num_fields)]
    elif pa.types.is_map(kind):
        # Its entries are a struct of their own.
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
    """The batch with these columns alone, in ascending order. Columns that came after its schema are not in it.

    Its checksum stays that of the batch as it was written, by which clients know it. Raises INVALID_COLUMN_PROJECTION,
    CORRUPT_RECORD.
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
            ErrorCode.CORRUPT_RECORD, f"batch is not one of Arrow. offset={batch.base_offset} reason={error}"
        ) from error
    size = kinds + sum(map(len, taken))
    return [stored_header(batch, size), body[:kinds], *taken]


def _take(message: ArrowMessage, columns: Sequence[int], shapes: Sequence[ColumnShape]) -> list[LogBuffer]:
    if (
        len(message.nodes) != 16 * sum(shape.nodes for shape in shapes)
        or len(message.buffers) != 16 * sum(shape.buffers for shape in shapes)
    ):  # fmt: skip
        raise ValueError("columns are not those of the schema")
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
                    raise ValueError("a buffer lies outside of the message")
                places.append(PLACE.pack(end, size))
                pieces.append(message.body[start : start + size])
                if size % 8:
                    pieces.append(bytes(-size % 8))
                    size += -size % 8
                end += size
        node += shape.nodes
        buffer += shape.buffers
    return [_write(message, b"".join(nodes), b"".join(places), end), *pieces]


# What is written is of one layout always, so that only numbers are filled in. Tables follow their descriptions; 64-bit
# fields and the items of both vectors are at multiples of 8.
_ROOT: Final = struct.Struct("<i 2H4H iiqhBx")  # 0: the root's place, its description, the root at 16
_BATCH: Final = struct.Struct("<2H4H iiqii")  # 36: the description, the record batch at 48
_COMPRESSION: Final = struct.Struct("<2H2H iBB2x")  # 72: the description, the compression at 80
_NODES_AT: Final = 92


def _write(message: ArrowMessage, nodes: bytes, buffers: bytes, body_bytes: int) -> bytes:
    """A message that lists these, its metadata a multiple of 8 bytes."""
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
