"""Use cases of the S3-Tables-style maintenance routes: authorization, then the request; and their wiring."""

from __future__ import annotations

from dataclasses import dataclass

from lakebed.catalog.access.authorization import Action, CatalogAuthorizer
from lakebed.catalog.catalogs.service import CatalogService
from lakebed.catalog.commits.service import Commits
from lakebed.catalog.entries import Entries, LiveEntry
from lakebed.catalog.external.checks import check_internal_catalog, check_served
from lakebed.catalog.identifiers import Identifier
from lakebed.catalog.model import EntryKind
from lakebed.catalog.tables.files import CatalogFiles
from lakebed.core.errors import NotFound
from lakebed.meta.tasks import Task, TaskQueue
from lakebed.objects.context import ObjectContext
from lakebed.objects.model import Caller

from ..tasks.queue import TaskSubmissions
from .background import BackgroundMaintenance
from .configs import MAINTENANCE_JOBS, MaintenanceConfigs
from .execution import JobExecutor
from .job_store import JobStore, StoredJob
from .quarantine import Quarantine
from .quarantine_review import QuarantineAction, QuarantineReview, ReviewOutcome
from .requests import OperatorRequests, RunRequest
from .scheduling import JobScheduling, SchedulerView

__all__ = ["JobView", "MaintenanceJobs", "build_maintenance_jobs"]


@dataclass(frozen=True, slots=True)
class JobView:
    """A job, its table, and the compaction task that it submitted, if that still exists."""

    known: LiveEntry
    stored: StoredJob
    task: Task | None = None


class MaintenanceJobs:
    """Maintenance jobs of tables."""

    def __init__(
        self,
        object_context: ObjectContext,
        entries: Entries,
        configs: MaintenanceConfigs,
        jobs: JobStore,
        operating: OperatorRequests,
        scheduling: JobScheduling,
        review: QuarantineReview,
        tasks: TaskQueue,
    ) -> None:
        self._f = object_context
        self._entries = entries
        self._jobs = jobs
        self._operating = operating
        self._scheduling = scheduling
        self._review = review
        self._tasks = tasks
        self.configs = configs

    async def run(self, caller: Caller, catalog_name: str, identifier: Identifier, request: RunRequest) -> JobView:
        """Run an operator's request."""
        known = await self._authorized(caller, catalog_name, identifier, Action.RUN_MAINTENANCE)
        return await self._seen(known, await self._operating.run(caller, known, request))

    async def job(self, caller: Caller, catalog_name: str, identifier: Identifier, job_name: str) -> JobView:
        """A job with its report. Raises NotFound."""
        known = await self._authorized(caller, catalog_name, identifier, Action.GET_MAINTENANCE)
        return await self._seen(known, await self._jobs.find(self._f.meta, known.entry.id, job_name))

    async def scheduler(
        self, caller: Caller, catalog_name: str, identifier: Identifier
    ) -> tuple[LiveEntry, SchedulerView]:
        """The state of a table's maintenance."""
        known = await self._authorized(caller, catalog_name, identifier, Action.GET_MAINTENANCE)
        return known, await self._scheduling.view(known.entry.id)

    async def schedule(
        self, caller: Caller, catalog_name: str, identifier: Identifier, scheduler_id: str
    ) -> tuple[JobView, SchedulerView]:
        """Queue a job."""
        known = await self._authorized(caller, catalog_name, identifier, Action.RUN_MAINTENANCE)
        stored = await self._scheduling.schedule(known, scheduler_id)
        return await self._seen(known, stored), await self._scheduling.view(known.entry.id)

    async def work(self, caller: Caller, catalog_name: str, identifier: Identifier, worker_id: str) -> JobView:
        """Run a job."""
        known = await self._authorized(caller, catalog_name, identifier, Action.RUN_MAINTENANCE)
        return await self._seen(known, await self._scheduling.work(caller, known, worker_id))

    async def heartbeat(
        self,
        caller: Caller,
        catalog_name: str,
        identifier: Identifier,
        job_name: str,
        *,
        worker_id: str,
        lease_id: str,
    ) -> JobView:
        """Accept a worker's heartbeat."""
        known = await self._authorized(caller, catalog_name, identifier, Action.RUN_MAINTENANCE)
        return await self._seen(known, await self._scheduling.heartbeat(known, job_name, worker_id, lease_id))

    async def quarantine(
        self,
        caller: Caller,
        catalog_name: str,
        identifier: Identifier,
        job_name: str,
        action: QuarantineAction,
        reason: str,
    ) -> tuple[JobView, ReviewOutcome, SchedulerView]:
        """Inspect the files of a job in quarantine, or decide on them."""
        known = await self._authorized(caller, catalog_name, identifier, Action.RUN_MAINTENANCE)
        reviewed = await self._review.act(caller, known.entry.id, job_name, action, reason)
        return (
            await self._seen(known, reviewed.stored),
            reviewed,
            await self._scheduling.view(known.entry.id),
        )

    async def _authorized(self, caller: Caller, catalog_name: str, identifier: Identifier, action: Action) -> LiveEntry:
        known = await self._entries.get(caller, catalog_name, identifier, EntryKind.TABLE, action)
        if action is Action.RUN_MAINTENANCE:
            check_internal_catalog(known.catalog, "maintain a table")
        if action is not Action.GET_MAINTENANCE:
            check_served(known.catalog, MAINTENANCE_JOBS)
        return known

    async def _seen(self, known: LiveEntry, stored: StoredJob) -> JobView:
        compaction = stored.findings.compaction
        if compaction is None or compaction.task_id is None:
            return JobView(known, stored)
        try:
            return JobView(known, stored, await self._tasks.find(self._f.meta, compaction.task_id))
        except NotFound:
            return JobView(known, stored)


def build_maintenance_jobs(
    object_context: ObjectContext,
    authorizer: CatalogAuthorizer,
    catalogs: CatalogService,
    entries: Entries,
    files: CatalogFiles,
    commits: Commits,
    tasks: TaskQueue,
    *,
    safety_window_ms: int,
    worker_id: str,
) -> tuple[MaintenanceJobs, BackgroundMaintenance]:
    """The use cases, and the background maintenance."""
    configs = MaintenanceConfigs(object_context, authorizer, catalogs, entries)
    jobs = JobStore(object_context.meta, tasks)
    executor = JobExecutor(object_context, entries, files, jobs)
    quarantine = Quarantine(object_context, jobs)
    scheduling = JobScheduling(object_context, configs, jobs, executor, quarantine, safety_window_ms=safety_window_ms)
    submissions = TaskSubmissions(object_context.outbox, object_context.clock, tasks)
    operating = OperatorRequests(
        object_context, configs, jobs, executor, commits, submissions, safety_window_ms=safety_window_ms
    )
    review = QuarantineReview(object_context, jobs, quarantine)
    return (
        MaintenanceJobs(object_context, entries, configs, jobs, operating, scheduling, review, tasks),
        BackgroundMaintenance(object_context, entries, jobs, scheduling, quarantine, worker_id),
    )
