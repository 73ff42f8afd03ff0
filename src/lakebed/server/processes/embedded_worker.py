"""The embedded worker: started by the server when due tasks are not leased by other workers.

It is a separate process that uses only the public wires, as any worker does: Spark and its JVM take no memory from the
processes that serve requests, and exit some time after the last task.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from lakebed.core.jobs import JobKind
from lakebed.core.settings import EmbeddedWorker, PipelineSettings, Settings
from lakebed.core.settings.kinds import quoted
from lakebed.meta.leases import Lease, Leases
from lakebed.meta.tasks import TaskQueue

from ..stores.identity import Identity

log = logging.getLogger("lakebed.server")

_LEASE_NAME: Final = "embedded worker"
_LEASE_SECONDS: Final = 60.0
_PATIENCE_SECONDS: Final = 3.0
"""How long due tasks are left to external workers."""
_LOOK_SECONDS: Final = 60.0
_IDLE: Final = "10m"
"""Kept running for a while, because starting Spark takes seconds."""
_FIRST_PAUSE_SECONDS: Final = 30.0
_LONGEST_PAUSE_SECONDS: Final = 900.0
_GRACE_SECONDS: Final = 10.0

_KINDS: Final = tuple(str(kind) for kind in JobKind)


class WorkerStarter:
    """Starts a worker for due tasks, one at a time among all servers that share the metadata store."""

    def __init__(self, settings: Settings, identity: Identity, tasks: TaskQueue, leases: Leases) -> None:
        self._settings = settings
        self._identity = identity
        self._tasks = tasks
        self._leases = leases
        self._holder = f"{socket.gethostname()}:{os.getpid()}"

    async def run(self) -> None:
        """Start a worker whenever tasks wait, until cancelled."""
        if self._settings.pipeline.embedded_worker is EmbeddedWorker.OFF:
            return
        pause = _FIRST_PAUSE_SECONDS
        while True:
            try:
                if not await self._is_needed():
                    continue
                lease = await self._leases.acquire(_LEASE_NAME, self._holder, _LEASE_SECONDS)
                if lease is None:
                    await asyncio.sleep(_LEASE_SECONDS / 2)
                    continue
                try:
                    is_well = await self._work(lease)
                finally:
                    await self._leases.release(lease)
            except Exception as error:
                log.warning("embedded worker failed to start; retrying", exc_info=error)
                is_well = False
            # A worker that cannot run tasks reports the reason in the task, and would fail the next tasks too.
            pause = _FIRST_PAUSE_SECONDS if is_well else min(2 * pause, _LONGEST_PAUSE_SECONDS)
            if not is_well:
                await asyncio.sleep(pause)

    async def _is_needed(self) -> bool:
        """Whether a task is due, and still is after external workers had time to lease it."""
        if not await self._tasks.wait_for_work(_KINDS, _LOOK_SECONDS):
            return False
        await asyncio.sleep(_PATIENCE_SECONDS)
        return await self._tasks.wait_for_work(_KINDS, 0)

    async def _work(self, lease: Lease) -> bool:
        """Run a worker until it is idle; whether it exited with 0."""
        with TemporaryDirectory(prefix="lakebed-worker-") as folder:
            settings = Path(folder) / "worker.toml"
            settings.write_text(pipeline_file(self._settings.pipeline), encoding="utf-8")
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "lakebed", "pipeline", "worker"),
                *("--config", str(settings), "--with-parent", str(os.getpid()), "--idle", _IDLE),
                env=self._environment(os.environ),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                # It logs to the server's stderr.
                stderr=None,
            )
            log.info("embedded worker started", extra={"worker": process.pid})
            ended = asyncio.create_task(process.wait())
            try:
                while not (await asyncio.wait((ended,), timeout=_LEASE_SECONDS / 3))[0]:
                    lease = await self._leases.renew(lease, _LEASE_SECONDS)
            finally:
                await _end(process, ended)
            return process.returncode == 0

    def _environment(self, inherited: Mapping[str, str]) -> dict[str, str]:
        """The worker's environment: the server's address and root's keys. Settings are in its file."""
        settings = self._settings
        environment = {name: value for name, value in inherited.items() if not name.startswith(("LAKEBED_", "AWS_"))}
        environment |= {
            "LAKEBED_ENDPOINT": settings.pipeline.endpoint or settings.server.local_catalog_url,
            "LAKEBED_ACCESS_KEY": self._identity.root_access_key,
            "LAKEBED_SECRET_KEY": self._identity.root_secret_key.reveal(),
            "LAKEBED_REGION": settings.server.region,
        }
        if settings.server.catalog_listen is not None:
            environment["LAKEBED_S3_ENDPOINT"] = settings.tables.s3_endpoint or settings.server.local_url
        if settings.streams.listen is not None:
            environment["LAKEBED_STREAMS"] = str(settings.streams.listen.as_local)
        if settings.server.tls_cert is not None:
            environment["AWS_CA_BUNDLE"] = str(Path(settings.server.tls_cert).absolute())
        return environment


def pipeline_file(pipeline: PipelineSettings) -> str:
    """The worker's settings as a file: names of Spark properties are not valid in environment variables."""
    lines = [
        "[pipeline]",
        f"master = {quoted(pipeline.master)}",
        f"lease = {pipeline.lease}",
        f"delegation = {quoted(pipeline.delegation)}",
        f"driver_memory = {pipeline.driver_memory}",
        "[pipeline.spark]",
        *(f"{quoted(name)} = {quoted(value.reveal())}" for name, value in pipeline.spark.items()),
    ]
    return "\n".join((*lines, ""))


async def _end(process: asyncio.subprocess.Process, ended: asyncio.Task[int]) -> None:
    """Stop a worker. Its task is leased to another worker when the lease expires."""
    if ended.done():
        return
    with suppress(ProcessLookupError):
        process.send_signal(signal.SIGTERM)
    done, _ = await asyncio.wait((ended,), timeout=_GRACE_SECONDS)
    if not done:
        with suppress(ProcessLookupError):
            process.kill()
        await ended
