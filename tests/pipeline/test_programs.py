"""Jobs by `lakebed pipeline run` and `spark-submit`, and the shell. Each starts its own Spark."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyspark
import pytest

from lakebed.pipeline.jobs import compaction
from lakebed.pipeline.table_ref import CatalogTable
from tests.clients.users import User
from tests.fixtures.spark import find_or_install_java
from tests.pipeline.bench import SPARK_MARKS, Bench

pytestmark = [*SPARK_MARKS, pytest.mark.heavy]


@pytest.fixture
def scattered(bench: Bench, namespace: str) -> CatalogTable:
    table = bench.table(namespace)
    bench.sql(f"CREATE TABLE {table.sql} (id BIGINT) USING iceberg")
    for number in range(5):
        bench.sql(f"INSERT INTO {table.sql} VALUES ({number})")
    return table


@pytest.fixture
def environment(bench: Bench, engineer: User) -> dict[str, str]:
    """Settings of an operator."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "LAKEBED_", "SPARK_"))}
    return {
        **kept,
        "JAVA_HOME": str(find_or_install_java()),
        "LAKEBED_ENDPOINT": bench.access.endpoint,
        "AWS_ACCESS_KEY_ID": engineer.keys.access_key,
        "AWS_SECRET_ACCESS_KEY": engineer.keys.secret_key,
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def run(command: list[str], environment: dict[str, str], folder: Path, status: int = 0) -> str:
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True)
    assert done.returncode == status, done.stdout + done.stderr
    assert environment["AWS_SECRET_ACCESS_KEY"] not in done.stdout + done.stderr
    return done.stdout


def test_pipeline_run_command_runs_a_job(
    bench: Bench, scattered: CatalogTable, environment: dict[str, str], tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "lakebed", "pipeline", "run", "compact-table"]
    command += ["--warehouse", bench.lake.warehouse, "--table", scattered.ref.name, "--set", "pipeline.master=local[2]"]
    planned = json.loads(run([*command, "--dry-run", "--json"], environment, tmp_path))
    assert (planned["dry-run"], planned["read"]["files"]) == (True, 5)
    report = json.loads(run([*command, "--json"], environment, tmp_path))
    assert (report["changed"], report["wrote"]["files"]) == (True, 1)
    assert bench.rows(scattered) == [(number,) for number in range(5)]
    absent = [*command[:-4], "--table", f"{scattered.ref.namespace[0]}.none"]
    run(absent, environment, tmp_path, status=2)


def test_spark_submit_runs_a_job_with_the_printed_configuration(
    bench: Bench, scattered: CatalogTable, environment: dict[str, str], tmp_path: Path
) -> None:
    lakebed = [sys.executable, "-m", "lakebed"]
    warehouse = ["--warehouse", bench.lake.warehouse]
    file = tmp_path / "spark.conf"
    run([*lakebed, "spark-config", "--output", str(file), *warehouse], environment, tmp_path)
    submit = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--master", "local[2]"]
    submit += ["--properties-file", str(file), "--conf", "spark.ui.enabled=false"]
    program = [compaction.__file__, "--catalog-uri", f"{bench.access.endpoint}/iceberg", *warehouse]
    printed = run(
        [*submit, *program, "--table", scattered.ref.name], {**environment, "PYSPARK_PYTHON": sys.executable}, tmp_path
    )
    report: Any = json.loads(printed[printed.index("{") :])  # Any: JSON
    assert (report["job"], report["wrote"]["files"]) == ("compact-table", 1)
    assert bench.rows(scattered) == [(number,) for number in range(5)]


def test_shell_runs_statements(
    bench: Bench, scattered: CatalogTable, environment: dict[str, str], tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "lakebed", "shell", "--warehouse", bench.lake.warehouse]
    namespace = scattered.ref.namespace[0]
    done = subprocess.run(
        command,
        env=environment,
        cwd=tmp_path,
        input=f"print(sql('SELECT sum(id) FROM {namespace}.t').collect()[0][0] + 4200)\n",
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "4210" in done.stdout
    assert f"table bucket {bench.lake.warehouse}" in done.stderr


def test_secrets_are_not_on_the_command_line_of_any_process(
    bench: Bench, environment: dict[str, str], tmp_path: Path
) -> None:
    script = (
        "import os, subprocess\n"
        "from lakebed.client.access import find_access\n"
        "from lakebed.core.settings import PipelineSettings\n"
        "from lakebed.pipeline.spark.session import spark_session\n"
        f"spark = spark_session(find_access(), {bench.lake.warehouse!r}, PipelineSettings(master='local[1]'))\n"
        "spark.sql('SHOW NAMESPACES IN lakebed').collect()\n"
        "ids = [one for one in os.listdir('/proc') if one.isdigit()]\n"
        "lines = [open(f'/proc/{one}/cmdline', errors='replace').read() for one in ids]\n"
        "mine = [line for line in lines if 'org.apache.spark.deploy.SparkSubmit' in line]\n"
        "print(len(mine) >= 1, any(os.environ['AWS_SECRET_ACCESS_KEY'] in line for line in lines))\n"
        "spark.stop()\n"
    )
    printed = run([sys.executable, "-c", script], environment, tmp_path)
    assert printed.split() == ["True", "False"]


def test_python_tasks_have_no_jar_on_their_module_path(
    bench: Bench, environment: dict[str, str], tmp_path: Path
) -> None:
    """By default PySpark adds the JARs of packages, and each task would read their file lists (ADR 38)."""
    script = (
        "from lakebed.core.settings import PipelineSettings\n"
        "from lakebed.pipeline.spark.session import start_spark\n"
        "spark = start_spark(PipelineSettings(master='local[1]'))\n"
        "print(len(spark.sparkContext._python_includes), spark.range(3).rdd.map(lambda row: row.id).sum())\n"
        "spark.stop()\n"
    )
    assert run([sys.executable, "-c", script], environment, tmp_path).split() == ["0", "3"]
