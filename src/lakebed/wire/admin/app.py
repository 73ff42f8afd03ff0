"""`/health/live`, `/health/ready` and `/metrics`."""

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
"""Returns if the dependency can be used; raises LakebedError with the reason if it cannot."""

_CHECK_SECONDS: Final = 5.0
"""How long a dependency may take to answer before it counts as away."""


class AdminApplication:
    """Health probes and metrics. Answers without authentication: responses hold no secrets, and probes have no keys."""

    def __init__(self, checks: Mapping[str, ReadinessCheck], render_metrics: Callable[[], bytes]) -> None:
        """`checks` by the name of the dependency, in the order in which `/health/ready` lists them."""
        self._checks = checks
        # Shared: a check reads the object store, and anonymous callers decide how often they ask.
        self._runs = SharedRuns(self._failures)
        self._render_metrics = render_metrics

    async def __call__(self, request: Request) -> Response:
        """Answer one request."""
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
        """One line per dependency: 200 if all can be used, 503 if any cannot."""
        failed = await self._runs.wait()
        if failed:
            return _text(503, "".join(f"not ready: {each}\n" for each in failed))
        return _text(200, "ready\n")

    async def _failures(self) -> list[str]:
        """The dependencies that cannot be used, with the reasons."""
        results = await asyncio.gather(*(_result(name, check) for name, check in self._checks.items()))
        return [f"{name}: {reason}" for name, reason in zip(self._checks, results, strict=True) if reason]


async def _result(name: str, check: ReadinessCheck) -> str:
    """Why the dependency cannot be used; empty if it can."""
    try:
        async with asyncio.timeout(_CHECK_SECONDS):
            await check()
    except LakebedError as error:
        return str(error)
    except TimeoutError:
        return f"no answer within {_CHECK_SECONDS:g} s"
    except Exception:
        log.exception("readiness check failed", extra={"dependency": name})
        return "the check failed; see the server's log"
    return ""


def _text(status: int, body: str) -> Response:
    return Response(
        status, [("Content-Type", "text/plain; charset=utf-8"), ("Cache-Control", "no-store")], body.encode()
    )
