"""`spark.read.format("lakebed")` on Spark: batch and streaming reads."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakebed.client import Event, LakebedClient, ServerAccess
from lakebed.core.errors import AccessDenied
from lakebed.core.jobs import JobKind
from lakebed.core.secrets import Secret
from lakebed.pipeline.datasource import LakebedSource
from tests.fixtures.server import running_server
from tests.pipeline.bench import SPARK_MARKS, new_bench
from tests.pipeline.maintenance_run import MaintainedLake, maintained_lake, own_runner, run_tasks
from tests.server.running_processes import wait_until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamReader

pytestmark = SPARK_MARKS


@pytest.fixture(scope="module")
def maintained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MaintainedLake]:
    """A server for these tests only."""
    folder = tmp_path_factory.mktemp("source")
    quiet = ("--set", "pipeline.debounce=1h", "--set", "pipeline.schedule_interval=1h")
    with running_server(folder / "data", *quiet, workers=2) as server, maintained_lake(server, folder) as found:
        yield found


@pytest.fixture(scope="module", autouse=True)
def registered(spark: SparkSession) -> None:
    spark.dataSource.register(LakebedSource)


def options(maintained: MaintainedLake, table: str, **more: object) -> dict[str, str]:
    """With root's credentials."""
    server = maintained.lake.server
    given = {"table": table, "endpoint": server.endpoint, **more}
    keys = {"access-key-id": server.access_key, "secret-access-key": server.secret_key}
    return {name: str(value) for name, value in given.items()} | keys


def read(spark: SparkSession, maintained: MaintainedLake, table: str, **more: object) -> DataFrame:
    return spark.read.format("lakebed").options(**options(maintained, table, **more)).load()


def stream(spark: SparkSession, maintained: MaintainedLake, table: str, **more: object) -> DataStreamReader:
    return spark.readStream.format("lakebed").options(**options(maintained, table, **more))


def events_of(maintained: MaintainedLake, **filters: Any) -> list[Event]:  # Any: arguments of pages
    return [event for page in maintained.client.events.pages(**filters) for event in page.events]


def make_events(maintained: MaintainedLake, appends: int = 5) -> None:
    maintained.table(maintained.namespace(), appends=appends)


# -- batches -----------------------------------------------------------------------------------------------------------


def test_events_are_read_in_several_partitions_each_once(spark: SparkSession, maintained: MaintainedLake) -> None:
    make_events(maintained)
    frame = read(spark, maintained, "events", partitions=3)
    assert frame.rdd.getNumPartitions() == 3
    rows = frame.collect()
    expected = events_of(maintained)
    assert [(row.seq, row.kind, row.subject) for row in rows] == [(one.seq, one.kind, one.subject) for one in expected]
    assert frame.selectExpr("unix_millis(occurred) AS ms").collect()[-1].ms == expected[-1].occurred_ms
    committed = frame.where("kind = 'TableCommitted'").selectExpr(
        "get_json_object(payload, '$.operation') AS operation"
    )
    assert {row.operation for row in committed.collect()} == {"append"}


def test_only_requested_kinds_are_read(spark: SparkSession, maintained: MaintainedLake) -> None:
    make_events(maintained)
    after = events_of(maintained)[3].seq
    frame = read(spark, maintained, "events", kinds="TableCommitted,NamespaceCr*", after=after)
    expected = events_of(maintained, after=after, kinds=("TableCommitted", "NamespaceCr*"))
    assert [row.seq for row in frame.collect()] == [one.seq for one in expected]
    assert {row.kind for row in frame.collect()} == {"TableCommitted", "NamespaceCreated"}


def test_audit_log_is_read(spark: SparkSession, maintained: MaintainedLake) -> None:
    expected = [event for page in maintained.client.audit.pages() for event in page.events]
    rows = read(spark, maintained, "audit").collect()
    assert [(row.seq, row.kind) for row in rows] == [(one.seq, one.kind) for one in expected]
    assert {"UserCreated", "AccessKeyCreated"} <= {row.kind for row in rows}
    assert not any(maintained.worker_keys.secret_key in row.payload for row in rows)


def test_refused_attempts_are_read_with_principal_operation_address_and_reason(
    spark: SparkSession, maintained: MaintainedLake
) -> None:
    access = ServerAccess(
        maintained.lake.server.endpoint, maintained.worker_keys.access_key, Secret(maintained.worker_keys.secret_key)
    )
    with LakebedClient(access=access) as worker, pytest.raises(AccessDenied):
        worker.targets.list()
    wait_until(lambda: bool(maintained.client.audit.read(kinds=["AttemptDenied"]).events), "it is in the trail")
    (row,) = read(spark, maintained, "attempts").where("route = 'listTargets'").collect()
    assert (row.outcome, row.edge, row.status, row.source_ip) == ("denied", "admin", 403, "127.0.0.1")
    assert "lakebed:ManageTargets" in row.reason
    assert read(spark, maintained, "attempts", principal=row.principal).count() >= 1
    assert read(spark, maintained, "attempts", principal="another").count() == 0


def test_tasks_are_read_with_reason_and_outcome(spark: SparkSession, maintained: MaintainedLake) -> None:
    ref = maintained.table(maintained.namespace(), appends=3)
    done = maintained.submit(JobKind.COMPACT, ref, min_input_files=2)
    run_tasks(maintained, own_runner(maintained))
    waiting = maintained.submit(JobKind.VERIFY, ref, checksums=True)
    rows = {row.id: row for row in read(spark, maintained, "tasks").collect()}
    assert (rows[done.id].state, rows[done.id].kind, rows[done.id].worker) == (
        "done",
        "compact-table",
        "in this process",
    )
    assert (rows[waiting.id].state, rows[waiting.id].report) == ("ready", None)
    assert rows[waiting.id].options == '{"checksums":true}'
    assert (rows[done.id].warehouse, rows[done.id].namespace, rows[done.id].table) == (
        ref.warehouse,
        [*ref.namespace],
        "t",
    )
    report = read(spark, maintained, "tasks").selectExpr("id", "get_json_object(report, '$.read.files') AS files")
    assert {row.id: row.files for row in report.collect()}[done.id] == "3"


def test_table_health_is_read(spark: SparkSession, maintained: MaintainedLake) -> None:
    ref = maintained.table(maintained.namespace(), appends=4)
    rows = read(spark, maintained, "health", warehouse=ref.warehouse).collect()
    (row,) = [row for row in rows if (row.namespace, row.table) == ([*ref.namespace], ref.table)]
    health = next(maintained.client.tables.healths(ref.warehouse, ref.namespace))
    assert (row.snapshots, row.data_files, row.records) == (4, 4, 40)
    assert (row.data_bytes, row.measured, row.entry) == (health.data_bytes, health.measured, health.entry)
    everywhere = read(spark, maintained, "health")
    assert everywhere.where(f"entry = '{health.entry}'").count() == 1


@pytest.mark.parametrize("table", ["events", "audit", "attempts", "tasks", "health"])
def test_query_plans_contain_no_credentials(spark: SparkSession, maintained: MaintainedLake, table: str) -> None:
    frame = read(spark, maintained, table).where("1 = 1")
    plan = frame._jdf.queryExecution().toString()
    assert "lakebed" in plan
    assert maintained.lake.server.secret_key not in plan
    assert maintained.lake.server.access_key not in plan
    assert maintained.lake.server.secret_key not in repr(frame)


def test_read_without_permission_fails(spark: SparkSession, maintained: MaintainedLake) -> None:
    from pyspark.errors import PySparkException

    keys = {"access-key-id": maintained.worker_keys.access_key, "secret-access-key": maintained.worker_keys.secret_key}
    frame = spark.read.format("lakebed").options(**options(maintained, "audit") | keys)
    with pytest.raises(PySparkException, match="lakebed:ReadAudit") as caught:
        frame.load().collect()
    assert maintained.worker_keys.secret_key not in str(caught.value)


# -- streams -----------------------------------------------------------------------------------------------------------


def running(query: StreamingQuery) -> StreamingQuery:
    """Wait until all current events are in the sink."""
    query.processAllAvailable()
    return query


@pytest.mark.parametrize("partitions", [1, 3])
def test_event_stream_has_each_event_once_in_order(
    spark: SparkSession, maintained: MaintainedLake, partitions: int
) -> None:
    sink = f"sink_{uuid.uuid4().hex[:12]}"
    make_events(maintained)
    frame = stream(spark, maintained, "events", partitions=partitions).load()
    query = frame.writeStream.format("memory").queryName(sink).outputMode("append").start()
    try:
        for _ in range(2):
            running(query)
            found = [(row.seq, row.kind) for row in spark.sql(f"SELECT seq, kind FROM {sink}").collect()]
            assert found == [(one.seq, one.kind) for one in events_of(maintained)]
            make_events(maintained, 2)
        running(query)
        assert spark.sql(f"SELECT count(*) AS n FROM {sink}").collect()[0].n == len(events_of(maintained))
    finally:
        query.stop()


def test_event_stream_into_a_table_resumes(spark: SparkSession, maintained: MaintainedLake, tmp_path: Path) -> None:
    bench = new_bench(spark, maintained.lake, maintained.worker_keys)
    table = bench.table(maintained.namespace(), "log")
    bench.sql(f"CREATE TABLE {table.sql} (seq BIGINT, kind STRING, subject STRING, occurred TIMESTAMP, payload STRING)")
    first = events_of(maintained)[-1].seq
    for _ in range(3):
        make_events(maintained, 2)
        last = events_of(maintained)[-1].seq
        frame = stream(spark, maintained, "events", partitions=2, kinds="TableCommitted", after=first).load()
        # Only current events: each commit of the stream is an event, too.
        writer = frame.writeStream.trigger(availableNow=True).option("checkpointLocation", str(tmp_path / "checkpoint"))
        assert writer.toTable(table.sql).awaitTermination(120)
        expected = [one.seq for one in events_of(maintained, after=first, kinds=("TableCommitted",)) if one.seq <= last]
        found = [row[0] for row in bench.sql(f"SELECT seq FROM {table.sql} WHERE seq <= {last} ORDER BY seq")]
        assert found == expected
    assert len(set(found)) >= 6


def test_event_stream_rejects_a_checkpoint_of_another_deployment(
    spark: SparkSession, maintained: MaintainedLake, tmp_path: Path
) -> None:
    from pyspark.errors import StreamingQueryException

    elsewhere = f"evt_{'a' * 26}_1"
    with pytest.raises(StreamingQueryException, match="an event id of another deployment"):
        running(stream(spark, maintained, "events", after=elsewhere).load().writeStream.format("noop").start())
    checkpoint = str(tmp_path / "checkpoint")
    until = events_of(maintained)[-1]
    with running_server(tmp_path / "data", workers=1) as other:
        options = {"endpoint": other.endpoint, "access-key-id": other.access_key}
        options |= {"secret-access-key": other.secret_key}
        for given, refused in ((options, False), ({}, True)):
            frame = stream(spark, maintained, "events").options(**given).load()
            query = frame.writeStream.format("noop").trigger(availableNow=True).option("checkpointLocation", checkpoint)
            if refused:
                with pytest.raises(StreamingQueryException, match="checkpoint belongs to another deployment"):
                    query.start().awaitTermination(120)
            else:
                assert query.start().awaitTermination(120)
    rows = read(spark, maintained, "events", after=until.id).collect()
    assert [row.seq for row in rows] == [event.seq for event in events_of(maintained, after=until.seq)]


def test_audit_log_can_be_streamed(spark: SparkSession, maintained: MaintainedLake) -> None:
    sink = f"sink_{uuid.uuid4().hex[:12]}"
    query = stream(spark, maintained, "audit").load().writeStream.format("memory").queryName(sink).start()
    try:
        running(query)
        expected = [event.seq for page in maintained.client.audit.pages() for event in page.events]
        assert [row.seq for row in spark.sql(f"SELECT seq FROM {sink}").collect()] == expected
    finally:
        query.stop()
