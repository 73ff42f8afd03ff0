from __future__ import annotations

from typing import Any

import msgspec
import pytest

from lakebed.catalog.identifiers import Identifier
from lakebed.catalog.maintenance.jobs.execution import JobExecutor
from lakebed.catalog.maintenance.jobs.model import AuditStep, JobStatus, RemovalMode
from lakebed.catalog.maintenance.jobs.requests import ADMIN, EXPIRE, SUPERSEDED
from lakebed.catalog.maintenance.reachability.files import Reason
from lakebed.catalog.maintenance.rules.compaction import CompactionRequest, CompactionStatus
from lakebed.catalog.maintenance.rules.expiration import ExpirationRequest, ExpirationStatus
from lakebed.core.errors import AccessDenied, CommitConflict, InvalidInput, NoSuchTable, StateConflict
from lakebed.core.jobs import JobKind, decode_spec
from lakebed.meta.tasks import TaskState
from tests.catalog.harness import UNPRIVILEGED, name, set_property, user_with
from tests.catalog.maintenance.job_catalog import BODY, JobCatalog

ALL_BUT_ONE = ExpirationRequest(min_snapshots_to_keep=1, max_snapshot_age_ms=0)
SMALL = CompactionRequest(
    target_file_size_bytes=1000, small_file_threshold_bytes=100, min_input_files=2, max_rewrite_bytes_per_job=1000
)


async def three_snapshots(job_catalog: JobCatalog) -> Identifier:
    table = await job_catalog.table()
    for _ in range(3):
        await job_catalog.append(table)
        job_catalog.age(10)
    return table


async def test_plan_is_stored_and_keeps_the_current_job(job_catalog: JobCatalog) -> None:
    table = await job_catalog.table()
    await job_catalog.configure(table, background_enabled=True)
    queued = await job_catalog.schedule(table)
    stored = await job_catalog.run(table, retain_recent_metadata_files=1)
    assert (stored.job.status, stored.job.operation) == (JobStatus.SUCCESSFUL, RemovalMode.DRY_RUN)
    assert (stored.job.worker_id, stored.job.attempt) == (ADMIN, 0)
    assert [event.step for event in stored.record.audit] == [AuditStep.PLANNED]
    assert await job_catalog.job(table, stored.job.id) == stored
    assert await job_catalog.job(table, "latest") == stored
    assert (await job_catalog.job(table, "current")).job.id == queued.job.id


@pytest.mark.parametrize(
    ("request_fields", "argument"),
    [
        ({"delete": True, "commit_compaction": True, "compaction": SMALL}, "commit-compaction"),
        (
            {"commit_snapshot_expiration": True, "delete": True, "snapshot_expiration": ALL_BUT_ONE},
            "commit-snapshot-expiration",
        ),
        ({"delete": True, "dry_run": True}, "delete"),
        ({"commit_snapshot_expiration": True}, "snapshot-expiration"),
        ({"commit_compaction": True}, "compaction"),
        ({"commit_compaction": True, "compaction": SMALL}, "commit-compaction"),
        ({"retain_recent_metadata_files": -1}, "retain-recent-metadata-files"),
        ({"compaction": msgspec.structs.replace(SMALL, min_input_files=1)}, "min-input-files"),
    ],
)
async def test_contradictory_request_is_rejected(
    light_job_catalog: JobCatalog, request_fields: dict[str, Any], argument: str
) -> None:
    table = await light_job_catalog.table()
    with pytest.raises(InvalidInput) as refused:
        await light_job_catalog.run(table, **request_fields)
    assert refused.value.argument == argument


async def test_plan_with_an_outdated_expectation_is_rejected(light_job_catalog: JobCatalog) -> None:
    table = await light_job_catalog.table()
    entry = await light_job_catalog.catalog.entry(table)
    there = entry.metadata_at
    assert await light_job_catalog.run(table, dry_run=True, expected_metadata_location=there)
    assert await light_job_catalog.run(table, expected_metadata_location=there.replace("s3://", "s3a://"))
    await light_job_catalog.append(table)
    with pytest.raises(CommitConflict):
        await light_job_catalog.run(table, dry_run=True, expected_metadata_location=there)


async def test_configured_retention_is_a_lower_bound_for_requests(light_job_catalog: JobCatalog) -> None:
    table = await light_job_catalog.table()
    await light_job_catalog.configure(table, retain_recent_metadata_files=3)
    assert (await light_job_catalog.run(table)).job.retain_recent == 3
    assert (await light_job_catalog.run(table, retain_recent_metadata_files=5)).job.retain_recent == 5


async def test_removal_supersedes_a_queued_job_but_not_a_running_one(light_job_catalog: JobCatalog) -> None:
    job_catalog, table = light_job_catalog, await light_job_catalog.table()
    await job_catalog.configure(table, background_enabled=True, delete_enabled=True)
    queued = await job_catalog.schedule(table)
    assert (await job_catalog.run(table, delete=True)).job.status is JobStatus.SUCCESSFUL
    displaced = await job_catalog.job(table, queued.job.id)
    assert (displaced.job.status, displaced.job.failure_reason) == (JobStatus.FAILED, SUPERSEDED)
    started: list[str] = []
    patch = pytest.MonkeyPatch()
    plain = JobExecutor.run

    async def hanging(self: JobExecutor, *arguments: Any) -> Any:
        patch.undo()
        with pytest.raises(StateConflict, match="worker is already running"):
            await job_catalog.run(table, delete=True)
        started.append("tried")
        job_catalog.age(901)
        assert (await job_catalog.run(table, delete=True)).job.status is JobStatus.SUCCESSFUL
        return await plain(self, *arguments)

    patch.setattr(JobExecutor, "run", hanging)
    with pytest.raises(Exception, match="another worker runs it"):
        await job_catalog.work(table)
    assert started


async def test_requests_require_permission(light_job_catalog: JobCatalog) -> None:
    table = await light_job_catalog.table()
    runs = user_with("s3tables:RunTableMaintenance")
    assert await light_job_catalog.run(table, caller=runs)
    for caller in (UNPRIVILEGED, user_with("s3tables:GetTableMaintenanceConfiguration")):
        with pytest.raises(AccessDenied):
            await light_job_catalog.run(table, caller=caller)
    with pytest.raises(AccessDenied):
        await light_job_catalog.maintenance.job(runs, "lake", table, "latest")
    with pytest.raises(NoSuchTable):
        await light_job_catalog.run(name("absent"))


# -- snapshots ------------------------------------------------------------------------------------------------------


async def test_snapshots_are_planned_and_then_expired(job_catalog: JobCatalog) -> None:
    table = await three_snapshots(job_catalog)
    before = await job_catalog.catalog.metadata(table)
    planned = (await job_catalog.run(table, snapshot_expiration=ALL_BUT_ONE)).findings.expiration
    assert planned is not None
    assert (planned.status, len(planned.candidates)) == (ExpirationStatus.CANDIDATES, 2)
    assert await job_catalog.catalog.metadata(table) == before
    stored = await job_catalog.run(table, snapshot_expiration=ALL_BUT_ONE, commit_snapshot_expiration=True)
    done = stored.findings.expiration
    assert done is not None
    assert (done.status, done.expired_snapshot_ids) == (ExpirationStatus.COMMITTED, planned.candidates)
    entry = await job_catalog.catalog.entry(table)
    assert done.committed_metadata_at == entry.metadata_at
    after = await job_catalog.catalog.metadata(table)
    assert set(before.snapshots) - set(after.snapshots) == set(planned.candidates)
    events = await job_catalog.catalog.events()
    assert events[-1][0] == "TableCommitted"
    assert events[-1][1].operation == EXPIRE
    assert (await job_catalog.job(table, stored.job.id)).findings.expiration == done
    # A second request finds nothing to commit.
    again = await job_catalog.run(table, snapshot_expiration=ALL_BUT_ONE, commit_snapshot_expiration=True)
    assert again.findings.expiration is not None
    assert again.findings.expiration.status is ExpirationStatus.NO_CANDIDATES
    assert await job_catalog.catalog.entry(table) == entry
    await job_catalog.check_whole(table)


async def test_expiration_planned_on_another_version_is_rejected(
    light_job_catalog: JobCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_catalog, table = light_job_catalog, await three_snapshots(light_job_catalog)
    oldest = min((await job_catalog.catalog.metadata(table)).snapshots)
    plain = JobExecutor.survey

    async def late(self: JobExecutor, *arguments: Any, **how: Any) -> Any:
        # A tag on an expired snapshot: the commit would remove the tag.
        monkeypatch.undo()
        tag = {"action": "set-snapshot-ref", "ref-name": "v", "type": "tag", "snapshot-id": oldest}
        await job_catalog.catalog.commit(table, tag)
        return await plain(self, *arguments, **how)

    monkeypatch.setattr(JobExecutor, "survey", late)
    with pytest.raises(CommitConflict):
        await job_catalog.run(table, snapshot_expiration=ALL_BUT_ONE, commit_snapshot_expiration=True)
    assert "v" in (await job_catalog.catalog.metadata(table)).refs


async def test_expiration_that_requires_manual_review_is_not_committed(light_job_catalog: JobCatalog) -> None:
    table = await three_snapshots(light_job_catalog)
    await light_job_catalog.catalog.commit(table, set_property("gc.enabled", "false"))
    stored = await light_job_catalog.run(table, snapshot_expiration=ALL_BUT_ONE)
    assert stored.findings.expiration is not None
    assert stored.findings.expiration.status is ExpirationStatus.MANUAL_REVIEW_REQUIRED
    with pytest.raises(InvalidInput, match="GC_DISABLED"):
        await light_job_catalog.run(table, snapshot_expiration=ALL_BUT_ONE, commit_snapshot_expiration=True)


async def test_expiration_requires_permission_to_commit(light_job_catalog: JobCatalog) -> None:
    table = await three_snapshots(light_job_catalog)
    runs = user_with("s3tables:RunTableMaintenance")
    with pytest.raises(AccessDenied):
        await light_job_catalog.run(
            table, caller=runs, snapshot_expiration=ALL_BUT_ONE, commit_snapshot_expiration=True
        )


# -- compaction -----------------------------------------------------------------------------------------------------


async def test_compaction_is_planned_then_queued(job_catalog: JobCatalog) -> None:
    table = await job_catalog.table()
    await job_catalog.append(table, files=3)
    keys, entry = await job_catalog.keys(), await job_catalog.catalog.entry(table)
    planned = (await job_catalog.run(table, compaction=SMALL)).findings.compaction
    assert planned is not None
    assert (planned.status, planned.candidate_files) == (CompactionStatus.REWRITE_CANDIDATES, 3)
    assert planned.candidate_bytes == 3 * len(BODY)
    assert (
        await job_catalog.catalog.tasks.of_kinds(job_catalog.store.meta, [JobKind.COMPACT], states=[TaskState.READY])
        == []
    )
    seen = []
    for _ in range(2):
        stored = await job_catalog.run(table, compaction=SMALL, commit_compaction=True)
        assert stored.findings.compaction is not None
        assert stored.findings.compaction.status is CompactionStatus.QUEUED_FOR_PIPELINE
        seen.append(stored.findings.compaction.task_id)
    (task,) = await job_catalog.catalog.tasks.of_kinds(
        job_catalog.store.meta, [JobKind.COMPACT], states=[TaskState.READY]
    )
    assert seen == [task.id, task.id]
    spec = decode_spec(task.payload)
    assert (spec.job, spec.warehouse, spec.namespace, spec.table) == (JobKind.COMPACT, "lake", ("ns",), "t")
    assert (spec.entry, spec.policy, spec.requested_by) == (entry.id, None, "root")
    assert spec.options == {
        "target-file-size-bytes": 1000,
        "min-file-size-bytes": 100,
        "min-input-files": 2,
        "max-file-group-size-bytes": 1000,
    }
    assert spec.cost is not None
    assert (spec.cost.input_files, spec.cost.input_bytes) == (3, 3 * len(BODY))
    assert "3 data files" in spec.reason
    # The server itself rewrites nothing.
    assert await job_catalog.keys() == keys
    assert await job_catalog.catalog.entry(table) == entry


async def test_delete_files_do_not_prevent_compaction(light_job_catalog: JobCatalog) -> None:
    job_catalog, table = light_job_catalog, await light_job_catalog.table()
    await job_catalog.append(table, files=2)
    gone = await job_catalog.put(table, "data/x-deletes.parquet")
    await job_catalog.catalog.commit(table, *await job_catalog.naming(table, deletes=(gone,)))
    stored = await job_catalog.run(table, compaction=SMALL, commit_compaction=True)
    assert stored.findings.compaction is not None
    assert stored.findings.compaction.row_level.position_delete_files == 1
    assert stored.findings.compaction.status is CompactionStatus.QUEUED_FOR_PIPELINE


async def test_plan_lists_no_files_of_overwritten_manifests_of_another_table(
    job_catalog: JobCatalog,
) -> None:
    victim, table = await job_catalog.table("victim"), await job_catalog.table()
    for one in (victim, table):
        await job_catalog.append(one, files=3)
    await job_catalog.overwrite_manifest_list(table, victim)
    stored = await job_catalog.run(table, compaction=SMALL)
    planned = stored.findings.compaction
    assert planned is not None
    assert (planned.status, planned.candidate_files) == (CompactionStatus.MANUAL_REVIEW_REQUIRED, 0)
    assert planned.reasons == (Reason.OUTSIDE_TABLE,)
    assert (await job_catalog.directory(victim) + "data") not in msgspec.json.encode(stored).decode()
    # None of its own files counts as unreferenced.
    job_catalog.age()
    assert (await job_catalog.run(table, delete=True)).job.counts.deleted_objects == 0


async def test_table_without_a_snapshot_has_nothing_to_compact(light_job_catalog: JobCatalog) -> None:
    table = await light_job_catalog.table()
    stored = await light_job_catalog.run(table, compaction=SMALL)
    assert stored.findings.compaction is not None
    assert stored.findings.compaction.status is CompactionStatus.NO_CANDIDATES
    with pytest.raises(InvalidInput, match="no compaction to queue"):
        await light_job_catalog.run(table, compaction=SMALL, commit_compaction=True)
