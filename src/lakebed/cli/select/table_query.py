"""Queries over Iceberg tables: PyIceberg reads the snapshot, the engine of S3 Select runs the SQL."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from lakebed.client import ServerAccess, TableRef
from lakebed.client.iceberg_tables import open_table, pyiceberg_errors
from lakebed.core.errors import InvalidInput, NotFound
from lakebed.core.extras import require_extra

from .output import local_output

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.table import Table

    from lakebed.select.dialect.pruning import ColumnComparison


class SnapshotSelector(NamedTuple):
    """Selects a snapshot; by default the current one."""

    snapshot: int | None = None
    ref: str | None = None
    as_of: str | None = None
    """ISO 8601; UTC without an offset."""


def records_of_table(
    access: ServerAccess, table: TableRef, moment: SnapshotSelector, expression: str, output: str
) -> Iterator[bytes]:
    """The records of a query over a table, as bytes.

    Raises SelectError, NoSuchTable, NotFound for a missing snapshot, AccessDenied.
    """
    require_extra("select", "a query over a table")
    from lakebed.select.dialect.pruning import comparisons
    from lakebed.select.dialect.statement import read_statement
    from lakebed.select.execution.local import select_batches

    statement = read_statement(expression, (*table.namespace, table.table))
    with open_table(access, table) as found:
        snapshot = _snapshot(found, moment)
        schema = found.scan(snapshot_id=snapshot).projection().as_arrow()

        def read(columns: list[str]) -> Iterator[pa.RecordBatch]:
            with pyiceberg_errors(table):
                # COUNT(*) selects no columns, but a scan needs one.
                fields = tuple(columns or schema.names[:1])
                row_filter = lake_filter(comparisons(statement), schema)  # the server prunes files by it
                scan = found.scan(row_filter=row_filter, snapshot_id=snapshot, selected_fields=fields)
                yield from scan.to_arrow_batch_reader()

        with tempfile.TemporaryDirectory(prefix="lakebed-select-") as folder:
            yield from select_batches(statement, schema, read, local_output(output), spill=Path(folder))


def _snapshot(table: Table, moment: SnapshotSelector) -> int | None:
    """The selected snapshot; None for an empty table. Raises NotFound, InvalidInput."""
    if moment.snapshot is not None:
        found = table.snapshot_by_id(moment.snapshot)
    elif moment.ref is not None:
        found = table.snapshot_by_name(moment.ref)
    elif moment.as_of is not None:
        found = table.snapshot_as_of_timestamp(_milliseconds(moment.as_of))
    else:
        current = table.current_snapshot()
        return None if current is None else current.snapshot_id
    if found is None:
        wanted = next(f"{name}={value}" for name, value in moment._asdict().items() if value is not None)
        raise NotFound(f"no such snapshot. {wanted}")
    return found.snapshot_id


def lake_filter(comparisons: list[ColumnComparison], schema: pa.Schema) -> BooleanExpression:
    """The part of the condition that PyIceberg supports: columns compared with constants of the same type."""
    import pyarrow as pa
    from pyiceberg import expressions as iceberg

    row_filter: iceberg.BooleanExpression = iceberg.AlwaysTrue()
    operators = {
        "=": iceberg.EqualTo,
        ">": iceberg.GreaterThan,
        ">=": iceberg.GreaterThanOrEqual,
        "<": iceberg.LessThan,
        "<=": iceberg.LessThanOrEqual,
    }
    for column, operator, constant in comparisons:
        found = [field for field in schema if column.matches(field.name)]
        if len(found) != 1 or "." in found[0].name:
            continue
        is_whole = pa.types.is_int64(found[0].type) and isinstance(constant, int) and abs(constant) < 2**63
        is_text = pa.types.is_large_string(found[0].type) or pa.types.is_string(found[0].type)
        if is_whole or (is_text and isinstance(constant, str)):
            row_filter = iceberg.And(row_filter, operators[operator](found[0].name, constant))
    return row_filter


def _milliseconds(text: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidInput(
            f"expected a time such as 2026-01-02T03:04:05Z. found={text!r}", argument="--as-of"
        ) from error
    return round(moment.replace(tzinfo=moment.tzinfo or UTC).timestamp() * 1000)
