"""`/health/live`, `/health/ready` and `/metrics`."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final

from lakebed.core.errors import LakebedError
from lakebed.wire.http.message import Request, Response

log = logging.getLogger("lakebed.admin")

METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class AdminApplication:
    """Answers without authentication: what it says is harmless, and probes have no keys."""

    def __init__(self, check: Callable[[], Awaitable[None]], render_metrics: Callable[[], bytes]) -> None:
        self._check = check
        self._render_metrics = render_metrics

    def handles(self, path: str) -> bool:
        """Whether the path is one of these surfaces."""
        return path.startswith("/health/") or path == "/metrics"

    async def __call__(self, request: Request) -> Response:
        """Answer one request."""
        if request.method not in ("GET", "HEAD"):
            return _text(405, "method not allowed\n")
        if request.raw_path == "/health/live":
            return _text(200, "live\n")
        if request.raw_path == "/health/ready":
            try:
                await self._check()
            except LakebedError as error:
                return _text(503, f"not ready: {error}\n")
            except Exception:
                log.exception("the metadata store could not be asked")
                return _text(503, "not ready: the metadata store could not be asked\n")
            return _text(200, "ready\n")
        if request.raw_path == "/metrics":
            return Response(200, [("Content-Type", METRICS_TYPE)], self._render_metrics())
        return _text(404, "not found\n")


def _text(status: int, body: str) -> Response:
    return Response(
        status, [("Content-Type", "text/plain; charset=utf-8"), ("Cache-Control", "no-store")], body.encode()
    )
