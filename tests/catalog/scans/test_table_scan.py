from __future__ import annotations

from typing import Any

import pytest

from lakebed.catalog.scans import TableScan, open_scan
from lakebed.core.errors import InvalidInput
from lakebed.iceberg.expressions.rendering import render_filter
from lakebed.iceberg.metadata import TableMetadata
from tests.catalog.scans.lakes import a_lake, a_request
from tests.iceberg.expressions.columns import FIELDS


def a_history(*operations: str) -> TableMetadata:
    """A table with a snapshot for each operation: 100, 101 and so on."""
    lake = a_lake()
    for operation in operations:
        lake.snapshot([], operation)
    return lake.table


def opened(table: TableMetadata, **request: Any) -> TableScan:
    return open_scan(table, a_request(**request))


def read(table: TableMetadata, **request: Any) -> list[int]:
    return list(opened(table, **request).snapshots)


def test_scan_reads_the_current_or_the_named_snapshot() -> None:
    table = a_history("append", "append")
    assert read(table) == [101]
    assert read(table, snapshot_id=100) == [100]
    assert read(a_history()) == []
    with pytest.raises(InvalidInput, match="no such snapshot"):
        opened(table, snapshot_id=99)


def test_incremental_scan_reads_appends_between_its_snapshots() -> None:
    table = a_history("append", "append", "overwrite", "append", "replace", "delete", "append")
    assert read(table, start_snapshot_id=100, end_snapshot_id=106) == [101, 103, 106]
    assert read(table, start_snapshot_id=101, end_snapshot_id=103) == [103]
    assert read(table, start_snapshot_id=103, end_snapshot_id=105) == []
    assert read(table, start_snapshot_id=103, end_snapshot_id=103) == []
    assert opened(table, start_snapshot_id=100, end_snapshot_id=106).is_incremental


def test_incremental_scan_can_start_at_an_expired_snapshot() -> None:
    lake = a_lake()
    for _ in range(3):
        lake.snapshot([])
    lake.document["snapshots"] = lake.document["snapshots"][1:]
    assert read(lake.table, start_snapshot_id=100, end_snapshot_id=102) == [101, 102]
    with pytest.raises(InvalidInput, match="not an ancestor"):
        opened(lake.table, start_snapshot_id=99, end_snapshot_id=102)


def test_start_must_be_an_ancestor_of_the_end() -> None:
    table = a_history("append", "append")
    with pytest.raises(InvalidInput, match="not an ancestor"):
        opened(table, start_snapshot_id=101, end_snapshot_id=100)
    with pytest.raises(InvalidInput, match="no such snapshot"):
        opened(table, start_snapshot_id=100, end_snapshot_id=55)


def test_cyclic_history_terminates() -> None:
    lake = a_lake()
    lake.snapshot([])
    lake.snapshot([])
    lake.document["snapshots"][0]["parent-snapshot-id"] = 101
    with pytest.raises(InvalidInput, match="not an ancestor"):
        opened(lake.table, start_snapshot_id=55, end_snapshot_id=101)


def evolved() -> TableMetadata:
    """A column `i` that was renamed to `j` after the only snapshot."""
    lake = a_lake()
    lake.snapshot([])
    fields = [{**FIELDS[0], "name": "j"}, *FIELDS[1:9]]
    lake.document["schemas"].append({"type": "struct", "schema-id": 1, "fields": fields})
    lake.document["current-schema-id"] = 1
    return lake.table


def test_columns_are_named_by_the_table_or_the_snapshot_schema() -> None:
    table = evolved()
    assert opened(table, filter={"type": "is-null", "term": "j"}).schema.id == 1
    old = opened(table, filter={"type": "is-null", "term": "i"}, use_snapshot_schema=True)
    assert old.schema.id == 0
    assert render_filter(old.condition) == {"type": "is-null", "term": "i"}
    with pytest.raises(InvalidInput, match="no such column"):
        opened(table, filter={"type": "is-null", "term": "i"})
    again = open_scan(table, a_request(filter={"type": "is-null", "term": "i"}), schema_id=0)
    assert again.schema.id == 0
    with pytest.raises(InvalidInput, match="was removed"):
        open_scan(table, a_request(), schema_id=7)


def test_snapshot_without_schema_id_uses_the_current_schema() -> None:
    lake = a_lake()
    lake.snapshot([], schema_id=None)
    assert opened(lake.table, use_snapshot_schema=True).schema.id == 0
    assert opened(a_history(), use_snapshot_schema=True).schema.id == 0


def test_statistics_of_missing_columns_are_ignored() -> None:
    table = a_history("append")
    assert opened(table).stats_columns == frozenset()
    assert opened(table, stats_fields=["i", "s", "nothing", None]).stats_columns == {1, 3}
    assert opened(table, stats_fields=["I"], case_sensitive=False).stats_columns == {1}
    assert opened(table, select=["nothing", "_file", "_partition.p0"]).condition.value is True  # type: ignore[union-attr]


def test_filter_columns_are_known() -> None:
    both = {"type": "and", "left": {"type": "is-null", "term": "i"}, "right": {"type": "eq", "term": "s", "value": "a"}}
    scan = opened(a_history("append"), filter={"type": "or", "left": both, "right": {"type": "is-null", "term": "d"}})
    assert scan.filtered_columns == {1, 3, 5}
    assert opened(a_history("append"), filter=True).filtered_columns == frozenset()


def test_unknown_spec_is_rejected() -> None:
    with pytest.raises(InvalidInput, match="partition spec"):
        opened(a_history("append")).layout(9)
