from __future__ import annotations

import pytest

from lakebed.client.streams.tables import TableInfo
from lakebed.core.errors import InvalidInput
from lakebed.fluss.schema import Schema
from lakebed.fluss.types import DataType, TypeRoot
from lakebed.pipeline.streams.records import RecordReader, check_format

COLUMNS = [("id", DataType(TypeRoot.BIGINT)), ("at", DataType(TypeRoot.TIMESTAMP, precision=3))]


def table(**properties: str) -> TableInfo:
    return TableInfo("fluss", "t", 7, 1, Schema.of(COLUMNS), 4, properties=properties)


def test_change_type_and_origin_follow_the_selected_columns() -> None:
    reader = RecordReader(table(), ("at", "id"), has_change=True, has_origin=True)
    assert reader.schema.names == ["at", "id", "_change_type", "__bucket", "__offset", "__timestamp"]
    assert [field.nullable for field in reader.schema] == [True, True, False, False, False, False]
    assert str(reader.schema.field("at").type) == "timestamp[us]"
    assert RecordReader(table(), ("id",)).schema.names == ["id"]


def test_only_arrow_logs_are_read() -> None:
    check_format(table())
    check_format(table(**{"table.log.format": "arrow"}))
    with pytest.raises(InvalidInput, match="only logs in Arrow format"):
        check_format(table(**{"table.log.format": "INDEXED"}))
