"""Encapsulated Arrow record batch messages, as log batches contain them.

A log batch contains one encapsulated message of Arrow's stream format, without its schema: a flatbuffer with the
lengths of columns (nodes) and the positions of their buffers, then the buffers.

Flatbuffer layout: Arrow's Message.fbs (`Message`: version, header type, header, body length; `RecordBatch`:
length, nodes, buffers, compression, variadic buffer counts).
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

import pyarrow as pa

from .log_batches import LogBuffer

__all__ = ["CONTINUATION", "PLACE", "RECORD_BATCH", "ArrowMessage", "read_rows"]

CONTINUATION: Final = b"\xff\xff\xff\xff"
RECORD_BATCH: Final = 3
PLACE: Final = struct.Struct("<qq")

_U16: Final = struct.Struct("<H")
_I32: Final = struct.Struct("<i")
_I64: Final = struct.Struct("<q")
_EMPTY: Final = bytes(8)
"""A compressed empty buffer: its uncompressed length of 0."""


def read_rows(body: LogBuffer, schema: pa.Schema) -> pa.RecordBatch:
    """The rows of a message. Raises pyarrow's errors, ValueError."""
    try:
        return pa.ipc.read_record_batch(pa.py_buffer(body), schema)
    except OSError:
        return pa.ipc.read_record_batch(pa.py_buffer(_without_empty(body)), schema)


def _without_empty(body: LogBuffer) -> bytearray:
    """The message with empty buffers at length 0. Raises ValueError.

    Arrow for Java writes the length of an empty buffer without an LZ4 frame; Arrow for C++ rejects that as truncated.
    """
    changed = bytearray(body)
    try:
        message = ArrowMessage.parse(memoryview(changed))
        for at, (start, size) in enumerate(PLACE.iter_unpack(message.buffers)):
            if size == len(_EMPTY) and message.body[start : start + size] == _EMPTY:
                PLACE.pack_into(message.buffers, at * PLACE.size, start, 0)
    except (struct.error, IndexError) as error:
        raise ValueError(f"invalid Arrow message. reason={error}") from error
    return changed


class ArrowMessage(NamedTuple):
    """An encoded record batch."""

    version: int
    length: int
    nodes: memoryview
    """Length and null count of each column and nested field."""
    buffers: memoryview
    """Position in the body and size of each buffer (`PLACE`)."""
    codec: int | None
    body: memoryview

    @classmethod
    def parse(cls, view: memoryview) -> ArrowMessage:
        """Parse the metadata; the body is not copied. Raises ValueError, struct.error, IndexError."""
        if bytes(view[:4]) != CONTINUATION:
            raise ValueError("not an Arrow message: no continuation marker")
        (size,) = _I32.unpack_from(view, 4)
        if size < 0 or 8 + size > len(view):
            raise ValueError(f"metadata is truncated. bytes={size}")
        table = view[8 : 8 + size]
        root = _FlatTable(table, *_I32.unpack_from(table, 0))
        if root.byte(1) != RECORD_BATCH:
            raise ValueError(f"message is not a record batch. type={root.byte(1)}")
        header = root.table(2)
        if header is None:
            raise ValueError("message has no header")
        compression = header.table(3)
        if header.vector(4, 8):
            raise ValueError("variadic buffers are not supported")
        return cls(
            root.short(0),
            header.long(0),
            header.vector(1, 16),
            header.vector(2, 16),
            None if compression is None else compression.byte(0),
            view[8 + size :],
        )


class _FlatTable(NamedTuple):
    """A flatbuffer table: fields by number, absent ones with their defaults."""

    data: memoryview
    at: int

    def _field(self, number: int) -> int:
        vtable = self.at - _I32.unpack_from(self.data, self.at)[0]
        if vtable < 0:
            raise ValueError("table has no vtable")
        entry = 4 + 2 * number
        if entry >= _U16.unpack_from(self.data, vtable)[0]:
            return 0
        offset = int(_U16.unpack_from(self.data, vtable + entry)[0])
        return self.at + offset if offset else 0

    def byte(self, number: int) -> int:
        at = self._field(number)
        return self.data[at] if at else 0

    def short(self, number: int) -> int:
        at = self._field(number)
        return int(_U16.unpack_from(self.data, at)[0]) if at else 0

    def long(self, number: int) -> int:
        at = self._field(number)
        return int(_I64.unpack_from(self.data, at)[0]) if at else 0

    def table(self, number: int) -> _FlatTable | None:
        at = self._field(number)
        return _FlatTable(self.data, at + _I32.unpack_from(self.data, at)[0]) if at else None

    def vector(self, number: int, item_bytes: int) -> memoryview:
        at = self._field(number)
        if not at:
            return memoryview(b"")
        at += _I32.unpack_from(self.data, at)[0]
        (count,) = _I32.unpack_from(self.data, at)
        end = at + 4 + count * item_bytes
        if count < 0 or end > len(self.data):
            raise ValueError(f"vector is truncated. count={count}")
        return self.data[at + 4 : end]
