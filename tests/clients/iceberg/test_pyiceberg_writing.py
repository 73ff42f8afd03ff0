"""PyIceberg writes rows: appends, overwrites, deletes and upserts, separately and in one transaction."""

from __future__ import annotations

from datetime import date
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform

from tests.clients.boto import all_keys
from tests.clients.iceberg.lake import Lake
from tests.clients.iceberg.rows import ARROW_SCHEMA, SCHEMA, ids_of, people, rows_of

pytestmark = pytest.mark.integration

BY_DAY = PartitionSpec(PartitionField(3, 1000, DayTransform(), "day_day"))
FIRST, SECOND = date(2026, 1, 1), date(2026, 1, 2)


@pytest.fixture
def table(catalog: RestCatalog, namespace: str) -> Table:
    """An empty table."""
    table: Table = catalog.create_table((namespace, "t"), SCHEMA)
    return table


def operations(table: Table) -> list[Operation]:
    """The operation of each snapshot, oldest first."""
    return [
        snapshot.summary.operation
        for snapshot in sorted(table.snapshots(), key=lambda snapshot: snapshot.sequence_number or 0)
        if snapshot.summary is not None
    ]


def summary(table: Table, name: str) -> str | None:
    """A value of the current snapshot's summary."""
    snapshot = table.current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    return snapshot.summary[name]


def test_appended_rows_are_readable_by_other_clients(catalog: RestCatalog, table: Table) -> None:
    table.append(people(1, 2))
    table.append(people(3), snapshot_properties={"job": "nightly"})
    assert ids_of(table) == [1, 2, 3]
    other = catalog.load_table(table.name())
    assert rows_of(other) == people(1, 2, 3).to_pylist()
    assert operations(other) == [Operation.APPEND, Operation.APPEND]
    assert (summary(other, "job"), summary(other, "total-records")) == ("nightly", "3")
    assert other.metadata.last_sequence_number == 2


def test_empty_append_creates_a_snapshot(table: Table) -> None:
    table.append(people())
    assert operations(table) == [Operation.APPEND]
    assert ids_of(table) == []


def test_batches_are_appended_as_a_stream(table: Table) -> None:
    batches = people(*range(1000)).to_batches(max_chunksize=100)
    table.append(pa.RecordBatchReader.from_batches(ARROW_SCHEMA, batches))
    assert ids_of(table) == list(range(1000))


@pytest.mark.parametrize("merges", [False, True], ids=["fast", "merging"])
def test_appends_keep_or_merge_manifests(catalog: RestCatalog, namespace: str, merges: bool) -> None:
    properties = {"commit.manifest-merge.enabled": str(merges).lower(), "commit.manifest.min-count-to-merge": "2"}
    table = catalog.create_table((namespace, "t"), SCHEMA, properties=properties)
    for number in range(4):
        table.append(people(number))
    snapshot = catalog.load_table((namespace, "t")).current_snapshot()
    assert snapshot is not None
    assert len(snapshot.manifests(table.io)) == (1 if merges else 4)
    assert ids_of(table) == [0, 1, 2, 3]


def test_overwrite_replaces_everything(table: Table) -> None:
    table.append(people(1, 2))
    table.overwrite(people(3))
    assert ids_of(table) == [3]
    assert operations(table) == [Operation.APPEND, Operation.DELETE, Operation.APPEND]


@pytest.mark.filterwarnings("ignore:Delete operation did not match any records")
def test_overwrite_of_an_empty_table_fills_it(table: Table) -> None:
    table.overwrite(people(1))
    assert ids_of(table) == [1]


def test_overwrite_with_a_filter_replaces_matching_rows(table: Table) -> None:
    table.append(people(1, 2, 3))
    table.overwrite(people(9), overwrite_filter="id == 2")
    assert ids_of(table) == [1, 3, 9]
    assert Operation.OVERWRITE in operations(table)


def test_dynamic_overwrite_replaces_only_partitions_of_the_new_rows(catalog: RestCatalog, namespace: str) -> None:
    spec = PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "day"))
    table = catalog.create_table((namespace, "t"), SCHEMA, partition_spec=spec)
    table.append(pa.concat_tables([people(1, 2, day=FIRST), people(3, 4, day=SECOND)]))
    table.dynamic_partition_overwrite(people(5, day=SECOND))
    assert ids_of(table) == [1, 2, 5]
    assert ids_of(catalog.load_table((namespace, "t")), row_filter="day = '2026-01-01'") == [1, 2]


def test_delete_of_whole_files_rewrites_none(table: Table) -> None:
    table.append(people(1, 2))
    table.append(people(3, 4))
    table.delete("id < 3")
    assert ids_of(table) == [3, 4]
    assert operations(table) == [Operation.APPEND, Operation.APPEND, Operation.DELETE]
    assert summary(table, "deleted-data-files") == "1"
    table.delete()
    assert ids_of(table) == []


def test_delete_of_some_rows_rewrites_the_file(table: Table) -> None:
    table.append(people(1, 2, 3))
    table.delete("id = 2")
    assert ids_of(table) == [1, 3]
    assert operations(table) == [Operation.APPEND, Operation.OVERWRITE]
    assert (summary(table, "added-data-files"), summary(table, "deleted-data-files")) == ("1", "1")


@pytest.mark.filterwarnings("ignore:Delete operation did not match any records")
def test_delete_without_a_match_commits_nothing(table: Table) -> None:
    table.append(people(1))
    before = table.metadata_location
    table.delete("id = 99")
    assert ids_of(table) == [1]
    assert table.refresh().metadata_location == before


def test_delete_in_a_partitioned_table(catalog: RestCatalog, namespace: str) -> None:
    table = catalog.create_table((namespace, "t"), SCHEMA, partition_spec=BY_DAY)
    table.append(pa.concat_tables([people(1, 2, day=FIRST), people(3, 4, day=SECOND)]))
    table.delete("day = '2026-01-01'")
    assert ids_of(table) == [3, 4]
    table.delete("id = 3")
    assert ids_of(catalog.load_table((namespace, "t"))) == [4]


def test_upsert_updates_and_inserts(table: Table) -> None:
    table.append(people(1, 2, 3))
    outcome = table.upsert(people(2, 3, 4, name="changed"), join_cols=["id"])
    assert (outcome.rows_updated, outcome.rows_inserted) == (2, 1)
    assert {row["id"]: row["name"] for row in rows_of(table)} == {
        1: "name-1",
        2: "changed",
        3: "changed",
        4: "changed",
    }
    assert table.upsert(people(2, name="changed"), join_cols=["id"]).rows_updated == 0


def test_transaction_commits_all_changes_atomically(catalog: RestCatalog, table: Table) -> None:
    table.append(people(1, 2))
    with table.transaction() as transaction:
        transaction.append(people(3))
        transaction.delete("id = 1")
        transaction.set_properties(done="yes")
        with transaction.update_schema() as update:
            update.rename_column("name", "title")
        assert ids_of(catalog.load_table(table.name())) == [1, 2]
    other = catalog.load_table(table.name())
    assert ids_of(other) == [2, 3]
    assert other.properties["done"] == "yes"
    assert other.schema().column_names == ["id", "title", "day"]
    assert len(other.metadata.metadata_log) == 2


def test_failed_transaction_leaves_no_trace(catalog: RestCatalog, table: Table) -> None:
    def fail() -> None:
        with table.transaction() as transaction:
            transaction.append(people(1))
            raise LookupError

    with pytest.raises(LookupError):
        fail()
    assert catalog.load_table(table.name()).metadata == table.metadata


@pytest.mark.parametrize("spec", [BY_DAY, PartitionSpec(PartitionField(1, 1000, BucketTransform(4), "id_bucket"))])
def test_scan_prunes_files_by_partition(catalog: RestCatalog, namespace: str, spec: PartitionSpec) -> None:
    table = catalog.create_table((namespace, "t"), SCHEMA, partition_spec=spec)
    table.append(pa.concat_tables([people(*range(20), day=FIRST), people(*range(20, 40), day=SECOND)]))
    table = catalog.load_table((namespace, "t"))
    assert len(list(table.scan().plan_files())) == (2 if spec is BY_DAY else 4)
    assert ids_of(table) == list(range(40))
    row_filter = "day = '2026-01-02'" if spec is BY_DAY else "id = 25"
    assert len(list(table.scan(row_filter=row_filter).plan_files())) == 1


def test_table_properties_set_the_location_of_files(lake: Lake, catalog: RestCatalog, namespace: str, s3: Any) -> None:
    folder = f"elsewhere/{namespace}"
    properties = {
        "write.data.path": f"s3://{lake.warehouse}/{folder}/data",
        "write.metadata.path": f"s3://{lake.warehouse}/{folder}/meta",
        "write.object-storage.enabled": "true",
    }
    table = catalog.create_table((namespace, "t"), SCHEMA, properties=properties)
    table.append(people(1, 2))
    table = catalog.load_table((namespace, "t"))
    table.append(people(3))
    assert ids_of(table) == [1, 2, 3]
    keys = all_keys(s3, lake.warehouse, f"{folder}/")
    assert sum(key.startswith(f"{folder}/data/") and key.endswith(".parquet") for key in keys) == 2
    assert table.metadata_location.startswith(f"s3://{lake.warehouse}/{folder}/meta/")
    assert all_keys(s3, lake.warehouse, table.location().removeprefix(f"s3://{lake.warehouse}/") + "/") == []


def test_old_metadata_is_deleted_if_the_table_is_configured_so(
    lake: Lake, catalog: RestCatalog, namespace: str, s3: Any
) -> None:
    """Client and server both delete old metadata; a file that is already deleted is no error."""
    properties = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "2"}
    table = catalog.create_table((namespace, "t"), SCHEMA, properties=properties)
    for number in range(5):
        table.append(people(number))
    prefix = table.location().removeprefix(f"s3://{lake.warehouse}/")
    kept = [key for key in all_keys(s3, lake.warehouse, f"{prefix}/metadata/") if key.endswith(".metadata.json")]
    assert len(kept) == 3
    assert ids_of(catalog.load_table((namespace, "t"))) == list(range(5))
