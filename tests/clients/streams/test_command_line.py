"""`lakebed streams` on a running server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from tests.clients.streams.serving import StreamServer, make_table

pytestmark = pytest.mark.integration

Run = Callable[..., "subprocess.CompletedProcess[bytes]"]


@pytest.fixture
def run(streams: StreamServer) -> Run:
    """Run a task on a table as root; what it printed."""
    environment = {
        **os.environ,
        "LAKEBED_ACCESS_KEY": streams.server.access_key,
        "LAKEBED_SECRET_KEY": streams.server.secret_key,
    }

    def run(task: str, table: str, *flags: str, rows: str = "") -> subprocess.CompletedProcess[bytes]:
        command = [sys.executable, "-m", "lakebed", "streams", task, table, "--address", streams.address, *flags]
        return subprocess.run(
            command, env=environment, input=rows.encode(), capture_output=True, timeout=120, check=False
        )

    return run


def printed(done: subprocess.CompletedProcess[bytes]) -> Any:  # Any: a JSON document
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_log_table_from_its_making_to_its_lag(run: Run, database: str) -> None:
    table = f"{database}.orders"
    columns = ["--column", "id:bigint", "--column", "total:decimal(10,2)", "--column", "at:timestamp"]
    made = printed(run("create", table, *columns, "--buckets", "2", "--option", "table.log.ttl=1d", "--json"))
    assert made["bucket_count"] == 2
    assert made["properties"]["table.log.ttl"] == "1d"
    assert run("create", table, *columns).returncode == 2
    assert run("create", table, *columns, "--if-not-exists").returncode == 0
    rows = '{"id":1,"total":"1.50","at":"2024-01-02T03:04:05"}\n{"id":2}\n'
    assert printed(run("produce", table, "--json", rows=rows)) == {"appended": "2"}
    assert printed(run("produce", table, "--json")) == {"appended": "0"}
    records = [
        json.loads(line) for line in run("tail", table, "--from-start", "--no-follow", "--json").stdout.splitlines()
    ]
    assert [(record["offset"], record["change"], record["row"]) for record in records] == [
        (0, "+A", {"id": 1, "total": "1.50", "at": "2024-01-02 03:04:05"}),
        (1, "+A", {"id": 2, "total": None, "at": None}),
    ]
    assert len(run("tail", table, "--from-start", "--limit", "1").stdout.splitlines()) == 1
    assert run("tail", table, "--no-follow").stdout == b""
    found = printed(run("describe", table, "--json"))
    assert [(part["bucket"], part["start"], part["end"]) for part in found["offsets"]] == [(0, 0, 2), (1, 0, 0)]
    assert printed(run("lag", table, "--json")) == [
        {"partition": "", "bucket": 0, "end": 2, "lake": None, "lag": 2},
        {"partition": "", "bucket": 1, "end": 0, "lake": None, "lag": 0},
    ]


async def test_changes_of_keys(run: Run, connection: Any, table_path: Any) -> None:
    table = await make_table(connection, table_path, primary_key=["id"])
    writer = table.new_upsert().create_writer()
    for score in (1.0, 2.0):
        await writer.upsert({"id": 7, "name": "n", "score": score}).wait()
    done = run("tail", f"{table_path.database_name}.{table_path.table_name}", "--from-start", "--no-follow", "--json")
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(record["change"], record["row"]["score"]) for record in records] == [("+I", 1.0), ("-U", 1.0), ("+U", 2.0)]


def test_partitions_are_named(run: Run, database: str) -> None:
    table = f"{database}.daily"
    options = ["--option", "table.auto-partition.enabled=true", "--partition-by", "day"]
    made = printed(run("create", table, "--column", "id:int", "--column", "day:string", *options, "--json"))
    day = made["offsets"][0]["partition"]
    assert run("tail", table).returncode == 2
    assert printed(run("produce", table, "--partition", day, "--json", rows='{"id":1,"day":"x"}\n')) == {
        "appended": "1"
    }
    lag = {part["partition"]: part["lag"] for part in printed(run("lag", table, "--json"))}
    assert lag[day] == 1
    assert len(lag) == 2


@pytest.mark.parametrize(
    ("task", "flags", "rows"),
    [
        ("describe", [], ""),
        ("lag", [], ""),
        ("tail", ["--no-follow"], ""),
        ("produce", [], "{}"),
        ("create", ["--column", "id:what"], ""),
        ("create", ["--column", "id:int", "--option", "nonsense"], ""),
        ("create", ["--column", "id:int", "--option", "table.nonsense=1"], ""),
    ],
)
def test_what_cannot_be_done_is_one_line(run: Run, database: str, task: str, flags: list[str], rows: str) -> None:
    done = run(task, f"{database}.nothing", *flags, rows=rows)
    assert done.returncode == 2
    assert done.stderr.startswith(b"lakebed: ")
    assert len(done.stderr.splitlines()) == 1


def test_rows_that_are_none_of_the_table(run: Run, database: str) -> None:
    table = f"{database}.t"
    assert run("create", table, "--column", "id:int", "--key", "id").returncode == 0
    assert b"primary key" in run("produce", table, rows='{"id":1}\n').stderr
    assert run("create", f"{table}2", "--column", "id:int").returncode == 0
    for rows in ('{"nope":1}\n', "what\n", '{"id":"x"}\n'):
        assert run("produce", f"{table}2", rows=rows).returncode == 2
