"""Manifest lists and manifests, written with another Avro library by the schemas of the Iceberg specification."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping
from typing import Any

import fastavro

from lakebed.iceberg.manifests import (
    DataFile,
    EntryStatus,
    FileContent,
    ManifestEntry,
    ManifestFile,
    open_manifest,
)

Json = Any
"""Avro schemas and records for fastavro."""

UNPARTITIONED: tuple[tuple[str, Json, int], ...] = ()


def read_manifest(data: bytes, manifest: ManifestFile, **options: Any) -> list[ManifestEntry]:
    return list(open_manifest(data).entries(manifest, **options))


def optional(avro: Json) -> Json:
    return ["null", avro]


def column(name: str, avro: Json, field_id: int) -> dict[str, Json]:
    default = {"default": None} if isinstance(avro, list) else {}
    return {"name": name, "type": avro, "field-id": field_id, **default}


def pairs(key_id: int, value_id: int, value: Json) -> Json:
    record = {
        "type": "record",
        "name": f"k{key_id}_v{value_id}",
        "fields": [column("key", "int", key_id), column("value", value, value_id)],
    }
    return optional({"type": "array", "items": record, "logicalType": "map"})


def file_schema(version: int, partition: Iterable[tuple[str, Json, int]] = UNPARTITIONED) -> Json:
    fields = [column("content", "int", 134)] if version > 1 else []
    fields += [
        column("file_path", "string", 100),
        column("file_format", "string", 101),
        column("partition", {"type": "record", "name": "r102", "fields": [column(*one) for one in partition]}, 102),
        column("record_count", "long", 103),
        column("file_size_in_bytes", "long", 104),
    ]
    if version == 1:
        fields += [column("block_size_in_bytes", "long", 105), column("file_ordinal", optional("int"), 106)]
    fields += [
        column("column_sizes", pairs(117, 118, "long"), 108),
        column("value_counts", pairs(119, 120, "long"), 109),
        column("null_value_counts", pairs(121, 122, "long"), 110),
        column("nan_value_counts", pairs(138, 139, "long"), 137),
        column("lower_bounds", pairs(126, 127, "bytes"), 125),
        column("upper_bounds", pairs(129, 130, "bytes"), 128),
        column("key_metadata", optional("bytes"), 131),
        column("split_offsets", optional({"type": "array", "items": "long", "element-id": 133}), 132),
    ]
    if version > 1:
        fields += [column("equality_ids", optional({"type": "array", "items": "int", "element-id": 136}), 135)]
    fields += [column("sort_order_id", optional("int"), 140)]
    if version > 1:
        fields += [column("referenced_data_file", optional("string"), 143)]
    if version > 2:
        fields += [
            column("first_row_id", optional("long"), 142),
            column("content_offset", optional("long"), 144),
            column("content_size_in_bytes", optional("long"), 145),
        ]
    return {"type": "record", "name": "r2", "fields": fields}


def entry_schema(version: int, partition: Iterable[tuple[str, Json, int]] = UNPARTITIONED) -> Json:
    fields = [column("status", "int", 0)]
    if version == 1:
        fields += [column("snapshot_id", "long", 1)]
    else:
        fields += [
            column("snapshot_id", optional("long"), 1),
            column("sequence_number", optional("long"), 3),
            column("file_sequence_number", optional("long"), 4),
        ]
    fields += [column("data_file", file_schema(version, partition), 2)]
    return {"type": "record", "name": "manifest_entry", "fields": fields}


def list_schema(version: int) -> Json:
    summary = {
        "type": "record",
        "name": "r508",
        "fields": [
            column("contains_null", "boolean", 509),
            column("contains_nan", optional("boolean"), 518),
            column("lower_bound", optional("bytes"), 510),
            column("upper_bound", optional("bytes"), 511),
        ],
    }
    fields = [
        column("manifest_path", "string", 500),
        column("manifest_length", "long", 501),
        column("partition_spec_id", "int", 502),
    ]
    count = "int" if version > 1 else optional("int")
    rows = "long" if version > 1 else optional("long")
    middle = "_" if version > 1 else "_data_"
    if version > 1:
        fields += [
            column("content", "int", 517),
            column("sequence_number", "long", 515),
            column("min_sequence_number", "long", 516),
        ]
    fields += [
        column("added_snapshot_id", "long", 503),
        column(f"added{middle}files_count", count, 504),
        column(f"existing{middle}files_count", count, 505),
        column(f"deleted{middle}files_count", count, 506),
        column("added_rows_count", rows, 512),
        column("existing_rows_count", rows, 513),
        column("deleted_rows_count", rows, 514),
        column("partitions", optional({"type": "array", "items": summary, "element-id": 508}), 507),
        column("key_metadata", optional("bytes"), 519),
    ]
    if version > 2:
        fields += [column("first_row_id", optional("long"), 520)]
    return {"type": "record", "name": "manifest_file", "fields": fields}


def avro_file(
    schema: Json, records: Iterable[Json], *, codec: str = "deflate", metadata: Mapping[str, str] | None = None
) -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, schema, records, codec=codec, metadata=dict(metadata or {}), sync_interval=16_000)
    return out.getvalue()


def manifest_bytes(
    entries: Iterable[ManifestEntry],
    *,
    version: int = 2,
    partition: Iterable[tuple[str, Json, int]] = UNPARTITIONED,
    content: str = "data",
    spec_id: int = 0,
    codec: str = "deflate",
) -> bytes:
    """A manifest. `partition` has the fields of the spec: name, Avro type, partition field id."""
    partition = tuple(partition)
    header = {
        "schema": json.dumps({"type": "struct", "schema-id": 0, "fields": []}),
        "schema-id": "0",
        "partition-spec": "[]",
        "partition-spec-id": str(spec_id),
        "format-version": str(version),
        **({"content": content} if version > 1 else {}),
    }
    records = [_entry_record(entry, [name for name, _, _ in partition]) for entry in entries]
    return avro_file(entry_schema(version, partition), records, codec=codec, metadata=header)


def _entry_record(entry: ManifestEntry, partition: list[str]) -> Json:
    file: dict[str, Json] = entry.data_file._asdict()
    for name in (
        "column_sizes",
        "value_counts",
        "null_value_counts",
        "nan_value_counts",
        "lower_bounds",
        "upper_bounds",
    ):
        if file[name] is not None:
            file[name] = [{"key": key, "value": value} for key, value in file[name].items()]
    for name in ("split_offsets", "equality_ids"):  # in a union, a tuple would name its branch
        if file[name] is not None:
            file[name] = list(file[name])
    file["partition"] = dict(zip(partition, entry.data_file.partition, strict=True))
    file["block_size_in_bytes"] = 67_108_864
    return {**entry._asdict(), "data_file": file}


def list_bytes(manifests: Iterable[ManifestFile], *, version: int = 2, codec: str = "deflate") -> bytes:
    records: list[Json] = []
    for manifest in manifests:
        record: dict[str, Json] = manifest._asdict()
        record["manifest_path"] = record.pop("path")
        record["manifest_length"] = record.pop("length")
        for which in ("added", "existing", "deleted"):
            record[f"{which}_data_files_count"] = record[f"{which}_files_count"]
        if manifest.partitions is not None:
            record["partitions"] = [summary._asdict() for summary in manifest.partitions]
        records.append(record)
    return avro_file(list_schema(version), records, codec=codec, metadata={"format-version": str(version)})


def a_file(path: str = "s3://lake/t/data/a.parquet", **facts: Any) -> DataFile:
    blank: dict[str, Any] = dict.fromkeys(DataFile._fields)
    blank.update(
        content=FileContent.DATA.value,
        file_path=path,
        file_format="PARQUET",
        spec_id=0,
        partition=(),
        record_count=10,
        file_size_in_bytes=1000,
    )
    return DataFile(**{**blank, **facts})


def an_entry(
    file: DataFile,
    status: int = EntryStatus.ADDED,
    *,
    snapshot_id: int | None = None,
    sequence_number: int | None = None,
    file_sequence_number: int | None = None,
) -> ManifestEntry:
    # Before inheritance an entry may lack its number; entries from a reader have it.
    number: Any = sequence_number
    return ManifestEntry(int(status), snapshot_id, number, file_sequence_number, file)


def a_manifest(path: str = "s3://lake/t/metadata/m0.avro", **facts: Any) -> ManifestFile:
    blank: dict[str, Any] = dict.fromkeys(ManifestFile._fields)
    blank.update(
        path=path,
        length=1,
        partition_spec_id=0,
        content=0,
        sequence_number=1,
        min_sequence_number=1,
        added_snapshot_id=100,
        added_files_count=0,
        existing_files_count=0,
        deleted_files_count=0,
        added_rows_count=0,
        existing_rows_count=0,
        deleted_rows_count=0,
    )
    return ManifestFile(**{**blank, **facts})
