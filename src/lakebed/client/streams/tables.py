"""Metadata of stream tables: columns, partitions, buckets, and their log offsets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec
import pyarrow as pa

from lakebed.fluss.arrow_types import arrow_schema
from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.fluss.rows.fields import RowFormat
from lakebed.fluss.schema import Schema

from .kv_scans import PhysicalTable, StreamCalls
from .logs import StreamLog
from .messages import Fields, messages, number, text, write_fields

__all__ = ["Bucket", "PartitionInfo", "TableInfo", "describe", "list_offsets", "read_table"]

GET_TABLE_INFO: Final = 1007
LIST_PARTITION_INFOS: Final = 1009

_ARROW: Final = "arrow"
_CODECS: Final = {"ZSTD": "zstd", "LZ4_FRAME": "lz4", "NONE": None}
"""Arrow's names of compression types."""

Bucket = tuple[int | None, int]
"""Partition id, None without partitions, and bucket number."""


@dataclass(frozen=True, slots=True)
class PartitionInfo:
    """A partition, with the value of each partition key as text."""

    id: int
    name: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TableInfo:
    """The current metadata of a table."""

    database: str
    name: str
    id: int
    schema_id: int
    schema: Schema
    bucket_count: int
    bucket_key: tuple[str, ...] = ()
    partition_keys: tuple[str, ...] = ()
    partitions: tuple[PartitionInfo, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def path(self) -> str:
        """`database.table`, for messages."""
        return f"{self.database}.{self.name}"

    @property
    def buckets(self) -> list[Bucket]:
        """All buckets, partition by partition."""
        ids: Sequence[int | None] = [each.id for each in self.partitions] if self.partition_keys else [None]
        return [(partition, bucket) for partition in ids for bucket in range(self.bucket_count)]

    @property
    def arrow(self) -> pa.Schema:
        """The Arrow schema."""
        return arrow_schema(self.schema)

    @property
    def key_arrow(self) -> pa.Schema:
        """The Arrow schema of the primary key, for deletes."""
        return pa.schema([self.arrow.field(name) for name in self.schema.primary_key])

    def physical(self, partition_id: int | None) -> PhysicalTable:
        """One partition, or the whole table without partitions."""
        log_format = self.properties.get("table.log.format", _ARROW).lower()
        return PhysicalTable(
            self.database,
            self.name,
            self.id,
            self.schema_id,
            self.schema,
            RowFormat(self.properties.get("table.kv.format", RowFormat.COMPACTED).lower()),
            self.bucket_count,
            next((each.name for each in self.partitions if each.id == partition_id), None),
            partition_id,
            self.partition_keys,
            None if log_format == _ARROW else RowFormat(log_format),
            _CODECS[self.properties.get("table.log.arrow.compression.type", "ZSTD").upper()],
            int(self.properties.get("table.log.arrow.compression.zstd.level", "3")),
        )


def describe(calls: StreamCalls, database: str, name: str) -> TableInfo:
    """A table and its partitions. Error codes: TABLE_NOT_EXIST, AUTHORIZATION."""
    table = read_table(calls, database, name)
    keys = table.partition_keys
    if not keys:
        return table
    listed = calls.call(LIST_PARTITION_INFOS, write_fields({1: write_fields({1: database, 2: name})}))
    return replace(table, partitions=tuple(_partition(each, keys) for each in messages(listed, 1)))


def read_table(calls: StreamCalls, database: str, name: str) -> TableInfo:
    """A table without its partitions. Error codes: TABLE_NOT_EXIST, AUTHORIZATION."""
    response = calls.call(GET_TABLE_INFO, write_fields({1: write_fields({1: database, 2: name})}))
    document: dict[str, Any] = msgspec.json.decode(text(response, 3))
    return TableInfo(
        database,
        name,
        number(response, 1),
        number(response, 2),
        Schema.parse(document["schema"]),
        int(document.get("bucket_count") or 1),
        tuple(document.get("bucket_key") or ()),
        tuple(document.get("partition_key") or ()),
        properties=dict(document.get("properties") or {}),
    )


def list_offsets(calls: StreamCalls, table: TableInfo, which: int) -> dict[Bucket, int]:
    """The start offset (`EARLIEST`) or end offset (`LATEST`) of each bucket's log."""
    ids: Sequence[int | None] = [each.id for each in table.partitions] if table.partition_keys else [None]
    return {
        (partition_id, bucket): offset
        for partition_id in ids
        for bucket, offset in StreamLog(calls, table.physical(partition_id)).offsets(which).items()
    }


def _partition(fields: Fields, keys: Sequence[str]) -> PartitionInfo:
    pairs = {
        text(pair, 1).decode(): text(pair, 2).decode() for spec in messages(fields, 2) for pair in messages(spec, 1)
    }
    if set(pairs) != set(keys):
        raise FlussError(
            ErrorCode.PARTITION_SPEC_INVALID,
            f"partition keys differ from the table's. expected={list(keys)} found={list(pairs)}",
        )
    values = tuple(pairs[key] for key in keys)
    return PartitionInfo(number(fields, 1), "$".join(values), values)
