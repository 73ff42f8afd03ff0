"""Tables, views and commits for tests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from lakebed.iceberg.commits import (
    build_table,
    build_view,
    new_table,
    new_view,
    parse_create_table,
    parse_create_view,
    parse_table_updates,
    parse_view_updates,
)
from lakebed.iceberg.metadata import TableMetadata, ViewMetadata, serialize_table, serialize_view

Json = dict[str, Any]  # Any: JSON

UUID = "9c12d441-03fe-4693-9a96-a0705ddf69c1"
OTHER_UUID = "0d1e2f30-4152-4637-8899-aabbccddeeff"
NOW = 1_700_000_000_000
LOCATION = "s3://lake/tables/t"


def dump(value: object) -> bytes:
    return json.dumps(value).encode()


def column(id_: int, name: str, kind: object = "long", *, required: bool = False, **more: object) -> Json:
    return {"id": id_, "name": name, "required": required, "type": kind, **more}


def struct(*fields: Json) -> Json:
    return {"type": "struct", "fields": list(fields)}


def list_of(id_: int, element: object, *, required: bool = True) -> Json:
    return {"type": "list", "element-id": id_, "element": element, "element-required": required}


def map_of(key_id: int, key: object, value_id: int, value: object, *, required: bool = False) -> Json:
    return {
        "type": "map",
        "key-id": key_id,
        "key": key,
        "value-id": value_id,
        "value": value,
        "value-required": required,
    }


def schema(*fields: Json, **more: object) -> Json:
    return {**struct(*fields), **{name.replace("_", "-"): value for name, value in more.items()}}


COLUMNS = schema(
    column(1, "id", "long", required=True),
    column(2, "at", "timestamptz"),
    column(3, "name", "string"),
    column(4, "place", struct(column(5, "lat", "double"), column(6, "lon", "double"))),
)


def partition(source: int, transform: str, name: str, field_id: int | None = None) -> Json:
    field: Json = {"source-id": source, "transform": transform, "name": name}
    return field if field_id is None else {**field, "field-id": field_id}


def sort(source: int, transform: str = "identity", direction: str = "asc", nulls: str = "nulls-first") -> Json:
    return {"source-id": source, "transform": transform, "direction": direction, "null-order": nulls}


def make_table(
    version: int = 2,
    *,
    columns: Json = COLUMNS,
    spec: list[Json] | None = None,
    order: list[Json] | None = None,
    properties: Mapping[str, str] | None = None,
    now_ms: int = NOW,
) -> TableMetadata:
    request = {
        "name": "t",
        "schema": columns,
        "partition-spec": {"fields": spec or []},
        "write-order": {"order-id": 1, "fields": order or []},
        "properties": {"format-version": str(version), **(properties or {})},
    }
    return new_table(parse_create_table(dump(request)), location=LOCATION, uuid=UUID, now_ms=now_ms)


def snapshot(
    id_: int,
    sequence: int = 0,
    *,
    parent: int | None = None,
    at: int = NOW,
    rows: tuple[int, int] | None = None,
    **more: object,
) -> Json:
    written: Json = {
        "snapshot-id": id_,
        "timestamp-ms": at,
        "sequence-number": sequence,
        "manifest-list": f"{LOCATION}/metadata/snap-{id_}.avro",
        "summary": {"operation": "append"},
    }
    if parent is not None:
        written["parent-snapshot-id"] = parent
    if rows is not None:
        written["first-row-id"], written["added-rows"] = rows
    return {**written, **{name.replace("_", "-"): value for name, value in more.items()}}


def add_snapshot(*arguments: Any, **more: Any) -> Json:  # Any: passed on unchanged
    return {"action": "add-snapshot", "snapshot": snapshot(*arguments, **more)}


def set_ref(id_: int, name: str = "main", kind: str = "branch", **retention: object) -> Json:
    named = {key.replace("_", "-"): value for key, value in retention.items()}
    return {"action": "set-snapshot-ref", "ref-name": name, "type": kind, "snapshot-id": id_, **named}


def action(name: str, **fields: object) -> Json:
    return {"action": name, **{key.replace("_", "-"): value for key, value in fields.items()}}


def commit(
    base: TableMetadata | None, *updates: Json, now_ms: int = NOW, previous_location: str | None = None
) -> TableMetadata:
    return build_table(
        base,
        parse_table_updates(dump(list(updates))),
        now_ms=now_ms,
        new_uuid=OTHER_UUID,
        previous_location=previous_location,
    )


def written(metadata: TableMetadata) -> Json:
    document: Json = json.loads(serialize_table(metadata))
    return document


def sql(text: str = "SELECT 1", dialect: str = "spark") -> Json:
    return {"type": "sql", "sql": text, "dialect": dialect}


def view_version(id_: int = 1, *representations: Json, at: int = NOW, schema_id: int = 0, **more: object) -> Json:
    return {
        "version-id": id_,
        "timestamp-ms": at,
        "schema-id": schema_id,
        "summary": {"engine-name": "spark"},
        "default-namespace": ["ns"],
        "representations": list(representations) or [sql()],
        **{key.replace("_", "-"): value for key, value in more.items()},
    }


def make_view(*representations: Json, properties: Mapping[str, str] | None = None) -> ViewMetadata:
    request = {
        "name": "v",
        "schema": COLUMNS,
        "view-version": view_version(1, *representations),
        "properties": dict(properties or {}),
    }
    return new_view(parse_create_view(dump(request)), location=LOCATION, uuid=UUID, now_ms=NOW)


def commit_view(base: ViewMetadata | None, *updates: Json, now_ms: int = NOW) -> ViewMetadata:
    return build_view(base, parse_view_updates(dump(list(updates))), now_ms=now_ms, new_uuid=OTHER_UUID)


def written_view(metadata: ViewMetadata) -> Json:
    document: Json = json.loads(serialize_view(metadata))
    return document
