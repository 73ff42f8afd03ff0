from __future__ import annotations

import json

import pytest
from hypothesis import given

from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.fluss.schema import Aggregation, AggregationFunction, Schema, TableColumn
from lakebed.fluss.types import DataType, RowField, TypeRoot

from .strategies import schemas

INT = DataType(TypeRoot.INT)
STRING = DataType(TypeRoot.STRING)


def document(*columns: dict[str, object], **others: object) -> dict[str, object]:
    return {"version": 1, "columns": list(columns), **others}


def column(name: str, type_: str = "INTEGER", **others: object) -> dict[str, object]:
    return {"name": name, "data_type": {"type": type_}, **others}


@pytest.mark.slow
@given(schemas())
def test_schema_survives_its_document(schema: Schema) -> None:
    assert Schema.parse(json.loads(json.dumps(schema.document()))) == schema


def test_columns_and_nested_fields_without_ids_are_numbered() -> None:
    row = {"type": "ROW", "fields": [{"name": "x", "field_type": {"type": "STRING"}}]}
    schema = Schema.parse(document(column("a"), {"name": "b", "data_type": row}, column("c")))
    assert [each.id for each in schema.columns] == [0, 1, 3]
    assert schema.columns[1].type.fields == (RowField("x", STRING, 2),)
    assert schema.highest_field_id == 3


def test_given_ids_are_kept_and_not_reused() -> None:
    schema = Schema.parse(document(column("a", id=4), column("b"), highest_field_id=7))
    assert [each.id for each in schema.columns] == [4, 8]
    assert schema.with_column("c", INT).columns[-1].id == 9


def test_key_columns_are_not_nullable() -> None:
    schema = Schema.parse(document(column("a"), column("b"), primary_key=["b"]))
    assert schema.has_primary_key
    assert schema.key_positions == (1,)
    assert [each.type.is_nullable for each in schema.columns] == [True, False]


def test_added_column_is_last_and_nullable() -> None:
    schema = Schema.of([("a", INT), ("b", STRING)], primary_key=["a"])
    grown = schema.with_column("c", INT, comment="new")
    assert grown.columns[:2] == schema.columns
    assert grown.columns[2] == TableColumn("c", INT, 2, "new")
    with pytest.raises(FlussError):
        schema.with_column("c", INT.of(is_nullable=False))
    with pytest.raises(FlussError):
        schema.with_column("a", INT)


def test_auto_increment_and_aggregations_survive_the_document() -> None:
    schema = Schema.parse(
        document(
            column("k"),
            column("n", auto=1),
            column("t", "STRING", agg_function={"type": "LISTAGG", "parameters": {"delimiter": "|"}}),
            primary_key=["k"],
            auto_increment_column=["n"],
        )
    )
    assert schema.auto_increment_position == 1
    assert schema.columns[2].aggregation == Aggregation(AggregationFunction.LISTAGG, "|")
    assert Schema.parse(schema.document()) == schema


@pytest.mark.parametrize(
    "bad",
    [
        None,
        {"columns": "a"},
        document(),
        document(column("a"), column("a")),
        document(column("a", id=1), column("b", id=1)),
        document(column("a", id="1")),
        document({"data_type": {"type": "INTEGER"}}),
        document(column("a"), primary_key=["b"]),
        document(column("a"), primary_key=["a", "a"]),
        document(column("a"), primary_key="a"),
        document(column("a", "ROW"), primary_key=["a"]),
        document(column("a"), auto_increment_column=["a"]),
        document(column("a"), column("b", "STRING"), primary_key=["a"], auto_increment_column=["b"]),
        document(column("a"), column("b"), column("c"), primary_key=["a"], auto_increment_column=["b", "c"]),
        document(column("a"), column("b", agg_function={"type": "sum"})),
        document(column("a"), column("b", agg_function={"type": "median"}), primary_key=["a"]),
        document(column("a"), column("b", agg_function={"type": "bool_and"}), primary_key=["a"]),
        document(column("a"), column("b", agg_function={"type": "sum", "parameters": {"x": "y"}}), primary_key=["a"]),
    ],
)
def test_invalid_schemas_are_rejected(bad: object) -> None:
    with pytest.raises(FlussError) as failed:
        Schema.parse(bad)
    assert failed.value.code is ErrorCode.INVALID_TABLE
