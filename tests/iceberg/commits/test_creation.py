from __future__ import annotations

import pytest

from lakebed.core.errors import InvalidInput
from lakebed.iceberg.commits import new_table, new_view, parse_create_table, parse_create_view
from lakebed.iceberg.metadata import TableMetadata, parse_table, serialize_table

from ..samples import (
    COLUMNS,
    LOCATION,
    NOW,
    UUID,
    Json,
    column,
    dump,
    list_of,
    map_of,
    partition,
    schema,
    sort,
    struct,
    view_version,
    written,
    written_view,
)

NESTED = schema(
    column(0, "a", "int", required=True),
    column(
        1, "b", struct(column(10, "c", list_of(20, "int")), column(11, "d", "string", required=True)), required=True
    ),
    column(2, "e", map_of(30, struct(column(40, "k", "int")), 31, list_of(50, "long"))),
    column(3, "f", "timestamp", doc="when", x_mask="none"),
    identifier_field_ids=[0, 11],
)


def create(**fields: object) -> TableMetadata:
    request = {"name": "t", "schema": COLUMNS, **{name.replace("_", "-"): value for name, value in fields.items()}}
    return new_table(parse_create_table(dump(request)), location=LOCATION + "/", uuid=UUID, now_ms=NOW)


def test_struct_fields_get_ids_before_nested_fields() -> None:
    table = create(schema=NESTED)
    assert {name.name: id_ for id_, name in table.schema.columns.items()} == {
        "a": 1,
        "b": 2,
        "e": 3,
        "f": 4,
        "b.c": 5,
        "b.d": 6,
        "b.c.element": 7,
        "e.key": 8,
        "e.value": 9,
        "e.key.k": 10,
        "e.value.element": 11,
    }
    assert table.last_column_id == 11
    assert table.schema.identifier_field_ids == {1, 6}
    assert written(table)["schemas"][0]["fields"][3] == {
        "id": 4,
        "name": "f",
        "required": False,
        "type": "timestamp",
        "doc": "when",
        "x_mask": "none",
    }


def test_specs_and_orders_get_fresh_source_ids() -> None:
    table = create(
        schema=NESTED,
        partition_spec={"spec-id": 7, "fields": [partition(3, "day", "f_day", 1234), partition(11, "identity", "b.d")]},
        write_order={"order-id": 7, "fields": [sort(0), {**sort(3, "hour"), "source-ids": [3]}]},
    )
    assert [(field.sources, field.field_id) for field in table.spec.fields] == [((4,), 1000), ((6,), 1001)]
    assert (table.default_spec_id, table.last_partition_id) == (0, 1001)
    assert [field.sources for field in table.sort_order.fields] == [(1,), (4,)]
    assert table.default_sort_order_id == 1


def test_table_is_unpartitioned_and_unsorted_by_default() -> None:
    for table in (create(), create(partition_spec=None, write_order=None, properties=None, location=None)):
        assert table.spec.fields == ()
        assert (table.default_spec_id, table.last_partition_id) == (0, 999)
        assert table.default_sort_order_id == 0
        assert table.location == LOCATION
        assert table.current_snapshot is None
        assert (table.uuid, table.last_updated_ms) == (UUID, NOW)
        assert parse_table(serialize_table(table)) == table


@pytest.mark.parametrize(("text", "version"), [("1", 1), ("2", 2), ("3", 3)])
def test_format_version_property_is_applied_and_not_stored(text: str, version: int) -> None:
    table = create(properties={"format-version": text, "a": "b"})
    assert table.format_version == version
    assert dict(table.properties) == {"write.parquet.compression-codec": "zstd", "a": "b"}


@pytest.mark.parametrize("text", ["0", "4", "", "two", "2.0"])
def test_other_format_versions_are_rejected(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"format[-_]version"):
        create(properties={"format-version": text})


def test_metadata_fields_among_the_properties_are_not_stored() -> None:
    table = create(properties={"current-snapshot-id": "none", "uuid": "x", "write.parquet.compression-codec": "gzip"})
    assert dict(table.properties) == {"write.parquet.compression-codec": "gzip"}


def test_types_must_match_the_format_version() -> None:
    variant = schema(column(1, "v", "variant"))
    assert create(schema=variant, properties={"format-version": "3"}).schema.columns[1].type == "variant"
    with pytest.raises(InvalidInput, match="column v has a type that requires format version 3"):
        create(schema=variant)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"schema": schema(column(1, "a"), column(1, "b"))}, "columns a and b have the same id"),
        ({"schema": None}, "object missing required field `schema`"),
        ({"schema": []}, "schema: expected `object`, got `array`"),
        ({"name": ""}, "name: expected `str` of length >= 1"),
        ({"location": ""}, "location: expected `str` of length >= 1"),
        ({"properties": {"a": 1}}, "expected `str`, got `int`"),
        (
            {"partition-spec": {"fields": [partition(9, "day", "x")]}},
            r"partition-spec.fields\[0\].source-id: the schema has no",
        ),
        ({"partition-spec": {"fields": [{"transform": "day"}]}}, "object missing required field"),
        ({"partition-spec": {"fields": 1}}, "partition-spec.fields: expected `array`"),
        (
            {"write-order": {"fields": [sort(9)]}},
            r"write-order.fields\[0\].source-id: the schema has no such column. id=9",
        ),
        ({"write-order": {"fields": [{**sort(1), "direction": "up"}]}}, "invalid enum value 'up'"),
        ({"stage-create": "yes"}, "stage-create: expected `bool`"),
    ],
)
def test_invalid_requests_are_rejected(fields: Json, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        create(**fields)


def test_request_selects_stage_create() -> None:
    assert parse_create_table(dump({"name": "t", "schema": COLUMNS, "stage-create": True})).stage_create
    assert not parse_create_table(dump({"name": "t", "schema": COLUMNS, "stage-create": None})).stage_create


def test_new_view_has_one_version() -> None:
    request = {
        "name": "v",
        "schema": {**COLUMNS, "schema-id": 8},
        "view-version": view_version(1, schema_id=99, x_hint=[1]),
        "properties": {"comment": "c", "format-version": "1"},
    }
    view = new_view(parse_create_view(dump(request)), location=LOCATION, uuid=UUID, now_ms=NOW + 5)
    document = written_view(view)
    assert document["versions"] == [view_version(1, schema_id=0, x_hint=[1])]
    assert document["schemas"][0]["schema-id"] == 0
    assert document["version-log"] == [{"timestamp-ms": NOW, "version-id": 1}]
    assert document["properties"] == {"comment": "c"}
    assert (view.uuid, view.location, view.current_version_id) == (UUID, LOCATION, 1)


def test_view_request_requires_schema_and_version() -> None:
    with pytest.raises(InvalidInput, match="object missing required field `view-version`"):
        parse_create_view(dump({"name": "v", "schema": COLUMNS}))
    request = parse_create_view(dump({"name": "v", "schema": COLUMNS, "view-version": []}))
    with pytest.raises(InvalidInput, match="view-version: expected `object`, got `array`"):
        new_view(request, location=LOCATION, uuid=UUID, now_ms=NOW)
