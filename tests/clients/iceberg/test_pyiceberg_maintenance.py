"""Maintenance of tables written by PyIceberg, on a server with a short safety window: rows do not change."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.table import Table

from tests.clients.boto import all_keys, connected
from tests.clients.iceberg.lake import Lake, new_lake
from tests.clients.iceberg.rows import SCHEMA, ids_of, people
from tests.fixtures.server import running_server
from tests.server.running_processes import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.slow]

WINDOW = timedelta(seconds=1)
CONFIG: dict[str, Any] = {
    "version": 1,
    "retain-recent-metadata-files": 0,
    "delete-enabled": True,
    "background-enabled": False,
}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """A table bucket of a server with a safety window of one second and continuous sweeps."""
    flags = ("--set", "tables.maintenance_safety_window=1s", "--set", "tables.maintenance_interval=200ms")
    with running_server(tmp_path_factory.mktemp("maintenance") / "data", *flags) as server:
        yield new_lake(server)


@pytest.fixture(scope="module")
def catalog(lake: Lake) -> Iterator[RestCatalog]:
    with lake.catalog() as catalog:
        yield catalog


@pytest.fixture
def table(catalog: RestCatalog, lake: Lake) -> Table:
    """A table with a history: appends, an overwrite of everything, and a tag on the first snapshot."""
    namespace = f"ns_{uuid.uuid4().hex[:16]}"
    lake.call("POST", "namespaces", {"namespace": [namespace]})
    table: Table = catalog.create_table((namespace, "t"), SCHEMA)
    table.append(people(1, 2))
    first = table.current_snapshot()
    assert first is not None
    table.manage_snapshots().create_tag(first.snapshot_id, "v1").commit()
    table.append(people(3))
    table.append(people(4))
    table.delete("id = 4")
    table.overwrite(people(5, 6))
    return table


def path_of(table: Table) -> str:
    namespace, name = table.name()
    return f"namespaces/{namespace}/tables/{name}/maintenance"


def files_of(lake: Lake, table: Table) -> set[str]:
    prefix = table.location().removeprefix(f"s3://{lake.warehouse}/")
    with connected(lake.server) as s3:
        return {key for key in all_keys(s3, lake.warehouse) if key.startswith(prefix)}


def past_the_window(lake: Lake, table: Table) -> None:
    """Wait until every file of a table is older than the window."""
    prefix = table.location().removeprefix(f"s3://{lake.warehouse}/")
    with connected(lake.server) as s3:
        newest = max(
            item["LastModified"] for item in s3.list_objects_v2(Bucket=lake.warehouse, Prefix=prefix)["Contents"]
        )
    wait_until(lambda: datetime.now(UTC) - newest > 2 * WINDOW, "the safety window passes")


def read_again(catalog: RestCatalog, table: Table) -> tuple[list[int], list[int]]:
    """Reload the table; its current rows, and the rows at the tag."""
    fresh = catalog.load_table(table.name())
    tag = fresh.metadata.refs["v1"].snapshot_id
    return ids_of(fresh), ids_of(fresh, snapshot_id=tag)


def test_garbage_collection_keeps_all_files_of_a_table(lake: Lake, catalog: RestCatalog, table: Table) -> None:
    past_the_window(lake, table)
    before = files_of(lake, table)
    report = lake.call("POST", f"{path_of(table)}/metadata", {})
    assert report["reachability-graph"]["status"] == "COMPLETE", report["reachability-graph"]
    assert report["job"]["cleanup_candidate_count"] == 0
    known = {one["location"] for one in (*report["object_reports"], *report["referenced_object_reports"])}
    assert known == {f"s3://{lake.warehouse}/{key}" for key in before}


def test_expiration_commits_before_it_deletes_files(lake: Lake, catalog: RestCatalog, table: Table) -> None:
    before = files_of(lake, table)
    lake.call("PUT", f"{path_of(table)}/config", CONFIG)
    document = {
        "snapshot-expiration": {"min-snapshots-to-keep": 1, "max-snapshot-age-ms": 0},
        "commit-snapshot-expiration": True,
    }
    expired = lake.call("POST", f"{path_of(table)}/metadata", document)["snapshot-expiration"]
    assert expired["status"] == "COMMITTED"
    fresh = catalog.load_table(table.name())
    assert fresh.metadata_location == expired["committed_metadata_location"]
    kept = {one.snapshot_id for one in fresh.snapshots()}
    # The current snapshot and the tagged one.
    assert len(kept) == 2
    assert kept.isdisjoint(expired["expired_snapshot_ids"])
    past_the_window(lake, table)
    report = lake.call("POST", f"{path_of(table)}/metadata", {"delete": True})
    assert report["job"]["status"] == "SUCCESSFUL", report["job"]["failure_reason"]
    assert report["job"]["deleted_object_count"] > 4
    gone = before - files_of(lake, table)
    assert {f"s3://{lake.warehouse}/{key}" for key in gone} == {
        one["location"] for one in report["object-cleanup-reports"] if one["state"] == "DELETED"
    }
    assert read_again(catalog, table) == ([5, 6], [1, 2])
    # Writers continue, including those that loaded the table before.
    table.append(people(7))
    assert read_again(catalog, table) == ([5, 6, 7], [1, 2])


def test_periodic_job_removes_orphans(lake: Lake, catalog: RestCatalog, table: Table) -> None:
    key = f"{table.location().removeprefix(f's3://{lake.warehouse}/')}/data/left-behind.parquet"
    with connected(lake.server) as s3:
        s3.put_object(Bucket=lake.warehouse, Key=key, Body=b"PAR1")
    lake.call("PUT", f"{path_of(table)}/config", {**CONFIG, "background-enabled": True})
    wait_until(lambda: key not in files_of(lake, table), "an orphan is removed by the periodic job")
    done = lake.call("GET", f"{path_of(table)}/scheduler")
    assert done["current_job"]["status"] in ("SUCCESSFUL", "RUNNING")
    assert read_again(catalog, table) == ([5, 6], [1, 2])


def test_quarantined_files_can_be_restored(lake: Lake, catalog: RestCatalog, table: Table) -> None:
    held = {**CONFIG, "quarantine-enabled": True, "quarantine-retention-seconds": 3600}
    lake.call("PUT", f"{path_of(table)}/config", held)
    document = {
        "snapshot-expiration": {"min-snapshots-to-keep": 1, "max-snapshot-age-ms": 0},
        "commit-snapshot-expiration": True,
    }
    before = catalog.load_table(table.name()).metadata
    lake.call("POST", f"{path_of(table)}/metadata", document)
    past_the_window(lake, table)
    there = files_of(lake, table)
    job = lake.call("POST", f"{path_of(table)}/metadata", {"delete": True})["job"]
    assert (job["deleted_object_count"], job["status"]) == (0, "SUCCESSFUL")
    assert job["quarantined_object_count"] == len(there - files_of(lake, table)) > 0
    released = lake.call("POST", f"{path_of(table)}/jobs/{job['job-id']}/quarantine", {"action": "RELEASE"})
    assert released["kept-object-count"] == 0
    assert files_of(lake, table) == there
    # The files of the expired snapshot are unchanged.
    (third, *_) = [one for one in before.snapshots if one.sequence_number == 3]
    table_then = Table(table.name(), before, table.metadata_location, table.io, catalog)
    assert ids_of(table_then, snapshot_id=third.snapshot_id) == [1, 2, 3, 4]


def test_compaction_is_queued_for_a_worker(lake: Lake, catalog: RestCatalog, table: Table) -> None:
    table.append(people(8))
    before = files_of(lake, table)
    document = {
        "compaction": {
            "target-file-size-bytes": 1 << 20,
            "small-file-threshold-bytes": 1 << 19,
            "min-input-files": 2,
            "max-rewrite-bytes-per-job": 1 << 20,
        },
        "commit-compaction": True,
    }
    report = lake.call("POST", f"{path_of(table)}/metadata", document)
    compaction = report["compaction"]
    assert compaction["status"] == "QUEUED_FOR_PIPELINE"
    (group,) = compaction["rewrite-groups"]
    assert group["input-file-count"] == 2
    shown = lake.call("GET", f"{path_of(table)}/jobs/{report['job']['job-id']}")["compaction"]["task"]
    assert (shown["id"], shown["kind"], shown["state"]) == (compaction["task-id"], "compact-table", "ready")
    assert files_of(lake, table) == before
    assert read_again(catalog, table) == ([5, 6, 8], [1, 2])


def test_purge_of_a_dropped_table_runs_in_the_background(lake: Lake, catalog: RestCatalog, table: Table) -> None:
    assert files_of(lake, table)
    catalog.purge_table(table.name())
    wait_until(lambda: not files_of(lake, table), "the files of a purged table are gone")


def test_dropped_table_is_purged_after_the_undrop_window(lake: Lake, catalog: RestCatalog, table: Table) -> None:
    def set_window(seconds: int) -> None:
        document = {"updates": {"undrop-window-seconds": str(seconds)}}
        answer = lake.request("POST", f"buckets/{lake.warehouse}/properties", document)
        assert answer.status == 200, answer.body

    set_window(1)
    try:
        catalog.purge_table(table.name())
        wait_until(lambda: not files_of(lake, table), "the files of a table whose window is over are gone")
        catalog.create_table(table.name(), SCHEMA)
    finally:
        set_window(0)
