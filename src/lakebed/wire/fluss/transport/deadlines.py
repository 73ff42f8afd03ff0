"""Limits a write to the timeout of its request, then answers REQUEST_TIME_OUT: the outcome is unknown.

Records that have an offset by then stay in the log and become stable later; the others are never appended. A writer
with a writer id retries without duplicates. Other writers may write twice, as after any lost response.
"""

from __future__ import annotations

import asyncio
from types import TracebackType

from lakebed.fluss.errors import ErrorCode, FlussError

__all__ = ["CallTimeout"]


class CallTimeout:
    """A context that raises REQUEST_TIME_OUT after its timeout; 0 is no timeout."""

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
        except TimeoutError as error:
            raise FlussError(
                ErrorCode.REQUEST_TIME_OUT,
                f"write not durable in time; it may still succeed. timeout_ms={self._timeout_ms}",
            ) from error
