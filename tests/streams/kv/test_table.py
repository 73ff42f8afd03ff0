"""KV tables can aggregate bitmaps, when created and when altered."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lakebed.fluss.schema import Aggregation, AggregationFunction
from lakebed.fluss.types import DataType, TypeRoot
from lakebed.streams.schema_evolution import AddColumn
from tests.streams.world import StreamWorld

BITMAPS = [AggregationFunction.RBM32, AggregationFunction.RBM64]


def document(function: str) -> bytes:
    columns: list[dict[str, Any]] = [
        {"name": "id", "data_type": {"type": "INTEGER", "nullable": False}, "id": 0},
        {
            "name": "seen",
            "data_type": {"type": "BYTES"},
            "agg_function": {"type": function, "parameters": {}},
            "id": 1,
        },
    ]
    schema = {"version": 1, "columns": columns, "primary_key": ["id"], "highest_field_id": 1}
    return json.dumps(
        {"version": 1, "schema": schema, "bucket_count": 1, "properties": {"table.merge-engine": "aggregation"}}
    ).encode()


@pytest.mark.parametrize("function", BITMAPS)
async def test_table_with_bitmap_aggregation_is_created(
    light_world: StreamWorld, function: AggregationFunction
) -> None:
    await light_world.tables.create(light_world.root, "fluss", "seen", document(function.value))
    column = (await light_world.tables.by_path("fluss", "seen")).schema.column("seen")
    assert column is not None
    assert column.aggregation == Aggregation(function)


@pytest.mark.parametrize("function", BITMAPS)
async def test_column_with_bitmap_aggregation_is_added(light_world: StreamWorld, function: AggregationFunction) -> None:
    await light_world.tables.create(light_world.root, "fluss", "seen", document("last_value"))
    added = AddColumn("more", DataType(TypeRoot.BYTES), aggregation=Aggregation(function))
    await light_world.altering.table(light_world.root, "fluss", "seen", columns=[added])
    assert (await light_world.tables.by_path("fluss", "seen")).schema.names == ("id", "seen", "more")
