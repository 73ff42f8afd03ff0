"""The files that an append adds to a table: a data file, its manifest, and the snapshot's manifest list.

They are real files of format version 2, with PyIceberg's schemas. fastavro encodes them, because there are thousands.
Each append adds one manifest to those of the parent snapshot, as engines do.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final
from uuid import UUID

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import (
    MANIFEST_LIST_FILE_SCHEMAS,
    data_file_with_partition,
    manifest_entry_schema_with_data_file,
)
from pyiceberg.schema import Schema
from pyiceberg.types import StructType
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

VERSION: Final = 2
COLUMNS: Final = 10
ROWS: Final = 10
FIRST_ID: Final = 7_000_000_000_000_000_000
"""Snapshot ids have as many digits as those of engines."""

Avro = Any
"""Schemas and records as fastavro takes them."""


@cache
def table_schema() -> dict[str, Any]:
    """The schema of every table, in Iceberg's JSON."""
    fields = [
        {"id": index, "name": f"column_{index:02d}", "type": "string", "required": False}
        for index in range(1, COLUMNS + 1)
    ]
    return {"type": "struct", "schema-id": 0, "fields": fields}


@cache
def data_file() -> bytes:
    """A Parquet file of a few rows, the same in every append."""
    columns = {f"column_{index:02d}": [f"value {row}" for row in range(ROWS)] for index in range(1, COLUMNS + 1)}
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out)
    return out.getvalue()


def snapshot_id(number: int) -> int:
    """The id of a snapshot by its number, which counts from 1 and equals its sequence number."""
    return FIRST_ID + number


def data_path(location: str, number: int) -> str:
    return f"{location}/data/00000-{number}-{_name(number)}-00001.parquet"


def manifest_path(location: str, number: int) -> str:
    return f"{location}/metadata/{_name(number)}-m0.avro"


def list_path(location: str, number: int) -> str:
    return f"{location}/metadata/snap-{snapshot_id(number)}-1-{_name(number)}.avro"


def manifest(location: str, number: int) -> bytes:
    """The manifest that one append adds."""
    entry = {
        "status": 1,
        "snapshot_id": snapshot_id(number),
        "sequence_number": None,
        "file_sequence_number": None,
        "data_file": {**_data_file_fields(), "file_path": data_path(location, number)},
    }
    header = {
        "schema": json.dumps(table_schema()),
        "schema-id": "0",
        "partition-spec": "[]",
        "partition-spec-id": "0",
        "format-version": str(VERSION),
        "content": "data",
    }
    return _avro_file(_entry_schema(), [entry], header)


def manifest_list_entry(location: str, number: int, length: int) -> dict[str, Any]:
    """The entry of a manifest in manifest lists."""
    return {
        "manifest_path": manifest_path(location, number),
        "manifest_length": length,
        "partition_spec_id": 0,
        "content": 0,
        "sequence_number": number,
        "min_sequence_number": number,
        "added_snapshot_id": snapshot_id(number),
        "added_files_count": 1,
        "existing_files_count": 0,
        "deleted_files_count": 0,
        "added_rows_count": ROWS,
        "existing_rows_count": 0,
        "deleted_rows_count": 0,
        "partitions": None,
        "key_metadata": None,
    }


def manifest_list(entries: Sequence[Mapping[str, Any]], number: int) -> bytes:
    header = {
        "snapshot-id": str(snapshot_id(number)),
        "parent-snapshot-id": str(snapshot_id(number - 1)) if number > 1 else "null",
        "sequence-number": str(number),
        "format-version": str(VERSION),
    }
    return _avro_file(_list_schema(), entries, header)


def files_of_appends(location: str, numbers: Sequence[int]) -> list[tuple[str, bytes]]:
    """Locations and contents of the files of consecutive appends. The first manifest list has one manifest."""
    files: list[tuple[str, bytes]] = []
    entries: list[dict[str, Any]] = []
    for number in numbers:
        written = manifest(location, number)
        entries.insert(0, manifest_list_entry(location, number, len(written)))  # newest first, as engines write it
        files.append((data_path(location, number), data_file()))
        files.append((manifest_path(location, number), written))
        files.append((list_path(location, number), manifest_list(entries, number)))
    return files


def snapshot(location: str, number: int, now_ms: int) -> dict[str, Any]:
    """The snapshot of one append, in Iceberg's JSON."""
    size = len(data_file())
    found: dict[str, Any] = {
        "snapshot-id": snapshot_id(number),
        "sequence-number": number,
        "timestamp-ms": now_ms,
        "manifest-list": list_path(location, number),
        "schema-id": 0,
        "summary": {
            "operation": "append",
            "added-data-files": "1",
            "added-records": str(ROWS),
            "added-files-size": str(size),
            "changed-partition-count": "1",
            "total-records": str(number * ROWS),
            "total-files-size": str(number * size),
            "total-data-files": str(number),
            "total-delete-files": "0",
            "total-position-deletes": "0",
            "total-equality-deletes": "0",
        },
    }
    if number > 1:
        found["parent-snapshot-id"] = snapshot_id(number - 1)
    return found


def _name(number: int) -> UUID:
    return UUID(int=number * 0x9E3779B97F4A7C15F39CC0605CEDC834 % (1 << 128), version=4)


@cache
def _data_file_fields() -> dict[str, Any]:
    def pairs(value: object) -> list[dict[str, object]]:
        return [{"key": index, "value": value} for index in range(1, COLUMNS + 1)]

    values: dict[str, Any] = dict.fromkeys(field.name for field in _data_file_type().fields)
    return values | {
        "content": 0,
        "file_format": "PARQUET",
        "partition": {},
        "record_count": ROWS,
        "file_size_in_bytes": len(data_file()),
        "column_sizes": pairs(60),
        "value_counts": pairs(ROWS),
        "null_value_counts": pairs(0),
        "nan_value_counts": [],
        "lower_bounds": pairs(b"value 0"),
        "upper_bounds": pairs(f"value {ROWS - 1}".encode()),
        "split_offsets": [4],
        "sort_order_id": 0,
    }


@cache
def _data_file_type() -> StructType:
    return data_file_with_partition(StructType(), VERSION)


@cache
def _entry_schema() -> Avro:
    return _parsed(manifest_entry_schema_with_data_file(VERSION, _data_file_type()), "manifest_entry")


@cache
def _list_schema() -> Avro:
    return _parsed(MANIFEST_LIST_FILE_SCHEMAS[VERSION], "manifest_file")


def _parsed(schema: Schema, name: str) -> Avro:
    return fastavro.parse_schema(AvroSchemaConversion().iceberg_to_avro(schema, schema_name=name))


def _avro_file(schema: Avro, records: Sequence[Mapping[str, Any]], header: Mapping[str, str]) -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, schema, records, codec="deflate", metadata=dict(header), sync_interval=1 << 20)
    return out.getvalue()
