from __future__ import annotations

import json

import pytest

from lakebed.core.errors import InvalidInput
from lakebed.iceberg.documents import encode
from lakebed.iceberg.schema import Schema, check_format, parse_schema, parse_schemas, reuse_or_number

from .samples import COLUMNS, Json, column, dump, list_of, map_of, schema, struct


def parse(document: Json) -> Schema:
    return parse_schema(dump(document), "schema")


def test_every_field_is_found_by_id() -> None:
    parsed = parse(
        schema(
            column(1, "a", "int", required=True),
            column(2, "b", struct(column(3, "c", "string"))),
            column(4, "tags", list_of(5, struct(column(6, "x", "int")))),
            column(7, "m", map_of(8, "string", 9, "long")),
        )
    )
    assert {id_: found.name for id_, found in parsed.columns.items()} == {
        1: "a",
        2: "b",
        3: "b.c",
        4: "tags",
        5: "tags.element",
        6: "tags.element.x",
        7: "m",
        8: "m.key",
        9: "m.value",
    }
    assert parsed.highest_field_id == 9
    assert [outer.name for outer in parsed.enclosing(parsed.columns[6])] == ["tags.element", "tags"]
    assert parsed.is_in_structs_only(parsed.columns[3])
    assert not parsed.is_in_structs_only(parsed.columns[6])
    assert parsed.columns[8].required


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (schema(column(1, "a"), column(1, "b")), "columns a and b have the same id. id=1"),
        (schema(column(1, "a"), column(2, "b", list_of(1, "int"))), "columns a and b.element have the same id"),
        (schema(column(1, "a"), column(2, "a")), "full column name is repeated. full column name=a"),
        (
            schema(column(1, "a.b"), column(2, "a", struct(column(3, "b")))),
            "full column name is repeated. full column name=a.b",
        ),
        (schema(column(1, "a", "text")), "column a: no such data type. type=text"),
        (schema(column(1, "a", {"type": "set"})), r"schema.fields\[0\].type.type: invalid value 'set'"),
        (
            schema({"id": 1, "name": "a", "type": "int"}),
            r"schema.fields\[0\]: object missing required field `required`",
        ),
        (schema(column(-1, "a")), r"schema.fields\[0\].id: expected `int` >= 0"),
        (schema(column(2147483447 + 1, "a")), r"schema.fields\[0\].id: expected `int` <= 2147483447"),
        (schema(column(1, "a", "unknown", required=True)), "column a has the type unknown and must be optional"),
        (schema({**column(1, "a", "int"), "write-default": "x"}), "write-default of column a is not a value"),
        (schema(identifier_field_ids=[1]), "identifier-field-ids has an unknown column. id=1"),
    ],
)
def test_invalid_schemas_are_rejected(document: Json, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        parse(document)


def test_deep_nesting_is_rejected() -> None:
    kind: object = "int"
    for id_ in range(200, 1, -1):
        kind = list_of(id_, kind)
    with pytest.raises(InvalidInput, match="nested too deeply"):
        parse(schema(column(1, "a", kind)))


IDENTIFIED = schema(
    column(1, "id", "long", required=True),
    column(2, "optional", "long"),
    column(3, "ratio", "double", required=True),
    column(4, "inside", struct(column(5, "id", "int", required=True)), required=True),
    column(6, "maybe", struct(column(7, "id", "int", required=True))),
    column(8, "many", list_of(9, struct(column(10, "id", "int", required=True))), required=True),
)


@pytest.mark.parametrize("ids", [[], [1], [5], [1, 5]])
def test_required_columns_can_identify_rows(ids: list[int]) -> None:
    assert parse({**IDENTIFIED, "identifier-field-ids": ids}).identifier_field_ids == set(ids)


def test_null_for_no_identifying_columns_is_written_as_a_list() -> None:
    parsed = parse({**IDENTIFIED, "identifier-field-ids": None})
    assert parsed.identifier_field_ids == set()
    assert json.loads(bytes(parsed.written))["identifier-field-ids"] == []


@pytest.mark.parametrize(
    ("id_", "message"),
    [
        (2, "column optional cannot identify rows: it or an enclosing field is optional"),
        (3, "column ratio cannot identify rows by its type. type=double"),
        (4, "column inside cannot identify rows by its type. type=nested"),
        (7, "column maybe.id cannot identify rows: it or an enclosing field is optional"),
        (10, "column many.element.id cannot identify rows: it is inside a list or map"),
        (99, "unknown column. id=99"),
    ],
)
def test_other_columns_cannot_identify_rows(id_: int, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        parse({**IDENTIFIED, "identifier-field-ids": [id_]})


@pytest.mark.parametrize(
    ("changed", "same"),
    [
        (COLUMNS, True),
        ({**COLUMNS, "schema-id": 12}, True),
        ({**COLUMNS, "identifier-field-ids": []}, True),
        ({**COLUMNS, "identifier-field-ids": [1]}, False),
        ({**COLUMNS, "fields": [{**COLUMNS["fields"][0], "doc": None}, *COLUMNS["fields"][1:]]}, True),
        ({**COLUMNS, "fields": [{**COLUMNS["fields"][0], "doc": "x"}, *COLUMNS["fields"][1:]]}, False),
        ({**COLUMNS, "fields": [{**COLUMNS["fields"][0], "name": "x"}, *COLUMNS["fields"][1:]]}, False),
        ({**COLUMNS, "fields": COLUMNS["fields"][::-1]}, False),
        ({**COLUMNS, "fields": [{**COLUMNS["fields"][0], "mask": "x"}, *COLUMNS["fields"][1:]]}, False),
        ({**COLUMNS, "fields": COLUMNS["fields"][:-1]}, False),
    ],
)
def test_schemas_are_equivalent_regardless_of_their_ids(changed: Json, same: bool) -> None:
    assert parse(COLUMNS).is_equivalent(parse(changed)) is same
    assert parse(changed).is_equivalent(parse(COLUMNS)) is same


def test_known_schema_is_reused_and_a_new_one_gets_the_next_id() -> None:
    first, second = schema(column(1, "a"), schema_id=3), schema(column(1, "a"), column(2, "b"), schema_id=7)
    known = {3: parse(first), 7: parse(second)}
    assert reuse_or_number(parse({**first, "schema-id": 0}), known) is known[3]
    new = reuse_or_number(parse(schema(column(9, "c"))), known)
    assert new.id == 8
    assert parse_schema(new.written, "schema").id == 8


@pytest.mark.parametrize("kind", ["timestamp_ns", "timestamptz_ns", "variant", "geometry", "geography", "unknown"])
def test_types_of_version_3_require_version_3(kind: str) -> None:
    parsed = parse(schema(column(1, "a", list_of(2, kind, required=False))))
    check_format(parsed, 3)
    with pytest.raises(InvalidInput, match=r"column a\.element has a type that requires format version 3"):
        check_format(parsed, 2)


def test_initial_defaults_require_version_3_and_write_defaults_do_not() -> None:
    check_format(parse(schema({**column(1, "a", "int"), "write-default": 1})), 1)
    parsed = parse(schema(column(1, "a", struct({**column(2, "b", "int"), "initial-default": 1}))))
    check_format(parsed, 3)
    with pytest.raises(InvalidInput, match=r"column a\.b has an initial default, which requires format version 3"):
        check_format(parsed, 2)


def test_lists_of_schemas_require_distinct_ids() -> None:
    assert list(parse_schemas(encode([{**COLUMNS, "schema-id": 4}, {**COLUMNS, "schema-id": 2}]), "schemas")) == [4, 2]
    with pytest.raises(InvalidInput, match=r"schemas: schema-id is repeated\. schema-id=4"):
        parse_schemas(encode([{**COLUMNS, "schema-id": 4}] * 2), "schemas")
    with pytest.raises(InvalidInput, match=r"schemas\[1\]\.schema-id: is required"):
        parse_schemas(encode([{**COLUMNS, "schema-id": 4}, COLUMNS]), "schemas")
