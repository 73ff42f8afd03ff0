"""Queries over stream tables: a union read, with the SQL run by the engine of S3 Select."""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lakebed.client import ServerAccess, TableRef
from lakebed.core.errors import InvalidInput
from lakebed.core.extras import require_extra
from lakebed.core.settings import Settings

from ..server_access import find_warehouse
from .output import local_output
from .table_query import lake_filter

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.expressions import BooleanExpression

    from lakebed.client.streams.access import StreamAccess

SCHEME: Final = "stream://"
STREAM_FLAGS: Final = ("streams", "lake_table")


def add_stream_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of stream tables."""
    group = parser.add_argument_group("a stream table", "A union read of the Iceberg table in --warehouse and the log.")
    group.add_argument(
        "--streams", metavar="HOST:PORT", help="stream server address [LAKEBED_STREAMS] (default: from the settings)"
    )
    group.add_argument(
        "--lake-table", metavar="NAMESPACE.TABLE", help="the Iceberg table it is tiered to (default: the same name)"
    )


def read_stream(source: str) -> tuple[str, str]:
    """Parse `stream://DATABASE.TABLE`. Raises InvalidInput."""
    database, _, table = source.removeprefix(SCHEME).partition(".")
    if not database or not table:
        raise InvalidInput(f"expected stream://DATABASE.TABLE. found={source!r}", argument="source")
    return database, table


def records_of_stream(access: ServerAccess, settings: Settings, arguments: argparse.Namespace) -> Iterator[bytes]:
    """The records of a query over a stream table, as bytes. Raises SelectError, FlussError, AccessDenied."""
    for extra in ("select", "streams"):
        require_extra(extra, "a query over a stream table")
    from lakebed.client.streams.tables import describe
    from lakebed.pipeline.streams.union_read import UnionRead
    from lakebed.select.dialect.pruning import comparisons
    from lakebed.select.dialect.statement import read_statement
    from lakebed.select.execution.local import select_batches

    stream = read_stream(arguments.source)
    streams = _streams(access, settings, arguments)
    statement = read_statement(arguments.expression, stream)
    with streams.connect() as client:
        table = describe(client, *stream)
    warehouse = find_warehouse(arguments)
    lake = TableRef.parse(warehouse, arguments.lake_table or table.path) if warehouse else None
    union = UnionRead(table, streams, access, lake, table.schema.names)
    schema = union.schema

    def row_filter(lake_schema: pa.Schema) -> BooleanExpression:
        return lake_filter(comparisons(statement), lake_schema)

    def read(columns: list[str]) -> Iterator[pa.RecordBatch]:
        # COUNT(*) selects no columns, but a read needs one.
        projected = replace(union, columns=tuple(columns or schema.names[:1]))
        yield from projected.read(*projected.plan(row_filter))

    with tempfile.TemporaryDirectory(prefix="lakebed-select-") as folder:
        yield from select_batches(statement, schema, read, local_output(arguments.output), spill=Path(folder))


def _streams(access: ServerAccess, settings: Settings, arguments: argparse.Namespace) -> StreamAccess:
    from lakebed.client.streams.access import STREAMS_VARIABLE, stream_access

    address: str | None = arguments.streams or os.environ.get(STREAMS_VARIABLE)
    listening = settings.streams.advertise or settings.streams.listen
    return stream_access(access, address or (str(listening) if listening else None))
