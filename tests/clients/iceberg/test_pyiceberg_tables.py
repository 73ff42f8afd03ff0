"""PyIceberg and tables: load, list, rename, register, drop, add files, inspect."""

from __future__ import annotations

import io
import time
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import (
    BadRequestError,
    CommitFailedException,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform

from tests.clients.boto import all_keys
from tests.clients.iceberg.lake import Lake
from tests.clients.iceberg.rows import SCHEMA, ids_of, people, rows_of

pytestmark = pytest.mark.integration

_PURGE_SECONDS = 30.0


@pytest.fixture
def table(catalog: RestCatalog, namespace: str) -> Table:
    """A table with the rows 1 and 2."""
    table: Table = catalog.create_table((namespace, "t"), SCHEMA)
    table.append(people(1, 2))
    return table


def keys_of(s3: Any, lake: Lake, table: Table) -> list[str]:
    """The keys of a table's files."""
    return all_keys(s3, lake.warehouse, table.location().removeprefix(f"s3://{lake.warehouse}/") + "/")


def test_absent_table_is_reported(catalog: RestCatalog, namespace: str) -> None:
    assert not catalog.table_exists((namespace, "t"))
    assert not catalog.table_exists((f"{namespace}_absent", "t"))
    with pytest.raises(NoSuchTableError):
        catalog.load_table((namespace, "t"))
    with pytest.raises(NoSuchTableError):
        catalog.drop_table((namespace, "t"))
    with pytest.raises(NoSuchTableError):
        catalog.rename_table((namespace, "t"), (namespace, "u"))


def test_many_tables_are_each_listed_once(lake: Lake, catalog: RestCatalog, namespace: str) -> None:
    names = [f"t{number:03}" for number in range(120)]
    for name in names:
        document = {"name": name, "schema": SCHEMA.model_dump(mode="json", by_alias=True, exclude_none=True)}
        lake.call("POST", f"namespaces/{namespace}/tables", document)
    assert catalog.list_tables(namespace) == [(namespace, name) for name in names]
    with lake.catalog(properties={"rest-page-size": "50"}) as paging:
        assert paging.list_tables(namespace) == [(namespace, name) for name in names]


def test_pages_have_the_requested_size(lake: Lake, catalog: RestCatalog, namespace: str) -> None:
    """As Iceberg's Java client does, with an empty token first. PyIceberg sends no token and gets all pages at once."""
    for number in range(7):
        catalog.create_table((namespace, f"t{number}"), SCHEMA)
    pages: list[list[str]] = []
    token: str | None = ""
    while token is not None:
        page = lake.call("GET", f"namespaces/{namespace}/tables?pageSize=3&pageToken={token}")
        pages.append([entry["name"] for entry in page["identifiers"]])
        token = page["next-page-token"]
    assert pages == [["t0", "t1", "t2"], ["t3", "t4", "t5"], ["t6"]]


def test_renamed_table_keeps_rows_files_and_identity(catalog: RestCatalog, namespace: str, table: Table) -> None:
    catalog.create_namespace((namespace, "inner"))
    moved = catalog.rename_table((namespace, "t"), (namespace, "inner", "Ünï.1"))
    assert moved.name() == (namespace, "inner", "Ünï.1")
    assert moved.metadata == table.metadata
    assert not catalog.table_exists((namespace, "t"))
    assert catalog.list_tables((namespace, "inner")) == [(namespace, "inner", "Ünï.1")]
    moved.append(people(3))
    assert ids_of(catalog.load_table((namespace, "inner", "Ünï.1"))) == [1, 2, 3]
    catalog.create_table((namespace, "t"), SCHEMA)
    with pytest.raises(TableAlreadyExistsError):
        catalog.rename_table((namespace, "t"), (namespace, "inner", "Ünï.1"))
    with pytest.raises(NoSuchNamespaceError):
        catalog.rename_table((namespace, "t"), (f"{namespace}_absent", "t"))


def test_dropped_table_leaves_files_that_can_be_registered(
    lake: Lake, catalog: RestCatalog, namespace: str, table: Table, s3: Any
) -> None:
    keys = keys_of(s3, lake, table)
    catalog.drop_table((namespace, "t"))
    assert not catalog.table_exists((namespace, "t"))
    assert keys_of(s3, lake, table) == keys
    again = catalog.register_table((namespace, "again"), table.metadata_location)
    assert again.metadata == table.metadata
    assert ids_of(again) == [1, 2]
    again.append(people(3))
    assert ids_of(catalog.load_table((namespace, "again"))) == [1, 2, 3]


def test_register_refuses_existing_names_and_absent_metadata(
    lake: Lake, catalog: RestCatalog, namespace: str, table: Table
) -> None:
    with pytest.raises(TableAlreadyExistsError):
        catalog.register_table((namespace, "t"), table.metadata_location)
    with pytest.raises(BadRequestError, match="overlaps"):
        catalog.register_table((namespace, "other"), table.metadata_location)
    with pytest.raises(BadRequestError, match="metadata file does not exist"):
        catalog.register_table((namespace, "other"), f"s3://{lake.warehouse}/nothing/here.metadata.json")
    assert catalog.list_tables(namespace) == [(namespace, "t")]


def test_register_with_overwrite_reverts_a_table(catalog: RestCatalog, namespace: str, table: Table) -> None:
    before = table.metadata_location
    with table.transaction() as transaction:
        transaction.set_properties(later="yes")
    back = catalog.register_table((namespace, "t"), before, overwrite=True)
    assert back.metadata_location == before
    assert "later" not in catalog.load_table((namespace, "t")).properties


def test_purged_table_has_no_files(lake: Lake, catalog: RestCatalog, namespace: str, table: Table, s3: Any) -> None:
    neighbour = catalog.create_table((namespace, "neighbour"), SCHEMA)
    neighbour.append(people(7))
    assert len(keys_of(s3, lake, table)) > 3
    catalog.purge_table((namespace, "t"))
    assert not catalog.table_exists((namespace, "t"))
    deadline = time.monotonic() + _PURGE_SECONDS
    while keys_of(s3, lake, table) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert keys_of(s3, lake, table) == []
    assert ids_of(neighbour) == [7]


def test_name_of_a_dropped_table_is_reusable(catalog: RestCatalog, namespace: str, table: Table) -> None:
    catalog.drop_table((namespace, "t"))
    made = catalog.create_table((namespace, "t"), SCHEMA)
    assert made.metadata.table_uuid != table.metadata.table_uuid
    assert ids_of(made) == []
    with pytest.raises(ValueError, match="UUID"):
        table.refresh()


def parquet(rows: Any) -> bytes:
    """Rows as a Parquet file without Iceberg metadata."""
    file = io.BytesIO()
    pyarrow.parquet.write_table(rows, file)
    return file.getvalue()


def test_existing_files_are_added(lake: Lake, catalog: RestCatalog, namespace: str, s3: Any) -> None:
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "name"))
    table = catalog.create_table(
        (namespace, "t"), SCHEMA, partition_spec=spec, properties={"commit.retry.num-retries": "0"}
    )
    paths = [f"{table.location()}/data/imported/{number}.parquet" for number in range(3)]
    for number, path in enumerate(paths):
        rows = people(number * 2, number * 2 + 1, name=f"part-{number}")
        s3.put_object(Bucket=lake.warehouse, Key=path.removeprefix(f"s3://{lake.warehouse}/"), Body=parquet(rows))
    table.add_files(paths)
    table = catalog.load_table((namespace, "t"))
    assert ids_of(table) == [0, 1, 2, 3, 4, 5]
    assert ids_of(table, row_filter="name = 'part-1'") == [2, 3]
    assert table.name_mapping() is not None
    with pytest.raises(ValueError, match="already referenced"):
        table.add_files(paths[:1])
    with pytest.raises(CommitFailedException, match="live in the parent"):
        table.add_files(paths[:1], check_duplicate_files=False)


def test_files_outside_of_the_table_are_not_added(lake: Lake, catalog: RestCatalog, namespace: str, s3: Any) -> None:
    """A file belongs to at most one table, so it must be in the table's directories."""
    table = catalog.create_table((namespace, "t"), SCHEMA)
    other = catalog.create_table((namespace, "other"), SCHEMA)
    other.append(people(1))
    s3.put_object(Bucket=lake.warehouse, Key=f"loose/{namespace}.parquet", Body=parquet(people(1)))
    (task,) = other.scan().plan_files()
    for path in (task.file.file_path, f"s3://{lake.warehouse}/loose/{namespace}.parquet"):
        with lake.catalog(properties={"header.X-Iceberg-Access-Delegation": ""}) as own_keys:
            held = own_keys.load_table((namespace, "t"))
            with pytest.raises(BadRequestError, match="outside the table's directories"):
                held.add_files([path])
    assert ids_of(catalog.load_table(table.name())) == []


def test_metadata_tables_are_readable(catalog: RestCatalog, namespace: str) -> None:
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "name"))
    table = catalog.create_table((namespace, "t"), SCHEMA, partition_spec=spec)
    table.append(people(1, 2, name="a"))
    table.append(people(3, name="b"))
    table.delete("id = 1")
    table.manage_snapshots().create_tag(table.snapshots()[0].snapshot_id, "v1").commit()
    inspect = catalog.load_table((namespace, "t")).inspect
    assert [row["operation"] for row in inspect.snapshots().to_pylist()] == ["append", "append", "overwrite"]
    assert sorted(row["name"] for row in inspect.refs().to_pylist()) == ["main", "v1"]
    assert {row["partition"]["name"]: row["record_count"] for row in inspect.partitions().to_pylist()} == {
        "a": 1,
        "b": 1,
    }
    assert sorted(row["record_count"] for row in inspect.files().to_pylist()) == [1, 1]
    assert inspect.delete_files().num_rows == 0
    assert {row["status"] for row in inspect.entries().to_pylist()} <= {0, 1, 2}
    assert inspect.manifests().num_rows >= 2
    assert inspect.all_files().num_rows == 3
    assert inspect.all_manifests().num_rows >= inspect.manifests().num_rows
    assert [row["is_current_ancestor"] for row in inspect.history().to_pylist()] == [True, True, True]
    assert inspect.metadata_log_entries().num_rows == 5


def test_scan_applies_filter_projection_and_limit(catalog: RestCatalog, table: Table) -> None:
    table.append(people(3, 4, name="other"))
    table = catalog.load_table(table.name())
    assert rows_of(table, row_filter="id >= 2 and name != 'other'", selected_fields=("id",)) == [{"id": 2}]
    assert table.scan(limit=3).to_arrow().num_rows == 3
    assert table.scan().count() == 4
    assert pa.Table.from_batches(table.scan().to_arrow_batch_reader()).num_rows == 4


def version_of(table: Table) -> str:
    """The version in the name of a table's metadata file."""
    return table.metadata_location.rpartition("/")[2].partition("-")[0]


def test_metadata_file_names_have_increasing_versions(catalog: RestCatalog, namespace: str) -> None:
    created = catalog.create_table((namespace, "created"), SCHEMA)
    assert version_of(created) == "00000"
    created.append(people(1))
    assert version_of(created) == "00001"
    with catalog.create_table_transaction((namespace, "as_select"), SCHEMA) as transaction:
        transaction.append(people(1, 2))
    made = catalog.load_table((namespace, "as_select"))
    assert version_of(made) == "00000"
    catalog.drop_table((namespace, "as_select"))
    registered = catalog.register_table((namespace, "registered"), made.metadata_location)
    assert registered.metadata_location == made.metadata_location
    registered.append(people(3))
    assert version_of(registered) == "00001"
