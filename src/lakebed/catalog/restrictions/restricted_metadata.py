"""Table metadata for restricted principals. Pure.

It has the schemas, references and snapshots, but no file locations, statistics or row counts. Scans of restricted
principals are planned over an unpartitioned copy, so the metadata is unpartitioned too: partition values of a masked
column would reveal its values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from lakebed.governance.policies import Restriction
from lakebed.iceberg.metadata.serialization import serialize_table
from lakebed.iceberg.metadata.table import TableMetadata

from .copy_definition import masked_columns, relaxed_schema

__all__ = ["HIDDEN_LOCATION", "restricted_metadata"]

HIDDEN_LOCATION: Final = "lakebed:hidden"
"""In place of a manifest list: clients require a location. Restricted principals have no access to the real one."""

_UNPARTITIONED: Final = {"spec-id": 0, "fields": []}
_UNSORTED: Final = {"order-id": 0, "fields": []}
_LAST_PARTITION_ID: Final = 999
"""The `last-partition-id` of tables that were never partitioned."""
_SNAPSHOT_FIELDS: Final = ("snapshot-id", "parent-snapshot-id", "sequence-number", "timestamp-ms", "schema-id")
_OMITTED: Final = ("partition-spec", "encryption-keys")
_PRIVATE: Final = ("write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path")


def restricted_metadata(
    table: TableMetadata, restriction: Restriction, *, referenced_snapshots_only: bool = False
) -> bytes:
    """The metadata document of a table for a restricted principal."""
    masked = masked_columns(table, restriction)
    # Serialized again: the file of a registered table may lack fields.
    document = serialize_table(table, referenced_snapshots_only=referenced_snapshots_only)
    full: dict[str, Any] = msgspec.json.decode(document)  # Any: JSON
    visible = {key: value for key, value in full.items() if key not in _OMITTED}
    visible["schemas"] = [relaxed_schema(schema, masked) for schema in full["schemas"]]
    if "schema" in full:
        visible["schema"] = relaxed_schema(full["schema"], masked)
        visible["partition-spec"] = []
    visible |= {
        "partition-specs": [_UNPARTITIONED],
        "default-spec-id": 0,
        "last-partition-id": _LAST_PARTITION_ID,
        "sort-orders": [_UNSORTED],
        "default-sort-order-id": 0,
        "properties": {key: value for key, value in full.get("properties", {}).items() if key not in _PRIVATE},
        "snapshots": [_snapshot(one, table.format_version) for one in full.get("snapshots", ())],
        "statistics": [],
        "partition-statistics": [],
        "metadata-log": [],
    }
    return msgspec.json.encode(visible)


def _snapshot(full: Mapping[str, Any], format_version: int) -> dict[str, Any]:  # Any: JSON
    visible = {key: full[key] for key in _SNAPSHOT_FIELDS if key in full}
    visible["summary"] = {"operation": (full.get("summary") or {}).get("operation", "append")}
    visible["manifest-list"] = HIDDEN_LOCATION
    if format_version > 2:
        # Required since version 3; unused with server-side scan planning.
        visible |= {"first-row-id": 0, "added-rows": 0}
    return visible
