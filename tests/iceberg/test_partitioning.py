from __future__ import annotations

import pytest

from lakebed.core.errors import InvalidInput
from lakebed.iceberg.documents import encode
from lakebed.iceberg.partitioning import PartitionSpec, bind_spec, check_spec, parse_spec, parse_specs
from lakebed.iceberg.schema import parse_schema

from .samples import Json, column, dump, list_of, partition, schema, struct

SCHEMA = parse_schema(
    dump(
        schema(
            column(1, "id", "long"),
            column(2, "at", "timestamptz"),
            column(3, "name", "string"),
            column(4, "place", struct(column(5, "city", "string"))),
            column(6, "tags", list_of(7, "string")),
        )
    ),
    "schema",
)


def spec(*fields: Json, **more: object) -> PartitionSpec:
    document = {"fields": list(fields), **{name.replace("_", "-"): value for name, value in more.items()}}
    return parse_spec(dump(document), "spec")


def bind(*fields: Json, known: list[PartitionSpec] | None = None, last: int = 999, version: int = 2) -> PartitionSpec:
    by_id = {one.spec_id: one for one in known or []}
    return bind_spec(spec(*fields), SCHEMA, by_id, last_id=last, format_version=version)


def ids(bound: PartitionSpec) -> list[int | None]:
    return [field.field_id for field in bound.fields]


def test_fields_without_ids_are_numbered_from_1000() -> None:
    bound = bind(partition(2, "day", "at_day"), partition(1, "bucket[16]", "id_bucket"))
    assert bound.spec_id == 0
    assert ids(bound) == [1000, 1001]
    assert bytes(parse_spec(bound.written, "spec").written) == bytes(bound.written)


def test_field_with_an_earlier_derivation_reuses_its_id() -> None:
    known = [
        spec(partition(2, "day", "d", 1000), spec_id=0),
        spec(partition(2, "day", "d", 1000), partition(1, "identity", "id", 1001), spec_id=4),
    ]
    bound = bind(partition(3, "truncate[2]", "n"), partition(1, "identity", "id"), known=known, last=1007)
    assert bound.spec_id == 5
    assert ids(bound) == [1008, 1001]


def test_given_ids_are_kept_and_new_ones_follow() -> None:
    bound = bind(partition(2, "day", "d", 1005), partition(1, "identity", "id"))
    assert ids(bound) == [1005, 1006]


def test_equal_spec_is_reused_regardless_of_its_ids() -> None:
    known = [spec(spec_id=0), spec(partition(2, "day", "d", 1000), spec_id=1)]
    assert bind(partition(2, "Day", "d", 1234), known=known) is known[1]
    assert bind(known=known) is known[0]
    assert bind(partition(2, "day", "other", 1000), known=known).spec_id == 2


def test_unknown_fields_survive_binding() -> None:
    bound = bind({**partition(2, "day", "d"), "hint": 1})
    assert b'"hint":1' in bytes(bound.written)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            [partition(9, "identity", "x")],
            "partition field x has a source column that the current schema does not have",
        ),
        ([partition(3, "day", "x")], "partition field x does not support column name. transform=day type=string"),
        ([partition(4, "identity", "x")], "partition field x does not support column place"),
        ([partition(7, "identity", "x")], "has the source tags.element, which is in a list or map"),
        ([partition(1, "zorder", "x")], "has an unknown transform"),
        ([partition(1, "identity", "")], "must have a name"),
        ([partition(1, "identity", "x"), partition(2, "day", "x")], "name is repeated. name=x"),
        ([partition(1, "bucket[4]", "name")], "partition field name has the name of a column that is not its source"),
        ([partition(1, "identity", "x"), partition(1, "identity", "y")], "partition field y duplicates another"),
        ([partition(1, "identity", "x", 1000), partition(2, "day", "y", 1000)], "field-id is repeated"),
    ],
)
def test_invalid_specs_are_rejected(fields: list[Json], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        bind(*fields)


def test_names_of_nested_columns_and_of_the_source_are_valid() -> None:
    fields = partition(1, "identity", "id"), partition(5, "identity", "place.city"), partition(2, "day", "at")
    assert [field.name for field in bind(*fields).fields] == ["id", "place.city", "at"]


def test_id_of_a_field_with_another_derivation_is_rejected() -> None:
    known = [spec(partition(2, "day", "d", 1000), spec_id=0)]
    with pytest.raises(InvalidInput, match=r"has the id of a field with another source or transform\. field_id=1000"):
        bind(partition(1, "identity", "id", 1000), known=known)


def test_version_1_requires_ids_without_gaps() -> None:
    assert ids(bind(partition(2, "day", "d"), partition(1, "identity", "id"), version=1)) == [1000, 1001]
    known = [spec(partition(2, "day", "d", 1000), spec_id=0)]
    with_void = bind(partition(2, "void", "d", 1000), partition(1, "identity", "id", 1001), known=known, version=1)
    assert ids(with_void) == [1000, 1001]
    with pytest.raises(InvalidInput, match="must be numbered from 1000 without gaps"):
        bind(partition(1, "identity", "id", 1001), known=known, version=1)


def test_dropped_field_can_outlive_its_column() -> None:
    check_spec(spec(partition(99, "void", "gone", 1000)), SCHEMA)


def test_spec_can_have_a_list_of_sources() -> None:
    bound = bind({"source-ids": [2], "transform": "day", "name": "d"})
    assert bound.fields[0].sources == (2,)
    with pytest.raises(InvalidInput, match="must have exactly one source column"):
        bind({"source-ids": [1, 3], "transform": "bucket[4]", "name": "b"})


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([{"fields": []}], r"specs\[0\]\.spec-id: is required"),
        ([{"spec-id": 0, "fields": []}] * 2, "specs: spec-id is repeated. spec-id=0"),
        (
            [{"spec-id": 0, "fields": [{"transform": "day", "name": "d"}]}],
            r"specs\[0\]\.fields\[0\]: source-id is missing",
        ),
        (
            [{"spec-id": 0, "fields": [partition(1, "day", "d", 1000), partition(1, "hour", "h")]}],
            "field-id must be set on all fields or on none",
        ),
        ([{"spec-id": 0}], r"specs\[0\]: object missing required field `fields`"),
    ],
)
def test_invalid_lists_of_specs_are_rejected(document: list[Json], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        parse_specs(encode(document), "specs")


def test_specs_with_unknown_transforms_are_loaded() -> None:
    parsed = parse_specs(encode([{"spec-id": 0, "fields": [partition(1, "zorder", "z", 1000)]}]), "specs")
    assert parsed[0].fields[0].transform == "zorder"
