"""A writer commits in a loop while its table is compacted continuously: no row is lost and no commit fails.

The writer uses its default retries. On conflicts maintenance yields.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from lakebed.client import TableRef, TaskState
from lakebed.core.jobs import JobKind
from tests.clients.iceberg.rows import people
from tests.fixtures.server import running_server
from tests.pipeline.bench import SPARK_MARKS, Bench, new_bench
from tests.pipeline.maintenance_run import SOON, MaintainedLake, maintained_lake, running_worker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [*SPARK_MARKS, pytest.mark.heavy]

SECONDS: Final = float(os.environ.get("FAULT_SECONDS", "120"))
LEAST_COMPACTIONS: Final = 3

Write = Callable[[int], None]
"""Adds the row with this id in one commit."""


@pytest.fixture(scope="module")
def maintained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MaintainedLake]:
    folder = tmp_path_factory.mktemp("writers")
    with running_server(folder / "data", workers=2, **SOON) as server, maintained_lake(server, folder) as found:
        yield found


@pytest.fixture(scope="module")
def bench(spark: SparkSession, maintained: MaintainedLake) -> Bench:
    return new_bench(spark, maintained.lake, maintained.worker_keys)


def pyiceberg_writer(maintained: MaintainedLake, bench: Bench, ref: TableRef) -> Iterator[Write]:
    with maintained.loaded(ref) as table:
        yield lambda number: table.append(people(number))


def spark_writer(maintained: MaintainedLake, bench: Bench, ref: TableRef) -> Iterator[Write]:
    name = bench.table(*ref.namespace).sql

    def write(number: int) -> None:
        bench.sql(f"INSERT INTO {name} VALUES ({number}, 'name-{number}', DATE '2026-01-01')")

    yield write


@pytest.mark.parametrize("writer", [pyiceberg_writer, spark_writer])
def test_commits_succeed_during_maintenance(
    maintained: MaintainedLake,
    bench: Bench,
    tmp_path: Path,
    writer: Callable[[MaintainedLake, Bench, TableRef], Iterator[Write]],
) -> None:
    namespace = maintained.namespace()
    # All three run continuously: compaction, metadata compaction and snapshot expiration.
    maintained.attach(namespace, "system.data-compaction", min_input_files=5, interval=1)
    maintained.attach(namespace, "system.metadata-compaction", interval=1)
    maintained.attach(
        namespace,
        "system.snapshot-expiry",
        max_snapshot_age_ms=20_000,
        min_snapshots_to_keep=5,
        interval=5,
    )
    ref = maintained.table(namespace)
    written: list[int] = []
    failures: list[str] = []
    stop = threading.Event()

    def work() -> None:
        for write in writer(maintained, bench, ref):
            number = 0
            while not stop.is_set():
                try:
                    write(number)
                except Exception as error:  # counted: no exception should happen
                    failures.append(f"{type(error).__name__}: {str(error)[:300]}")
                else:
                    written.append(number)
                number += 1

    thread = threading.Thread(target=work)
    with running_worker(maintained, tmp_path) as worker:
        # Spark should be running before the measured time.
        maintained.wait_done(maintained.submit(JobKind.VERIFY, ref).id)
        thread.start()
        try:
            time.sleep(SECONDS)
        finally:
            stop.set()
            thread.join()
        assert worker.stop() == 0, worker.said()
    ended = [
        task for task in maintained.tasks_of(ref) if task.state is TaskState.DONE and (task.report or {})["changed"]
    ]
    done = Counter(str(task.kind) for task in ended)
    table = bench.table(namespace)
    found = [row[0] for row in bench.sql(f"SELECT id FROM {table.sql} ORDER BY id")]
    lost = len(set(written) - set(found))
    print(f"commits={len(written)} failed={len(failures)} lost={lost} maintenance={dict(done)}")
    assert failures == []
    assert found == written
    assert done[JobKind.COMPACT] >= LEAST_COMPACTIONS
    assert not [task.failure for task in maintained.tasks_of(ref) if task.state is TaskState.DEAD]
    bench.checksum(table)


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_row_updates_are_atomic_or_rejected_during_compaction(
    maintained: MaintainedLake, bench: Bench, tmp_path: Path, mode: str
) -> None:
    """The client rejects an update whose files were rewritten since it was planned."""
    namespace = maintained.namespace()
    maintained.attach(namespace, "system.data-compaction", min_input_files=2, interval=1)
    table = bench.table(namespace)
    bench.sql(
        f"CREATE TABLE {table.sql} (id BIGINT, n BIGINT) USING iceberg TBLPROPERTIES"
        f" ('write.update.mode' = '{mode}', 'write.delete.mode' = '{mode}')"
    )
    bench.sql(f"INSERT INTO {table.sql} SELECT -id, 0 FROM range(1, 11)")
    made = refused = 0
    with running_worker(maintained, tmp_path) as worker:
        maintained.wait_done(maintained.submit(JobKind.VERIFY, table.ref).id)
        deadline = time.monotonic() + SECONDS / 2
        while time.monotonic() < deadline:
            bench.sql(f"INSERT INTO {table.sql} VALUES ({made + refused}, 0)")
            try:
                bench.sql(f"UPDATE {table.sql} SET n = n + 1 WHERE id < 0")
            except Exception as error:
                assert "ValidationException" in str(error) or "CommitFailed" in str(error), error  # noqa: PT017
                refused += 1
            else:
                made += 1
        assert worker.stop() == 0, worker.said()
    replaced = bench.value(f"SELECT count(*) FROM {table.inside('snapshots')} WHERE operation = 'replace'")
    print(f"mode={mode} made={made} refused={refused} rewrites={replaced}")
    counted = bench.sql(f"SELECT count_if(id >= 0), count_if(id < 0 AND n = {made}) FROM {table.sql}")
    assert counted == [(made + refused, 10)]
    assert replaced > 0
    bench.checksum(table)
