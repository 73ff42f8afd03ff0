"""Random triggers, heartbeats, failures and waits, compared with a model of the job lifecycle after every step."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from lakebed.catalog.maintenance.jobs.execution import JobExecutor, Surveyed
from lakebed.catalog.maintenance.jobs.job_store import StoredJob
from lakebed.core.clock import ManualClock
from lakebed.core.errors import CommitConflict, StateConflict, Unavailable
from tests.catalog.harness import set_properties
from tests.catalog.maintenance.job_catalog import JobCatalog, open_job_catalog
from tests.objects.stores import ROOT, opened_store

T = TypeVar("T")

LEASES = (10, 30)


@dataclass(frozen=True)
class ModelConfig:
    """The configuration that the lifecycle depends on."""

    background: bool = False
    paused: bool = False
    deletes: bool = False
    lease: int = 10
    attempts: int = 0
    first_pause: int = 5
    longest_pause: int = 300

    def fields(self) -> dict[str, Any]:
        return {
            "background_enabled": self.background,
            "worker_paused": self.paused,
            "delete_enabled": self.deletes,
            "worker_lease_timeout_seconds": self.lease,
            "max_retry_attempts": self.attempts,
            "retry_initial_backoff_seconds": self.first_pause,
            "retry_max_backoff_seconds": self.longest_pause,
        }


@dataclass(frozen=True)
class ModelJob:
    """The current job. Times are seconds since the start."""

    id: str
    status: str
    config: ModelConfig
    version: int
    attempt: int
    sign: float
    """The time of its last heartbeat."""
    worker: str = ""
    lease: str = ""
    retry_at: float | None = None

    @property
    def is_held(self) -> bool:
        return self.status in ("QUEUED", "RUNNING")


class Killed(BaseException):
    """The worker's process ends."""


class JobMachine(RuleBasedStateMachine):
    """One event loop, one table and one model per example."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.stack = AsyncExitStack()
        self.clock = ManualClock()
        self.now = 0.0
        folder = Path(self.stack.enter_context(TemporaryDirectory()))
        opening = opened_store(f"sqlite:{folder / 'meta.db'}", "memory", folder, self.clock)
        store = self.run(self.stack.enter_async_context(opening))
        self.job_catalog: JobCatalog = self.run(open_job_catalog(store))
        self.table = self.run(self.job_catalog.table())
        self.config = ModelConfig()
        self.current: ModelJob | None = None
        self.version = 0
        self.numbers = 0
        self.seen: set[str] = set()
        self.mood = "well"
        self.patch = pytest.MonkeyPatch()
        self._patch_executor()

    def _patch_executor(self) -> None:
        survey, run = JobExecutor.survey, JobExecutor.run

        async def failing_survey(executor: JobExecutor, entry_id: str, **how: Any) -> Surveyed:
            if self.mood == "failing":
                raise Unavailable("not now")
            return await survey(executor, entry_id, **how)

        async def failing_run(executor: JobExecutor, *arguments: Any) -> StoredJob:
            if self.mood == "killed":
                raise Killed
            return await run(executor, *arguments)

        self.patch.setattr(JobExecutor, "survey", failing_survey)
        self.patch.setattr(JobExecutor, "run", failing_run)

    def run(self, work: Coroutine[Any, Any, T]) -> T:  # Any: coroutines yield values of the event loop
        return self.runner.run(work)

    def teardown(self) -> None:
        self.patch.undo()
        self.run(self.stack.aclose())
        self.runner.close()

    # -- the model ------------------------------------------------------------------------------------------------

    def blocking(self, trigger: str) -> str | None:
        """The outcome of a trigger: a control status, `current`, or none. Fails the job if its lease expired."""
        if not self.config.background:
            return "DISABLED"
        if self.config.paused:
            return "PAUSED"
        job = self.current
        if job is None:
            return None
        if job.is_held:
            if self.now < job.sign + job.config.lease:
                return None if job.status == "QUEUED" and trigger == "worker" else "current"
            self.current = replace(job, status="FAILED", retry_at=None)
            return None
        if job.status == "FAILED" and job.retry_at is not None and self.now < job.retry_at:
            return "current"
        return None

    def attempts_before(self) -> int:
        """Failed attempts that a new job continues from."""
        job = self.current
        return job.attempt if job is not None and job.status == "FAILED" and job.attempt < job.config.attempts else 0

    def failed(self, job: ModelJob) -> ModelJob:
        retry_at = None
        if job.attempt < job.config.attempts:
            pause = min(job.config.first_pause * 2 ** (job.attempt - 1), job.config.longest_pause)
            retry_at = self.now + pause
        return replace(job, status="FAILED", retry_at=retry_at)

    def check(self, stored: StoredJob, expected: ModelJob) -> None:
        job = stored.job
        assert job.id == expected.id
        assert (job.status.value, job.attempt) == (expected.status, expected.attempt)
        wanted = None if expected.retry_at is None else round(expected.retry_at * 1000)
        found = (
            None if job.next_retry_ms is None else job.next_retry_ms - (self.clock.now_ms() - round(self.now * 1000))
        )
        assert found == wanted

    # -- steps ----------------------------------------------------------------------------------------------------

    @rule(
        config=st.builds(
            ModelConfig,
            background=st.sampled_from([True, True, True, False]),
            paused=st.sampled_from([False, False, False, True]),
            deletes=st.booleans(),
            lease=st.sampled_from(LEASES),
            attempts=st.sampled_from([0, 1, 2, 3]),
            first_pause=st.sampled_from([1, 5]),
            longest_pause=st.sampled_from([5, 8]),
        )
    )
    def configure(self, config: ModelConfig) -> None:
        self.run(self.job_catalog.configure(self.table, **config.fields()))
        self.config = config

    @rule(seconds=st.sampled_from([1, 4, 9, 10, 29, 31]))
    def wait(self, seconds: int) -> None:
        self.clock.advance(seconds)
        self.now += seconds

    @rule()
    def commit(self) -> None:
        self.version += 1
        self.run(self.job_catalog.catalog.commit(self.table, set_properties(a=str(self.version))))

    @rule()
    def schedule(self) -> None:
        self.mood = "well"
        stored = self.run(self.job_catalog.schedule(self.table, "s"))
        in_the_way = self.blocking("scheduler")
        if in_the_way == "current":
            assert self.current is not None
            self.check(stored, self.current)
        elif in_the_way is not None:
            self.check_control(stored, in_the_way)
        else:
            self.check_new(stored)
            attempt = self.attempts_before()
            self.current = ModelJob(stored.job.id, "QUEUED", self.config, self.version, attempt, self.now)
            self.check(stored, self.current)
            assert stored.job.operation == ("DELETE" if self.config.deletes else "DRY_RUN")

    @rule(mood=st.sampled_from(["well", "failing", "killed"]))
    def work(self, mood: str) -> None:
        self.mood = mood
        self.numbers += 1
        worker = f"w{self.numbers}"
        stored: StoredJob | None = None
        is_stale = False
        try:
            stored = self.run(self.job_catalog.work(self.table, worker))
        except Killed:
            pass
        except CommitConflict:
            is_stale = True
        in_the_way = self.blocking("worker")
        if in_the_way is not None:
            assert stored is not None
            if in_the_way == "current":
                assert self.current is not None
                self.check(stored, self.current)
            else:
                self.check_control(stored, in_the_way)
            return
        claimed = self.current if self.current is not None and self.current.status == "QUEUED" else None
        if claimed is not None and (claimed.version != self.version or claimed.config != self.config):
            assert is_stale
            self.current = replace(claimed, status="FAILED", retry_at=None)
            return
        assert not is_stale
        now = self.run(self.job_catalog.job(self.table))
        if claimed is None:
            self.check_new(now)
            begun = ModelJob(now.job.id, "RUNNING", self.config, self.version, self.attempts_before() + 1, self.now)
        else:
            begun = replace(claimed, status="RUNNING", attempt=claimed.attempt + 1, sign=self.now)
        begun = replace(begun, worker=worker, lease=now.job.lease_id)
        if mood == "killed":
            assert stored is None
            self.current = begun
        else:
            self.current = self.failed(begun) if mood == "failing" else replace(begun, status="SUCCESSFUL")
            assert stored is not None
            self.check(stored, self.current)

    @precondition(lambda self: self.current is not None)
    @rule(is_right=st.booleans())
    def heartbeat(self, is_right: bool) -> None:
        job = self.current
        assert job is not None
        lease = job.lease if is_right and job.lease else "other"
        beating = self.job_catalog.maintenance.heartbeat(
            ROOT, "lake", self.table, job.id, worker_id=job.worker or "w", lease_id=lease
        )
        if is_right and job.status == "RUNNING":
            self.run(beating)
            self.current = replace(job, sign=self.now)
        else:
            with pytest.raises(StateConflict):
                self.run(beating)

    # -- what holds -----------------------------------------------------------------------------------------------

    def check_new(self, stored: StoredJob) -> None:
        assert stored.job.id not in self.seen
        self.seen.add(stored.job.id)

    def check_control(self, stored: StoredJob, status: str) -> None:
        self.check_new(stored)
        assert (stored.job.status.value, stored.job.attempt) == (status, 0)

    @invariant()
    def the_current_job_is_the_model_s(self) -> None:
        view = self.run(self.job_catalog.view(self.table))
        if self.current is None:
            assert view.current is None
        else:
            self.check(self.run(self.job_catalog.job(self.table)), self.current)
        assert view.status.value == self.expected_status()

    def expected_status(self) -> str:
        if not self.config.background:
            return "DISABLED"
        if self.config.paused:
            return "PAUSED"
        job = self.current
        if job is not None and job.is_held and self.now < job.sign + job.config.lease:
            return "BACKPRESSURED" if job.status == "RUNNING" else "QUEUED"
        if job is not None and job.status == "FAILED" and job.retry_at is not None and self.now < job.retry_at:
            return "RETRY_DEFERRED"
        return "READY"
