"""How long a write may take: as long as its client said, and then the client is told that nobody knows yet.

What has its place in the log by then stays there and becomes stable when it can: only the waiting ends. What has none
never gets one. Writers that number their batches send them again and are told of the first place, so nothing is there
twice; those that do not may write twice, as with every answer that is lost.
"""

from __future__ import annotations

import asyncio
from types import TracebackType

from lakebed.fluss.errors import ErrorCode, FlussError

__all__ = ["CallTimeout"]


class CallTimeout:
    """A context that ends with TIMED_OUT when its time is over. Without a time it lasts as long as it takes."""

    __slots__ = ("_timeout", "_timeout_ms")

    def __init__(self, timeout_ms: int) -> None:
        self._timeout_ms = timeout_ms
        self._timeout = asyncio.timeout(timeout_ms / 1000 if timeout_ms > 0 else None)

    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._timeout.__aexit__(kind, error, trace)
        except TimeoutError as over:
            raise FlussError(
                ErrorCode.REQUEST_TIME_OUT,
                f"not on stable storage in time; it may be later. timeout_ms={self._timeout_ms}",
            ) from over
