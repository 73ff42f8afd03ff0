"""A stream table as it is known: its path, its schema, how it is cut into buckets, its options.

A definition that exists is valid; what its document leaves open is filled in when it is made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, NamedTuple, Self

import msgspec

from lakebed.fluss.auto_partitioning import AutoPartitionStrategy
from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.fluss.schema import Schema
from lakebed.fluss.table_options import check_options, flag, whole_number
from lakebed.fluss.types import TypeRoot

from .json_documents import read_json
from .kv.table import KvSettings
from .names import RESERVED_COLUMNS

__all__ = ["MAX_BUCKETS", "StreamTable", "TableDefinition", "TablePath"]

MAX_BUCKETS: Final = 4096
_NO_PARTITION_KEYS: Final = frozenset({TypeRoot.ARRAY, TypeRoot.MAP, TypeRoot.ROW, TypeRoot.DECIMAL})


class TablePath(NamedTuple):
    """Where a table is."""

    database: str
    name: str

    def __str__(self) -> str:
        return f"{self.database}.{self.name}"


@dataclass(frozen=True)
class TableDefinition:
    """What somebody said a table is."""

    schema: Schema
    partition_keys: tuple[str, ...] = ()
    bucket_keys: tuple[str, ...] = ()
    bucket_count: int = 1
    options: Mapping[str, str] = field(default_factory=dict)
    custom_options: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None

    @classmethod
    def parse(cls, document: bytes, *, default_buckets: int = 1) -> Self:
        """What a table's document says, with what it leaves open. Raises INVALID_TABLE and other reasons."""
        said = read_json(document, ErrorCode.INVALID_TABLE, "the document of a table")
        if not isinstance(said, dict):
            raise _invalid("the document of a table is a JSON object")
        return cls.of(Schema.parse(said.get("schema")), said, default_buckets=default_buckets)

    @classmethod
    def of(cls, schema: Schema, said: Mapping[str, Any], *, default_buckets: int = 1) -> Self:
        """The definition of a table of this schema, by the rest of its document."""
        partition_keys = _names(said, "partition_key")
        bucket_keys = _names(said, "bucket_key")
        if not bucket_keys and schema.has_primary_key:
            bucket_keys = tuple(name for name in schema.primary_key if name not in partition_keys)
        bucket_count = said.get("bucket_count")
        if bucket_count is None:
            bucket_count = default_buckets
        if not isinstance(bucket_count, int) or isinstance(bucket_count, bool) or bucket_count < 1:
            raise _invalid(f"a table has one bucket at least. bucket_count={bucket_count}")
        comment = said.get("comment")
        return cls(
            schema,
            partition_keys,
            bucket_keys,
            bucket_count,
            _texts(said, "properties"),
            _texts(said, "custom_properties"),
            None if comment is None else str(comment),
        )

    def check(self, *, max_buckets: int = MAX_BUCKETS) -> None:
        """Raise what is wrong with it as the definition of a new table."""
        schema = self.schema
        for name in schema.names:
            if name in RESERVED_COLUMNS:
                raise _invalid(f"the name is that of a column of every table. column={name}")
        if self.bucket_count > max_buckets:
            raise FlussError(
                ErrorCode.BUCKET_MAX_NUM,
                f"a table has {max_buckets} buckets at most. bucket_count={self.bucket_count}",
            )
        self._check_partition_keys()
        self._check_bucket_keys()
        check_options(self.options)
        if self.replication_factor != 1:
            raise FlussError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"the byte store keeps the copies: the factor is 1. factor={self.replication_factor}",
            )
        if schema.has_primary_key:
            KvSettings.parse(schema, self.options)
        elif "table.merge-engine" in self.options:
            raise _invalid("only tables with a primary key have a merge engine")

    def _check_partition_keys(self) -> None:
        for name in self.partition_keys:
            column = self.schema.column(name)
            if column is None:
                raise _invalid(f"the partition key names no column. column={name}")
            if column.type.root in _NO_PARTITION_KEYS:
                raise _invalid(f"the column cannot be a partition key. column={name} type={column.type}")
            if self.schema.has_primary_key and name not in self.schema.primary_key:
                raise _invalid(f"the primary key has all partition keys. column={name}")
        if len(set(self.partition_keys)) != len(self.partition_keys):
            raise _invalid(f"a column is a partition key once. partition_key={list(self.partition_keys)}")
        if self.is_auto_partitioned and not self.partition_keys:
            raise _invalid("only a partitioned table is partitioned by itself")

    def _check_bucket_keys(self) -> None:
        if len(set(self.bucket_keys)) != len(self.bucket_keys):
            raise _invalid(f"a column is a bucket key once. bucket_key={list(self.bucket_keys)}")
        for name in self.bucket_keys:
            column = self.schema.column(name)
            if column is None:
                raise _invalid(f"the bucket key names no column. column={name}")
            if column.type.is_nested:
                raise _invalid(f"the column cannot be a bucket key. column={name} type={column.type}")
            if name in self.partition_keys:
                raise _invalid(f"a partition key is no bucket key. column={name}")
            if self.schema.has_primary_key and name not in self.schema.primary_key:
                raise _invalid(f"the bucket key is of the primary key. column={name}")
        if self.schema.has_primary_key and not self.bucket_keys:
            raise _invalid("the primary key has a column besides the partition keys, for the bucket")

    @property
    def is_partitioned(self) -> bool:
        """Whether its rows are in partitions, each with buckets of its own."""
        return bool(self.partition_keys)

    @property
    def replication_factor(self) -> int:
        """How many copies of it somebody wants of the stream servers."""
        return whole_number(self.options.get("table.replication.factor", "1"))

    @property
    def log_format(self) -> str:
        """How rows are in the log."""
        return self.options.get("table.log.format", "ARROW").upper()

    @property
    def is_auto_partitioned(self) -> bool:
        """Whether its partitions are made and dropped as time goes on."""
        return flag(self.options.get("table.auto-partition.enabled", "false"))

    def auto_partition_strategy(self) -> AutoPartitionStrategy | None:
        """The strategy of its options; None without auto-partitioning. Error codes: INVALID_CONFIG, INVALID_TABLE."""
        return AutoPartitionStrategy.of(self.schema, self.partition_keys, self.options)

    def rest(self) -> dict[str, Any]:
        """Its document without the schema."""
        said: dict[str, Any] = {"version": 1}
        if self.comment is not None:
            said["comment"] = self.comment
        said["partition_key"] = list(self.partition_keys)
        said["bucket_key"] = list(self.bucket_keys)
        said["bucket_count"] = self.bucket_count
        said["properties"] = dict(self.options)
        said["custom_properties"] = dict(self.custom_options)
        return said

    @cached_property
    def document(self) -> bytes:
        """Its document, as `parse` takes it."""
        return msgspec.json.encode({"schema": self.schema.document()} | self.rest())


@dataclass(frozen=True)
class StreamTable:
    """A table that exists."""

    id: int
    path: TablePath
    schema_id: int
    definition: TableDefinition
    created_ms: int
    modified_ms: int

    @property
    def schema(self) -> Schema:
        """The newest one."""
        return self.definition.schema

    @property
    def has_primary_key(self) -> bool:
        """Whether it has a primary key."""
        return self.definition.schema.has_primary_key

    @property
    def is_partitioned(self) -> bool:
        """Whether its buckets are those of its partitions."""
        return bool(self.definition.partition_keys)

    @property
    def bucket_count(self) -> int:
        """How many buckets it has, or each of its partitions."""
        return self.definition.bucket_count


def _names(said: Mapping[str, Any], name: str) -> tuple[str, ...]:
    found = said.get(name)
    if found is None:
        return ()
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise _invalid(f"{name} is a list of names")
    return tuple(found)


def _texts(said: Mapping[str, Any], name: str) -> dict[str, str]:
    found = said.get(name)
    if found is None:
        return {}
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise _invalid(f"{name} is a JSON object of texts")
    return found


def _invalid(message: str) -> FlussError:
    return FlussError(ErrorCode.INVALID_TABLE, message)
