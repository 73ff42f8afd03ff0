"""Event export: each event of the server is in the table exactly once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from lakebed.client import LakebedClient
from lakebed.core.errors import InvalidInput
from lakebed.core.jobs import JobKind
from lakebed.pipeline.files.table_shape import properties_of
from lakebed.pipeline.jobs.events import DEPLOYMENT, LAST_SEQ, last_exported
from lakebed.pipeline.table_ref import CatalogTable
from tests.clients.iceberg.lake import Lake
from tests.pipeline.bench import SPARK_MARKS, Bench, changed_nothing

pytestmark = [*SPARK_MARKS, pytest.mark.heavy]


def sequence(bench: Bench, table: CatalogTable) -> list[int]:
    return [row[0] for row in bench.sql(f"SELECT seq FROM {table.sql} ORDER BY seq")]


def known(bench: Bench) -> list[int]:
    with LakebedClient(access=bench.access) as client:
        return [event.seq for page in client.events.pages() for event in page.events]


def happen(lake: Lake, namespace: str, count: int) -> None:
    """Cause `count` events."""
    for number in range(count):
        lake.call("POST", "namespaces", {"namespace": [f"{namespace}_{number}"]})


def test_repeated_exports_add_every_event_once(root_bench: Bench, lake: Lake, namespace: str) -> None:
    table = root_bench.table(namespace, "events")
    assert changed_nothing(root_bench.do(JobKind.EXPORT_EVENTS, table, dry_run=True), "does not exist yet")
    first = root_bench.do(JobKind.EXPORT_EVENTS, table, {"batch-limit": 50})
    assert first.changed
    until = first.details["last-seq-of-server"]
    assert sequence(root_bench, table) == [seq for seq in known(root_bench) if seq <= int(str(until))]
    assert last_exported(root_bench.spark, table) == until
    happen(lake, namespace, 3)
    planned = root_bench.do(JobKind.EXPORT_EVENTS, table, dry_run=True)
    assert (planned.changed, planned.read.rows >= 3) == (False, True)
    root_bench.do(JobKind.EXPORT_EVENTS, table)
    found = root_bench.sql(f"SELECT payload FROM {table.sql} WHERE subject LIKE '%{namespace}!_%' ESCAPE '!'")
    assert len(found) == 3
    # The only new events are the export's own commits, which start no export.
    assert changed_nothing(root_bench.do(JobKind.EXPORT_EVENTS, table), "this table's own commits")
    exported = sequence(root_bench, table)
    assert len(exported) == len(set(exported))


def test_table_with_events_of_another_deployment_is_rejected(root_bench: Bench, lake: Lake, namespace: str) -> None:
    table = root_bench.table(namespace, "events")
    root_bench.do(JobKind.EXPORT_EVENTS, table)
    ours = properties_of(root_bench.spark, table)[DEPLOYMENT]
    exported = sequence(root_bench, table)
    happen(lake, namespace, 1)
    root_bench.sql(f"ALTER TABLE {table.sql} SET TBLPROPERTIES ('{DEPLOYMENT}' = '{'a' * 26}')")
    for dry_run in (True, False):
        with pytest.raises(InvalidInput, match="events of another deployment; choose another table") as refused:
            root_bench.do(JobKind.EXPORT_EVENTS, table, dry_run=dry_run)
        assert f"expected={ours} found={'a' * 26}" in str(refused.value)
    assert sequence(root_bench, table) == exported
    # A table of an earlier version.
    root_bench.sql(f"ALTER TABLE {table.sql} UNSET TBLPROPERTIES ('{DEPLOYMENT}')")
    assert root_bench.do(JobKind.EXPORT_EVENTS, table).changed
    assert properties_of(root_bench.spark, table)[DEPLOYMENT] == ours


def test_concurrent_exports_add_every_event_once(root_bench: Bench, lake: Lake, namespace: str) -> None:
    table = root_bench.table(namespace, "events")
    root_bench.do(JobKind.EXPORT_EVENTS, table)
    happen(lake, namespace, 5)
    with ThreadPoolExecutor(2) as threads:
        for done in [threads.submit(root_bench.do, JobKind.EXPORT_EVENTS, table) for _ in range(2)]:
            done.result()
    exported = sequence(root_bench, table)
    assert len(exported) == len(set(exported))
    assert set(exported) == {seq for seq in known(root_bench) if seq <= max(exported)}


def test_export_resumes_by_rows_or_snapshots(root_bench: Bench, lake: Lake, namespace: str) -> None:
    table = root_bench.table(namespace, "events")
    root_bench.do(JobKind.EXPORT_EVENTS, table)
    place = last_exported(root_bench.spark, table)
    # A snapshot of another writer has no number, and the one with it expires.
    root_bench.do(JobKind.COMPACT, table, {"rewrite-all": True})
    root_bench.do(JobKind.EXPIRE_SNAPSHOTS, table, {"max-snapshot-age-ms": 0})
    marks = root_bench.sql(f"SELECT summary['{LAST_SEQ}'] FROM {table.inside('snapshots')}")
    assert marks == [(None,)]
    assert last_exported(root_bench.spark, table) == place
    happen(lake, namespace, 1)
    root_bench.do(JobKind.EXPORT_EVENTS, table)
    root_bench.sql(f"DELETE FROM {table.sql}")
    assert last_exported(root_bench.spark, table) > place
    assert changed_nothing(root_bench.do(JobKind.EXPORT_EVENTS, table), "no new events")
