"""Writes rows to their partitions and buckets; creates missing partitions."""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

import pyarrow as pa

from lakebed.fluss.auto_partitioning import AutoPartitionStrategy
from lakebed.fluss.errors import ErrorCode, FlussError

from .bucketing import BucketAssigner
from .kv_scans import StreamCalls
from .kv_writer import StreamKvWriter
from .logs import StreamLogWriter
from .partitions import create_partition, find_partition, partition_values
from .tables import PartitionInfo, TableInfo

__all__ = ["StreamWriter"]


class StreamWriter:
    """Writes to log and KV tables, with or without partitions."""

    def __init__(
        self,
        calls: StreamCalls,
        table: TableInfo,
        *,
        partition: str | None = None,
        dynamic_create_partition: bool = True,
        now: Callable[[], float] = time.time,
    ) -> None:
        """With `partition`, all rows must belong to it.

        Error codes: TABLE_NOT_PARTITIONED; INVALID_TABLE for an unsupported lake format.
        """
        if partition is not None and not table.partition_keys:
            raise FlussError(ErrorCode.TABLE_NOT_PARTITIONED, f"table has no partitions. table={table.path}")
        self._calls = calls
        self._table = table
        self._partition = partition
        self._creates = dynamic_create_partition
        self._now = now
        is_bucketed = table.schema.has_primary_key or (bool(table.bucket_key) and table.bucket_count > 1)
        self._assigner = BucketAssigner(table) if is_bucketed else None
        self._strategy = AutoPartitionStrategy.of(table.schema, table.partition_keys, table.properties)
        self._kv_writers: dict[int | None, StreamKvWriter] = {}
        self._log_writers: dict[int | None, StreamLogWriter] = {}

    @property
    def schema(self) -> pa.Schema:
        """Schema of the rows."""
        return self._table.arrow

    @property
    def key_schema(self) -> pa.Schema:
        """Schema of the rows for deletes: the primary key."""
        return self._table.key_arrow

    def write(self, rows: pa.RecordBatch) -> None:
        """Append or upsert rows. They are on stable storage on return.

        All partitions exist before the first row is sent. Error codes: PARTITION_SPEC_INVALID; PARTITION_NOT_EXISTS
        without `dynamic_create_partition`.
        """
        parts = list(self._parts(rows))
        for values, _ in parts:
            self._ensure_partition(values)
        for values, part in parts:
            self._retry_if_dropped(values, partial(self._write_part, values, part))

    def _write_part(self, values: Sequence[str] | None, part: pa.RecordBatch) -> None:
        partition_id = self._ensure_partition(values)
        if self._table.schema.has_primary_key:
            self._kv_writer(partition_id).upsert(part)
        elif self._assigner is None:
            self._log_writer(partition_id).append(part)
        else:
            for bucket, numbers in self._assigner.by_bucket(part).items():
                self._log_writer(partition_id).append(part.take(pa.array(numbers)), bucket)

    def delete(self, rows: pa.RecordBatch) -> None:
        """Delete the rows of these keys. That is on stable storage on return.

        Error codes: NON_PRIMARY_KEY_TABLE, PARTITION_SPEC_INVALID.
        """
        if not self._table.schema.has_primary_key:
            raise FlussError(ErrorCode.NON_PRIMARY_KEY_TABLE, f"a log table has no deletes. table={self._table.path}")
        for values, part in list(self._parts(rows)):
            self._retry_if_dropped(values, partial(self._delete_part, values, part))

    def _delete_part(self, values: Sequence[str] | None, part: pa.RecordBatch) -> None:
        partition_id = self._find_partition(values)
        # A missing partition has no rows to delete.
        if values is None or partition_id is not None:
            self._kv_writer(partition_id).delete(part)

    def _retry_if_dropped(self, values: Sequence[str] | None, write: Callable[[], None]) -> None:
        """Write, and once more if the partition was dropped since its id was looked up.

        Rows written before are lost with the dropped partition.
        """
        try:
            write()
        except FlussError as failure:
            if values is None or failure.code is not ErrorCode.UNKNOWN_TABLE_OR_BUCKET:
                raise
            self._forget("$".join(values))
            write()

    def _parts(self, rows: pa.RecordBatch) -> Iterator[tuple[tuple[str, ...] | None, pa.RecordBatch]]:
        """The rows by partition values; all rows with None for a table without partitions."""
        if not self._table.partition_keys:
            yield None, rows
            return
        numbers: dict[tuple[str, ...], list[int]] = defaultdict(list)
        for number, values in enumerate(partition_values(self._table.schema, self._table.partition_keys, rows)):
            numbers[values].append(number)
        for values in numbers:
            if self._partition is not None and "$".join(values) != self._partition:
                raise FlussError(
                    ErrorCode.PARTITION_SPEC_INVALID,
                    f"row of a different partition. partition={self._partition} row={'$'.join(values)}",
                )
        for values, selected in numbers.items():
            yield values, rows if len(selected) == rows.num_rows else rows.take(pa.array(selected))

    def _ensure_partition(self, values: Sequence[str] | None) -> int | None:
        """The id of the partition; creates it if missing."""
        found = self._find_partition(values)
        if values is None or found is not None:
            return found
        table = self._table
        if not self._creates:
            raise FlussError(
                ErrorCode.PARTITION_NOT_EXISTS, f"no such partition. table={table.path} partition={'$'.join(values)}"
            )
        self._check_time(values)
        create_partition(self._calls, table.database, table.name, table.partition_keys, values)
        return self._find_partition(values)

    def _find_partition(self, values: Sequence[str] | None) -> int | None:
        """The id of the partition, or None. Looked up again if unknown: other writers create partitions too."""
        if values is None:
            return None
        table, name = self._table, "$".join(values)
        for each in table.partitions:
            if each.name == name:
                return each.id
        try:
            found = find_partition(self._calls, table.database, table.name, name)
        except FlussError as failure:
            if failure.code is not ErrorCode.PARTITION_NOT_EXISTS:
                raise
            return None
        self._table = replace(table, partitions=(*table.partitions, PartitionInfo(found, name, tuple(values))))
        return found

    def _forget(self, name: str) -> None:
        """Look up a partition again on the next write."""
        for dropped in [each for each in self._table.partitions if each.name == name]:
            self._kv_writers.pop(dropped.id, None)
            self._log_writers.pop(dropped.id, None)
        remaining = tuple(each for each in self._table.partitions if each.name != name)
        self._table = replace(self._table, partitions=remaining)

    def _check_time(self, values: Sequence[str]) -> None:
        """Reject expired partitions of auto-partitioned tables: the server would drop them at once, with their rows."""
        strategy = self._strategy
        if strategy is None:
            return
        value, now = values[self._table.partition_keys.index(strategy.key)], self._now()
        current = strategy.name(datetime.fromtimestamp(now, UTC))
        if _shape(value) != _shape(current) or strategy.expired([value], int(now * 1000)):
            raise FlussError(
                ErrorCode.PARTITION_SPEC_INVALID,
                f"partition is expired or not a time. {strategy.key}={value} now={current}",
            )

    def _kv_writer(self, partition_id: int | None) -> StreamKvWriter:
        if partition_id not in self._kv_writers:
            self._kv_writers[partition_id] = StreamKvWriter(self._calls, self._table, partition_id)
        return self._kv_writers[partition_id]

    def _log_writer(self, partition_id: int | None) -> StreamLogWriter:
        if partition_id not in self._log_writers:
            self._log_writers[partition_id] = StreamLogWriter(self._calls, self._table.physical(partition_id))
        return self._log_writers[partition_id]


def _shape(name: str) -> str:
    return re.sub("[0-9]", "0", name)
