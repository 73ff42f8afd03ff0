"""Reads incoming files with PyArrow, and fits them to the columns of a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructField

FORMATS: Final = ("parquet", "csv", "json")


class UnreadableFile(Exception):
    """A file that is not of its format, or does not fit the table."""


def read_file(body: bytes, format: str, schema: pa.Schema | None) -> pa.Table:
    """Read a file; with a schema, text columns are parsed as its types. Raises UnreadableFile."""
    import pyarrow as pa

    stream = pa.BufferReader(body)
    try:
        if format == "parquet":
            from pyarrow import parquet

            return parquet.read_table(stream)
        if format == "csv":
            from pyarrow import csv

            convert = csv.ConvertOptions(column_types={} if schema is None else schema)
            return csv.read_csv(stream, convert_options=convert)
        if format == "json":
            from pyarrow import json

            return json.read_json(stream, parse_options=json.ParseOptions(explicit_schema=schema))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise UnreadableFile(f"cannot be read as {format}: {str(error)[:300]}") from error
    raise UnreadableFile(f"unknown format: {format[:40]}")


def fit_columns(found: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows with the table's columns; columns that the file lacks are null. Raises UnreadableFile."""
    import pyarrow as pa

    unknown = [name for name in found.column_names if name not in schema.names]
    if unknown:
        raise UnreadableFile(f"the table has no column {', '.join(unknown[:10])}")
    columns = []
    for field in schema:
        if field.name not in found.column_names:
            columns.append(pa.nulls(found.num_rows, field.type))
            continue
        try:
            columns.append(found.column(field.name).cast(field.type))
        except (pa.ArrowException, NotImplementedError) as error:
            raise UnreadableFile(f"column {field.name} cannot be cast to {field.type}: {str(error)[:200]}") from error
    return pa.Table.from_arrays(columns, schema=schema)


def arrow_schema_of(fields: Sequence[StructField]) -> pa.Schema:
    """The Arrow schema of Spark columns."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_type

    return pa.schema([pa.field(field.name, to_arrow_type(field.dataType)) for field in fields])
