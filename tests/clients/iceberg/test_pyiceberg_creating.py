"""PyIceberg creates tables, directly or staged, with the requested definition."""

from __future__ import annotations

from datetime import date

import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import BadRequestError, CommitFailedException, TableAlreadyExistsError
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import NullOrder, SortDirection, SortField, SortOrder
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    TruncateTransform,
    YearTransform,
)
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from tests.clients.iceberg.lake import Lake
from tests.clients.iceberg.rows import ARROW_SCHEMA, SCHEMA, ids_of, people

pytestmark = pytest.mark.integration

EVERY_TYPE = Schema(
    NestedField(1, "long", LongType(), required=True, doc="a key"),
    NestedField(2, "int", IntegerType()),
    NestedField(3, "bool", BooleanType()),
    NestedField(4, "float", FloatType()),
    NestedField(5, "double", DoubleType()),
    NestedField(6, "decimal", DecimalType(38, 10)),
    NestedField(7, "date", DateType()),
    NestedField(8, "time", TimeType()),
    NestedField(9, "timestamp", TimestampType()),
    NestedField(10, "timestamptz", TimestamptzType()),
    NestedField(11, "string", StringType()),
    NestedField(12, "uuid", UUIDType()),
    NestedField(13, "fixed", FixedType(7)),
    NestedField(14, "binary", BinaryType()),
    NestedField(15, "list", ListType(19, StringType(), element_required=False)),
    NestedField(16, "map", MapType(20, StringType(), 21, LongType(), value_required=True)),
    NestedField(
        17,
        "struct",
        StructType(
            NestedField(22, "x", DoubleType(), required=True),
            NestedField(23, "deep", ListType(24, StructType(NestedField(25, "Ünï.çødé", StringType())))),
        ),
    ),
    NestedField(18, "Upper Case", StringType()),
    identifier_field_ids=[1],
)


@pytest.mark.parametrize("version", ["1", "2"])
def test_schema_of_every_type_round_trips(catalog: RestCatalog, namespace: str, version: str) -> None:
    made = catalog.create_table((namespace, "t"), EVERY_TYPE, properties={"format-version": version})
    table = catalog.load_table((namespace, "t"))
    assert table.schema() == EVERY_TYPE
    assert table.schema().identifier_field_names() == {"long"}
    assert table.format_version == int(version)
    assert table.metadata == made.metadata
    assert table.metadata_location == made.metadata_location


def test_partition_spec_sort_order_and_properties_round_trip(catalog: RestCatalog, namespace: str) -> None:
    spec = PartitionSpec(
        PartitionField(11, 1000, IdentityTransform(), "string"),
        PartitionField(1, 1001, BucketTransform(16), "long_bucket"),
        PartitionField(18, 1002, TruncateTransform(3), "upper_trunc"),
        PartitionField(7, 1003, YearTransform(), "date_year"),
        PartitionField(9, 1004, HourTransform(), "timestamp_hour"),
        PartitionField(10, 1005, MonthTransform(), "timestamptz_month"),
        PartitionField(6, 1006, BucketTransform(4), "decimal_bucket"),
    )
    order = SortOrder(
        SortField(1, IdentityTransform(), SortDirection.DESC, NullOrder.NULLS_LAST),
        SortField(9, DayTransform(), SortDirection.ASC, NullOrder.NULLS_FIRST),
    )
    properties = {"owner": "tests", "write.parquet.compression-codec": "zstd", "ünï": "ćödé"}
    catalog.create_table((namespace, "t"), EVERY_TYPE, partition_spec=spec, sort_order=order, properties=properties)
    table = catalog.load_table((namespace, "t"))
    assert table.spec() == spec
    assert table.metadata.last_partition_id == 1006
    assert (table.sort_order().fields, table.sort_order().order_id) == (order.fields, 1)
    assert table.properties == properties


def test_client_may_choose_the_location(lake: Lake, catalog: RestCatalog, namespace: str) -> None:
    location = f"s3://{lake.warehouse}/chosen/{namespace}/t"
    table = catalog.create_table((namespace, "t"), SCHEMA, location=location + "/")
    assert table.location() == location
    table.append(people(1))
    assert [task.file.file_path.startswith(f"{location}/data/") for task in table.scan().plan_files()] == [True]
    for taken in (location, f"{location}/data", f"s3://{lake.warehouse}/chosen/{namespace}"):
        with pytest.raises(BadRequestError, match="overlaps"):
            catalog.create_table((namespace, "other"), SCHEMA, location=taken)
    with pytest.raises(BadRequestError, match="outside the catalog's bucket"):
        catalog.create_table((namespace, "other"), SCHEMA, location="s3://another-bucket/t")
    catalog.create_table((namespace, "other"), SCHEMA, location=f"s3://{lake.warehouse}/chosen/{namespace}/t2")


@pytest.mark.parametrize("name", ["with.dot", "UPPER", "upper", "ünïcödé-名前", "with blank", "100%25", "a+b=c&d#e"])
def test_names_may_be_any_text(catalog: RestCatalog, namespace: str, name: str) -> None:
    catalog.create_table((namespace, name), SCHEMA).append(people(1, 2))
    assert catalog.list_tables(namespace) == [(namespace, name)]
    assert catalog.table_exists((namespace, name))
    assert ids_of(catalog.load_table((namespace, name))) == [1, 2]
    catalog.drop_table((namespace, name))
    assert not catalog.table_exists((namespace, name))


def test_names_differ_in_case(catalog: RestCatalog, namespace: str) -> None:
    for number, name in enumerate(("table", "Table", "TABLE")):
        catalog.create_table((namespace, name), SCHEMA).append(people(number))
    assert {name: ids_of(catalog.load_table((namespace, name))) for name in ("table", "Table", "TABLE")} == {
        "table": [0],
        "Table": [1],
        "TABLE": [2],
    }


def test_existing_table_is_not_created_again(catalog: RestCatalog, namespace: str) -> None:
    made = catalog.create_table((namespace, "t"), SCHEMA)
    with pytest.raises(TableAlreadyExistsError):
        catalog.create_table((namespace, "t"), SCHEMA)
    found = catalog.create_table_if_not_exists((namespace, "t"), pa.schema([("other", pa.string())]))
    assert found.metadata == made.metadata


def test_schema_may_be_an_arrow_schema(catalog: RestCatalog, namespace: str) -> None:
    assert catalog.create_table((namespace, "t"), ARROW_SCHEMA).schema() == SCHEMA


def test_staged_table_is_created_by_its_first_commit(catalog: RestCatalog, namespace: str) -> None:
    spec = PartitionSpec(PartitionField(1, 1000, BucketTransform(2), "id_bucket"))
    order = SortOrder(SortField(1, IdentityTransform()))
    with catalog.create_table_transaction(
        (namespace, "t"), SCHEMA, partition_spec=spec, sort_order=order, properties={"made": "staged"}
    ) as staged:
        with staged.update_schema() as update:
            update.add_column("more", StringType())
        staged.set_properties(step="2")
        rows = people(1, 2, 3).append_column("more", pa.array(["a", "b", "c"]))
        staged.append(rows)
        assert not catalog.table_exists((namespace, "t"))
        assert catalog.list_tables(namespace) == []
    table = catalog.load_table((namespace, "t"))
    assert ids_of(table) == [1, 2, 3]
    assert table.schema().column_names == ["id", "name", "day", "more"]
    assert table.spec().fields == spec.fields
    assert table.sort_order().fields == order.fields
    assert (table.properties["made"], table.properties["step"]) == ("staged", "2")
    assert len(table.snapshots()) == 1


def test_staged_create_conflicts_with_a_table_created_in_between(catalog: RestCatalog, namespace: str) -> None:
    staged = catalog.create_table_transaction((namespace, "t"), SCHEMA)
    staged.append(people(1))
    catalog.create_table((namespace, "t"), SCHEMA).append(people(2, day=date(2026, 2, 2)))
    with pytest.raises(CommitFailedException):
        staged.commit_transaction()
    assert ids_of(catalog.load_table((namespace, "t"))) == [2]


def test_abandoned_staged_create_leaves_the_name_free(catalog: RestCatalog, namespace: str) -> None:
    staged = catalog.create_table_transaction((namespace, "t"), SCHEMA)
    staged.append(people(1))
    table = catalog.create_table((namespace, "t"), SCHEMA)
    table.append(people(2))
    assert ids_of(table) == [2]
