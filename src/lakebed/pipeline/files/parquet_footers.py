"""Schemas of Parquet files, read from their footers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from lakebed.core.errors import InvalidInput, NotSupported

from .hive_layout import PartitionedFile

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

_MAGIC: Final = b"PAR1"
_END_BYTES: Final = 8
_AT_ONCE: Final = 8

_WIDER: Final = {("int", "bigint"), ("float", "double")}
"""Type promotions: a column may have had the narrower type in older files."""


@dataclass(frozen=True, slots=True)
class Footer:
    """The schema of a file."""

    file: PartitionedFile
    schema: StructType


def read_footers(files: Any, laid_out: Sequence[PartitionedFile]) -> tuple[list[Footer], list[PartitionedFile]]:
    """The footers of Parquet files, and the files that are not Parquet. `files` is an Iceberg FileIO."""
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        read = list(threads.map(lambda file: _read(files, file), laid_out))
    footers = [one for one in read if one is not None]
    return footers, [file for file, one in zip(laid_out, read, strict=True) if one is None]


def merged_schema(footers: Iterable[Footer]) -> StructType:
    """The union of all columns, all optional. Raises InvalidInput for conflicting types."""
    from pyspark.sql.types import StructField, StructType

    columns: dict[str, DataType] = {}
    for footer in footers:
        for field in footer.schema.fields:
            before = columns.get(field.name)
            columns[field.name] = (
                field.dataType if before is None else _common(before, field.dataType, field.name, footer)
            )
    return StructType([StructField(name, kind, True) for name, kind in columns.items()])


def _common(before: DataType, now: DataType, name: str, footer: Footer) -> DataType:
    if before == now:
        return before
    types = (before.simpleString(), now.simpleString())
    if types in _WIDER:
        return now
    if types[::-1] in _WIDER:
        return before
    raise InvalidInput(
        f"conflicting types of a column. column={name} file={footer.file.path} found={types[1]} expected={types[0]}",
        argument="source",
    )


def _read(files: Any, file: PartitionedFile) -> Footer | None:
    """The footer of a file; None if it is not Parquet. Costs two range reads."""
    stored = files.newInputFile(file.path, file.bytes)
    if file.bytes < len(_MAGIC) + _END_BYTES:
        return None
    end = _tail(stored, file.bytes, _END_BYTES)
    if end[4:] != _MAGIC:
        return None
    length = int.from_bytes(end[:4], "little")
    if length > file.bytes - _END_BYTES - len(_MAGIC):
        return None
    return Footer(file, _schema(_tail(stored, file.bytes, length + _END_BYTES), file))


def _tail(stored: Any, size: int, count: int) -> bytes:
    stream = stored.newStream()
    try:
        stream.seek(size - count)
        return bytes(stream.readNBytes(count))
    finally:
        stream.close()


def _schema(footer: bytes, file: PartitionedFile) -> StructType:
    import pyarrow
    from pyarrow import parquet
    from pyspark.sql.types import StructField, StructType

    try:
        # PyArrow reads a schema from magic and footer, without the row groups between.
        read = parquet.ParquetFile(pyarrow.BufferReader(_MAGIC + footer)).schema
    except pyarrow.ArrowException as error:
        raise InvalidInput(f"unreadable Parquet footer. file={file.path} reason={error}") from error
    stamps = {read.column(index).path for index in range(len(read)) if read.column(index).physical_type == "INT96"}
    return StructType(
        [
            StructField(field.name, _spark_type(field.type, field.name, field.name in stamps, file), True)
            for field in read.to_arrow_schema()
        ]
    )


def _spark_type(kind: Any, name: str, is_int96: bool, file: PartitionedFile) -> DataType:
    """The Spark type of a column."""
    import pyarrow
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import from_arrow_type
    from pyspark.sql.types import TimestampType

    if is_int96:
        # INT96 is an instant by convention; the file does not say in which zone.
        return TimestampType()
    if pyarrow.types.is_timestamp(kind) and kind.unit == "ns":
        raise NotSupported(f"Spark does not support nanosecond timestamps. column={name} file={file.path}")
    try:
        return from_arrow_type(kind, prefer_timestamp_ntz=True)
    except PySparkException as error:
        raise NotSupported(f"Spark does not support the type. column={name} type={kind} file={file.path}") from error
