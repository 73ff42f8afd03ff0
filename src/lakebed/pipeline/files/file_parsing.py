"""What is in files that arrived: read by PyArrow, and fitted to the columns of a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructField

FORMATS: Final = ("parquet", "csv", "json")


class UnreadableFile(Exception):
    """A file that is not what it was said to be, or does not fit the table."""


def read_file(body: bytes, format: str, schema: pa.Schema | None) -> pa.Table:
    """What is in a file; with a schema, columns of text are read as its types. Raises Unreadable."""
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
        raise UnreadableFile(f"it cannot be read as {format}: {str(error)[:300]}") from error
    raise UnreadableFile(f"there is no such format: {format[:40]}")


def fit_columns(found: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows with the columns of a table; those that a file lacks have no values. Raises Unreadable."""
    import pyarrow as pa

    strangers = [name for name in found.column_names if name not in schema.names]
    if strangers:
        raise UnreadableFile(f"the table has no column {', '.join(strangers[:10])}")
    columns = []
    for field in schema:
        if field.name not in found.column_names:
            columns.append(pa.nulls(found.num_rows, field.type))
            continue
        try:
            columns.append(found.column(field.name).cast(field.type))
        except (pa.ArrowException, NotImplementedError) as error:
            raise UnreadableFile(f"column {field.name} is not {field.type}: {str(error)[:200]}") from error
    return pa.Table.from_arrays(columns, schema=schema)


def arrow_schema_of(fields: Sequence[StructField]) -> pa.Schema:
    """Columns of Spark's as PyArrow has them."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_type

    return pa.schema([pa.field(field.name, to_arrow_type(field.dataType)) for field in fields])
