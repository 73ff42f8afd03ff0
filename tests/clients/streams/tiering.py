"""Tiers a stream table to a new Iceberg table without Spark, and commits the offsets to the server."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from lakebed.client.streams.client import StreamClient
from lakebed.client.streams.lake import LakeTieringClient
from lakebed.client.streams.log_ranges import read_range
from lakebed.client.streams.logs import LATEST, StreamLog
from lakebed.client.streams.tables import TableInfo, describe, list_offsets
from lakebed.pipeline.streams.columns import ORIGIN, fitted, spark_schema, with_origin
from lakebed.pipeline.streams.offsets import Offsets
from tests.clients.iceberg.lake import Lake
from tests.clients.streams.serving import StreamServer

_BEFORE, _DELETED = 2, 4
_NO_ROW: Final = (_BEFORE, _DELETED)


def tier_by_hand(streams: StreamServer, lake: Lake, path: Any) -> int:
    """Tier with PyIceberg; the new snapshot's id."""
    database, name = path.database_name, path.table_name
    with StreamClient(streams.address, streams.server.access_key, streams.server.secret_key) as client:
        source = describe(client, database, name)
        ends = list_offsets(client, source, LATEST)
        rows = _rows(client, source, ends)
        with lake.catalog() as catalog:
            catalog.create_namespace_if_not_exists(database)
            table = catalog.create_table((database, name), schema=rows.schema)
            table.append(rows)
            snapshot = table.current_snapshot()
        assert snapshot is not None
        lake_client = LakeTieringClient(client)
        lake_client.commit(source.id, snapshot.snapshot_id, lake_client.prepare(source.id, database, name, ends))
        return int(snapshot.snapshot_id)


def _rows(client: StreamClient, source: TableInfo, ends: Offsets) -> pa.Table:
    """The records of a log, or the current rows of a KV table, with their origin columns."""
    stream_schema = spark_schema(source.arrow)
    schema = pa.schema([*stream_schema, *ORIGIN])
    rows: dict[object, dict[str, Any]] = {}
    for (partition_id, bucket), end in ends.items():
        log = StreamLog(client, source.physical(partition_id))
        for found in read_range(client, log, bucket, 0, end):
            columns = with_origin(
                fitted(found.rows, stream_schema), len(found.changes), bucket, found.base_offset, found.timestamp_ms
            )
            records = pa.RecordBatch.from_arrays(columns, schema=schema).to_pylist()
            for change, record in zip(found.changes, records, strict=True):
                key: object = tuple(record[column] for column in source.schema.primary_key)
                if not source.schema.has_primary_key:
                    key = partition_id, bucket, record["__offset"]
                rows.pop(key, None)
                if change not in _NO_ROW:
                    rows[key] = record
    return pa.Table.from_pylist(list(rows.values()), schema=schema)
