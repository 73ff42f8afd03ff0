"""View metadata as one immutable value, parsed and serialized."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Raw

from lakebed.core.errors import InvalidInput, InvalidViewVersion

from ..documents import DocumentElement, Int, Long, check_unique, compact, decode, encode, make, read, read_list, split
from ..schema import Schema, parse_schemas

__all__ = [
    "VIEW_FORMAT_VERSION",
    "ViewHistoryEntry",
    "ViewMetadata",
    "ViewVersion",
    "history_entry",
    "parse_version",
    "parse_view",
    "serialize_view",
]

VIEW_FORMAT_VERSION: Final = 1
_WHAT: Final = "view metadata"


class Representation(msgspec.Struct, frozen=True):
    """The view in one representation; only SQL is supported."""

    type: str
    sql: str | None = None
    dialect: str | None = None


class ViewVersion(DocumentElement, frozen=True):
    """One version of a view."""

    version_id: Int
    timestamp_ms: Long
    schema_id: Int
    representations: tuple[Representation, ...]
    summary: dict[str, str] | None = None
    default_catalog: str | None = None
    default_namespace: tuple[str, ...] | None = None

    @property
    def dialects(self) -> list[str]:
        """The SQL dialects of its representations, in lower case."""
        return [one.dialect.lower() for one in self.representations if one.type == "sql" and one.dialect is not None]


class ViewHistoryEntry(DocumentElement, frozen=True):
    """An entry of the version log: when a version became current."""

    version_id: Int
    timestamp_ms: Long


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewMetadata:
    """The metadata of a view at one time. Validated: every id in it exists."""

    format_version: int
    uuid: str
    location: str
    schemas: Mapping[int, Schema]
    versions: Mapping[int, ViewVersion]
    current_version_id: int
    version_log: tuple[ViewHistoryEntry, ...]
    properties: Mapping[str, str]
    unknown: Mapping[str, Raw]
    """Unknown fields of the document."""

    @property
    def current_version(self) -> ViewVersion:
        """The current version."""
        return self.versions[self.current_version_id]


class _ViewDocument(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    view_uuid: str
    format_version: Int
    location: Annotated[str, Meta(min_length=1)]
    current_version_id: Int
    versions: Raw
    schemas: Raw
    version_log: Raw = Raw(b"[]")
    properties: dict[str, str] | None = None


_KNOWN: Final = frozenset(field.encode_name for field in msgspec.structs.fields(_ViewDocument))


def parse_view(document: bytes) -> ViewMetadata:
    """Parse and check a metadata document. Raises InvalidInput that names the field."""
    plain = compact(document, _WHAT)
    try:
        return _parse(plain)
    except InvalidInput as error:
        raise InvalidInput(f"{_WHAT}: {error}", argument=error.argument, value=error.value) from error


def serialize_view(metadata: ViewMetadata) -> bytes:
    """The metadata document, compact; equal values give equal text."""
    document: dict[str, object] = {
        "view-uuid": metadata.uuid,
        "format-version": metadata.format_version,
        "location": metadata.location,
        "schemas": [schema.written for schema in metadata.schemas.values()],
        "current-version-id": metadata.current_version_id,
        "versions": [version.written for version in metadata.versions.values()],
        "version-log": [entry.written for entry in metadata.version_log],
        "properties": dict(metadata.properties),
    }
    return bytes(encode(document | dict(metadata.unknown)))


def parse_version(written: Raw | bytes, where: str) -> ViewVersion:
    """Parse and check a version. Raises InvalidInput that names the field, InvalidViewVersion."""
    version = read(ViewVersion, written, where)
    for index, dialect in enumerate(version.dialects):
        if dialect in version.dialects[:index]:
            raise InvalidViewVersion(f"Invalid view version: Cannot add multiple queries for dialect {dialect}")
    _check_representations(version, where)
    return version


def history_entry(version_id: int, timestamp_ms: int) -> ViewHistoryEntry:
    """A new entry of the version log."""
    return make(ViewHistoryEntry, {"timestamp-ms": timestamp_ms, "version-id": version_id}, "version-log")


def _parse(document: bytes) -> ViewMetadata:
    written = split(document, "document")
    fields = decode(_ViewDocument, document, "")
    if fields.format_version != VIEW_FORMAT_VERSION:
        raise InvalidInput(
            f"format-version: must be {VIEW_FORMAT_VERSION}. found={fields.format_version}", argument="format-version"
        )
    schemas = parse_schemas(fields.schemas, "schemas")
    versions = read_list(ViewVersion, fields.versions, "versions")
    check_unique("version-id", [version.version_id for version in versions], "versions")
    for index, version in enumerate(versions):
        _check_representations(version, f"versions[{index}]")
        if version.schema_id not in schemas:
            raise InvalidInput(f"versions[{index}].schema-id: unknown id. id={version.schema_id}")
    by_id = {version.version_id: version for version in versions}
    if fields.current_version_id not in by_id:
        raise InvalidInput(f"current-version-id: unknown id. id={fields.current_version_id}")
    return ViewMetadata(
        format_version=fields.format_version,
        uuid=fields.view_uuid,
        location=fields.location,
        schemas=schemas,
        versions=by_id,
        current_version_id=fields.current_version_id,
        version_log=tuple(read_list(ViewHistoryEntry, fields.version_log, "version-log")),
        properties=fields.properties or {},
        unknown={name: text for name, text in written.items() if name not in _KNOWN},
    )


def _check_representations(version: ViewVersion, where: str) -> None:
    for index, one in enumerate(version.representations):
        if one.type == "sql" and (one.sql is None or one.dialect is None):
            raise InvalidInput(f"{where}.representations[{index}]: an SQL representation requires sql and dialect")
    check_unique("dialect", version.dialects, f"{where}.representations")
