"""A process dies at every step of a catalog change: nothing happened before the commit, everything after it."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import shutil
import signal
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any, Final

import pytest

from tests.catalog.harness import VIEW_VERSION
from tests.faults.data_folder import read_blobs, temporary_files
from tests.objects.stores import ORPHAN_WINDOW_MS
from tests.wire.iceberg.lake import Lake

from . import steps
from .appends import SCHEMA, Append, Head, prepare_append
from .data_folder import find_inconsistencies, read_outbox
from .steps import COMMITTED, PASSED_FILE, Steps, open_catalog, send
from .wire import Call, table_path, tables_path

pytestmark = [pytest.mark.slow, pytest.mark.integration]

_BASE_LOCATION: Final = "s3://lake/homes"
_TABLES: Final = ("a", "b", "c")
_LATER: Final = 2 * ORPHAN_WINDOW_MS // 3_600_000


@dataclass(frozen=True, slots=True)
class Prepared:
    """A folder with a catalog, and the requests that change it."""

    data: Path
    calls: Mapping[str, Call]


SCENARIOS: Final = (
    "append",
    "transaction",
    "create",
    "create-staged",
    "drop",
    "rename",
    "make-namespaces",
    "create-view",
)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    data = tmp_path_factory.mktemp("prepared") / "data"
    data.mkdir()
    return Prepared(data, asyncio.run(_prepare(data)))


@pytest.fixture(scope="module")
def processes() -> ForkServerContext:
    """Forks processes with everything imported."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([steps.__name__])
    return context


async def _prepare(data: Path) -> dict[str, Call]:
    async with open_catalog(data, Steps()) as lake:
        await lake.make_lake()
        await lake.call("POST", "/lake/namespaces", {"namespace": ["other"]})
        for table in _TABLES:
            made = await lake.table(table, location=f"{_BASE_LOCATION}/{table}", schema=SCHEMA)
            assert made.status == 200, made
        to_a = await _upload(lake, prepare_append(Head(f"{_BASE_LOCATION}/a"), 101, writer="w"))
        to_new = await _upload(lake, prepare_append(Head(f"{_BASE_LOCATION}/new"), 102, writer="w"))
    marked: list[dict[str, Any]] = [{"action": "set-properties", "updates": {"mark": "1"}}]
    changes = {"a": (to_a.requirements, to_a.updates), "b": ([], marked), "c": ([], marked)}
    transaction = [
        {"identifier": {"namespace": ["ns"], "name": table}, "requirements": requirements, "updates": updates}
        for table, (requirements, updates) in changes.items()
    ]
    create = [
        {"action": "assign-uuid", "uuid": str(uuid.uuid4())},
        {"action": "upgrade-format-version", "format-version": 2},
        {"action": "add-schema", "schema": SCHEMA},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": {"spec-id": 0, "fields": []}},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": {"order-id": 0, "fields": []}},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "set-location", "location": f"{_BASE_LOCATION}/new"},
        *to_new.updates,
    ]
    names = {"source": {"namespace": ["ns"], "name": "a"}, "destination": {"namespace": ["other"], "name": "moved"}}
    view = {
        "name": "v",
        "schema": SCHEMA,
        "properties": {},
        "location": f"{_BASE_LOCATION}/v",
        "view-version": VIEW_VERSION,
    }
    requests: dict[str, tuple[str, str, object]] = {
        "append": ("POST", table_path("ns", "a"), {"requirements": to_a.requirements, "updates": to_a.updates}),
        "transaction": ("POST", "lake/transactions/commit", {"table-changes": transaction}),
        "create": ("POST", tables_path("ns"), {"name": "new", "schema": SCHEMA, "location": f"{_BASE_LOCATION}/new"}),
        "create-staged": (
            "POST",
            table_path("ns", "new"),
            {"requirements": [{"type": "assert-create"}], "updates": create},
        ),
        "drop": ("DELETE", f"{table_path('ns', 'a')}?purgeRequested=true", None),
        "rename": ("POST", "lake/tables/rename", names),
        "make-namespaces": ("POST", "lake/namespaces", {"namespace": ["x", "y", "z"]}),
        "create-view": ("POST", "lake/namespaces/ns/views", view),
    }
    assert tuple(requests) == SCENARIOS
    return {scenario: Call(*parts, key=str(uuid.uuid4())) for scenario, parts in requests.items()}


async def _upload(lake: Lake, append: Append) -> Append:
    for location, body in append.files.items():
        bucket, _, key = location.removeprefix("s3://").partition("/")
        await lake.store.put(bucket, key, body)
    return append


@pytest.mark.parametrize("is_every_step", [False, pytest.param(True, marks=pytest.mark.heavy)], ids=["some", "every"])
@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_change_is_atomic_at_whatever_step_its_process_dies(
    scenario: str, is_every_step: bool, prepared: Prepared, processes: ForkServerContext, tmp_path: Path
) -> None:
    call = prepared.calls[scenario]
    complete = _copy(prepared, tmp_path / "complete")
    assert _run(processes, complete, call, None) == 0
    passed: list[str] = json.loads((complete / PASSED_FILE).read_text())
    before = await _state(prepared.data)
    after = await _state(complete)
    assert before != after
    at_commit = passed.index(COMMITTED)
    chosen = range(len(passed)) if is_every_step else _some(passed)
    findings: list[str] = []
    orphans = 0
    for number in chosen:
        data = _copy(prepared, tmp_path / f"{number}")
        assert _run(processes, data, call, number) == -signal.SIGKILL
        # At the step of the commit it has just returned.
        found = await _state(data)
        if found != (after if number >= at_commit else before):
            kind = "torn" if found not in (before, after) else "lost" if found == before else "early"
            findings.append(f"{kind}: died at step {number}, {passed[number]}. found={found}")
        problems, swept = await _recover(data, call, after)
        findings += [f"{finding} (died at step {number}, {passed[number]})" for finding in problems]
        orphans += swept
        shutil.rmtree(data)
    counts = " ".join(
        f"{kind}={sum(one.startswith(kind) for one in findings)}" for kind in ("lost", "torn", "dangling")
    )
    print(f"scenario={scenario} kills={len(chosen)} steps={len(passed)} {counts} orphans_swept={orphans}")
    assert not findings, "\n".join([*findings, *passed])


def _copy(prepared: Prepared, data: Path) -> Path:
    shutil.copytree(prepared.data, data)
    return data


def _run(processes: ForkServerContext, data: Path, call: Call, fatal: int | None) -> int | None:
    process = processes.Process(target=steps.run, args=(data, call, fatal))
    process.start()
    process.join()
    return process.exitcode


def _some(passed: list[str]) -> list[int]:
    """One step of each phase of the change."""
    first = [passed.index(name) for name in ("before the file", "file stored") if name in passed]
    begun, at_commit = passed.index("transaction begun"), passed.index(COMMITTED)
    return sorted({*first, (begun + at_commit) // 2, at_commit - 1, at_commit})


async def _recover(data: Path, call: Call, after: object) -> tuple[list[str], int]:
    """Sweep, then repeat the request twice: it happens once. Returns the findings and the number of orphans."""
    async with open_catalog(data, Steps(), hours_later=_LATER) as lake:
        meta = lake.store.meta
        findings = await find_inconsistencies(meta, await read_outbox(meta))
        report = await lake.store.orphan_sweep.sweep()
        for _ in range(2):
            status = await send(lake, call)
            if status not in (200, 204) or await _observable_state(lake) != after:
                findings.append(f"wrong: the repetition returned {status} and left {await _observable_state(lake)}")
        findings += await find_inconsistencies(meta, await read_outbox(meta))
        blobs = await read_blobs(meta, data)
        if not blobs.files == blobs.rows == blobs.referenced or temporary_files(data):
            findings.append(f"leftover: not swept. {blobs} {temporary_files(data)}")
    return findings, report.orphans


async def _state(data: Path) -> object:
    async with open_catalog(data, Steps()) as lake:
        return await _observable_state(lake)


async def _observable_state(lake: Lake) -> dict[str, object]:
    """Everything that the change could change, except generated names."""
    meta = lake.store.meta
    seen: dict[str, object] = {
        "namespaces": await meta.rows("SELECT path FROM namespaces ORDER BY path"),
        "directories": await meta.rows("SELECT prefix FROM entry_locations ORDER BY prefix"),
        "commits": await meta.rows(
            "SELECT e.name, c.generation, c.operation FROM entry_commits c JOIN entries e ON e.id = c.entry"
            " ORDER BY e.name, c.generation"
        ),
        "tasks": await meta.rows("SELECT kind FROM tasks ORDER BY id"),
        "keys": len(await meta.rows("SELECT id FROM idempotency_keys")),
        "events": [(kind, event.name, event.generation) for kind, event in (await read_outbox(meta)).catalog],
    }
    entries = await meta.rows(
        "SELECT n.path, e.name, e.kind, e.generation, e.location FROM entries e JOIN namespaces n ON n.id = e.namespace"
        " ORDER BY n.path, e.name"
    )
    for namespace, name, kind, generation, location in entries:
        loaded = await lake.call("GET", f"/lake/namespaces/{namespace}/{kind}s/{name}")
        assert loaded.status == 200, loaded
        metadata = loaded.document["metadata"]
        snapshots = [one["snapshot-id"] for one in metadata.get("snapshots", [])]
        seen[f"{namespace}.{name}"] = (kind, generation, location, snapshots, metadata.get("properties"))
    return seen
