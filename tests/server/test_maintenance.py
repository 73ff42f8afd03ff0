"""A server that schedules table maintenance: policies and commits create tasks without a request."""

from __future__ import annotations

import hashlib
import json
import uuid
from pathlib import Path
from typing import Any

import pytest

from tests.clients.boto import root_keys
from tests.clients.iceberg.lake import Lake, new_lake
from tests.clients.iceberg.rows import SCHEMA, people
from tests.clients.plain_http import fetch
from tests.clients.signing import Signer
from tests.fixtures.server import running_server

from .running_processes import kill_worker, wait_until, workers_of

pytestmark = [pytest.mark.integration, pytest.mark.slow]

SOON = ("--set", "pipeline.debounce=100ms", "--set", "pipeline.schedule_interval=1h")


def ask(lake: Lake, method: str, path: str, document: object = None) -> Any:  # Any: JSON
    """Send a request as root that must succeed."""
    url = f"{lake.server.endpoint}{path}"
    body = b"" if document is None else json.dumps(document).encode()
    headers = Signer(root_keys(lake.server)).headers(method, url, hashlib.sha256(body).hexdigest())
    answer = fetch(method, url, headers=headers, body=body)
    assert answer.status in (200, 201, 204), answer.body
    return json.loads(answer.body) if answer.body else None


def tasks_of(lake: Lake) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = ask(lake, "GET", "/lakebed/v1/tasks")["tasks"]
    return found


def a_namespace(lake: Lake) -> str:
    namespace = f"ns_{uuid.uuid4().hex[:16]}"
    lake.call("POST", "namespaces", {"namespace": [namespace]})
    return namespace


def attach_compaction(lake: Lake, namespace: str, **config: Any) -> None:
    """Attach a compaction policy to a namespace."""
    policies = f"/polaris/v1/{lake.warehouse}/namespaces/{namespace}/policies"
    content = json.dumps({"enable": True, "config": config})
    ask(lake, "POST", policies, {"name": "p", "type": "system.data-compaction", "content": content})
    ask(lake, "PUT", f"{policies}/p/mappings", {"target": {"type": "namespace", "path": [namespace]}})


def append(lake: Lake, namespace: str, files: int) -> None:
    with lake.catalog() as catalog:
        identifier = (namespace, "t")
        table = catalog.load_table(identifier) if catalog.table_exists(identifier) else None
        table = table or catalog.create_table(identifier, SCHEMA)
        for number in range(files):
            table.append(people(number))


def test_policy_and_commits_create_a_task(tmp_path: Path) -> None:
    with running_server(tmp_path / "data", *SOON) as server:
        lake = new_lake(server)
        namespace = a_namespace(lake)
        attach_compaction(lake, namespace, **{"min-input-files": 3})
        append(lake, namespace, 3)
        wait_until(lambda: bool(tasks_of(lake)), "a task is planned after the commits")
        (task,) = tasks_of(lake)
        assert (task["kind"], task["state"]) == ("compact-table", "ready")
        assert task["order"]["options"] == {"min-input-files": 3}
        assert f"inherited from namespace {namespace}; 3 of 3 data files are under" in task["order"]["reason"]
        assert f"policy {namespace}.p v0" in task["order"]["reason"]


def test_policy_attached_after_the_commits_creates_a_task(tmp_path: Path) -> None:
    with running_server(tmp_path / "data", *SOON) as server:
        lake = new_lake(server)
        namespace = a_namespace(lake)
        append(lake, namespace, 3)
        attach_compaction(lake, namespace, **{"min-input-files": 3})
        wait_until(lambda: bool(tasks_of(lake)), "a task is planned after the policy")


def test_another_process_plans_after_the_planner_is_killed(tmp_path: Path) -> None:
    with running_server(tmp_path / "data", *SOON, workers=2) as server:
        lake = new_lake(server)
        namespace = a_namespace(lake)
        attach_compaction(lake, namespace, **{"min-input-files": 3})
        append(lake, namespace, 2)
        # Either process may be the planner, so both are killed; their replacements continue from the commits.
        for worker in workers_of(server):
            kill_worker(worker)
        wait_until(lambda: len(workers_of(server)) == 2, "two workers again")
        append(lake, namespace, 1)
        wait_until(lambda: bool(tasks_of(lake)), "a task is planned by another process")
        assert len(tasks_of(lake)) == 1
