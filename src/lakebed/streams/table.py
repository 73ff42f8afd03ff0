"""Stream tables: path, schema, buckets and options.

A definition that exists is valid, with defaults filled in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, NamedTuple, Self

import msgspec

from lakebed.fluss.auto_partitioning import AutoPartitionStrategy
from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.fluss.schema import Schema, parse_names
from lakebed.fluss.table_options import check_options, flag, whole_number
from lakebed.fluss.types import TypeRoot

from .json_documents import read_json
from .kv.table import KvSettings
from .names import RESERVED_COLUMNS

__all__ = ["MAX_BUCKETS", "StreamTable", "TableDefinition", "TablePath"]

MAX_BUCKETS: Final = 4096
_NO_PARTITION_KEYS: Final = frozenset({TypeRoot.ARRAY, TypeRoot.MAP, TypeRoot.ROW, TypeRoot.DECIMAL})


class TablePath(NamedTuple):
    """The database and name of a table."""

    database: str
    name: str

    def __str__(self) -> str:
        return f"{self.database}.{self.name}"


@dataclass(frozen=True)
class TableDefinition:
    """The definition of a table."""

    schema: Schema
    partition_keys: tuple[str, ...] = ()
    bucket_keys: tuple[str, ...] = ()
    bucket_count: int = 1
    options: Mapping[str, str] = field(default_factory=dict)
    custom_options: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None

    @classmethod
    def parse(cls, document: bytes, *, default_buckets: int = 1) -> Self:
        """Parse a table's JSON and fill in defaults. Raises INVALID_TABLE and other codes."""
        fields = read_json(document, ErrorCode.INVALID_TABLE, "table document")
        if not isinstance(fields, dict):
            raise _invalid("table document is not a JSON object")
        return cls.of(Schema.parse(fields.get("schema")), fields, default_buckets=default_buckets)

    @classmethod
    def of(cls, schema: Schema, fields: Mapping[str, Any], *, default_buckets: int = 1) -> Self:
        """The definition of a table with this schema, from the rest of its document."""
        partition_keys = parse_names(fields, "partition_key")
        bucket_keys = parse_names(fields, "bucket_key")
        if not bucket_keys and schema.has_primary_key:
            bucket_keys = tuple(name for name in schema.primary_key if name not in partition_keys)
        bucket_count = fields.get("bucket_count")
        if bucket_count is None:
            bucket_count = default_buckets
        if not isinstance(bucket_count, int) or isinstance(bucket_count, bool) or bucket_count < 1:
            raise _invalid(f"expected at least one bucket. bucket_count={bucket_count}")
        comment = fields.get("comment")
        return cls(
            schema,
            partition_keys,
            bucket_keys,
            bucket_count,
            _texts(fields, "properties"),
            _texts(fields, "custom_properties"),
            None if comment is None else str(comment),
        )

    def check(self, *, max_buckets: int = MAX_BUCKETS) -> None:
        """Raise the first error of this definition as that of a new table."""
        schema = self.schema
        for name in schema.names:
            if name in RESERVED_COLUMNS:
                raise _invalid(f"reserved column name. column={name}")
        if self.bucket_count > max_buckets:
            raise FlussError(
                ErrorCode.BUCKET_MAX_NUM,
                f"too many buckets. bucket_count={self.bucket_count} limit={max_buckets}",
            )
        self._check_partition_keys()
        self._check_bucket_keys()
        check_options(self.options)
        if self.replication_factor != 1:
            raise FlussError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"expected a replication factor of 1: the object store replicates. factor={self.replication_factor}",
            )
        if schema.has_primary_key:
            KvSettings.parse(schema, self.options)
        elif "table.merge-engine" in self.options:
            raise _invalid("a merge engine requires a primary key")

    def _check_partition_keys(self) -> None:
        for name in self.partition_keys:
            column = self.schema.column(name)
            if column is None:
                raise _invalid(f"partition key is not a column. column={name}")
            if column.type.root in _NO_PARTITION_KEYS:
                raise _invalid(f"column type cannot be a partition key. column={name} type={column.type}")
            if self.schema.has_primary_key and name not in self.schema.primary_key:
                raise _invalid(f"partition key is not in the primary key. column={name}")
        if len(set(self.partition_keys)) != len(self.partition_keys):
            raise _invalid(f"duplicate partition key. partition_key={list(self.partition_keys)}")
        if self.is_auto_partitioned and not self.partition_keys:
            raise _invalid("auto-partitioning requires a partition key")

    def _check_bucket_keys(self) -> None:
        if len(set(self.bucket_keys)) != len(self.bucket_keys):
            raise _invalid(f"duplicate bucket key. bucket_key={list(self.bucket_keys)}")
        for name in self.bucket_keys:
            column = self.schema.column(name)
            if column is None:
                raise _invalid(f"bucket key is not a column. column={name}")
            if column.type.is_nested:
                raise _invalid(f"column type cannot be a bucket key. column={name} type={column.type}")
            if name in self.partition_keys:
                raise _invalid(f"a partition key cannot be a bucket key. column={name}")
            if self.schema.has_primary_key and name not in self.schema.primary_key:
                raise _invalid(f"bucket key is not in the primary key. column={name}")
        if self.schema.has_primary_key and not self.bucket_keys:
            raise _invalid("the primary key needs a column besides the partition keys")

    @property
    def replication_factor(self) -> int:
        """The requested number of replicas."""
        return whole_number(self.options.get("table.replication.factor", "1"))

    @property
    def log_format(self) -> str:
        """The format of rows in the log."""
        return self.options.get("table.log.format", "ARROW").upper()

    @property
    def is_auto_partitioned(self) -> bool:
        """Whether partitions are created and dropped by time."""
        return flag(self.options.get("table.auto-partition.enabled", "false"))

    def auto_partition_strategy(self) -> AutoPartitionStrategy | None:
        """The strategy of its options; None without auto-partitioning. Error codes: INVALID_CONFIG, INVALID_TABLE."""
        return AutoPartitionStrategy.of(self.schema, self.partition_keys, self.options)

    def rest(self) -> dict[str, Any]:
        """The document without the schema."""
        fields: dict[str, Any] = {"version": 1}
        if self.comment is not None:
            fields["comment"] = self.comment
        fields["partition_key"] = list(self.partition_keys)
        fields["bucket_key"] = list(self.bucket_keys)
        fields["bucket_count"] = self.bucket_count
        fields["properties"] = dict(self.options)
        fields["custom_properties"] = dict(self.custom_options)
        return fields

    @cached_property
    def document(self) -> bytes:
        """The document, as `parse` takes it."""
        return msgspec.json.encode({"schema": self.schema.document()} | self.rest())


@dataclass(frozen=True)
class StreamTable:
    """An existing table."""

    id: int
    path: TablePath
    schema_id: int
    definition: TableDefinition
    created_ms: int
    modified_ms: int

    @property
    def schema(self) -> Schema:
        """The latest schema."""
        return self.definition.schema

    @property
    def has_primary_key(self) -> bool:
        """Whether it has a primary key."""
        return self.definition.schema.has_primary_key

    @property
    def is_partitioned(self) -> bool:
        """Whether its buckets belong to partitions."""
        return bool(self.definition.partition_keys)

    @property
    def bucket_count(self) -> int:
        """The number of buckets of the table, or of each partition."""
        return self.definition.bucket_count


def _texts(fields: Mapping[str, Any], name: str) -> dict[str, str]:
    found = fields.get(name)
    if found is None:
        return {}
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise _invalid(f"expected a JSON object of strings. field={name}")
    return found


def _invalid(message: str) -> FlussError:
    return FlussError(ErrorCode.INVALID_TABLE, message)
