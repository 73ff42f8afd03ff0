"""What a keyed table is to its buckets: how it merges, how it writes, and the schemas that its rows have."""

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
    """What becomes of a row when another of its key is written."""

    LAST_ROW = "last_row"
    """It is replaced. The one that a table has without saying so."""

    FIRST_ROW = "first_row"
    VERSIONED = "versioned"
    AGGREGATION = "aggregation"


class DeleteBehavior(StrEnum):
    """What becomes of deletes."""

    ALLOW = "allow"
    IGNORE = "ignore"
    DISABLE = "disable"


class ChangelogImage(StrEnum):
    """How much of an update is in the changelog."""

    FULL = "full"
    """The row before and the row after."""

    WAL = "wal"
    """The row after."""


@dataclass(frozen=True, slots=True)
class KvSettings:
    """What the properties of a table say of its keys."""

    row_format: RowFormat = RowFormat.COMPACTED
    log_format: ChangelogFormat = ChangelogFormat.ARROW
    compression: str | None = "zstd"
    zstd_level: int = 1
    """The fastest, unless the table says another: readers know all of them."""

    engine: MergeEngine = MergeEngine.LAST_ROW
    version_column: str | None = None
    deletes: DeleteBehavior = DeleteBehavior.ALLOW
    image: ChangelogImage = ChangelogImage.FULL
    counter_cache: int = 100_000
    lake: str = ""
    """What lake the table may be copied to, by its name: it has a say in what keys look like."""

    key_version: int = 1
    """Of what keys look like."""

    @classmethod
    def parse(cls, schema: Schema, properties: Mapping[str, str]) -> Self:
        """The settings of a table with a primary key; raises INVALID_TABLE or INVALID_CONFIG where they cannot be."""
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
            raise _invalid(f"log cannot have this format. log={self.log_format} kv={self.row_format}")
        if self.engine in (MergeEngine.FIRST_ROW, MergeEngine.VERSIONED) and self.deletes is DeleteBehavior.ALLOW:
            raise _invalid(f"merge engine does not allow deletes. merge-engine={self.engine}")
        if self.engine is MergeEngine.AGGREGATION and self.image is ChangelogImage.WAL:
            raise _invalid("an aggregating table has the whole image in its changelog")
        if self.engine is MergeEngine.VERSIONED:
            column = None if self.version_column is None else schema.column(self.version_column)
            if column is None or column.type.root not in _VERSIONS:
                raise _invalid(f"version is no column of numbers or times. ver-column={self.version_column}")
        for column in schema.columns:
            if column.aggregation is None:
                continue
            if self.engine is not MergeEngine.AGGREGATION:
                raise _invalid(f"only an aggregating table has aggregation functions. column={column.name}")


class KvTable:
    """A table's settings and its schemas as far as they are known; one for all of its buckets."""

    def __init__(self, settings: KvSettings, schemas: Mapping[int, Schema]) -> None:
        """`schemas` by id; there is at least one."""
        self.settings = settings
        self._schemas = dict(schemas)
        self._layouts: dict[int, RowLayout] = {}
        self.latest_id = max(self._schemas)

    @property
    def latest(self) -> Schema:
        """The newest schema."""
        return self._schemas[self.latest_id]

    def has_schema(self, schema_id: int) -> bool:
        """Whether there is such a schema, as far as is known."""
        return schema_id in self._schemas

    def schema(self, schema_id: int) -> Schema:
        """The schema with this id; raises SCHEMA_NOT_EXIST."""
        found = self._schemas.get(schema_id)
        if found is None:
            raise FlussError(
                ErrorCode.SCHEMA_NOT_EXIST, f"no such schema. schema_id={schema_id} latest={self.latest_id}"
            )
        return found

    def layout(self, schema_id: int) -> RowLayout:
        """The layout of rows that were written under it."""
        found = self._layouts.get(schema_id)
        if found is None:
            types = [column.type for column in self.schema(schema_id).columns]
            found = self._layouts[schema_id] = RowLayout(self.settings.row_format, types)
        return found

    def add_schema(self, schema_id: int, schema: Schema) -> None:
        """Take in a schema that the table got."""
        self._schemas[schema_id] = schema
        self.latest_id = max(self.latest_id, schema_id)

    def fields(self, value: bytes) -> list[bytes | None]:
        """The fields of a stored value, as the latest schema has them: what its own lacks is null."""
        fields = self.layout(int.from_bytes(value[:2], "little")).split(value[2:])
        missing = len(self.latest.columns) - len(fields)
        return fields + [None] * missing if missing > 0 else fields

    def value(self, fields: list[bytes | None]) -> bytes:
        """The stored value of these fields of the latest schema."""
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
        raise _bad(name, found)  # the name is ours: what a table has that names no engine
    return chosen


def _count(properties: Mapping[str, str], name: str, default: int) -> int:
    found = properties.get(name)
    if found is None:
        return default
    if not found.isdecimal() or not 1 <= int(found) <= MAX_CACHE:
        raise _bad(name, found)
    return int(found)


def _bad(name: str, found: str) -> FlussError:
    return FlussError(ErrorCode.INVALID_CONFIG, f"property has no such value. {name}={found}")


def _invalid(message: str) -> FlussError:
    return FlussError(ErrorCode.INVALID_TABLE, message)
