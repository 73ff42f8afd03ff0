from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given

from lakebed.fluss.arrow_types import arrow_schema, arrow_type
from lakebed.fluss.schema import Schema
from lakebed.fluss.types import DataType, TypeRoot

from .strategies import schemas


@pytest.mark.slow
@given(schemas())
def test_every_schema_has_an_arrow_schema(schema: Schema) -> None:
    arrow = arrow_schema(schema)
    assert tuple(arrow.names) == schema.names
    assert [field.nullable for field in arrow] == [column.type.is_nullable for column in schema.columns]


@pytest.mark.parametrize(
    ("precision", "time", "timestamp"),
    [
        (0, pa.time32("s"), pa.timestamp("s")),
        (3, pa.time32("ms"), pa.timestamp("ms")),
        (6, pa.time64("us"), pa.timestamp("us")),
        (7, pa.time64("ns"), pa.timestamp("ns")),
    ],
)
def test_time_unit_is_the_coarsest_that_keeps_the_precision(
    precision: int, time: pa.DataType, timestamp: pa.DataType
) -> None:
    assert arrow_type(DataType(TypeRoot.TIME, precision=precision)) == time
    assert arrow_type(DataType(TypeRoot.TIMESTAMP, precision=precision)) == timestamp
