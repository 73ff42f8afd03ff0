"""The report of a compaction follows its queued task."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from lakebed.catalog.identifiers import Identifier
from lakebed.catalog.maintenance.rules.compaction import CompactionRequest
from lakebed.core.jobs import JobKind
from lakebed.meta.seam import Transaction
from lakebed.wire.iceberg.maintenance_responses import report_document
from tests.catalog.maintenance.job_catalog import JobCatalog, open_job_catalog
from tests.objects.conftest import clock, light_store
from tests.objects.stores import ROOT, ObjectStore

__all__ = ["clock", "light_store"]

SMALL = CompactionRequest(
    target_file_size_bytes=1000, small_file_threshold_bytes=100, min_input_files=2, max_rewrite_bytes_per_job=1000
)


@pytest.fixture
async def job_catalog(light_store: ObjectStore) -> JobCatalog:
    return await open_job_catalog(light_store)


async def compaction_of(job_catalog: JobCatalog, table: Identifier, job: str) -> dict[str, Any]:
    """The compaction of a job, as JSON."""
    document = report_document(await job_catalog.maintenance.job(ROOT, "lake", table, job))
    compaction: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(document))["compaction"]
    return compaction


async def test_compaction_has_the_status_of_its_task(job_catalog: JobCatalog) -> None:
    table = await job_catalog.table()
    await job_catalog.append(table, files=3)
    job = (await job_catalog.run(table, compaction=SMALL, commit_compaction=True)).job.id
    tasks = job_catalog.catalog.tasks
    queued = await compaction_of(job_catalog, table, job)
    assert (queued["status"], queued["task"]["state"], queued["task"]["kind"]) == (
        "QUEUED_FOR_PIPELINE",
        "ready",
        "compact-table",
    )
    assert (queued["task"]["report"], queued["task"]["failure"]) == (None, None)
    (claim,) = await tasks.claim([JobKind.COMPACT], "w", 60)
    await tasks.fail(claim, "no Java here", retry_in_seconds=0)
    failed = await compaction_of(job_catalog, table, job)
    assert (failed["status"], failed["task"]["failure"]) == ("QUEUED_FOR_PIPELINE", "no Java here")
    (claim,) = await tasks.claim([JobKind.COMPACT], "w", 60)

    async def complete(tx: Transaction) -> None:
        await tasks.complete(tx, claim, b'{"wrote": {"files": 1}}')

    await job_catalog.store.meta.transact(complete)
    done = await compaction_of(job_catalog, table, job)
    assert (done["status"], done["task"]["state"], done["task"]["failure"]) == ("COMMITTED", "done", None)
    assert done["task"]["report"] == {"wrote": {"files": 1}}
