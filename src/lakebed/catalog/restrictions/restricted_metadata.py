"""A table's metadata as somebody sees it who does not see all of the table. Pure.

It says what the table is and which snapshots there are, and nothing of where its files are, what they hold or how many
rows there are. Files that are planned for such a caller are those of a copy without partitions, so the table is shown
without any: partitions of a masked column would tell its values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from lakebed.governance.policies import Restriction
from lakebed.iceberg.metadata.serialization import serialize_table
from lakebed.iceberg.metadata.table import TableMetadata

from .copy_definition import masked_columns, open_schema

__all__ = ["HIDDEN_LOCATION", "restricted_metadata"]

HIDDEN_LOCATION: Final = "lakebed:hidden"
"""In place of a manifest list: clients insist on a text, and would not be let read what it names."""

_UNPARTITIONED: Final = {"spec-id": 0, "fields": []}
_UNSORTED: Final = {"order-id": 0, "fields": []}
_LAST_PARTITION_ID: Final = 999
"""What tables have whose rows were never partitioned."""
_SNAPSHOT_FIELDS: Final = ("snapshot-id", "parent-snapshot-id", "sequence-number", "timestamp-ms", "schema-id")
_LEFT_OUT: Final = ("partition-spec", "encryption-keys")
_PRIVATE: Final = ("write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path")


def restricted_metadata(
    table: TableMetadata, restriction: Restriction, *, referenced_snapshots_only: bool = False
) -> bytes:
    """The metadata document of a table as a restricted caller sees it."""
    masked = masked_columns(table, restriction)
    # As we write it, and not as the file has it: one that was registered may say less.
    document = serialize_table(table, referenced_snapshots_only=referenced_snapshots_only)
    told: dict[str, Any] = msgspec.json.decode(document)  # Any: JSON
    shown = {key: value for key, value in told.items() if key not in _LEFT_OUT}
    shown["schemas"] = [open_schema(schema, masked) for schema in told["schemas"]]
    if "schema" in told:
        shown["schema"] = open_schema(told["schema"], masked)
        shown["partition-spec"] = []
    shown |= {
        "partition-specs": [_UNPARTITIONED],
        "default-spec-id": 0,
        "last-partition-id": _LAST_PARTITION_ID,
        "sort-orders": [_UNSORTED],
        "default-sort-order-id": 0,
        "properties": {key: value for key, value in told.get("properties", {}).items() if key not in _PRIVATE},
        "snapshots": [_snapshot(one, table.format_version) for one in told.get("snapshots", ())],
        "statistics": [],
        "partition-statistics": [],
        "metadata-log": [],
    }
    return msgspec.json.encode(shown)


def _snapshot(told: Mapping[str, Any], format_version: int) -> dict[str, Any]:  # Any: JSON
    shown = {key: told[key] for key in _SNAPSHOT_FIELDS if key in told}
    shown["summary"] = {"operation": (told.get("summary") or {}).get("operation", "append")}
    shown["manifest-list"] = HIDDEN_LOCATION
    if format_version > 2:
        # Required of snapshots since then, and read by nobody who is planned for.
        shown |= {"first-row-id": 0, "added-rows": 0}
    return shown
