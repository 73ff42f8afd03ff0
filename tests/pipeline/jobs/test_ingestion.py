"""Auto-ingest: files below a prefix are added to the table exactly once, by their events."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from lakebed.client import LakebedClient, PendingFile
from lakebed.core.errors import InvalidInput
from lakebed.core.jobs import JobKind
from lakebed.pipeline.jobs.ingestion import first_of
from lakebed.pipeline.table_ref import CatalogTable
from tests.pipeline.bench import SPARK_MARKS, Bench, changed_nothing

pytestmark = SPARK_MARKS

INGEST = JobKind.INGEST


@pytest.fixture
def landing(s3: Any) -> str:
    """The bucket for incoming files."""
    name = f"landing-{uuid.uuid4().hex[:16]}"
    s3.create_bucket(Bucket=name)
    return name


@pytest.fixture
def client(root_bench: Bench) -> Iterator[LakebedClient]:
    with LakebedClient(access=root_bench.access) as client:
        yield client


def add_ingest_rule(client: LakebedClient, s3: Any, landing: str, table: CatalogTable, format: str = "csv") -> None:
    """Create a pipeline target for the table, and a bucket rule for it."""
    settings = {"source": f"{landing}/in/", "table": str(table.ref), "format": format}
    arn = client.targets.put("pipeline", f"t-{uuid.uuid4().hex[:16]}", settings).arn
    rule = {
        "QueueArn": arn,
        "Events": ["s3:ObjectCreated:*"],
        "Filter": {"Key": {"FilterRules": [{"Name": "prefix", "Value": "in/"}]}},
    }
    s3.put_bucket_notification_configuration(Bucket=landing, NotificationConfiguration={"QueueConfigurations": [rule]})


def arrived(client: LakebedClient, table: CatalogTable, count: int) -> list[PendingFile]:
    """Wait for `count` pending files."""
    deadline = time.monotonic() + 60
    while len(found := list(client.arrivals.list(table.ref))) < count:
        assert time.monotonic() < deadline, "timeout waiting for files"
        time.sleep(0.02)
    return found


def numbers(bench: Bench, table: CatalogTable) -> list[int]:
    return [row[0] for row in bench.sql(f"SELECT id FROM {table.sql} ORDER BY id")]


def test_rule_starts_a_job_that_adds_files_once(
    root_bench: Bench, client: LakebedClient, s3: Any, landing: str, namespace: str
) -> None:
    table = root_bench.table(namespace, "sales")
    add_ingest_rule(client, s3, landing, table)
    s3.put_object(Bucket=landing, Key="in/1.csv", Body=b"id,name\n1,a\n2,b\n")
    s3.put_object(Bucket=landing, Key="elsewhere/0.csv", Body=b"id,name\n99,z\n")
    s3.put_object(Bucket=landing, Key="in/ü 2.csv", Body=b"id,name\n3,c\n")
    first, second = arrived(client, table, 2)
    assert [task.spec.table for task in client.tasks.list(kind=INGEST) if task.spec.namespace == (namespace,)] == [
        "sales"
    ]
    assert root_bench.do(INGEST, table, dry_run=True).read.files == 2
    report = root_bench.do(INGEST, table)
    assert (report.read.files, report.read.rows, len(report.snapshots)) == (2, 3, 1)
    assert root_bench.sql(f"SELECT id, name, _event, _source, _ingest FROM {table.sql} ORDER BY id") == [
        (1, "a", first.event, f"{landing}/in/1.csv", 1),
        (2, "b", first.event, f"{landing}/in/1.csv", 1),
        (3, "c", second.event, f"{landing}/in/ü 2.csv", 1),
    ]
    assert changed_nothing(root_bench.do(INGEST, table), "no pending files")
    s3.put_object(Bucket=landing, Key="in/3.csv", Body=b"name,id\nd,4\n")
    arrived(client, table, 1)
    root_bench.do(INGEST, table)
    assert numbers(root_bench, table) == [1, 2, 3, 4]


def test_repeated_events_and_concurrent_jobs_add_no_duplicates(
    root_bench: Bench,
    client: LakebedClient,
    s3: Any,
    landing: str,
    namespace: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = root_bench.table(namespace, "sales")
    add_ingest_rule(client, s3, landing, table, "json")
    for number in range(4):
        s3.put_object(Bucket=landing, Key=f"in/{number}.json", Body=b'{"id": %d}\n' % number)
    arrived(client, table, 4)
    # As after a crash between the commit and its acknowledgement: the files are still pending.
    with monkeypatch.context() as patched:
        patched.setattr("lakebed.client.tables.PendingFiles.take", _killed)
        with pytest.raises(_Killed):
            root_bench.do(INGEST, table, {"batch-limit": 3})
    assert numbers(root_bench, table) == [0, 1, 2]
    with ThreadPoolExecutor(2) as threads:
        for done in [threads.submit(root_bench.do, INGEST, table, {"batch-limit": 2}) for _ in range(2)]:
            done.result()
    assert numbers(root_bench, table) == [0, 1, 2, 3]
    # Also after compaction and snapshot expiration.
    root_bench.do(JobKind.COMPACT, table, {"rewrite-all": True})
    root_bench.do(JobKind.EXPIRE_SNAPSHOTS, table, {"max-snapshot-age-ms": 0})
    s3.put_object(Bucket=landing, Key="in/4.json", Body=b'{"id": 4}\n')
    arrived(client, table, 1)
    root_bench.do(INGEST, table)
    assert numbers(root_bench, table) == [0, 1, 2, 3, 4]


def test_events_of_different_deployments_with_equal_numbers_are_distinct(
    root_bench: Bench, client: LakebedClient, s3: Any, landing: str, namespace: str
) -> None:
    table = root_bench.table(namespace, "sales")
    add_ingest_rule(client, s3, landing, table)
    for number in (1, 2):
        s3.put_object(Bucket=landing, Key=f"in/{number}.csv", Body=b"id\n%d\n" % number)
    first, second = arrived(client, table, 2)
    # As of an earlier version: one file of this deployment, and one of another.
    root_bench.sql(f"CREATE TABLE {table.sql} (id BIGINT, _event BIGINT, _source STRING, _ingest BIGINT) USING iceberg")
    root_bench.sql(
        f"INSERT INTO {table.sql} VALUES (1, {first.event}, '{first.source}', 1), (-2, {second.event}, 'other/x', 1)"
    )
    report = root_bench.do(INGEST, table)
    assert [one.reason for one in report.skipped] == [f"event {first.event} is in the table already"]
    assert numbers(root_bench, table) == [-2, 1, 2]
    s3.put_object(Bucket=landing, Key="in/3.csv", Body=b"id\n3\n")
    (third,) = arrived(client, table, 1)
    root_bench.sql(f"INSERT INTO {table.sql} VALUES (-3, {third.event}, '{third.source}', 3, '{'a' * 26}')")
    root_bench.do(INGEST, table)
    assert numbers(root_bench, table) == [-3, -2, 1, 2, 3]
    found = root_bench.sql(f"SELECT DISTINCT _deployment FROM {table.sql} WHERE id IN (2, 3)")
    assert found == [(third.deployment,)]


def test_unreadable_file_does_not_block_others(
    root_bench: Bench, client: LakebedClient, s3: Any, landing: str, namespace: str
) -> None:
    table = root_bench.table(namespace, "sales")
    root_bench.sql(f"CREATE TABLE {table.sql} (id BIGINT, name STRING) USING iceberg")
    add_ingest_rule(client, s3, landing, table)
    bodies = {
        "good": b"id,name\n1,a\n",
        "bad": b"\xff\xfe",
        "stranger": b"id,colour\n2,red\n",
        "gone": b"id\n3\n",
        "replaced": b"id\n4\n",
    }
    for name, body in bodies.items():
        s3.put_object(Bucket=landing, Key=f"in/{name}.csv", Body=body)
    arrived(client, table, len(bodies))
    s3.delete_object(Bucket=landing, Key="in/gone.csv")
    s3.put_object(Bucket=landing, Key="in/replaced.csv", Body=b"id\n5\n")
    arrived(client, table, len(bodies) + 1)
    report = root_bench.do(INGEST, table)
    assert sorted(problem.what.rpartition("/")[2] for problem in report.problems) == ["bad.csv", "stranger.csv"]
    assert sorted(one.what.rpartition("/")[2] for one in report.skipped) == ["gone.csv", "replaced.csv"]
    assert root_bench.sql(f"SELECT id, name FROM {table.sql} ORDER BY id") == [(1, "a"), (5, None)]
    assert list(client.arrivals.list(table.ref)) == []


def test_table_with_rows_of_unknown_files_is_rejected(
    root_bench: Bench, client: LakebedClient, s3: Any, landing: str, namespace: str
) -> None:
    table = root_bench.table(namespace, "sales")
    root_bench.sql(f"CREATE TABLE {table.sql} USING iceberg AS SELECT id FROM range(3)")
    add_ingest_rule(client, s3, landing, table)
    s3.put_object(Bucket=landing, Key="in/1.csv", Body=b"id\n7\n")
    arrived(client, table, 1)
    with pytest.raises(InvalidInput, match="rows of unknown files"):
        root_bench.do(INGEST, table)
    assert numbers(root_bench, table) == [0, 1, 2]


def test_commit_has_a_batch_of_at_least_one_file() -> None:
    files = [PendingFile(event=number, source="b/k", bytes=10) for number in range(5)]
    assert first_of(files, 3, 1000) == files[:3]
    assert first_of(files, 10, 25) == files[:2]
    assert first_of(files, 10, 1) == files[:1]


class _Killed(Exception):
    pass


def _killed(*_: object) -> None:
    raise _Killed
