"""Reads Parquet objects by row groups."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyarrow import dataset, parquet

from lakebed.core.errors import LakebedError, Unavailable

from ..errors import SelectCode, failure
from ..execution.scanning import BatchReader
from ..model import ScanRange
from ..sources.byte_streams import Meter
from ..sources.object_file import ObjectFile
from ..sources.record_blocks import resolve_range
from .arrow_relation import ArrowRelation

if TYPE_CHECKING:
    from ..sources.object_bytes import ObjectBytes

MAX_ROW_GROUP_BYTES: Final = 512 * 1024 * 1024
"""Limit for the uncompressed size of the columns that are read from a row group."""
_MOST_ROWS: Final = 128 * 1024
"""Rows in a batch of numbers: each batch has a fixed cost."""
_MOST_VALUES: Final = 512 * 1024
"""Values in such a batch, over all columns."""
_TEXT_ROWS: Final = 16 * 1024
"""Rows in a batch with text or lists, whose sizes are not in the footer."""


def open_parquet(
    source: ObjectBytes, scan_range: ScanRange | None, meter: Meter, like: ArrowRelation | None = None
) -> tuple[ArrowRelation, ParquetScan]:
    """Open a Parquet object. Blocks. Raises SelectError (ParquetParsingError, …)."""
    file = ObjectFile(source, meter)
    try:
        footer = parquet.ParquetFile(file.native())
        metadata, schema = footer.metadata, footer.schema_arrow
    except (pa.ArrowException, OSError) as error:
        if file.failed is not None:
            raise file.failed from error
        raise _unreadable(error) from error
    if len(set(schema.names)) != len(schema.names):
        raise failure(SelectCode.AMBIGUOUS_FIELD_NAME, "several columns have the same name")
    groups = list(range(metadata.num_row_groups))
    if scan_range is not None:
        start, stop = resolve_range(scan_range, source.size)
        groups = [group for group in groups if start <= first_byte(metadata, group) < stop]
    relation = like or ArrowRelation(schema.remove_metadata(), prunes=True)
    return relation, ParquetScan(source, metadata, groups, relation, meter)


def first_byte(metadata: parquet.FileMetaData, group: int) -> int:
    """The offset of a row group: the first page of its first column."""
    column = metadata.row_group(group).column(0)
    offsets = [column.data_page_offset, column.dictionary_page_offset]
    return int(min(offset for offset in offsets if offset))


class ParquetScan:
    """Scans row groups, distributed to readers."""

    def __init__(
        self,
        source: ObjectBytes,
        metadata: parquet.FileMetaData,
        groups: list[int],
        relation: ArrowRelation,
        meter: Meter,
    ) -> None:
        self._source = source
        self._metadata = metadata
        self._groups = groups
        self._relation = relation
        self._meter = meter
        self._lock = threading.Lock()
        self._stopped = False

    @property
    def schema(self) -> pa.Schema:
        """The available columns."""
        return self._relation.schema

    def prune(self, condition: pa.compute.Expression | None) -> None:
        """Skip row groups whose statistics exclude the condition."""
        if condition is None:
            return
        fragment = dataset.ParquetFileFormat().make_fragment(ObjectFile(self._source).native())
        try:
            kept = {group.id for group in fragment.subset(condition, schema=fragment.physical_schema).row_groups}
        except pa.ArrowException:
            # The condition uses query types; if the file has others, nothing is skipped.
            return
        with self._lock:
            self._groups = [group for group in self._groups if group in kept]

    def readers(self, count: int, *, in_order: bool) -> list[BatchReader]:
        """Readers of the row groups; a single reader decodes columns in parallel."""
        alone = in_order or count == 1 or len(self._groups) <= 1
        threaded = alone and count > 1
        return [lambda columns: self._read(columns, threaded)] * (1 if alone else min(count, len(self._groups)))

    def stop(self) -> None:
        """Stop all readers."""
        self._stopped = True

    def _read(self, columns: list[str], threaded: bool) -> Iterator[pa.RecordBatch]:
        stored = self._relation.stored(columns)
        file = ObjectFile(self._source, self._meter)
        try:
            opened = parquet.ParquetFile(file.native(), metadata=self._metadata, pre_buffer=False)
            self._relation.check(opened.schema_arrow, stored)
            while (group := self._take()) is not None:
                found = self._columns(group, stored)
                batches = (
                    opened.iter_batches(batch_rows(found), row_groups=[group], columns=stored, use_threads=threaded)
                    if stored
                    else _counted(self._metadata.row_group(group).num_rows)
                )
                for batch in batches:
                    if self._stopped:
                        raise Unavailable("the select was stopped")
                    yield self._relation.build(batch, columns)
        except (pa.ArrowException, OSError) as error:
            if file.failed is not None:
                raise file.failed from error
            raise _unreadable(error) from error

    def _take(self) -> int | None:
        with self._lock:
            return self._groups.pop(0) if self._groups else None

    def _columns(self, group: int, stored: list[str]) -> list[parquet.ColumnChunkMetaData]:
        """The columns to read of a row group. Raises SelectError (OverMaxParquetBlockSize)."""
        row_group = self._metadata.row_group(group)
        columns = [row_group.column(number) for number in range(row_group.num_columns)]
        # A column of that name, or a field inside one: both may contain dots.
        columns = [
            column
            for column in columns
            if column.path_in_schema in stored or column.path_in_schema.split(".")[0] in stored
        ]
        size = sum(column.total_uncompressed_size for column in columns)
        if size > MAX_ROW_GROUP_BYTES:
            raise failure(
                SelectCode.OVER_MAX_PARQUET_BLOCK_SIZE,
                f"row group is too large. maximum={MAX_ROW_GROUP_BYTES} found={size}",
            )
        return columns


def batch_rows(columns: list[parquet.ColumnChunkMetaData]) -> int:
    """Rows per batch: many if they are certainly small."""
    if any(column.physical_type.endswith("BYTE_ARRAY") or "." in column.path_in_schema for column in columns):
        return _TEXT_ROWS
    return max(_TEXT_ROWS, min(_MOST_ROWS, _MOST_VALUES // max(1, len(columns))))


def _counted(rows: int) -> Iterator[pa.RecordBatch]:
    """Rows without columns, counted by the footer."""
    for start in range(0, rows, _MOST_ROWS):
        yield pa.record_batch([pa.nulls(min(_MOST_ROWS, rows - start))], names=[""]).select([])


def _unreadable(error: Exception) -> LakebedError:
    message = str(error)
    if "codec" in message.lower() or "compression is supported by the Parquet format" in message:
        return failure(SelectCode.PARQUET_UNSUPPORTED_COMPRESSION_CODEC, "column compression codec is not supported")
    return failure(SelectCode.PARQUET_PARSING_ERROR, "object cannot be read as Parquet")
