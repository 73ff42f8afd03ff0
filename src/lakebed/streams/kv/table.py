"""Settings and schemas of a primary-key table, shared by its buckets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Self, TypeVar

from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.fluss.rows.fields import RowFormat
from lakebed.fluss.rows.layout import RowLayout
from lakebed.fluss.schema import Schema
from lakebed.fluss.types import TypeRoot

from .changelog import ChangelogFormat

__all__ = ["ChangelogImage", "DeleteBehavior", "KvSettings", "KvTable", "MergeEngine"]

_Choice = TypeVar("_Choice", bound=StrEnum)
_VERSIONS: Final = frozenset({TypeRoot.INT, TypeRoot.BIGINT, TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ})
MAX_CACHE: Final = 2**31 - 1


class MergeEngine(StrEnum):
    """How a write to an existing key is merged."""

    LAST_ROW = "last_row"
    """Replaces the row. The default of tables without the option."""

    FIRST_ROW = "first_row"
    VERSIONED = "versioned"
    AGGREGATION = "aggregation"


class DeleteBehavior(StrEnum):
    """How deletes are handled."""

    ALLOW = "allow"
    IGNORE = "ignore"
    DISABLE = "disable"


class ChangelogImage(StrEnum):
    """The part of an update that the changelog contains."""

    FULL = "full"
    """The rows before and after the update."""

    WAL = "wal"
    """The row after the update."""


@dataclass(frozen=True, slots=True)
class KvSettings:
    """The table options of the KV index and the changelog."""

    row_format: RowFormat = RowFormat.COMPACTED
    log_format: ChangelogFormat = ChangelogFormat.ARROW
    compression: str | None = "zstd"
    zstd_level: int = 1
    """Defaults to the fastest: readers support all levels."""

    engine: MergeEngine = MergeEngine.LAST_ROW
    version_column: str | None = None
    deletes: DeleteBehavior = DeleteBehavior.ALLOW
    image: ChangelogImage = ChangelogImage.FULL
    counter_cache: int = 100_000
    lake: str = ""
    """The lake format, which determines the key encoding."""

    key_version: int = 1
    """The key format version."""

    @classmethod
    def parse(cls, schema: Schema, properties: Mapping[str, str]) -> Self:
        """Parse the options of a primary-key table. Raises INVALID_TABLE, INVALID_CONFIG."""
        engine = _choice(properties, "table.merge-engine", MergeEngine, MergeEngine.LAST_ROW)
        default = DeleteBehavior.ALLOW if engine is MergeEngine.LAST_ROW else DeleteBehavior.IGNORE
        compression = properties.get("table.log.arrow.compression.type", "ZSTD").lower()
        if compression not in ("zstd", "lz4_frame", "none"):
            raise _bad("table.log.arrow.compression.type", compression)
        settings = cls(
            row_format=_choice(properties, "table.kv.format", RowFormat, RowFormat.COMPACTED),
            log_format=_choice(properties, "table.log.format", ChangelogFormat, ChangelogFormat.ARROW),
            compression={"zstd": "zstd", "lz4_frame": "lz4", "none": None}[compression],
            zstd_level=_count(properties, "table.log.arrow.compression.zstd.level", 1),
            engine=engine,
            version_column=properties.get("table.merge-engine.versioned.ver-column"),
            deletes=_choice(properties, "table.delete.behavior", DeleteBehavior, default),
            image=_choice(properties, "table.changelog.image", ChangelogImage, ChangelogImage.FULL),
            counter_cache=_count(properties, "table.auto-increment.cache-size", 100_000),
            lake=properties.get("table.datalake.format", "").lower(),
            key_version=_count(properties, "table.kv.format-version", 1),
        )
        settings._check(schema)
        return settings

    def _check(self, schema: Schema) -> None:
        if self.log_format is not ChangelogFormat.ARROW and self.log_format.value != self.row_format.value:
            raise _invalid(f"log format must be ARROW or the KV format. log={self.log_format} kv={self.row_format}")
        if self.engine in (MergeEngine.FIRST_ROW, MergeEngine.VERSIONED) and self.deletes is DeleteBehavior.ALLOW:
            raise _invalid(f"merge engine does not support deletes. merge-engine={self.engine}")
        if self.engine is MergeEngine.AGGREGATION and self.image is ChangelogImage.WAL:
            raise _invalid("the aggregation merge engine requires the changelog image FULL")
        if self.engine is MergeEngine.VERSIONED:
            column = None if self.version_column is None else schema.column(self.version_column)
            if column is None or column.type.root not in _VERSIONS:
                raise _invalid(
                    f"version column must be INT, BIGINT, TIMESTAMP or TIMESTAMP_LTZ. ver-column={self.version_column}"
                )
        for column in schema.columns:
            if column.aggregation is None:
                continue
            if self.engine is not MergeEngine.AGGREGATION:
                raise _invalid(f"aggregation functions require the aggregation merge engine. column={column.name}")


class KvTable:
    """A table's settings and known schemas, shared by its buckets."""

    def __init__(self, settings: KvSettings, schemas: Mapping[int, Schema]) -> None:
        """`schemas` by id, at least one."""
        self.settings = settings
        self._schemas = dict(schemas)
        self._layouts: dict[int, RowLayout] = {}
        self.latest_id = max(self._schemas)

    @property
    def latest(self) -> Schema:
        """The newest schema."""
        return self._schemas[self.latest_id]

    def has_schema(self, schema_id: int) -> bool:
        """Whether the schema is known."""
        return schema_id in self._schemas

    def schema(self, schema_id: int) -> Schema:
        """The schema with this id. Raises SCHEMA_NOT_EXIST."""
        found = self._schemas.get(schema_id)
        if found is None:
            raise FlussError(
                ErrorCode.SCHEMA_NOT_EXIST, f"no such schema. schema_id={schema_id} latest={self.latest_id}"
            )
        return found

    def layout(self, schema_id: int) -> RowLayout:
        """The layout of rows of this schema."""
        found = self._layouts.get(schema_id)
        if found is None:
            types = [column.type for column in self.schema(schema_id).columns]
            found = self._layouts[schema_id] = RowLayout(self.settings.row_format, types)
        return found

    def add_schema(self, schema_id: int, schema: Schema) -> None:
        """Add a schema of the table."""
        self._schemas[schema_id] = schema
        self.latest_id = max(self.latest_id, schema_id)

    def fields(self, value: bytes) -> list[bytes | None]:
        """The fields of a stored value, converted to the latest schema: added columns are null."""
        fields = self.layout(int.from_bytes(value[:2], "little")).split(value[2:])
        missing = len(self.latest.columns) - len(fields)
        return fields + [None] * missing if missing > 0 else fields

    def value(self, fields: list[bytes | None]) -> bytes:
        """The stored value of fields of the latest schema."""
        return self.latest_id.to_bytes(2, "little") + self.layout(self.latest_id).join(fields)


def _choice(properties: Mapping[str, str], name: str, kind: type[_Choice], default: _Choice) -> _Choice:
    found = properties.get(name)
    if found is None:
        return default
    try:
        chosen = kind(found.lower())
    except ValueError:
        raise _bad(name, found) from None
    if chosen is MergeEngine.LAST_ROW:
        raise _bad(name, found)  # the default, which the option cannot name
    return chosen


def _count(properties: Mapping[str, str], name: str, default: int) -> int:
    found = properties.get(name)
    if found is None:
        return default
    if not found.isdecimal() or not 1 <= int(found) <= MAX_CACHE:
        raise _bad(name, found)
    return int(found)


def _bad(name: str, found: str) -> FlussError:
    return FlussError(ErrorCode.INVALID_CONFIG, f"invalid value of a table option. {name}={found}")


def _invalid(message: str) -> FlussError:
    return FlussError(ErrorCode.INVALID_TABLE, message)
