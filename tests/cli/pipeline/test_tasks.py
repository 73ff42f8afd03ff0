from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lakebed.cli.pipeline.tasks import configure_tasks
from lakebed.client import LakebedClient
from lakebed.client.policies import namespace_target
from lakebed.core.errors import InvalidInput, InvalidName, NoSuchTable, NotFound, Unavailable
from tests.client.conftest import Lake, access_to
from tests.fixtures.ports import free_port
from tests.fixtures.server import running_server

pytestmark = [pytest.mark.integration, pytest.mark.slow]

RunCommand = Callable[..., str]

NO_PLANNING = ("--set", "pipeline.schedule_interval=1h", "--set", "pipeline.debounce=1h")
"""The scheduler plans nothing while these tests run."""

PACKING = {"enable": True, "config": {"min-input-files": 2}}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """A server for this module only."""
    data = tmp_path_factory.mktemp("tasks") / "data"
    with running_server(data, *NO_PLANNING, workers=1) as server, LakebedClient(access=access_to(server)) as client:
        yield Lake(server, client, client._connection)


@pytest.fixture
def run_command(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> RunCommand:
    """Run a subcommand against the server and return its output. Raises SystemExit for invalid arguments."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LAKEBED_ENDPOINT", lake.server.endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", lake.server.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", lake.server.secret_key)

    def run(*words: str) -> str:
        parser = argparse.ArgumentParser()
        configure_tasks(parser.add_subparsers(required=True))
        arguments = parser.parse_args(words)
        assert arguments.task(arguments) == 0
        return capsys.readouterr().out

    return run


def printed(text: str) -> Any:  # Any: JSON
    return json.loads(text)


def test_job_is_submitted_listed_and_shown(lake: Lake, run_command: RunCommand) -> None:
    table = lake.table()
    words = ("submit", "verify-table", "--warehouse", table.warehouse, "--table", "ns.t", "--option", "checksums=true")
    made = printed(run_command(*words, "--reason", "a doubt", "--json"))
    assert made["order"]["options"] == {"checksums": True}
    assert made["order"]["reason"] == "a doubt"
    assert "a task for the same job and table is already open" in run_command(*words)

    listed = printed(run_command("tasks", "--state", "ready", "--kind", "verify-table", "--json"))
    assert made["id"] in [task["id"] for task in listed]
    lines = run_command("tasks").splitlines()
    assert lines[0].split() == ["id", "job", "table", "state", "attempts", "news"]
    assert any(f"{table.warehouse}.ns.t" in line and "a doubt" in line for line in lines)
    assert len(run_command("tasks", "--limit", "0").splitlines()) == 1
    shown = run_command("tasks", str(made["id"]))
    assert "reason        a doubt" in shown
    assert "requested by  root" in shown


def test_export_events_has_a_default_table(lake: Lake, run_command: RunCommand) -> None:
    warehouse = lake.table().warehouse
    made = printed(run_command("submit", "export-events", "--warehouse", warehouse, "--json"))
    assert (made["order"]["warehouse"], made["order"].get("table")) == (warehouse, None)


def test_dead_task_is_redriven(lake: Lake, run_command: RunCommand) -> None:
    table = lake.table()
    submitted = run_command("submit", "rewrite-layout", "--warehouse", table.warehouse, "--table", "ns.t", "--json")
    task_id = printed(submitted)["id"]
    (leased,) = lake.client.tasks.lease("w", [printed(submitted)["kind"]], lease_seconds=60)
    assert f"run by {leased.worker}" in run_command("tasks", "--state", "claimed")
    lake.client.tasks.fail(leased, "no java here", retry=False)
    assert "no java here" in run_command("tasks", "--state", "dead")
    assert printed(run_command("redrive", str(task_id), "--json"))["state"] == "ready"
    with pytest.raises(NotFound):
        run_command("redrive", str(task_id))


def test_plan_is_shown_with_reasons_and_submitted_with_enqueue(lake: Lake, run_command: RunCommand) -> None:
    table, policies = lake.table(), lake.client.policies
    where = ("--warehouse", table.warehouse, "--table", "ns.t")
    assert run_command("plan", *where) == "no policy applies to the table\n"
    lake.append(table, times=3)
    policies.create(table.warehouse, ("ns",), "pack", "system.data-compaction", PACKING)
    policies.create(table.warehouse, ("ns",), "off", "system.snapshot-expiry", {"enable": False})
    for name in ("pack", "off"):
        policies.attach(table.warehouse, ("ns",), name, namespace_target(("ns",)))
    shown = run_command("plan", *where).splitlines()
    assert shown[0].startswith("compact-table: policy ns.pack v0, inherited from namespace ns; ")
    assert "(3 files, " in shown[0]
    assert shown[1:] == [
        "skipped: system.snapshot-expiry: policy ns.off v0, inherited from namespace ns; it is disabled"
    ]
    why = run_command("policies", *where)
    assert "policy ns.pack v0, inherited from namespace ns" in why
    assert [one["name"] for one in printed(run_command("policies", *where, "--json"))] == ["pack", "off"]

    enacted = printed(run_command("plan", *where, "--enqueue", "--json"))
    (placed,) = enacted["tasks"]
    (task,) = [one for one in printed(run_command("tasks", "--json")) if one["id"] == placed["id"]]
    assert (task["kind"], task["order"]["policy"]["name"]) == ("compact-table", "pack")
    assert f"task {placed['id']}: compact-table {table}" in run_command("plan", *where, "--enqueue")


def test_health_of_tables_is_printed(lake: Lake, run_command: RunCommand) -> None:
    table = lake.table()
    assert [one["table"] for one in printed(run_command("health", "--warehouse", table.warehouse, "--json"))] == ["t"]
    lines = run_command("health", "--warehouse", table.warehouse, "--table", "ns.t").splitlines()
    assert lines[1].split()[:2] == ["ns.t", "0"]


def test_errors_name_the_argument(
    lake: Lake, run_command: RunCommand, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    warehouse = lake.warehouse()
    with pytest.raises(NoSuchTable):
        run_command("plan", "--warehouse", warehouse, "--table", "ns.none")
    with pytest.raises(InvalidName):
        run_command("plan", "--warehouse", warehouse, "--table", "t")
    with pytest.raises(InvalidInput, match="--warehouse"):
        run_command("plan", "--table", "ns.t")
    with pytest.raises(InvalidInput, match="name=value"):
        run_command("submit", "verify-table", "--warehouse", warehouse, "--table", "ns.t", "--option", "checksums")
    with pytest.raises(SystemExit):
        run_command("tasks", "--kind", "bake-bread")
    assert "invalid choice: 'bake-bread' (choose from 'compact-table'" in capsys.readouterr().err
    monkeypatch.setattr("lakebed.client.connection._FIRST_PAUSE_SECONDS", 0.001)
    monkeypatch.setenv("LAKEBED_ENDPOINT", f"http://127.0.0.1:{free_port()}")
    with pytest.raises(Unavailable, match="check that it runs"):
        run_command("tasks")
