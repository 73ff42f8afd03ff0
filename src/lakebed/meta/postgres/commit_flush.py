"""Group commit on PostgreSQL: commits return before they are durable, and one flush then covers all earlier ones.

A commit that waits for the disk holds its locks, among them the lock for event appends (see `outbox`): one commit per
flush. Committing first and flushing afterwards lets waiting writers share a flush. PostgreSQL writes its WAL in order,
so one small synchronous commit makes all earlier commits durable.
"""

from __future__ import annotations

from typing import Any

from lakebed.core.shared_runs import SharedRuns

_WAITING_COMMIT = "SELECT pg_logical_emit_message(true, 'lakebed', '')"
"""A commit that touches no table, with the durability of the server's `synchronous_commit`."""


class CommitFlush:
    """Flushes of one database, on a separate pool: at most one in flight, further callers share the next."""

    def __init__(self, pool: Any) -> None:  # Any: asyncpg comes without types
        self._pool = pool
        self._runs = SharedRuns(self._flush)

    async def wait(self) -> None:
        """Return when all earlier commits are on stable storage. Raises what the driver raises."""
        await self._runs.wait()

    async def _flush(self) -> None:
        await self._pool.execute(_WAITING_COMMIT)
