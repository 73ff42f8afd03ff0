from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from lakebed.catalog.idempotency import Mutation
from lakebed.catalog.maintenance.tasks.history import MAX_REPORT_BYTES
from lakebed.catalog.maintenance.tasks.service import MAX_PROGRESS_BYTES
from lakebed.catalog.model import EntryKind
from lakebed.core.errors import (
    AccessDenied,
    AlreadyExists,
    Fenced,
    InvalidInput,
    NoSuchCatalog,
    NoSuchTable,
    NotFound,
)
from lakebed.core.jobs import JobKind, TaskSpec
from lakebed.meta.tasks import TaskState
from lakebed.objects.model import Caller
from tests.catalog.harness import UNPRIVILEGED, name, user_with
from tests.catalog.maintenance.maintained_catalog import ROOT, MaintainedCatalog
from tests.catalog.restrictions.subjects import restrict_rows
from tests.governance.documents import policy, statement
from tests.objects.stores import user

WORKER = user_with("lakebed:RunTasks", principal="worker")


def spec(job: JobKind = JobKind.COMPACT, table: str = "t", **more: Any) -> TaskSpec:
    return TaskSpec(job=job, warehouse="lake", namespace=("ns",), table=table, **more)


async def submit(
    maintained: MaintainedCatalog, task_spec: TaskSpec | None = None, caller: Caller = ROOT
) -> tuple[int, bool]:
    seen, is_new = await maintained.parts.tasks.submit(caller, task_spec or spec())
    return seen.task.id, is_new


# -- submitting ------------------------------------------------------------------------------------------------------


async def test_task_is_submitted_once_per_table_and_job(maintained: MaintainedCatalog) -> None:
    await maintained.table(files=2)
    first, is_new = await submit(maintained, spec(options={"min-input-files": "2"}, reason="because"))
    assert is_new
    assert await submit(maintained) == (first, False)
    assert (await submit(maintained, spec(JobKind.VERIFY)))[1]
    seen = await maintained.parts.tasks.get(ROOT, first)
    assert (seen.task.state, seen.task.kind) == (TaskState.READY, "compact-table")
    assert (seen.spec.options, seen.spec.reason) == ({"min-input-files": 2}, "because")
    assert (seen.spec.requested_by, seen.spec.policy) == ("root", None)
    assert seen.spec.entry == (await maintained.known()).entry.id
    assert [kind for kind, _ in await maintained.events()] == ["Planned", "Planned"]


async def test_requester_and_policy_in_the_request_are_ignored(light_maintained: MaintainedCatalog) -> None:
    await light_maintained.table()
    caller = user_with("lakebed:SubmitTask", "s3tables:RunTableMaintenance")
    task_spec = spec(requested_by="root", entry="another", reason="x" * 5000)
    task_id, _ = await submit(light_maintained, task_spec, caller)
    seen = await light_maintained.parts.tasks.get(ROOT, task_id)
    assert seen.spec.requested_by == "alice"
    assert seen.spec.entry == (await light_maintained.known()).entry.id
    assert len(seen.spec.reason) == 1024


async def test_submitting_requires_permission_on_server_and_table(light_maintained: MaintainedCatalog) -> None:
    await light_maintained.table()
    for caller in (
        UNPRIVILEGED,
        user_with("lakebed:SubmitTask"),
        user_with("s3tables:RunTableMaintenance"),
        user_with("s3tables:*"),
    ):
        with pytest.raises(AccessDenied):
            await submit(light_maintained, caller=caller)
    assert (await submit(light_maintained, caller=user_with("lakebed:SubmitTask", "s3tables:RunTableMaintenance")))[1]


async def test_invalid_tasks_are_rejected(light_maintained: MaintainedCatalog) -> None:
    await light_maintained.table()
    await light_maintained.catalog.create_view()
    for task_spec, argument in (
        (spec(options={"colour": "red"}), "colour"),
        (spec(options={"min-input-files": "many"}), "min-input-files"),
        (spec(JobKind.IMPORT, "new"), "source"),
    ):
        with pytest.raises(InvalidInput) as refused:
            await submit(light_maintained, task_spec)
        assert refused.value.argument == argument
    for table in ("none", "v"):
        with pytest.raises(NoSuchTable):
            await submit(light_maintained, spec(table=table))
    assert await light_maintained.open_tasks() == []


async def test_task_of_a_new_table_is_keyed_by_name(light_maintained: MaintainedCatalog) -> None:
    await light_maintained.store.bucket("source")
    for table in ("new", "other"):
        made, is_new = await submit(
            light_maintained, spec(JobKind.IMPORT, table, options={"source": "s3://source/folder"})
        )
        assert is_new
        assert (await light_maintained.parts.tasks.get(ROOT, made)).spec.entry == ""
    assert await submit(light_maintained, spec(JobKind.IMPORT, "other", options={"source": "s3://source/x"})) == (
        made,
        False,
    )
    leased = [await light_maintained.lease("w", JobKind.IMPORT) for _ in range(2)]
    assert [seen.spec.table for seen in leased] == ["new", "other"]
    await light_maintained.complete(leased[0], changed=True)


IMPORTS = ("lakebed:SubmitTask", "s3tables:CreateTable")


@pytest.mark.parametrize(
    ("options", "also"),
    [
        ({"source": "s3://source/folder"}, ("s3:ListBucket", "s3:GetObject")),
        ({"source": "s3a://source/folder"}, ("s3:ListBucket", "s3:GetObject")),
        ({"source": "file:///etc"}, ("lakebed:ConfigureBridge",)),
        ({"source-table": "a.b", "source-uri": "https://other"}, ("lakebed:ConfigureBridge",)),
    ],
)
async def test_import_requires_permission_to_read_the_source(
    light_maintained: MaintainedCatalog, options: dict[str, Any], also: tuple[str, ...]
) -> None:
    await light_maintained.store.bucket("source")
    task_spec = spec(JobKind.IMPORT, "new", options=options)
    for missing in range(len(also)):
        with pytest.raises(AccessDenied):
            await submit(light_maintained, task_spec, user_with(*IMPORTS, *also[:missing], *also[missing + 1 :]))
    with pytest.raises(AccessDenied):
        await submit(light_maintained, task_spec, user_with("lakebed:SubmitTask", *also))
    assert (await submit(light_maintained, task_spec, user_with(*IMPORTS, *also)))[1]


@pytest.mark.parametrize("source", ["", "tables/", "tables/{id}/", "tables/{id}/data/"])
async def test_importing_table_files_requires_permission_to_read_the_tables(
    light_maintained: MaintainedCatalog, source: str
) -> None:
    await light_maintained.table("t")
    known = await light_maintained.known("t")
    options = {"source": f"s3://lake/{source.format(id=known.entry.id)}", "mode": "copy"}
    task_spec = spec(JobKind.IMPORT, "new", options=options)
    s3 = (*IMPORTS, "s3:ListBucket", "s3:GetObject")
    with pytest.raises(AccessDenied):
        await submit(light_maintained, task_spec, user_with(*s3))
    readers = user_with(*s3, "s3tables:GetTableData")
    await restrict_rows(light_maintained.policing, principals=["alice"])
    with pytest.raises(AccessDenied, match="a policy restricts"):
        await submit(light_maintained, task_spec, readers)
    await light_maintained.policing.detach()
    assert (await submit(light_maintained, task_spec, readers))[1]


IN_PLACE = ("s3:Get*", "s3:List*", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload")


@pytest.mark.parametrize("missing", ["s3:List*", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"])
async def test_import_in_place_requires_every_permission_on_the_folder(
    light_maintained: MaintainedCatalog, missing: str
) -> None:
    """The worker claims the folder with its own permissions, and then permission on the table gives access to the
    files."""
    task_spec = spec(JobKind.IMPORT, "new", options={"source": "s3://lake/other"})
    with pytest.raises(AccessDenied):
        await submit(light_maintained, task_spec, user_with(*IMPORTS, *(one for one in IN_PLACE if one != missing)))
    copied = spec(JobKind.IMPORT, "copied", options={"source": "s3://lake/other", "mode": "copy"})
    assert (await submit(light_maintained, copied, user_with(*IMPORTS, "s3:ListBucket", "s3:GetObject")))[1]
    assert (await submit(light_maintained, task_spec, user_with(*IMPORTS, *IN_PLACE)))[1]


@pytest.mark.parametrize("source", ["s3://source/folder", "s3://source", "s3://lake/folder"])
@pytest.mark.parametrize("mode", ["copy", "in-place"])
async def test_import_requires_permission_for_every_file_of_the_folder(
    light_maintained: MaintainedCatalog, source: str, mode: str
) -> None:
    await light_maintained.store.bucket("source")
    task_spec = spec(JobKind.IMPORT, "new", options={"source": source, "mode": mode})
    allowed = statement(action=[*IMPORTS, *IN_PLACE], resource="*")
    denied = statement(effect="Deny", action="s3:GetObject", resource="arn:aws:s3:::*/folder/secret/*")
    with pytest.raises(AccessDenied):
        await submit(light_maintained, task_spec, user("alice", policy(allowed, denied)))


async def test_event_export_requires_permission_to_read_events(light_maintained: MaintainedCatalog) -> None:
    task_spec = TaskSpec(job=JobKind.EXPORT_EVENTS, warehouse="lake", options={"batch-limit": 10})
    rights = ("lakebed:SubmitTask", "lakebed:ReadEvents", "s3tables:CreateTable")
    for missing in range(3):
        with pytest.raises(AccessDenied):
            await submit(light_maintained, task_spec, user_with(*rights[:missing], *rights[missing + 1 :]))
    first, is_new = await submit(light_maintained, task_spec, user_with(*rights))
    assert is_new
    assert await submit(light_maintained, task_spec) == (first, False)
    with pytest.raises(NoSuchCatalog):
        await submit(light_maintained, TaskSpec(job=JobKind.EXPORT_EVENTS, warehouse="none"))
    assert (await submit(light_maintained, spec(JobKind.EXPORT_EVENTS, "events")))[1]


# -- looking ---------------------------------------------------------------------------------------------------------


async def test_tasks_are_listed_in_order_by_state_and_job(maintained: MaintainedCatalog) -> None:
    for table in ("t", "u"):
        await maintained.table(table)
        await submit(maintained, spec(table=table))
        await submit(maintained, spec(JobKind.VERIFY, table))
    leased = await maintained.lease("w", JobKind.VERIFY)
    await maintained.complete(leased)
    tasks = maintained.parts.tasks
    everything = await tasks.list(ROOT)
    assert [seen.task.id for seen in everything] == sorted(seen.task.id for seen in everything)
    assert len(everything) == 4
    assert [seen.spec.table for seen in await tasks.list(ROOT, job=JobKind.COMPACT)] == ["t", "u"]
    (done,) = await tasks.list(ROOT, state=TaskState.DONE)
    assert done.task.id == leased.task.id
    page = await tasks.list(ROOT, limit=3)
    rest = await tasks.list(ROOT, after_id=page[-1].task.id)
    assert [*page, *rest] == list(everything)


async def test_listing_requires_permission_and_omits_other_task_kinds(
    light_maintained: MaintainedCatalog,
) -> None:
    await light_maintained.table(files=1)
    await submit(light_maintained)
    with pytest.raises(AccessDenied):
        await light_maintained.parts.tasks.list(UNPRIVILEGED)
    await light_maintained.catalog.drop(purge=True)
    purges = await light_maintained.catalog.tasks.of_kinds(
        light_maintained.store.meta, ["purge-table"], states=[TaskState.READY]
    )
    assert len(purges) == 1
    with pytest.raises(NotFound):
        await light_maintained.parts.tasks.get(ROOT, purges[0].id)
    assert len(await light_maintained.parts.tasks.list(user_with("lakebed:ListTasks"))) == 1


# -- working ---------------------------------------------------------------------------------------------------------


async def test_task_is_leased_run_and_completed(maintained: MaintainedCatalog) -> None:
    await maintained.table(files=2)
    task_id, _ = await submit(maintained)
    tasks = maintained.parts.tasks
    seen = await maintained.lease("w1", caller=WORKER)
    assert (seen.task.id, seen.task.attempts, seen.task.worker) == (task_id, 1, "w1")
    assert await tasks.lease(ROOT, "w2", [], lease_seconds=60) == []
    maintained.age(50)
    await tasks.heartbeat(WORKER, task_id, seen.task.token, lease_seconds=60, progress=b'{"done":1}')
    assert (await tasks.get(ROOT, task_id)).progress == b'{"done":1}'
    maintained.age(50)
    report = json.dumps({"read": {"files": 2, "bytes": 10_000}, "seconds": 2.0, "more": "of it"}).encode()
    await tasks.complete(WORKER, task_id, seen.task.token, report)
    done = await tasks.get(ROOT, task_id)
    assert (done.task.state, done.task.outcome) == (TaskState.DONE, report)
    assert [(kind, event.task) for kind, event in await maintained.events()] == [
        ("Planned", task_id),
        ("Started", task_id),
        ("Succeeded", task_id),
    ]
    (_, _, (_, completed)) = await maintained.events()
    assert completed.report is not None
    assert (completed.report.read.bytes, completed.worker) == (10_000, "w1")
    assert await maintained.records.speeds(maintained.store.meta) == {JobKind.COMPACT: 5_000}
    runs = (await maintained.records.runs(maintained.store.meta, [done.spec.entry]))[done.spec.entry]
    assert (runs[JobKind.COMPACT].succeeded_ms, runs[JobKind.COMPACT].failures) == (maintained.store.clock.now_ms(), 0)


async def test_leasing_requires_permission(light_maintained: MaintainedCatalog) -> None:
    await light_maintained.table()
    await submit(light_maintained)
    tasks = light_maintained.parts.tasks
    for call in (
        tasks.lease(UNPRIVILEGED, "w", [], lease_seconds=60),
        tasks.heartbeat(UNPRIVILEGED, 1, 1, lease_seconds=60),
        tasks.complete(UNPRIVILEGED, 1, 1, b"{}"),
        tasks.fail(UNPRIVILEGED, 1, 1, "x"),
        tasks.redrive(UNPRIVILEGED, 1),
    ):
        with pytest.raises(AccessDenied):
            await call


async def test_only_requested_jobs_are_leased(light_maintained: MaintainedCatalog) -> None:
    await light_maintained.table()
    await submit(light_maintained)
    assert await light_maintained.parts.tasks.lease(ROOT, "w", [JobKind.VERIFY], lease_seconds=60) == []
    assert (await light_maintained.lease("w", JobKind.COMPACT, JobKind.COMPACT)).spec.job is JobKind.COMPACT


async def test_worker_waits_for_due_tasks(light_maintained: MaintainedCatalog) -> None:
    await light_maintained.table()
    tasks = light_maintained.parts.tasks
    assert not await tasks.wait_for_work([], 0.01)
    waiting = asyncio.create_task(tasks.wait_for_work([JobKind.COMPACT], 60))
    await asyncio.sleep(0)
    await submit(light_maintained)
    assert await waiting


async def test_worker_without_its_lease_is_fenced(maintained: MaintainedCatalog) -> None:
    await maintained.table()
    task_id, _ = await submit(maintained)
    tasks = maintained.parts.tasks
    lost = await maintained.lease("w1")
    maintained.age(61)
    found = await maintained.lease("w2")
    assert found.task.token > lost.task.token
    for call in (
        tasks.heartbeat(ROOT, task_id, lost.task.token, lease_seconds=60, progress=b"{}"),
        tasks.complete(ROOT, task_id, lost.task.token, b"{}"),
        tasks.fail(ROOT, task_id, lost.task.token, "late"),
    ):
        with pytest.raises(Fenced):
            await call
    assert (await tasks.get(ROOT, task_id)).task.state is TaskState.CLAIMED
    assert [kind for kind, _ in await maintained.events()] == ["Planned", "Started", "Started"]
    await maintained.complete(found)


async def test_repeated_completion_succeeds_after_a_lost_response(light_maintained: MaintainedCatalog) -> None:
    maintained = light_maintained
    await maintained.table()
    await submit(maintained)
    tasks = maintained.parts.tasks
    seen = await maintained.lease()
    assert await tasks.fail(ROOT, seen.task.id, seen.task.token, "busy") is TaskState.READY
    assert await tasks.fail(ROOT, seen.task.id, seen.task.token, "busy") is TaskState.READY
    maintained.age(10)
    again = await maintained.lease()
    await maintained.complete(again)
    await maintained.complete(again)
    assert [kind for kind, _ in await maintained.events()] == ["Planned", "Started", "Failed", "Started", "Succeeded"]


async def test_failing_task_is_dead_after_its_attempts_and_can_be_redriven(maintained: MaintainedCatalog) -> None:
    await maintained.table()
    task_id, _ = await submit(maintained)
    tasks = maintained.parts.tasks
    states = []
    for _ in range(5):
        seen = await maintained.lease()
        states.append(await tasks.fail(ROOT, task_id, seen.task.token, "no Java\0here"))
        maintained.age(300)
    assert states == [TaskState.READY] * 4 + [TaskState.DEAD]
    dead = await tasks.get(ROOT, task_id)
    assert dead.task.outcome == b"no Javahere"
    runs = (await maintained.records.runs(maintained.store.meta, [dead.spec.entry]))[dead.spec.entry]
    assert (runs[JobKind.COMPACT].failures, runs[JobKind.COMPACT].succeeded_ms) == (1, None)
    assert [kind for kind, _ in await maintained.events()][-1] == "Dead"
    caller = user_with("lakebed:SubmitTask", "s3tables:RunTableMaintenance")
    with pytest.raises(AccessDenied):
        await tasks.redrive(user_with("lakebed:SubmitTask"), task_id)
    assert (await tasks.redrive(caller, task_id)).task.state is TaskState.READY
    runs = (await maintained.records.runs(maintained.store.meta, [dead.spec.entry]))[dead.spec.entry]
    assert runs[JobKind.COMPACT].failures == 0
    kind, event = (await maintained.events())[-1]
    assert (kind, event.principal) == ("Redriven", "alice")
    with pytest.raises(NotFound):
        await tasks.redrive(ROOT, task_id)
    await maintained.complete(await maintained.lease())


async def test_permanent_failure_is_dead_at_once_and_the_job_can_be_submitted_again(
    light_maintained: MaintainedCatalog,
) -> None:
    maintained = light_maintained
    await maintained.table()
    task_id, _ = await submit(maintained)
    seen = await maintained.lease()
    assert await maintained.parts.tasks.fail(ROOT, task_id, seen.task.token, "", retry=False) is TaskState.DEAD
    assert (await maintained.parts.tasks.get(ROOT, task_id)).task.outcome == b"no reason given"
    other, is_new = await submit(maintained)
    assert is_new
    assert other != task_id
    with pytest.raises(AlreadyExists):
        await maintained.parts.tasks.redrive(ROOT, task_id)


async def test_task_with_expired_leases_is_dead_with_an_event(maintained: MaintainedCatalog) -> None:
    await maintained.table()
    task_id, _ = await submit(maintained)
    for _ in range(5):
        await maintained.lease()
        maintained.age(61)
    assert await maintained.parts.tasks.lease(ROOT, "w", [], lease_seconds=60) == []
    dead = await maintained.parts.tasks.get(ROOT, task_id)
    assert dead.task.state is TaskState.DEAD
    kind, event = (await maintained.events())[-1]
    assert (kind, event.failure) == ("Dead", "the worker vanished")
    runs = (await maintained.records.runs(maintained.store.meta, [dead.spec.entry]))[dead.spec.entry]
    assert runs[JobKind.COMPACT].failures == 1


async def test_task_of_a_dropped_table_is_withdrawn(maintained: MaintainedCatalog) -> None:
    await maintained.table("gone")
    await maintained.table("well")
    for table in ("gone", "well"):
        await submit(maintained, spec(table=table))
    await maintained.catalog.drop("gone")
    leased = await maintained.parts.tasks.lease(ROOT, "w", [], lease_seconds=60, limit=2)
    assert [seen.spec.table for seen in leased] == ["well"]
    assert ("Withdrawn", "the table was dropped") in [
        (kind, event.failure) for kind, event in await maintained.events()
    ]
    assert [seen.spec.table for seen in await maintained.open_tasks()] == ["well"]
    (done,) = await maintained.parts.tasks.list(ROOT, state=TaskState.DONE)
    assert json.loads(done.task.outcome or b"")["skipped"] == [
        {"what": "lake.ns.gone", "reason": "the table was dropped"}
    ]


async def test_leased_task_has_the_current_table_name(light_maintained: MaintainedCatalog) -> None:
    maintained, table = light_maintained, await light_maintained.table()
    await submit(maintained)
    await maintained.catalog.namespace("other")
    target = name("renamed", "other")
    await maintained.catalog.renaming.rename(Mutation(ROOT), "lake", table, target, EntryKind.TABLE)
    seen = await maintained.lease()
    assert (seen.spec.namespace, seen.spec.table) == (("other",), "renamed")


async def test_heartbeat_returns_the_current_table_name(
    light_maintained: MaintainedCatalog,
) -> None:
    maintained, table = light_maintained, await light_maintained.table()
    await submit(maintained)
    seen = await maintained.lease()

    async def current_spec() -> TaskSpec | None:
        return await maintained.parts.tasks.heartbeat(WORKER, seen.task.id, seen.task.token, lease_seconds=60)

    assert await current_spec() == seen.spec
    await maintained.catalog.renaming.rename(Mutation(ROOT), "lake", table, name("renamed"), EntryKind.TABLE)
    # Another table with the former name is not the table of the task.
    await maintained.table()
    renamed = await current_spec()
    assert renamed is not None
    assert (renamed.namespace, renamed.table, renamed.entry) == (("ns",), "renamed", seen.spec.entry)
    await maintained.catalog.drop("renamed")
    assert await current_spec() is None


async def test_new_attempt_starts_without_progress(light_maintained: MaintainedCatalog) -> None:
    maintained = light_maintained
    await maintained.table()
    task_id, _ = await submit(maintained)
    seen = await maintained.lease()
    await maintained.parts.tasks.heartbeat(ROOT, task_id, seen.task.token, lease_seconds=60, progress=b"{}")
    maintained.age(61)
    await maintained.lease()
    assert (await maintained.parts.tasks.get(ROOT, task_id)).progress is None


async def test_dry_run_is_not_recorded_in_the_history(light_maintained: MaintainedCatalog) -> None:
    maintained = light_maintained
    await maintained.table()
    await submit(maintained)
    await maintained.complete(await maintained.lease(), dry_run=True, read={"bytes": 10_000}, seconds=5)
    assert await maintained.records.runs(maintained.store.meta, [(await maintained.known()).entry.id]) == {}
    assert await maintained.records.speeds(maintained.store.meta) == {}


async def test_invalid_worker_input_is_rejected(light_maintained: MaintainedCatalog) -> None:
    await light_maintained.table()
    task_id, _ = await submit(light_maintained)
    tasks = light_maintained.parts.tasks
    seen = await light_maintained.lease()
    token = seen.task.token
    for call in (
        tasks.lease(ROOT, "", [], lease_seconds=60),
        tasks.lease(ROOT, "w" * 257, [], lease_seconds=60),
        tasks.lease(ROOT, "w", [], lease_seconds=0),
        tasks.lease(ROOT, "w", [], lease_seconds=1e9),
        tasks.lease(ROOT, "w", [], lease_seconds=float("nan")),
        tasks.lease(ROOT, "w", [], lease_seconds=60, limit=0),
        tasks.lease(ROOT, "w", [], lease_seconds=60, limit=1000),
        tasks.heartbeat(ROOT, task_id, token, lease_seconds=-1),
        tasks.heartbeat(ROOT, task_id, token, lease_seconds=60, progress=b"x" * (MAX_PROGRESS_BYTES + 1)),
        tasks.complete(ROOT, task_id, token, b"x" * (MAX_REPORT_BYTES + 1)),
        tasks.complete(ROOT, task_id, token, b"[]"),
        tasks.complete(ROOT, task_id, token, b'{"seconds": "long"}'),
        tasks.complete(ROOT, task_id, token, b"\xff"),
    ):
        with pytest.raises(InvalidInput):
            await call
    with pytest.raises(NotFound):
        await tasks.complete(ROOT, 10**6, token, b"{}")
    await light_maintained.complete(seen)


async def test_concurrent_workers_never_run_a_task_twice(maintained: MaintainedCatalog) -> None:
    for number in range(10):
        await maintained.table(f"t{number}")
        await submit(maintained, spec(table=f"t{number}"))
    done: list[int] = []

    async def work(worker: str) -> None:
        while leased := await maintained.parts.tasks.lease(ROOT, worker, [], lease_seconds=60, limit=2):
            for seen in leased:
                done.append(seen.task.id)
                await maintained.complete(seen)

    while len(done) < 10:
        await asyncio.gather(work("a"), work("b"))
    assert len(done) == len(set(done)) == 10
    assert await maintained.open_tasks() == []
