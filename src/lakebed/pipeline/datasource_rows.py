"""Schemas and rows of `spark.read.format("lakebed")`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from lakebed.client import Event, TableHealth, Task

if TYPE_CHECKING:
    import pyarrow as pa

_EVENT: Final = "seq BIGINT, kind STRING, subject STRING, occurred TIMESTAMP, payload STRING"

SCHEMAS: Final = {
    "events": _EVENT,
    "audit": _EVENT,
    "attempts": (
        "seq BIGINT, occurred TIMESTAMP, outcome STRING, operation STRING, route STRING, edge STRING, subject STRING, "
        "principal STRING, claimed STRING, source_ip STRING, status INT, reason STRING, request_id STRING, count BIGINT"
    ),
    "tasks": (
        "id BIGINT, kind STRING, state STRING, warehouse STRING, namespace ARRAY<STRING>, table STRING, reason STRING, "
        "policy STRING, options STRING, attempts INT, max_attempts INT, due TIMESTAMP, worker STRING, "
        "created TIMESTAMP, changed TIMESTAMP, report STRING, failure STRING"
    ),
    "health": (
        "warehouse STRING, namespace ARRAY<STRING>, table STRING, entry STRING, format_version INT, snapshots BIGINT, "
        "oldest_snapshot TIMESTAMP, current_snapshot TIMESTAMP, data_files BIGINT, data_bytes BIGINT, "
        "small_files BIGINT, small_bytes BIGINT, records BIGINT, delete_files BIGINT, position_deletes BIGINT, "
        "equality_deletes BIGINT, delete_ratio DOUBLE, manifests BIGINT, metadata_files BIGINT, measured STRING"
    ),
}
"""Columns by table. Values without a fixed schema are JSON strings."""

TABLES: Final = tuple(SCHEMAS)

_MICROSECONDS: Final = 1000


def event_row(event: Event) -> tuple[Any, ...]:  # Any: a row's values are of its columns' types
    """A row of `events` or `audit`."""
    return (event.seq, event.kind, event.subject, _moment(event.occurred_ms), _json(event.payload))


def attempt_row(event: Event) -> tuple[Any, ...]:  # Any: as above
    """A row of `attempts`."""
    payload = event.payload
    return (
        event.seq,
        _moment(event.occurred_ms),
        event.kind.removeprefix("Attempts").removeprefix("Attempt").lower(),
        payload.get("operation"),
        payload.get("route"),
        payload.get("edge"),
        event.subject,
        payload.get("principal"),
        payload.get("claimed"),
        payload.get("source_ip"),
        payload.get("status"),
        payload.get("reason"),
        payload.get("request_id"),
        payload.get("count", 1),
    )


def task_row(task: Task) -> tuple[Any, ...]:  # Any: as above
    """A row of `tasks`."""
    spec = task.spec
    return (
        task.id,
        str(task.kind),
        str(task.state),
        spec.warehouse,
        list(spec.namespace),
        spec.table,
        spec.reason,
        _json(spec.policy),
        _json(spec.options),
        task.attempts,
        task.max_attempts,
        _moment(task.due_ms),
        task.worker,
        _moment(task.created_ms),
        _moment(task.changed_ms),
        _json(task.report),
        task.failure,
    )


def health_row(health: TableHealth) -> tuple[Any, ...]:  # Any: as above
    """A row of `health`."""
    return (
        health.warehouse,
        list(health.namespace),
        health.table,
        health.entry,
        health.format_version,
        health.snapshots,
        _moment(health.oldest_snapshot_ms),
        _moment(health.current_snapshot_ms),
        health.data_files,
        health.data_bytes,
        health.small_files,
        health.small_bytes,
        health.records,
        health.delete_files,
        health.position_deletes,
        health.equality_deletes,
        health.delete_ratio,
        health.manifests,
        health.metadata_files,
        health.measured,
    )


def batch_of(table: str, rows: Sequence[tuple[Any, ...]]) -> pa.RecordBatch:
    """A record batch of rows."""
    import pyarrow as pa

    schema = arrow_schema(table)
    columns = [pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def arrow_schema(table: str) -> pa.Schema:
    """The Arrow schema of a table."""
    import pyarrow as pa

    types = {
        "BIGINT": pa.int64(),
        "INT": pa.int32(),
        "DOUBLE": pa.float64(),
        "STRING": pa.string(),
        "TIMESTAMP": pa.timestamp("us", tz="UTC"),
        "ARRAY<STRING>": pa.list_(pa.string()),
    }
    return pa.schema([(name, types[kind]) for name, kind in map(str.split, SCHEMAS[table].split(", "))])


def _moment(ms: int | None) -> int | None:
    return None if ms is None else ms * _MICROSECONDS


def _json(value: object) -> str | None:
    return None if value is None else msgspec.json.encode(value).decode()
