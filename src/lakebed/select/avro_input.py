"""An Avro object as records: read as JSON is, by what is in them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from io import BufferedReader
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from lakebed.core.errors import LakebedError, Unavailable

from .failures import SelectCode, failure
from .json_input import JsonRelation, build
from .object_file import ObjectFile
from .scanning import BlockScan
from .streams import Meter
from .value_columns import ValueColumns

if TYPE_CHECKING:
    from .object_bytes import ObjectBytes

_BLOCK_RECORDS: Final = 4096
_BUFFER_BYTES: Final = 256 * 1024


def open_avro(source: ObjectBytes, meter: Meter, like: JsonRelation | None = None) -> tuple[JsonRelation, BlockScan]:
    """An Avro object, ready to be read. Blocks. Raises SelectFailure (UnrecognizedFormatException)."""
    blocks = AvroBlocks(ObjectFile(source, meter))
    relation = like or JsonRelation(ValueColumns(blocks.first()), "_1")

    def read(block: list[Any], wanted: list[str]) -> pa.RecordBatch:
        return build(relation.columns, block, wanted)

    return relation, BlockScan(lambda: relation.schema, blocks, read, threaded=False)


class AvroBlocks:
    """Records of a file, some at a time."""

    def __init__(self, file: ObjectFile) -> None:
        from fastavro import reader

        self._file = file
        self._turn = threading.Lock()
        self._stopped = False
        self._first: list[Any] | None = None
        try:
            self._records: Iterator[Any] = iter(reader(BufferedReader(file, _BUFFER_BYTES)))
        except Exception as error:
            raise self._failure() from error

    def first(self) -> list[Any]:
        """The first block, which stays to be taken."""
        with self._turn:
            if self._first is None:
                self._first = self._next()
            return self._first

    def take(self) -> list[Any] | None:
        """The next block, or None after the last."""
        with self._turn:
            block, self._first = self._first, None
            return block or self._next() or None

    def stop(self) -> None:
        """No more of them."""
        self._stopped = True

    def _next(self) -> list[Any]:
        if self._stopped:
            raise Unavailable("the select was stopped")
        try:
            return list(islice(self._records, _BLOCK_RECORDS))
        except Exception as error:
            # What a damaged file makes of the library is any error at all.
            raise self._failure() from error

    def _failure(self) -> LakebedError:
        return self._file.failed or failure(
            SelectCode.UNRECOGNIZED_FORMAT_EXCEPTION, "the object cannot be read as Avro"
        )
