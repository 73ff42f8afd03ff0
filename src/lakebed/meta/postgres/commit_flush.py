"""Stable storage for PostgreSQL's commits: they return before they are durable, one flush then covers all before it.

A commit that waits for the disk holds its locks meanwhile, and with them everybody who appends an event (see
`outbox`): one commit a flush. Committing first and flushing after lets those who queue for the lock share a flush.
The server writes its log in order, so a small commit that does wait for the disk takes all earlier ones with it.
"""

from __future__ import annotations

from typing import Any

from lakebed.core.shared_runs import SharedRuns

_WAITING_COMMIT = "SELECT pg_logical_emit_message(true, 'lakebed', '')"
"""Something to commit that touches no table. It waits for whatever the server's `synchronous_commit` says."""


class CommitFlush:
    """Flushes of one database, on connections of their own: at most one in flight, others share the next."""

    def __init__(self, pool: Any) -> None:  # Any: asyncpg comes without types
        self._pool = pool
        self._runs = SharedRuns(self._flush)

    async def wait(self) -> None:
        """Return when all that was committed before now is on stable storage. Raises what the driver raises."""
        await self._runs.wait()

    async def _flush(self) -> None:
        await self._pool.execute(_WAITING_COMMIT)
