"""Reads Avro objects, whose records are handled like JSON values.

Blocks are read, checked and decompressed here, within limits; fastavro decodes single records by a schema that was
validated. It gets at most the bytes of one maximal record at a time, so a record that claims more fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from io import BufferedReader, BytesIO
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from lakebed.core.errors import InvalidInput, LakebedError, SelectError, TooLarge
from lakebed.iceberg.avro.binary import read_long
from lakebed.iceberg.avro.container import SYNC_SIZE, decompress_block, open_container

from ..errors import SelectCode, failure
from ..execution.scanning import BlockScan, SampledBlocks
from ..model import MAX_RECORD_BYTES
from ..sources.byte_streams import Meter
from ..sources.object_file import ObjectFile
from ..sources.record_blocks import record_too_long
from .avro_schema import MAX_SCHEMA_BYTES, parse_avro_schema
from .json_relation import JsonRelation, build
from .value_columns import ValueColumns

if TYPE_CHECKING:
    from ..sources.object_bytes import ObjectBytes

MAX_BLOCK_BYTES: Final = 64 * 1024 * 1024
"""Limit of a block's size, compressed and decompressed."""

_HEADER_BYTES: Final = 2 * MAX_SCHEMA_BYTES
_BLOCK_RECORDS: Final = 4096
_BUFFER_BYTES: Final = 256 * 1024
_NUMBER_BYTES: Final = 10


def open_avro(source: ObjectBytes, meter: Meter, like: JsonRelation | None = None) -> tuple[JsonRelation, BlockScan]:
    """Open an Avro object. Blocks. Raises SelectError (UnrecognizedFormatException)."""
    blocks = AvroBlocks(ObjectFile(source, meter))
    relation = like or JsonRelation(ValueColumns(blocks.first()), "_1")

    def read(block: list[Any], wanted: list[str]) -> pa.RecordBatch:
        return build(relation.columns, block, wanted)

    return relation, BlockScan(lambda: relation.schema, blocks, read, threaded=False)


class AvroBlocks(SampledBlocks[Any]):
    """Reads the records of a file in blocks."""

    def __init__(self, file: ObjectFile) -> None:
        super().__init__()
        self._file = file
        self._records = _records(file)

    def _read(self) -> list[Any]:
        try:
            return list(islice(self._records, _BLOCK_RECORDS))
        except SelectError:
            raise
        except Exception as error:
            # Damaged files can make the library raise any exception.
            raise self._failure(error) from error

    def _failure(self, error: Exception) -> LakebedError:
        reason = f": {error}" if isinstance(error, InvalidInput | TooLarge) else ""
        return self._file.failed or failure(
            SelectCode.UNRECOGNIZED_FORMAT_EXCEPTION, f"the object cannot be read as Avro{reason}"
        )


def _records(file: ObjectFile) -> Iterator[Any]:
    """All records. Raises InvalidInput, TooLarge, SelectError, and any exception of fastavro for damaged data."""
    from fastavro import schemaless_reader

    stream = BufferedReader(file, _BUFFER_BYTES)
    container = open_container(stream.read(_HEADER_BYTES))
    schema = parse_avro_schema(container.schema)
    stream.seek(container.body_at)

    def decode(content: BytesIO) -> Any:
        return schemaless_reader(content, schema)

    while (count := _number(stream)) is not None:
        size = _number(stream) or 0
        if not 0 <= size <= MAX_BLOCK_BYTES:
            raise TooLarge(f"block is too large. size={size} maximum={MAX_BLOCK_BYTES}")
        packed, sync = stream.read(size), stream.read(SYNC_SIZE)
        if len(packed) != size or sync != container.sync:
            raise InvalidInput("block does not end with the file's sync marker")
        content = decompress_block(container.codec, packed, MAX_BLOCK_BYTES)
        if not 0 <= count <= len(content):
            raise InvalidInput(f"block has fewer bytes than records. records={count} bytes={len(content)}")
        yield from _decoded(content, count, decode)


def _number(stream: BufferedReader[ObjectFile]) -> int | None:
    """The next long; None at the end of the object."""
    read = bytearray()
    while byte := stream.read(1):
        read += byte
        if byte[0] < 0x80 or len(read) == _NUMBER_BYTES:
            return read_long(bytes(read), 0)[0]
    if read:
        raise InvalidInput("block header is truncated")
    return None


def _decoded(content: bytes, count: int, decode: Callable[[BytesIO], Any]) -> Iterator[Any]:
    """The records of a block, each decoded from at most `MAX_RECORD_BYTES`."""
    begins, window, at = 0, BytesIO(content[: 2 * MAX_RECORD_BYTES]), 0
    is_last = len(content) <= 2 * MAX_RECORD_BYTES
    while count:
        if not is_last and at > MAX_RECORD_BYTES:
            begins, at = begins + at, 0
            window = BytesIO(content[begins : begins + 2 * MAX_RECORD_BYTES])
            is_last = len(content) - begins <= 2 * MAX_RECORD_BYTES
        try:
            record = decode(window)
        except EOFError:
            if is_last:
                raise
            raise record_too_long() from None
        ends = window.tell()
        if ends - at > MAX_RECORD_BYTES:
            raise record_too_long()
        at = ends
        count -= 1
        yield record
    if begins + at != len(content):
        raise InvalidInput("block has more bytes than its records")
