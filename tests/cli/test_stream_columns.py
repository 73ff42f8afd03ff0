from __future__ import annotations

from typing import Any

import pytest

from lakebed.cli.stream_columns import parse_column
from lakebed.core.errors import InvalidInput
from lakebed.streams.schema import Schema


@pytest.mark.parametrize(
    ("said", "type_"),
    [
        ("id:bigint", {"type": "BIGINT"}),
        ("id: INT", {"type": "INTEGER"}),
        ("id:bigint!", {"type": "BIGINT", "nullable": False}),
        ("id:decimal(10,2)", {"type": "DECIMAL", "precision": 10, "scale": 2}),
        ("id:decimal( 10 )!", {"type": "DECIMAL", "precision": 10, "nullable": False}),
        ("id:char(3)", {"type": "CHAR", "length": 3}),
        ("id:timestamp_ltz(9)", {"type": "TIMESTAMP_WITH_LOCAL_TIME_ZONE", "precision": 9}),
    ],
)
def test_columns(said: str, type_: dict[str, Any]) -> None:
    column = parse_column(said, 4)
    assert column == {"name": "id", "data_type": type_, "id": 4}
    assert Schema.parse({"columns": [column]}).names == ("id",)


@pytest.mark.parametrize(
    "said", ["id", "id:", ":int", "id:what", "id:int(3)", "id:string(3)", "id:char(3,1)", "id:int x"]
)
def test_what_is_no_column(said: str) -> None:
    with pytest.raises(InvalidInput):
        parse_column(said, 0)
