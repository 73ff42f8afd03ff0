"""Fields of manifest lists and manifests: Iceberg field ids, names and types."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from ..avro.decoding import (
    Decoder,
    DecoderFactory,
    ProjectedField,
    make_bounds,
    make_counts,
    make_record,
    make_scalar,
    make_tuple,
    make_value,
)
from ..avro.limits import ReadLimits
from ..avro.schema import AvroType, parse_schema
from .model import DataFile, FieldSummary, ManifestEntry, ManifestFile

__all__ = ["entry_decoder", "list_decoder"]

_CACHED_SCHEMA_BYTES: Final = 64 * 1024

_LONG: Final = make_scalar("int", "long")
_STRING: Final = make_scalar("string")
_BYTES: Final = make_scalar("bytes", "fixed")
_BOOLEAN: Final = make_scalar("boolean")

_SUMMARY_FIELDS: Final = {
    "contains_null": ProjectedField(509, _BOOLEAN, is_required=True),
    "contains_nan": ProjectedField(518, _BOOLEAN),
    "lower_bound": ProjectedField(510, _BYTES),
    "upper_bound": ProjectedField(511, _BYTES),
}


def _make_summary(avro: AvroType, limits: ReadLimits) -> Decoder:
    return make_record(avro, FieldSummary._fields, _SUMMARY_FIELDS, limits)


_LIST_FIELDS: Final = {
    "path": ProjectedField(500, _STRING, ("manifest_path",), is_required=True),
    "length": ProjectedField(501, _LONG, ("manifest_length",), is_required=True),
    "partition_spec_id": ProjectedField(502, _LONG, is_required=True),
    "content": ProjectedField(517, _LONG),
    "sequence_number": ProjectedField(515, _LONG),
    "min_sequence_number": ProjectedField(516, _LONG),
    "added_snapshot_id": ProjectedField(503, _LONG),
    "added_files_count": ProjectedField(504, _LONG, ("added_data_files_count",)),
    "existing_files_count": ProjectedField(505, _LONG, ("existing_data_files_count",)),
    "deleted_files_count": ProjectedField(506, _LONG, ("deleted_data_files_count",)),
    "added_rows_count": ProjectedField(512, _LONG),
    "existing_rows_count": ProjectedField(513, _LONG),
    "deleted_rows_count": ProjectedField(514, _LONG),
    "partitions": ProjectedField(507, make_tuple(_make_summary)),
    "key_metadata": ProjectedField(519, _BYTES),
    "first_row_id": ProjectedField(520, _LONG),
}

_FILE_FIELDS: Final = {
    "content": ProjectedField(134, _LONG),
    "file_path": ProjectedField(100, _STRING, is_required=True),
    "file_format": ProjectedField(101, _STRING, is_required=True),
    "record_count": ProjectedField(103, _LONG, is_required=True),
    "file_size_in_bytes": ProjectedField(104, _LONG, is_required=True),
    "key_metadata": ProjectedField(131, _BYTES),
    "split_offsets": ProjectedField(132, make_tuple(_LONG)),
    "equality_ids": ProjectedField(135, make_tuple(_LONG)),
    "sort_order_id": ProjectedField(140, _LONG),
    "first_row_id": ProjectedField(142, _LONG),
    "referenced_data_file": ProjectedField(143, _STRING),
    "content_offset": ProjectedField(144, _LONG),
    "content_size_in_bytes": ProjectedField(145, _LONG),
}
_COUNTS: Final = {"column_sizes": 108, "value_counts": 109, "null_value_counts": 110, "nan_value_counts": 137}
_BOUNDS: Final = {"lower_bounds": 125, "upper_bounds": 128}
_PARTITION: Final = 102

_ENTRY_FIELDS: Final = {
    "status": ProjectedField(0, _LONG, is_required=True),
    "snapshot_id": ProjectedField(1, _LONG),
    "sequence_number": ProjectedField(3, _LONG),
    "file_sequence_number": ProjectedField(4, _LONG),
}
_DATA_FILE: Final = 2


def list_decoder(schema: bytes, limits: ReadLimits) -> Decoder:
    """Decode a list's records to the values of a `ManifestFile`; summaries are lists too."""
    return _cached_list(schema, limits) if len(schema) <= _CACHED_SCHEMA_BYTES else _list(schema, limits)


def entry_decoder(
    schema: bytes, columns: frozenset[int] | None, partition_fields: tuple[int, ...] | None, limits: ReadLimits
) -> Decoder:
    """Decode a manifest's records to the values of a `ManifestEntry`; its file and partition are lists too."""
    make = _cached_entry if len(schema) <= _CACHED_SCHEMA_BYTES else _entry
    return make(schema, columns, partition_fields, limits)


def _list(schema: bytes, limits: ReadLimits) -> Decoder:
    return make_record(parse_schema(schema, limits), ManifestFile._fields, _LIST_FIELDS, limits)


def _entry(
    schema: bytes, columns: frozenset[int] | None, partition_fields: tuple[int, ...] | None, limits: ReadLimits
) -> Decoder:
    file_fields = dict(_FILE_FIELDS)
    file_fields["partition"] = ProjectedField(_PARTITION, _make_partition(partition_fields), is_required=True)
    if columns is None or columns:
        for name, field_id in _COUNTS.items():
            file_fields[name] = ProjectedField(field_id, make_counts(columns))
        for name, field_id in _BOUNDS.items():
            file_fields[name] = ProjectedField(field_id, make_bounds(columns))

    entry_fields = dict(_ENTRY_FIELDS)
    entry_fields["data_file"] = ProjectedField(_DATA_FILE, _make_file(file_fields), is_required=True)
    return make_record(parse_schema(schema, limits), ManifestEntry._fields, entry_fields, limits)


def _make_file(fields: Mapping[str, ProjectedField]) -> DecoderFactory:
    return lambda avro, limits: make_record(avro, DataFile._fields, fields, limits)


def _make_partition(partition_fields: tuple[int, ...] | None) -> DecoderFactory:
    def make(avro: AvroType, limits: ReadLimits) -> Decoder:
        if partition_fields is None:
            slots = tuple(field.name for field in avro.fields)
            fields = {
                field.name: ProjectedField(-1 if field.field_id is None else field.field_id, make_value)
                for field in avro.fields
            }
        else:
            slots = tuple(str(field_id) for field_id in partition_fields)
            fields = {slot: ProjectedField(int(slot), make_value) for slot in slots}
        return make_record(avro, slots, fields, limits)

    return make


# Manifests of a table have few distinct schemas: each is compiled once.
_cached_list: Final = lru_cache(maxsize=32)(_list)
_cached_entry: Final = lru_cache(maxsize=128)(_entry)
