"""A Parquet object as records: its footer says what there is, its row groups are read one by one."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyarrow import dataset, parquet

from lakebed.core.errors import LakebedError, Unavailable

from .arrow_relation import ArrowRelation
from .blocks import resolve_range
from .failures import SelectCode, failure
from .model import ScanRange
from .object_file import ObjectFile
from .scanning import Batches
from .streams import Meter

if TYPE_CHECKING:
    from .object_bytes import ObjectBytes

MAX_ROW_GROUP_BYTES: Final = 512 * 1024 * 1024
"""Uncompressed, of the columns of one row group that are read."""
_BATCH_ROWS: Final = 8192


def open_parquet(
    source: ObjectBytes, asked: ScanRange | None, meter: Meter, like: ArrowRelation | None = None
) -> tuple[ArrowRelation, ParquetScan]:
    """A Parquet object, ready to be read. Blocks. Raises SelectFailure (ParquetParsingError, …)."""
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
    if asked is not None:
        start, stop = resolve_range(asked, source.size)
        groups = [group for group in groups if start <= first_byte(metadata, group) < stop]
    relation = like or ArrowRelation(schema.remove_metadata(), prunes=True)
    return relation, ParquetScan(source, metadata, groups, relation, meter)


def first_byte(metadata: parquet.FileMetaData, group: int) -> int:
    """Where a row group begins: with the first page of its first column."""
    column = metadata.row_group(group).column(0)
    offsets = [column.data_page_offset, column.dictionary_page_offset]
    return int(min(offset for offset in offsets if offset))


class ParquetScan:
    """Row groups, shared out among readers."""

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
        self._turn = threading.Lock()
        self._stopped = False

    @property
    def schema(self) -> pa.Schema:
        """The columns that can be asked for."""
        return self._relation.schema

    def prune(self, condition: pa.compute.Expression | None) -> None:
        """Leave out row groups whose statistics rule the condition out."""
        if condition is None:
            return
        fragment = dataset.ParquetFileFormat().make_fragment(ObjectFile(self._source).native())
        try:
            kept = {group.id for group in fragment.subset(condition, schema=fragment.physical_schema).row_groups}
        except pa.ArrowException:
            # The condition is about types that queries know; the file may have others. Nothing is spared then.
            return
        with self._turn:
            self._groups = [group for group in self._groups if group in kept]

    def readers(self, count: int, *, in_order: bool) -> list[Batches]:
        """Readers of the row groups."""
        return [self._read] * (1 if in_order else max(1, min(count, len(self._groups))))

    def stop(self) -> None:
        """End all readers."""
        self._stopped = True

    def _read(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        stored = self._relation.stored(columns)
        file = ObjectFile(self._source, self._meter)
        try:
            opened = parquet.ParquetFile(file.native(), metadata=self._metadata, pre_buffer=False)
            while (group := self._take()) is not None:
                self._check(group, stored)
                self._relation.check(opened.schema_arrow, stored)
                for batch in opened.iter_batches(
                    _BATCH_ROWS, row_groups=[group], columns=stored or self._smallest(), use_threads=False
                ):
                    if self._stopped:
                        raise Unavailable("the select was stopped")
                    yield self._relation.build(batch, columns)
        except (pa.ArrowException, OSError) as error:
            if file.failed is not None:
                raise file.failed from error
            raise _unreadable(error) from error

    def _take(self) -> int | None:
        with self._turn:
            return self._groups.pop(0) if self._groups else None

    def _check(self, group: int, stored: list[str]) -> None:
        row_group = self._metadata.row_group(group)
        columns = [row_group.column(number) for number in range(row_group.num_columns)]
        size = sum(
            column.total_uncompressed_size for column in columns if column.path_in_schema.split(".")[0] in stored
        )
        if size > MAX_ROW_GROUP_BYTES:
            raise failure(
                SelectCode.OVER_MAX_PARQUET_BLOCK_SIZE,
                f"a row group is too large. maximum={MAX_ROW_GROUP_BYTES} found={size}",
            )

    def _smallest(self) -> list[str]:
        """A column to count by, where none is asked for."""
        if self._metadata.num_row_groups == 0 or self._metadata.num_columns == 0:
            return []
        group = self._metadata.row_group(0)
        columns = [group.column(number) for number in range(group.num_columns)]
        smallest = min(columns, key=lambda column: column.total_compressed_size)
        return [smallest.path_in_schema.split(".")[0]]


def _unreadable(error: Exception) -> LakebedError:
    said = str(error)
    if "codec" in said.lower() or "compression is supported by the Parquet format" in said:
        return failure(SelectCode.PARQUET_UNSUPPORTED_COMPRESSION_CODEC, "the codec of a column is not supported")
    return failure(SelectCode.PARQUET_PARSING_ERROR, "the object cannot be read as Parquet")
