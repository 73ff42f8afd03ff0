"""A worker process: serves the connections that the supervisor passes to it, and runs periodic jobs."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
from collections.abc import Awaitable, Callable
from typing import Final

from lakebed.catalog.maintenance.table_planner import PlanningTotals
from lakebed.core.errors import LakebedError
from lakebed.core.settings import Settings
from lakebed.events.rules import trim_versions
from lakebed.governance.principals import stored_policy_problems
from lakebed.meta.periodic import RETRY_SECONDS, PeriodicJob

from ..composition import WorkerParts, compose
from ..http.connections import WorkerConnections
from ..selects import block_numpy
from .child import Child, ChildContext, cancel_tasks, run_child

log = logging.getLogger("lakebed.server")

_PURGE_PAUSE_SECONDS: Final = 5.0
_SCHEDULER_PAUSE_SECONDS: Final = 5.0
_TOKEN_KEYS_SECONDS: Final = 600.0
_FIRST_WORKER: Final = 0
"""The worker that logs what a server logs once per start."""


def serve(context: ChildContext) -> int:
    """Run a worker until the supervisor stops it; returns the exit status."""
    block_numpy()
    return run_child(context, _serve)


async def _serve(child: Child) -> None:
    settings = child.context.settings
    checks = child.context.processes.readiness_checks()
    async with compose(settings, child.context.identity, child.metrics, checks) as parts:
        connections = WorkerConnections(
            parts.apps,
            limit=max(1, settings.server.max_connections // settings.server.workers),
            tls=child.context.certificate,
            report=parts.instruments.connections.set,
        )
        child.when_certificate_changes(connections.use_certificate)
        background = [
            asyncio.create_task(connections.watch()),
            asyncio.create_task(parts.garbage_collector.run()),
            asyncio.create_task(_repeat("sweep", settings.objects.sweep_interval, parts, _sweep(parts))),
            asyncio.create_task(_repeat("lifecycle", settings.objects.lifecycle_interval, parts, _expire(parts))),
            asyncio.create_task(_repeat("outbox", settings.meta.trim_interval, parts, _trim(parts, settings))),
            asyncio.create_task(_repeat("bridges", settings.tables.bridge_interval, parts, _poll_bridges(parts))),
            *(
                asyncio.create_task(_repeat(name, settings.tables.maintenance_interval, parts, job))
                for name, job in _catalog_jobs(parts).items()
            ),
            asyncio.create_task(_repeat("token keys", _TOKEN_KEYS_SECONDS, parts, _rotate_keys(parts, settings))),
            asyncio.create_task(_purge_tables(parts)),
            asyncio.create_task(_run_scheduler(parts)),
            asyncio.create_task(parts.governance.recorder.run()),
            asyncio.create_task(parts.live.event_listeners.run()),
            asyncio.create_task(parts.live.accesses.run()),
            asyncio.create_task(parts.requests.behind.run()),
            asyncio.create_task(parts.worker_starter.run()),
            asyncio.create_task(parts.trace.run()),
        ]
        if child.context.number == _FIRST_WORKER:
            background.append(asyncio.create_task(_check_stored_policies(parts)))
        await child.wait_for_stop(connections.adopt)
        await connections.drain(settings.server.shutdown_grace)
        await cancel_tasks(background)


def _sweep(parts: WorkerParts) -> Callable[[], Awaitable[None]]:
    async def sweep() -> None:
        report = await parts.orphan_sweep.sweep()
        for kind, count in (
            ("garbage", report.garbage),
            ("orphan", report.orphans),
            ("stale_upload", report.stale_uploads),
            ("old_result", report.old_results),
        ):
            parts.instruments.swept.of(kind).add(count)

    return sweep


def _rotate_keys(parts: WorkerParts, settings: Settings) -> Callable[[], Awaitable[None]]:
    async def rotate() -> None:
        await parts.token_keys.rotate_older(settings.tokens.key_rotation)
        await parts.token_keys.delete_expired()

    return rotate


def _expire(parts: WorkerParts) -> Callable[[], Awaitable[None]]:
    async def expire() -> None:
        report = await parts.lifecycle.run()
        for kind, count in (
            ("expired", report.expired),
            ("version", report.versions_removed),
            ("marker", report.markers_removed),
            ("upload", report.uploads_aborted),
        ):
            parts.instruments.expired.of(kind).add(count)

    return expire


def _trim(parts: WorkerParts, settings: Settings) -> Callable[[], Awaitable[None]]:
    async def trim() -> None:
        before_ms = parts.clock.now_ms() - round(settings.meta.event_retention * 1000)
        while removed := await parts.outbox.trim(occurred_before_ms=before_ms):
            parts.instruments.swept.of("event").add(removed)
        await trim_versions(parts.meta, parts.outbox)

    return trim


def _poll_bridges(parts: WorkerParts) -> Callable[[], Awaitable[None]]:
    async def poll() -> None:
        await parts.bridges.poll_due()

    return poll


def _catalog_jobs(parts: WorkerParts) -> dict[str, Callable[[], Awaitable[None]]]:
    """The periodic jobs of the catalog by name. Separate, so that none delays another or fails with it."""
    jobs, instruments = parts.catalog_jobs, parts.instruments

    async def expire_dropped() -> None:
        instruments.dropped_tables.of("expired").add(await jobs.expire_dropped())

    async def remove_old() -> None:
        removed = await jobs.remove_old()
        for kind, count in (
            ("idempotency_key", removed.responses),
            ("engine_report", removed.reports),
            ("scan_plan", removed.plans),
            ("ended_task", removed.tasks),
            ("delegation", removed.delegations),
        ):
            instruments.removed_rows.of(kind).add(count)

    async def maintain() -> None:
        report = await jobs.maintain()
        instruments.maintenance_jobs.of("succeeded").add(report.jobs - report.failed)
        instruments.maintenance_jobs.of("failed").add(report.failed)
        for action, count in (
            ("deleted", report.deleted),
            ("quarantined", report.quarantined),
            ("purged", report.purged),
        ):
            instruments.maintenance_files.of(action).add(count)

    return {"dropped tables": expire_dropped, "old answers": remove_old, "table maintenance": maintain}


async def _purge_tables(parts: WorkerParts) -> None:
    """Run purge tasks of dropped tables as they are queued, in any idle worker."""
    while True:
        try:
            parts.instruments.dropped_tables.of("purged").add(await parts.catalog_jobs.purge_next())
            continue
        except LakebedError as error:
            log.warning("purge failed, retrying", extra={"job": "purge"}, exc_info=error)
        except Exception:
            log.exception("purge crashed, retrying", extra={"job": "purge"})
        await asyncio.sleep(_PURGE_PAUSE_SECONDS)


async def _run_scheduler(parts: WorkerParts) -> None:
    """Run the maintenance scheduler in one process at a time of all that share the metadata store."""
    instruments = parts.instruments

    def count(planned: PlanningTotals) -> None:
        instruments.planned_tables.add(planned.tables)
        instruments.planned_tasks.add(planned.tasks)
        instruments.withdrawn_tasks.add(planned.withdrawn)

    while True:
        try:
            await parts.catalog_jobs.schedule(count)
        except LakebedError as error:
            log.warning("maintenance scheduler failed, retrying", extra={"job": "scheduler"}, exc_info=error)
        except Exception:
            log.exception("maintenance scheduler crashed, retrying", extra={"job": "scheduler"})
        await asyncio.sleep(_SCHEDULER_PAUSE_SECONDS)


async def _check_stored_policies(parts: WorkerParts) -> None:
    """Warn about actions in stored user policies that match no request."""
    try:
        async for found in stored_policy_problems(parts.meta):
            log.warning(
                "stored policy has no effect as written: %s; correct it with `lakebed policy put`",
                found.problem,
                extra={"principal": found.principal, "policy": found.policy},
            )
    except LakebedError as error:
        log.warning("stored policies could not be checked", exc_info=error)


async def _repeat(name: str, seconds: float, parts: WorkerParts, work: Callable[[], Awaitable[None]]) -> None:
    """Run a job at intervals, in one process at a time of all that share the metadata store."""
    # Servers in containers may share host name and process id.
    holder = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
    job = PeriodicJob(parts.meta, parts.leases, parts.clock, name, holder, seconds, work)
    retry_seconds = min(seconds, RETRY_SECONDS)
    while True:
        try:
            wait_seconds = await job.step()
        except LakebedError as error:
            log.warning("periodic job failed", extra={"job": name, "retry_seconds": retry_seconds}, exc_info=error)
            wait_seconds = retry_seconds
        except Exception:
            # A bug must not end the job for the life of the process.
            log.exception("periodic job crashed", extra={"job": name, "retry_seconds": retry_seconds})
            wait_seconds = retry_seconds
        await asyncio.sleep(wait_seconds)
