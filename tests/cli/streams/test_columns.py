from __future__ import annotations

from typing import Any

import pytest

from lakebed.cli.streams.columns import parse_aggregation, parse_column, spell_aggregation, spell_type
from lakebed.core.errors import InvalidInput
from lakebed.fluss.schema import Aggregation, Schema


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("id:bigint", {"type": "BIGINT"}),
        ("id: INT", {"type": "INTEGER"}),
        ("id:bigint!", {"type": "BIGINT", "nullable": False}),
        ("id:decimal(10,2)", {"type": "DECIMAL", "precision": 10, "scale": 2}),
        ("id:decimal( 10 )!", {"type": "DECIMAL", "precision": 10, "nullable": False}),
        ("id:char(3)", {"type": "CHAR", "length": 3}),
        ("id:timestamp_ltz(9)", {"type": "TIMESTAMP_WITH_LOCAL_TIME_ZONE", "precision": 9}),
        ("id:array<string>", {"type": "ARRAY", "element_type": {"type": "STRING"}}),
        (
            "id:ARRAY< decimal(10, 2)! >!",
            {
                "type": "ARRAY",
                "element_type": {"type": "DECIMAL", "precision": 10, "scale": 2, "nullable": False},
                "nullable": False,
            },
        ),
        ("id:map<string,int>", {"type": "MAP", "key_type": {"type": "STRING"}, "value_type": {"type": "INTEGER"}}),
        (
            "id:row<a int, b:array<row<c date>>>",
            {
                "type": "ROW",
                "fields": [
                    {"name": "a", "field_type": {"type": "INTEGER"}},
                    {
                        "name": "b",
                        "field_type": {
                            "type": "ARRAY",
                            "element_type": {
                                "type": "ROW",
                                "fields": [{"name": "c", "field_type": {"type": "DATE"}}],
                            },
                        },
                    },
                ],
            },
        ),
    ],
)
def test_columns_are_parsed(text: str, type_: dict[str, Any]) -> None:
    column = parse_column(text, 4)
    assert column == {"name": "id", "data_type": type_, "id": 4}
    assert Schema.parse({"columns": [column]}).names == ("id",)


@pytest.mark.parametrize(
    "text",
    [
        "id",
        "id:",
        ":int",
        "id:what",
        "id:int(3)",
        "id:string(3)",
        "id:char(3,1)",
        "id:char(x)",
        "id:char(3",
        "id:int x",
        "id:array",
        "id:array<>",
        "id:array<int",
        "id:array<int,int>",
        "id:array<int>>",
        "id:map<int>",
        "id:row<>",
        "id:row<int>",
        "id:row<a int,>",
        "id:" + "array<" * 100 + "int" + ">" * 100,
    ],
)
def test_invalid_column_is_rejected(text: str) -> None:
    with pytest.raises(InvalidInput):
        parse_column(text, 0)


@pytest.mark.parametrize(
    "text",
    [
        "bigint!",
        "decimal(10,2)",
        "char(3)",
        "timestamp_ltz(9)!",
        "array<map<string,int!>>",
        "row<a int, b row<c date>!>",
    ],
)
def test_types_round_trip(text: str) -> None:
    assert spell_type(parse_column(f"id:{text}", 0)["data_type"]) == text


@pytest.mark.parametrize(
    ("text", "name", "type_", "parameters"),
    [
        ("total=sum", "total", "sum", {}),
        (" total = SUM ", "total", "sum", {}),
        ("names=listagg(;)", "names", "listagg", {"delimiter": ";"}),
        ("names=string_agg( ) )", "names", "string_agg", {"delimiter": " ) "}),
    ],
)
def test_aggregations_are_parsed(text: str, name: str, type_: str, parameters: dict[str, str]) -> None:
    found, document = parse_aggregation(text)
    assert (found, document) == (name, {"type": type_, "parameters": parameters})
    assert Aggregation.parse(document).function.value == type_
    assert parse_aggregation(f"{name}={spell_aggregation(document)}") == (name, document)


@pytest.mark.parametrize("text", ["total", "total=", "=sum", "total=sum(", "names=listagg()"])
def test_invalid_aggregation_is_rejected(text: str) -> None:
    with pytest.raises(InvalidInput):
        parse_aggregation(text)
