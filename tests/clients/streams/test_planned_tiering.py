"""Server-side planning of lake tiering: a stream table with untiered records has a task for any worker."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from lakebed.client import LakebedClient, Task, TaskState
from lakebed.client.streams.client import StreamClient
from lakebed.client.streams.lake import LakeTieringClient
from lakebed.client.streams.logs import LATEST, StreamLogWriter
from lakebed.client.streams.tables import describe, list_offsets
from lakebed.core.jobs import JobKind
from lakebed.pipeline.report import JobReport
from tests.clients.boto import connected
from tests.clients.iceberg.lake import Lake
from tests.clients.streams.serving import StreamServer, running_streams

pytestmark = pytest.mark.integration

DOCUMENT = b"""{"version": 1, "bucket_count": 2, "schema": {"version": 1, "highest_field_id": 0, "columns": [
  {"name": "id", "data_type": {"type": "INTEGER"}, "id": 0}]},
  "properties": {"table.datalake.enabled": "true", "table.datalake.freshness": "1s"}}"""


@pytest.fixture(scope="module")
def streams(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StreamServer]:
    flags = ("--set", "streams.warehouse=lake", "--set", "pipeline.embedded_worker=off")
    folder: Path = tmp_path_factory.mktemp("streams")
    with running_streams(folder / "data", *flags) as server:
        with connected(server.server) as s3:
            s3.create_bucket(Bucket="lake")
        assert Lake(server.server, "lake").request("PUT", "buckets/lake").status == 200
        yield server


def client_of(streams: StreamServer) -> LakebedClient:
    server = streams.server
    return LakebedClient(
        server.endpoint, access_key_id=server.access_key, secret_access_key=server.secret_key, region="us-east-1"
    )


def wait_for(found: Callable[[], list[Task]], count: int) -> list[Task]:
    deadline = time.monotonic() + 60
    while len(tasks := found()) < count:
        assert time.monotonic() < deadline, tasks
        time.sleep(0.05)
    return tasks


def test_only_untiered_records_create_a_task(streams: StreamServer) -> None:
    server = streams.server
    with (
        client_of(streams) as client,
        StreamClient(streams.address, server.access_key, server.secret_key) as stream,
    ):

        def tasks() -> list[Task]:
            return list(client.tasks.list(kind=JobKind.TIER_STREAM))

        stream.create_table("fluss", "planned", DOCUMENT)
        writer = StreamLogWriter(stream, stream.table("fluss", "planned"))
        for turn in (1, 2):
            writer.append(pa.record_batch({"id": pa.array([1, 2, 3], pa.int32())}))
            *_, task = wait_for(tasks, turn)
            assert (task.spec.warehouse, task.spec.namespace, task.spec.table) == ("lake", ("fluss",), "planned")
            assert task.spec.options == {"stream": "fluss.planned"}
            assert task.spec.reason.startswith("3 records are not in the lake")
            (leased,) = client.tasks.lease("worker", [JobKind.TIER_STREAM], lease_seconds=60)
            assert leased.id == task.id
            # As the tiering job, without its rows.
            known = describe(stream, "fluss", "planned")
            prepared = LakeTieringClient(stream).prepare(
                known.id, "fluss", "planned", list_offsets(stream, known, LATEST)
            )
            LakeTieringClient(stream).commit(known.id, turn, prepared)
            client.tasks.complete(leased, JobReport(job=JobKind.TIER_STREAM, table="t", dry_run=False, changed=True))
        # Only tables with new records get a task.
        stream.create_table("fluss", "other", DOCUMENT)
        StreamLogWriter(stream, stream.table("fluss", "other")).append(
            pa.record_batch({"id": pa.array([1], pa.int32())})
        )
        wait_for(tasks, 3)
        assert [(task.spec.table, task.state) for task in tasks()] == [
            ("planned", TaskState.DONE),
            ("planned", TaskState.DONE),
            ("other", TaskState.READY),
        ]
