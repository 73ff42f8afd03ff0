"""Writes to KV tables: upserts rows, and deletes rows by key."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa

from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.fluss.kv_batches import write_kv_batch
from lakebed.fluss.rows.encoding import conform_rows, encode_rows

from .bucketing import BucketAssigner
from .connection import failure_of
from .kv_scans import StreamCalls
from .messages import messages, number, text, write_fields
from .partitions import check_partition
from .tables import TableInfo

__all__ = ["StreamKvWriter"]

PUT_KV: Final = 1016
INIT_WRITER: Final = 1026
_TIMEOUT_MS: Final = 30_000
_ALL_ACKS: Final = -1
_BATCH_BYTES: Final = 2 * 1024 * 1024

_Record = tuple[bytes, bytes | None]


class StreamKvWriter:
    """Writes to a table or partition. Batch sequences make repeated requests idempotent."""

    def __init__(self, calls: StreamCalls, table: TableInfo, partition_id: int | None = None) -> None:
        """Open a writer.

        Error codes: NON_PRIMARY_KEY_TABLE, PARTITION_NOT_EXISTS; INVALID_TABLE for an unsupported lake format.
        """
        if not table.schema.has_primary_key:
            raise FlussError(ErrorCode.NON_PRIMARY_KEY_TABLE, f"table has no primary key. table={table.path}")
        self._calls = calls
        self._table = table
        self._physical = table.physical(partition_id)
        if table.partition_keys and self._physical.partition is None:
            raise FlussError(
                ErrorCode.PARTITION_NOT_EXISTS,
                f"partitioned table: expected the name of a partition. table={table.path}",
            )
        self._assigner = BucketAssigner(table)
        generated = table.schema.auto_increment
        # The server generates an auto-increment column: the request targets all others.
        self._targets = (
            () if generated is None else [at for at, name in enumerate(table.schema.names) if name != generated]
        )
        self._sequences = [0] * table.bucket_count
        path = write_fields({1: table.database, 2: table.name})
        self._writer_id = number(calls.call(INIT_WRITER, write_fields({1: path})), 1)

    @property
    def schema(self) -> pa.Schema:
        """Schema of the rows."""
        return self._table.arrow

    @property
    def key_schema(self) -> pa.Schema:
        """Schema of the rows for deletes: the primary key."""
        return self._table.key_arrow

    def upsert(self, rows: pa.RecordBatch) -> None:
        """Upsert rows. They are on stable storage on return.

        Error codes: PARTITION_SPEC_INVALID, INVALID_TARGET_COLUMN.
        """
        rows = conform_rows(rows, self.schema)
        self._write(rows, encode_rows(self._physical.row_format, self._table.schema.columns, rows))

    def delete(self, rows: pa.RecordBatch) -> None:
        """Delete the rows of these keys. That is on stable storage on return. Error codes as for `upsert`."""
        self._write(conform_rows(rows, self.key_schema, is_whole=False), [None] * rows.num_rows)

    def _write(self, rows: pa.RecordBatch, written: Sequence[bytes | None]) -> None:
        check_partition(self._physical, rows)
        by_bucket: dict[int, list[_Record]] = defaultdict(list)
        for bucket, key, row in zip(self._assigner.buckets(rows), self._assigner.keys(rows), written, strict=True):
            by_bucket[bucket].append((key, row))
        for bucket, records in by_bucket.items():
            for batch in _batches(records):
                self._put(bucket, batch)

    def _put(self, bucket: int, records: Sequence[_Record]) -> None:
        batch = write_kv_batch(records, self._table.schema_id, self._writer_id, self._sequences[bucket])
        bucket_request = write_fields({1: self._physical.partition_id, 2: bucket, 3: batch})
        targets = b"".join(write_fields({4: target}) for target in self._targets)
        message = (
            write_fields({1: _ALL_ACKS, 2: self._table.id, 3: _TIMEOUT_MS})
            + targets
            + write_fields({5: bucket_request})
        )
        response = next(messages(self._calls.call(PUT_KV, message), 1))
        if code := number(response, 3):
            raise failure_of(code, text(response, 4))
        self._sequences[bucket] += 1


def _batches(records: Sequence[_Record]) -> Iterator[list[_Record]]:
    """Records in batches of about `_BATCH_BYTES`."""
    batch: list[_Record] = []
    size = 0
    for record in records:
        batch.append(record)
        size += len(record[0]) + len(record[1] or b"")
        if size >= _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
