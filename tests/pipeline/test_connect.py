"""Jobs over Spark Connect, from a separate process to a server started as operators do."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest

from tests.clients.users import User
from tests.fixtures.ports import free_port
from tests.fixtures.spark import find_or_install_java
from tests.pipeline.bench import SPARK_MARKS, Bench

pytestmark = [*SPARK_MARKS, pytest.mark.heavy]

_START_SECONDS = 120.0

_CLIENT = """
import json, os, sys
from lakebed.client.access import find_access
from lakebed.client.names import TableRef
from lakebed.core.errors import LakebedError
from lakebed.core.jobs import JobKind
from lakebed.core.settings import PipelineSettings
from lakebed.pipeline.jobs import find_job
from lakebed.pipeline.spark.session import spark_session
from lakebed.pipeline.table_ref import CatalogTable

master, warehouse, namespace = sys.argv[1:]
access = find_access()
spark = spark_session(access, warehouse, PipelineSettings(master=master))
table = CatalogTable(TableRef(warehouse, (namespace,), "t"), access)
spark.sql(f"CREATE TABLE {table.sql} (id BIGINT) USING iceberg").collect()
for number in range(5):
    spark.sql(f"INSERT INTO {table.sql} VALUES ({number})").collect()

def done(kind, dry_run=False, **options):
    try:
        report = find_job(kind).do(spark, table, {name.replace("_", "-"): value for name, value in options.items()},
                                   dry_run=dry_run)
    except LakebedError as error:
        print(kind, error, file=sys.stderr)
        return type(error).__name__
    return report.changed

print(json.dumps({
    "dry-run": done(JobKind.COMPACT, dry_run=True),
    "manifests": done(JobKind.REWRITE_MANIFESTS),
    "compact": done(JobKind.COMPACT),
    "expire": done(JobKind.EXPIRE_SNAPSHOTS, max_snapshot_age_ms=0),
    "orphans": done(JobKind.REMOVE_ORPHANS),
    "statistics": done(JobKind.COMPUTE_STATISTICS),
    "wrong": done(JobKind.COMPACT, where="nonsense = 1", rewrite_all=True),
    "verify": done(JobKind.VERIFY),
    "rows": [row.id for row in spark.sql(f"SELECT id FROM {table.sql} ORDER BY id").collect()],
}))
"""

_WORKER = """
import sys
from lakebed.client.access import find_access
from lakebed.core.errors import LakebedError
from lakebed.core.jobs import JobKind, TaskSpec
from lakebed.core.settings import PipelineSettings
from lakebed.pipeline.spark.job_runner import SparkJobRunner
from lakebed.pipeline.progress import NoProgress

master, warehouse, namespace = sys.argv[1:]
runner = SparkJobRunner(find_access(), PipelineSettings(master=master))
spec = TaskSpec(job=JobKind.COMPACT, warehouse=warehouse, namespace=(namespace,), table="t", options={})
for _ in sys.stdin:
    try:
        runner.start(NoProgress())
        print(runner.run(spec, NoProgress()).changed, flush=True)
    except LakebedError as error:
        print(type(error).__name__, error, flush=True)
"""


@pytest.fixture
def environment(bench: Bench, engineer: User) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "LAKEBED_", "SPARK_"))}
    return {
        **kept,
        "JAVA_HOME": str(find_or_install_java()),
        "LAKEBED_ENDPOINT": bench.access.endpoint,
        "AWS_ACCESS_KEY_ID": engineer.keys.access_key,
        "AWS_SECRET_ACCESS_KEY": engineer.keys.secret_key,
        "AWS_EC2_METADATA_DISABLED": "true",
    }


class ConnectServer:
    """A Spark Connect server with the configuration of `lakebed spark-config`, on a fixed port."""

    def __init__(self, conf: Path, environment: dict[str, str], folder: Path) -> None:
        self._port = free_port()
        submit = str(Path(pyspark.__file__).parent / "bin" / "spark-submit")
        self._command = [submit, "--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
        self._command += ["--master", "local[2]", "--properties-file", str(conf), "--conf", "spark.ui.enabled=false"]
        self._command += ["--conf", f"spark.connect.grpc.binding.port={self._port}", "spark-internal"]
        self._environment = environment
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"sc://127.0.0.1:{self._port}"

    def start(self) -> None:
        log = self._folder / "connect.log"
        with log.open("wb") as words:
            self._process = subprocess.Popen(
                self._command,
                env=self._environment,
                cwd=self._folder,
                stdout=words,
                stderr=words,
                start_new_session=True,
            )
        _wait(self._process, self._port, log)

    def kill(self) -> None:
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None


@pytest.fixture
def connect_server(bench: Bench, environment: dict[str, str], tmp_path: Path) -> Iterator[ConnectServer]:
    conf = tmp_path / "spark.conf"
    command = [sys.executable, "-m", "lakebed", "spark-config", "--output", str(conf)]
    subprocess.run([*command, "--warehouse", bench.lake.warehouse], env=environment, cwd=tmp_path, check=True)
    server = ConnectServer(conf, environment, tmp_path)
    try:
        server.start()
        yield server
    finally:
        server.kill()


def _wait(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise RuntimeError(f"the Spark Connect server did not start:\n{log.read_text(errors='replace')}")


def test_jobs_without_jvm_access_run_over_spark_connect(
    bench: Bench, connect_server: ConnectServer, environment: dict[str, str], namespace: str, tmp_path: Path
) -> None:
    command = [sys.executable, "-W", "ignore", "-c", _CLIENT, connect_server.address, bench.lake.warehouse, namespace]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])  # Any: JSON
    assert found == {
        "dry-run": "NotSupported",
        "manifests": True,
        "compact": True,
        "expire": True,
        "orphans": False,
        "statistics": True,
        "wrong": "InvalidInput",
        "verify": "NotSupported",
        "rows": [0, 1, 2, 3, 4],
    }, done.stderr


def test_job_runner_reconnects_to_a_restarted_connect_server(
    bench: Bench, connect_server: ConnectServer, environment: dict[str, str], namespace: str, tmp_path: Path
) -> None:
    command = [sys.executable, "-W", "ignore", "-c", _WORKER, connect_server.address, bench.lake.warehouse, namespace]
    with subprocess.Popen(
        command, env=environment, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as worker:
        table = bench.table(namespace)
        bench.sql(f"CREATE TABLE {table.sql} (id BIGINT) USING iceberg")

        def compacted() -> str:
            """Number of files after compacting five."""
            for number in range(5):
                bench.sql(f"INSERT INTO {table.sql} VALUES ({number})")
            assert worker.stdin is not None
            assert worker.stdout is not None
            print(file=worker.stdin, flush=True)
            return worker.stdout.readline().strip()

        try:
            assert compacted() == "True"
            connect_server.kill()
            connect_server.start()
            assert compacted() == "True"
        finally:
            worker.kill()
    assert sorted(bench.rows(table)) == sorted((number,) for number in range(5) for _ in range(2))
