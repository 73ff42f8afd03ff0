"""Parses and validates table metadata; fields that format 1 may omit are filled in.

Tables of format 1 may lack a list of schemas, ids of partition fields, and branches. They are derived from other fields
here, so that no other module handles their absence.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Raw

from lakebed.core.errors import InvalidInput

from ..documents import Count, DocumentElement, Int, Long, compact, decode, encode, read_list, split
from ..partitioning import PartitionSpec, highest_partition_id, parse_specs, spec_of_fields
from ..schema import Schema, parse_schema, parse_schemas
from ..sorting import UNSORTED_ID, SortOrder, parse_orders, unsorted
from .encryption import parse_keys
from .references import MAIN, SnapshotReference, branch, check_current, parse_references
from .snapshots import parse_log, parse_metadata_log, parse_snapshots
from .statistics import PartitionStatisticsFile, StatisticsFile
from .table import FORMAT_VERSIONS, TableMetadata

__all__ = ["parse_table"]

_WHAT: Final = "table metadata"
_EMPTY_LIST: Final = Raw(b"[]")
_EMPTY_OBJECT: Final = Raw(b"{}")
_NULL: Final = Raw(b"null")
_NO_SNAPSHOT: Final = -1
"""The value for no current snapshot in documents before version 3."""


class _Scalars(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """The scalar fields. Optional fields here may be required by format version, see below."""

    format_version: Annotated[int, Meta(ge=1)]
    location: Annotated[str, Meta(min_length=1)]
    last_updated_ms: Long
    last_column_id: Int
    table_uuid: str | None = None
    last_sequence_number: Count | None = None
    current_schema_id: Int | None = None
    default_spec_id: Int | None = None
    last_partition_id: Int | None = None
    default_sort_order_id: Int | None = None
    current_snapshot_id: Long | None = None
    next_row_id: Count | None = None
    properties: dict[str, str] | None = None


_LISTED: Final = frozenset(
    {
        "schema",
        "schemas",
        "partition-spec",
        "partition-specs",
        "sort-orders",
        "snapshots",
        "refs",
        "snapshot-log",
        "metadata-log",
        "statistics",
        "partition-statistics",
        "encryption-keys",
    }
)
_SINGLE: Final = frozenset(field.encode_name for field in msgspec.structs.fields(_Scalars))
_KNOWN: Final = _LISTED | _SINGLE


def parse_table(document: bytes, like: TableMetadata | None = None) -> TableMetadata:
    """Parse and check a metadata document of version 1, 2 or 3. Raises InvalidInput that names the field.

    `like` is the table at an earlier time: parts with equal text are not parsed again, with the same result.
    """
    plain = compact(document, _WHAT)
    try:
        return _parse(plain, like)
    except InvalidInput as error:
        raise InvalidInput(f"{_WHAT}: {error}", argument=error.argument, value=error.value) from error


def _parse(document: bytes, like: TableMetadata | None) -> TableMetadata:
    written = split(document, "document")
    # A null field counts as missing.
    fields = {name: text for name, text in written.items() if text != _NULL}
    scalars = decode(_Scalars, encode({name: text for name, text in fields.items() if name in _SINGLE}), "")
    version = scalars.format_version
    if version not in FORMAT_VERSIONS:
        raise InvalidInput(f"format-version: must be 1, 2 or 3. found={version}", argument="format-version")
    if version > 1:
        _check_complete(fields, version)
    # Version 1 has no sequence numbers: all its snapshots have 0, whatever the document contains.
    last_sequence_number = 0 if version == 1 else (scalars.last_sequence_number or 0)
    schemas, schema_id = _schemas(fields, scalars)
    specs, spec_id = _specs(fields, scalars)
    orders, order_id = _orders(fields, scalars)
    last_partition_id = scalars.last_partition_id
    if last_partition_id is None:
        last_partition_id = highest_partition_id(specs.values())
    _check_highest("last-column-id", scalars.last_column_id, schemas[schema_id].highest_field_id)
    if any(spec.fields for spec in specs.values()):
        _check_highest("last-partition-id", last_partition_id, highest_partition_id(specs.values()))
    snapshots = parse_snapshots(
        fields.get("snapshots", _EMPTY_LIST),
        "snapshots",
        last_sequence_number,
        () if like is None else tuple(like.snapshots.values()),
    )
    current = None if scalars.current_snapshot_id == _NO_SNAPSHOT else scalars.current_snapshot_id
    if current is not None:
        _check_known("current-snapshot-id", current, snapshots)
    return TableMetadata(
        format_version=version,
        uuid=scalars.table_uuid,
        location=scalars.location,
        last_updated_ms=scalars.last_updated_ms,
        last_sequence_number=last_sequence_number,
        last_column_id=scalars.last_column_id,
        schemas=schemas,
        current_schema_id=schema_id,
        specs=specs,
        default_spec_id=spec_id,
        last_partition_id=last_partition_id,
        sort_orders=orders,
        default_sort_order_id=order_id,
        properties=scalars.properties or {},
        snapshots=snapshots,
        current_snapshot_id=current,
        next_row_id=scalars.next_row_id or 0,
        refs=_references(fields, current, snapshots),
        snapshot_log=parse_log(
            fields.get("snapshot-log", _EMPTY_LIST), "snapshot-log", () if like is None else like.snapshot_log
        ),
        metadata_log=parse_metadata_log(
            fields.get("metadata-log", _EMPTY_LIST), "metadata-log", () if like is None else like.metadata_log
        ),
        statistics=tuple(read_list(StatisticsFile, fields.get("statistics", _EMPTY_LIST), "statistics")),
        partition_statistics=tuple(
            read_list(PartitionStatisticsFile, fields.get("partition-statistics", _EMPTY_LIST), "partition-statistics")
        ),
        encryption_keys=parse_keys(fields.get("encryption-keys", _EMPTY_LIST), "encryption-keys"),
        unknown={name: text for name, text in written.items() if name not in _KNOWN},
    )


def _check_complete(fields: Mapping[str, Raw], version: int) -> None:
    required = [
        "table-uuid",
        "last-sequence-number",
        "schemas",
        "current-schema-id",
        "partition-specs",
        "default-spec-id",
        "last-partition-id",
        "sort-orders",
        "default-sort-order-id",
    ]
    if version >= FORMAT_VERSIONS[-1]:
        required.append("next-row-id")
    for name in required:
        if name not in fields:
            raise InvalidInput(f"{name}: missing, and required in format version {version}", argument=name)


def _schemas(fields: Mapping[str, Raw], scalars: _Scalars) -> tuple[dict[int, Schema], int]:
    if "schemas" in fields:
        schemas = parse_schemas(fields["schemas"], "schemas")
        return schemas, _chosen("current-schema-id", scalars.current_schema_id, schemas)
    if "schema" not in fields:
        raise InvalidInput("schema: missing", argument="schema")
    only = parse_schema(fields["schema"], "schema")
    only = only.numbered(max(only.id, 0))
    return {only.id: only}, only.id


def _specs(fields: Mapping[str, Raw], scalars: _Scalars) -> tuple[dict[int, PartitionSpec], int]:
    if "partition-specs" in fields:
        specs = parse_specs(fields["partition-specs"], "partition-specs")
        return specs, _chosen("default-spec-id", scalars.default_spec_id, specs)
    if "partition-spec" not in fields:
        raise InvalidInput("partition-spec: missing", argument="partition-spec")
    only = spec_of_fields(fields["partition-spec"], "partition-spec")
    return {only.spec_id: only}, only.spec_id


def _orders(fields: Mapping[str, Raw], scalars: _Scalars) -> tuple[dict[int, SortOrder], int]:
    if "sort-orders" in fields:
        orders = parse_orders(fields["sort-orders"], "sort-orders")
        return orders, _chosen("default-sort-order-id", scalars.default_sort_order_id, orders)
    return {UNSORTED_ID: unsorted()}, UNSORTED_ID


def _references(
    fields: Mapping[str, Raw], current: int | None, snapshots: Mapping[int, DocumentElement]
) -> dict[str, SnapshotReference]:
    references = parse_references(fields.get("refs", _EMPTY_OBJECT), "refs")
    check_current(references, current)
    for name, reference in references.items():
        _check_known(f"refs.{name}.snapshot-id", reference.snapshot_id, snapshots)
    if current is not None and MAIN not in references:
        # Early tables had a current snapshot but no branches.
        references[MAIN] = branch(current)
    return references


def _chosen(name: str, given: int | None, among: Mapping[int, object]) -> int:
    if given is None:
        raise InvalidInput(f"{name}: missing", argument=name)
    _check_known(name, given, among)
    return given


def _check_known(name: str, given: int, among: Mapping[int, object]) -> None:
    if given not in among:
        raise InvalidInput(f"{name}: unknown id. id={given}", argument=name, value=str(given))


def _check_highest(name: str, given: int, highest: int) -> None:
    # A lower value would assign an id a second time.
    if given < highest:
        raise InvalidInput(f"{name}: below the highest id in use. found={given} highest={highest}", argument=name)
