"""Writes rows to where they belong: into the partition of their own columns, which is made if there is none."""

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
    """Writes to a table, whatever kind it is of and however many partitions it has."""

    def __init__(
        self,
        calls: StreamCalls,
        table: TableInfo,
        *,
        partition: str | None = None,
        dynamic_create_partition: bool = True,
        now: Callable[[], float] = time.time,
    ) -> None:
        """With `partition` all rows have to be of it.

        Error codes: TABLE_NOT_PARTITIONED; INVALID_TABLE where rows are in buckets by rules that are not known here.
        """
        if partition is not None and not table.partition_keys:
            raise FlussError(ErrorCode.TABLE_NOT_PARTITIONED, f"the table has no partitions. table={table.path}")
        self._calls = calls
        self._table = table
        self._partition = partition
        self._creates = dynamic_create_partition
        self._now = now
        is_placed = table.schema.has_primary_key or (bool(table.bucket_key) and table.bucket_count > 1)
        self._placing = BucketAssigner(table) if is_placed else None
        self._strategy = AutoPartitionStrategy.of(table.schema, table.partition_keys, table.properties)
        self._key_writers: dict[int | None, StreamKvWriter] = {}
        self._log_writers: dict[int | None, StreamLogWriter] = {}

    @property
    def schema(self) -> pa.Schema:
        """What rows have."""
        return self._table.arrow

    @property
    def key_schema(self) -> pa.Schema:
        """What of it deletes need."""
        return self._table.key_arrow

    def write(self, rows: pa.RecordBatch) -> None:
        """Append rows, or have them take the place of those of their keys; they are on stable storage then.

        No row is sent before there is a partition for each. Error codes: PARTITION_SPEC_INVALID; PARTITION_NOT_EXISTS
        if none is made.
        """
        parts = list(self._parts(rows))
        for values, _ in parts:
            self._found(values)
        for values, part in parts:
            self._retry_if_dropped(values, partial(self._write_part, values, part))

    def _write_part(self, values: Sequence[str] | None, part: pa.RecordBatch) -> None:
        partition_id = self._found(values)
        if self._table.schema.has_primary_key:
            self._key_writer(partition_id).upsert(part)
        elif self._placing is None:
            self._log_writer(partition_id).append(part)
        else:
            for bucket, numbers in self._placing.by_bucket(part).items():
                self._log_writer(partition_id).append(part.take(pa.array(numbers)), bucket)

    def delete(self, rows: pa.RecordBatch) -> None:
        """Have no rows of these keys; that is on stable storage then.

        Error codes: NON_PRIMARY_KEY_TABLE, PARTITION_SPEC_INVALID.
        """
        if not self._table.schema.has_primary_key:
            raise FlussError(
                ErrorCode.NON_PRIMARY_KEY_TABLE, f"rows of a log table are not deleted. table={self._table.path}"
            )
        for values, part in list(self._parts(rows)):
            self._retry_if_dropped(values, partial(self._delete_part, values, part))

    def _delete_part(self, values: Sequence[str] | None, part: pa.RecordBatch) -> None:
        partition_id = self._known(values)
        # In a partition that is not there no row is: none is made for that.
        if values is None or partition_id is not None:
            self._key_writer(partition_id).delete(part)

    def _retry_if_dropped(self, values: Sequence[str] | None, write: Callable[[], None]) -> None:
        """Write, and once more if the partition was dropped since its id was looked up.

        What was written of the rows before is gone with the dropped partition.
        """
        try:
            write()
        except FlussError as failure:
            if values is None or failure.code is not ErrorCode.UNKNOWN_TABLE_OR_BUCKET:
                raise
            self._forget("$".join(values))
            write()

    def _parts(self, rows: pa.RecordBatch) -> Iterator[tuple[tuple[str, ...] | None, pa.RecordBatch]]:
        """The rows of each partition; without a partition, all of a table that has none."""
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
                    f"a row is of another partition. partition={self._partition} of_the_row={'$'.join(values)}",
                )
        for values, those in numbers.items():
            yield values, rows if len(those) == rows.num_rows else rows.take(pa.array(those))

    def _found(self, values: Sequence[str] | None) -> int | None:
        """The id of the partition, which is there then."""
        found = self._known(values)
        if values is None or found is not None:
            return found
        table = self._table
        if not self._creates:
            raise FlussError(
                ErrorCode.PARTITION_NOT_EXISTS, f"no such partition. table={table.path} partition={'$'.join(values)}"
            )
        self._check_time(values)
        create_partition(self._calls, table.database, table.name, table.partition_keys, values)
        return self._known(values)

    def _known(self, values: Sequence[str] | None) -> int | None:
        """The id of the partition, if there is one. Others may have made it since the table was asked for."""
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
        """Look a partition up again when it is next written to."""
        for dropped in [each for each in self._table.partitions if each.name == name]:
            self._key_writers.pop(dropped.id, None)
            self._log_writers.pop(dropped.id, None)
        left = tuple(each for each in self._table.partitions if each.name != name)
        self._table = replace(self._table, partitions=left)

    def _check_time(self, values: Sequence[str]) -> None:
        """Where partitions come and go by time, one of a time that is over would go at once, with its rows."""
        strategy = self._strategy
        if strategy is None:
            return
        said, now = values[self._table.partition_keys.index(strategy.key)], self._now()
        shown = strategy.name(datetime.fromtimestamp(now, UTC))
        if _shape(said) != _shape(shown) or strategy.expired([said], int(now * 1000)):
            raise FlussError(
                ErrorCode.PARTITION_SPEC_INVALID,
                f"no partition is made for a time that is over, or is none. {strategy.key}={said} now={shown}",
            )

    def _key_writer(self, partition_id: int | None) -> StreamKvWriter:
        if partition_id not in self._key_writers:
            self._key_writers[partition_id] = StreamKvWriter(self._calls, self._table, partition_id)
        return self._key_writers[partition_id]

    def _log_writer(self, partition_id: int | None) -> StreamLogWriter:
        if partition_id not in self._log_writers:
            self._log_writers[partition_id] = StreamLogWriter(self._calls, self._table.scanned(partition_id))
        return self._log_writers[partition_id]


def _shape(name: str) -> str:
    return re.sub("[0-9]", "0", name)
