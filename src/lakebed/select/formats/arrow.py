"""Reads objects in Arrow IPC format: a file or a stream of batches."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyarrow import ipc

from lakebed.core.errors import LakebedError, Unavailable

from ..errors import SelectCode, failure
from ..execution.scanning import BatchReader
from ..sources.byte_streams import Meter
from ..sources.object_file import ObjectFile
from .arrow_relation import ArrowRelation

if TYPE_CHECKING:
    from ..sources.object_bytes import ObjectBytes

_MAGIC: Final = b"ARROW1"


def open_arrow(source: ObjectBytes, meter: Meter, like: ArrowRelation | None = None) -> tuple[ArrowRelation, ArrowScan]:
    """Open an Arrow object. Blocks. Raises SelectError (UnrecognizedFormatException)."""
    scan = ArrowScan(source, meter, like)
    return scan.relation, scan


class ArrowScan:
    """Scans the batches in sequence."""

    def __init__(self, source: ObjectBytes, meter: Meter, like: ArrowRelation | None = None) -> None:
        self._file = ObjectFile(source, meter)
        self._lock = threading.Lock()
        self._stopped = False
        try:
            if source.read_at(0, len(_MAGIC)) == _MAGIC:
                opened = ipc.open_file(self._file.native())
                schema = opened.schema
                self._batches = (opened.get_batch(number) for number in range(opened.num_record_batches))
            else:
                stream = ipc.open_stream(self._file.native())
                schema = stream.schema
                self._batches = iter(stream)
        except (pa.ArrowException, OSError) as error:
            raise self._failure() from error
        if len(set(schema.names)) != len(schema.names):
            raise failure(SelectCode.AMBIGUOUS_FIELD_NAME, "several columns have the same name")
        self.relation = like or ArrowRelation(schema.remove_metadata())

    @property
    def schema(self) -> pa.Schema:
        """The available columns."""
        return self.relation.schema

    def prune(self, condition: pa.compute.Expression | None) -> None:
        """Do nothing: batches have no statistics."""

    def readers(self, count: int, *, in_order: bool) -> list[BatchReader]:
        """One reader, because batches are in sequence."""
        return [self._read]

    def stop(self) -> None:
        """Stop the reader."""
        self._stopped = True

    def _read(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        while True:
            if self._stopped:
                raise Unavailable("the select was stopped")
            try:
                with self._lock:
                    batch = next(self._batches, None)
            except (pa.ArrowException, OSError) as error:
                raise self._failure() from error
            if batch is None:
                return
            yield self.relation.build(batch, columns)

    def _failure(self) -> LakebedError:
        return self._file.failed or failure(
            SelectCode.UNRECOGNIZED_FORMAT_EXCEPTION, "the object cannot be read as Arrow"
        )
