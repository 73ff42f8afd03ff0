"""Serves `/health/live`, `/health/ready` and `/metrics`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from lakebed.core.errors import LakebedError
from lakebed.core.shared_runs import SharedRuns
from lakebed.wire.http.message import Request, Response

log = logging.getLogger("lakebed.admin")

LIVE_PATH: Final = "/health/live"
READY_PATH: Final = "/health/ready"
HEALTH_PATHS: Final = (LIVE_PATH, READY_PATH)
METRICS_PATH: Final = "/metrics"

METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

ReadinessCheck = Callable[[], Awaitable[None]]
"""Returns if the dependency is available; raises LakebedError with the reason if it is not."""

_CHECK_SECONDS: Final = 5.0
"""A dependency that does not answer within this time is unavailable."""


class AdminApplication:
    """Health probes and metrics, without authentication: probes have no credentials, and responses no secrets."""

    def __init__(self, checks: Mapping[str, ReadinessCheck], render_metrics: Callable[[], bytes]) -> None:
        """`checks` by the name of the dependency, in the order of `/health/ready`."""
        self._checks = checks
        # Concurrent requests share a run: a check reads the object store, and anonymous callers can send any number.
        self._runs = SharedRuns(self._failures)
        self._render_metrics = render_metrics

    async def __call__(self, request: Request) -> Response:
        """Respond to one request."""
        if request.method not in ("GET", "HEAD"):
            return _text(405, "method not allowed\n")
        if request.raw_path == LIVE_PATH:
            return _text(200, "live\n")
        if request.raw_path == READY_PATH:
            return await self._ready()
        if request.raw_path == METRICS_PATH:
            return Response(200, [("Content-Type", METRICS_TYPE)], self._render_metrics())
        return _text(404, "not found\n")

    async def _ready(self) -> Response:
        """200 if all dependencies are available; 503 with a line per unavailable one."""
        failed = await self._runs.wait()
        if failed:
            return _text(503, "".join(f"not ready: {each}\n" for each in failed))
        return _text(200, "ready\n")

    async def _failures(self) -> list[str]:
        """The unavailable dependencies, with the reasons."""
        results = await asyncio.gather(*(_result(name, check) for name, check in self._checks.items()))
        return [f"{name}: {reason}" for name, reason in zip(self._checks, results, strict=True) if reason]


async def _result(name: str, check: ReadinessCheck) -> str:
    """Why the dependency is unavailable; empty if it is available."""
    try:
        async with asyncio.timeout(_CHECK_SECONDS):
            await check()
    except LakebedError as error:
        return str(error)
    except TimeoutError:
        return f"no response within {_CHECK_SECONDS:g} s"
    except Exception:
        log.exception("readiness check failed", extra={"dependency": name})
        return "the check failed; see the server's log"
    return ""


def _text(status: int, body: str) -> Response:
    return Response(
        status, [("Content-Type", "text/plain; charset=utf-8"), ("Cache-Control", "no-store")], body.encode()
    )
