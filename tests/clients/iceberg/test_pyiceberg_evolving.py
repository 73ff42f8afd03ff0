"""PyIceberg evolves tables: columns, partitions, sort order, properties, statistics, format version."""

from __future__ import annotations

import uuid
from datetime import date
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.sorting import NullOrder, SortDirection
from pyiceberg.table.statistics import StatisticsFile
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform, MonthTransform, TruncateTransform
from pyiceberg.types import (
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
)

from tests.clients.iceberg.lake import Lake
from tests.clients.iceberg.rows import SCHEMA, ids_of, people, rows_of

pytestmark = pytest.mark.integration


@pytest.fixture
def table(catalog: RestCatalog, namespace: str) -> Table:
    """A table with the rows 1 and 2."""
    table: Table = catalog.create_table((namespace, "t"), SCHEMA)
    table.append(people(1, 2))
    return table


def test_added_column_is_null_in_old_rows(catalog: RestCatalog, table: Table) -> None:
    with table.update_schema() as update:
        update.add_column("score", DoubleType(), "how good")
        update.add_column(
            "place", StructType(NestedField(0, "city", StringType()), NestedField(0, "zip", StringType()))
        )
        update.add_column("tags", ListType(0, StringType()))
        update.add_column("counts", MapType(0, StringType(), 0, LongType()))
    with table.update_schema() as update:
        update.add_column(("place", "country"), StringType())
    table = catalog.load_table(table.name())
    assert table.schema().find_field("score").doc == "how good"
    assert table.schema().find_field("place.country").field_type == StringType()
    assert table.metadata.last_column_id == table.schema().highest_field_id
    assert [row["score"] for row in rows_of(table)] == [None, None]
    assert [snapshot.schema_id for snapshot in table.snapshots()] == [0]


def test_renamed_column_keeps_its_rows(catalog: RestCatalog, table: Table) -> None:
    with table.update_schema() as update:
        update.rename_column("name", "Tïtle.x")
    table = catalog.load_table(table.name())
    assert [row["Tïtle.x"] for row in rows_of(table)] == ["name-1", "name-2"]


def test_column_added_with_the_name_of_a_dropped_one_is_empty(catalog: RestCatalog, table: Table) -> None:
    with table.update_schema() as update:
        update.delete_column("name")
    with table.update_schema() as update:
        update.add_column("name", StringType())
    table = catalog.load_table(table.name())
    assert table.schema().find_field("name").field_id == 4
    assert [row["name"] for row in rows_of(table)] == [None, None]


def test_columns_are_reordered(catalog: RestCatalog, table: Table) -> None:
    with table.update_schema() as update:
        update.move_first("day")
        update.move_after("id", "name")
    assert catalog.load_table(table.name()).schema().column_names == ["day", "name", "id"]
    with table.update_schema() as update:
        update.move_before("id", "day")
    table = catalog.load_table(table.name())
    assert table.schema().column_names == ["id", "day", "name"]
    assert ids_of(table) == [1, 2]


def test_types_are_widened(catalog: RestCatalog, namespace: str) -> None:
    schema = Schema(
        NestedField(1, "id", IntegerType(), required=True),
        NestedField(2, "price", DecimalType(9, 2)),
        NestedField(3, "ratio", FloatType()),
    )
    table = catalog.create_table((namespace, "t"), schema)
    rows = pa.table(
        {"id": [1, 2], "price": [None, None], "ratio": [0.5, 0.25]},
        schema=pa.schema(
            [
                pa.field("id", pa.int32(), nullable=False),
                pa.field("price", pa.decimal128(9, 2)),
                pa.field("ratio", pa.float32()),
            ]
        ),
    )
    table.append(rows)
    with table.update_schema() as update:
        update.update_column("id", LongType())
        update.update_column("price", DecimalType(18, 2))
        update.update_column("ratio", DoubleType())
        update.make_column_optional("id")
    table = catalog.load_table((namespace, "t"))
    assert [field.field_type for field in table.schema().fields] == [LongType(), DecimalType(18, 2), DoubleType()]
    assert not table.schema().find_field("id").required
    assert [(row["id"], row["ratio"]) for row in rows_of(table)] == [(1, 0.5), (2, 0.25)]


def test_upsert_matches_by_identifier_fields(catalog: RestCatalog, namespace: str) -> None:
    schema = Schema(NestedField(1, "id", LongType(), required=True), NestedField(2, "name", StringType()))
    table = catalog.create_table((namespace, "t"), schema)
    with table.update_schema() as update:
        update.set_identifier_fields("id")
    arrow = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])
    table = catalog.load_table((namespace, "t"))
    table.append(pa.table({"id": [1, 2], "name": ["a", "b"]}, schema=arrow))
    table.upsert(pa.table({"id": [2, 3], "name": ["B", "C"]}, schema=arrow))
    assert [(row["id"], row["name"]) for row in rows_of(table)] == [(1, "a"), (2, "B"), (3, "C")]


def test_union_by_name_adds_columns(catalog: RestCatalog, table: Table) -> None:
    with table.update_schema() as update:
        update.union_by_name(pa.schema([("id", pa.int64()), ("extra", pa.string())]))
    table.append(pa.table({"id": [3], "extra": ["x"]}))
    table = catalog.load_table(table.name())
    assert [(row["id"], row["name"], row["extra"]) for row in rows_of(table)] == [
        (1, "name-1", None),
        (2, "name-2", None),
        (3, None, "x"),
    ]


def test_change_of_a_stale_schema_is_refused(catalog: RestCatalog, table: Table) -> None:
    other = catalog.load_table(table.name())
    with table.update_schema() as update:
        update.add_column("a", StringType())
    with pytest.raises(CommitFailedException, match="schema"), other.update_schema() as update:
        update.add_column("b", StringType())
    assert catalog.load_table(table.name()).schema().column_names == ["id", "name", "day", "a"]


def test_partitions_evolve_and_old_files_stay_readable(catalog: RestCatalog, table: Table) -> None:
    with table.update_spec() as update:
        update.add_field("day", MonthTransform(), "month")
        update.add_field("id", BucketTransform(4), "bucket")
    table.append(people(3, 4, day=date(2026, 5, 5)))
    with table.update_spec() as update:
        update.remove_field("bucket")
        update.rename_field("month", "day_month")
        update.add_field("name", TruncateTransform(2), "prefix")
    table.append(people(5, 6, day=date(2026, 6, 6)))
    table = catalog.load_table(table.name())
    assert [[field.name for field in spec.fields] for spec in table.specs().values()] == [
        [],
        ["month", "bucket"],
        ["day_month", "prefix"],
    ]
    assert table.metadata.last_partition_id == 1002
    assert ids_of(table) == [1, 2, 3, 4, 5, 6]
    assert ids_of(table, row_filter="day = '2026-06-06'") == [5, 6]
    assert {task.file.spec_id for task in table.scan().plan_files()} == {0, 1, 2}
    table.delete("id > 2 and id < 6")
    assert ids_of(catalog.load_table(table.name())) == [1, 2, 6]


def test_earlier_partition_spec_is_reused(catalog: RestCatalog, table: Table) -> None:
    with table.update_spec() as update:
        update.add_field("day", DayTransform(), "day_day")
    with table.update_spec() as update:
        update.remove_field("day_day")
    with table.update_spec() as update:
        update.add_field("day", DayTransform(), "day_day")
    table = catalog.load_table(table.name())
    assert table.spec().spec_id == 1
    assert table.metadata.last_partition_id == 1000


def test_sort_order_evolves(catalog: RestCatalog, table: Table) -> None:
    with table.update_sort_order() as update:
        update.asc("id", IdentityTransform(), NullOrder.NULLS_LAST).desc("day", MonthTransform(), NullOrder.NULLS_FIRST)
    table = catalog.load_table(table.name())
    assert [(field.source_id, field.direction) for field in table.sort_order().fields] == [
        (1, SortDirection.ASC),
        (3, SortDirection.DESC),
    ]
    table.append(people(3))
    assert len(table.sort_orders()) == 2


def test_properties_are_set_and_removed(catalog: RestCatalog, table: Table) -> None:
    with table.transaction() as transaction:
        transaction.set_properties({"a": "1", "b": "2", "ünï": "ćödé"})
    with table.transaction() as transaction:
        transaction.remove_properties("a")
        transaction.set_properties({"b": "3"})
    properties = catalog.load_table(table.name()).properties
    assert {name: properties.get(name) for name in ("a", "b", "ünï")} == {"a": None, "b": "3", "ünï": "ćödé"}


def test_statistics_are_set_and_removed(lake: Lake, catalog: RestCatalog, table: Table, s3: Any) -> None:
    snapshot = table.current_snapshot()
    assert snapshot is not None
    path = f"{table.location()}/metadata/{uuid.uuid4()}.stats"
    s3.put_object(Bucket=lake.warehouse, Key=path.removeprefix(f"s3://{lake.warehouse}/"), Body=b"PFA1" * 10)
    blob = {
        "type": "apache-datasketches-theta-v1",
        "snapshot-id": snapshot.snapshot_id,
        "sequence-number": 1,
        "fields": [1],
        "properties": {"ndv": "2"},
    }
    file = StatisticsFile.model_validate(
        {
            "snapshot-id": snapshot.snapshot_id,
            "statistics-path": path,
            "file-size-in-bytes": 40,
            "file-footer-size-in-bytes": 4,
            "blob-metadata": [blob],
        }
    )
    with table.update_statistics() as update:
        update.set_statistics(file)
    assert catalog.load_table(table.name()).metadata.statistics == [file]
    with table.update_statistics() as update:
        update.remove_statistics(snapshot.snapshot_id)
    assert catalog.load_table(table.name()).metadata.statistics == []


def test_format_version_1_is_upgraded(catalog: RestCatalog, namespace: str) -> None:
    table = catalog.create_table((namespace, "t"), SCHEMA, properties={"format-version": "1"})
    table.append(people(1))
    with table.transaction() as transaction:
        transaction.upgrade_table_version(2)
    table.append(people(2))
    table = catalog.load_table((namespace, "t"))
    assert table.format_version == 2
    assert ids_of(table) == [1, 2]
    assert [snapshot.sequence_number for snapshot in table.snapshots()] == [0, 1]
