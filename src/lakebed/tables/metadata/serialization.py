"""Table metadata to its document: always the same text for the same value."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Raw

from .documents import Element, encode, split
from .schema import Schema
from .snapshots import ROW_LINEAGE_SINCE_VERSION
from .table import TableMetadata

__all__ = ["serialize_table"]


def serialize_table(metadata: TableMetadata, *, referenced_snapshots_only: bool = False) -> bytes:
    """The metadata document, compact. Parts go in as they were written, so the cost is a copy of their text.

    With `referenced_snapshots_only`, snapshots that no branch or tag names are left out, as clients that load history
    when they need it ask for; logs and references stay complete. Such a document is an answer, not to be stored.
    """
    version = metadata.format_version
    snapshots: Iterable[Element] = metadata.snapshots.values()
    if referenced_snapshots_only:
        named = {reference.snapshot_id for reference in metadata.refs.values()}
        snapshots = (snapshot for snapshot in metadata.snapshots.values() if snapshot.snapshot_id in named)
    document: dict[str, object] = {"format-version": version}
    if metadata.uuid is not None:
        document["table-uuid"] = metadata.uuid
    document["location"] = metadata.location
    if version > 1:
        document["last-sequence-number"] = metadata.last_sequence_number
    document["last-updated-ms"] = metadata.last_updated_ms
    document["last-column-id"] = metadata.last_column_id
    if version == 1:
        document["schema"] = metadata.schema.written  # for readers older than lists of schemas
    document["current-schema-id"] = metadata.current_schema_id
    document["schemas"] = _texts(metadata.schemas.values())
    if version == 1:
        document["partition-spec"] = split(metadata.spec.written, "partition-spec")["fields"]
    document["default-spec-id"] = metadata.default_spec_id
    document["partition-specs"] = _texts(metadata.specs.values())
    document["last-partition-id"] = metadata.last_partition_id
    document["default-sort-order-id"] = metadata.default_sort_order_id
    document["sort-orders"] = _texts(metadata.sort_orders.values())
    document["properties"] = dict(metadata.properties)
    document["current-snapshot-id"] = _current_snapshot_id(metadata)
    if version >= ROW_LINEAGE_SINCE_VERSION:
        document["next-row-id"] = metadata.next_row_id
    document["refs"] = {name: reference.written for name, reference in metadata.refs.items()}
    document["snapshots"] = _texts(snapshots)
    document["statistics"] = _texts(metadata.statistics)
    document["partition-statistics"] = _texts(metadata.partition_statistics)
    document["snapshot-log"] = _texts(metadata.snapshot_log)
    document["metadata-log"] = _texts(metadata.metadata_log)
    if metadata.encryption_keys:
        document["encryption-keys"] = _texts(metadata.encryption_keys.values())
    document.update(metadata.unknown)
    return bytes(encode(document))


def _current_snapshot_id(metadata: TableMetadata) -> int | None:
    if metadata.current_snapshot_id is None and metadata.format_version < ROW_LINEAGE_SINCE_VERSION:
        return -1  # Readers of the older versions expect a number.
    return metadata.current_snapshot_id


def _texts(elements: Iterable[Element | Schema]) -> list[Raw]:
    return [element.written for element in elements]
