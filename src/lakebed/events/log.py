"""The event log for API readers: pages of durable events after a cursor.

A reader that continues from `next_after` sees every selected event once and in order. The server keeps no state of
readers; events are retained for `meta.event_retention`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from lakebed.meta.outbox import OutboxEntry
from lakebed.objects.context import ObjectContext
from lakebed.objects.model import Caller

from .selection import ALL_EVENTS, EventSelection

READ_EVENTS: Final = "lakebed:ReadEvents"
READ_AUDIT: Final = "lakebed:ReadAudit"

MAX_EVENTS: Final = 1000
"""Maximum page size."""

AUDIT: Final = EventSelection(
    names=frozenset({"CatalogConfigured", "CatalogCreated", "CatalogDeleted"}),
    prefixes=(
        "AccessKey",
        "Attempt",
        "CatalogPolicy",
        "CatalogRole",
        "ClientCredentials",
        "Connection",
        "ExternalIdentity",
        "Grant",
        "Labels",
        "Policy",
        "PrincipalRole",
        "Target",
        "TokenKey",
        "User",
        "Webhook",
    ),
)
"""The audit trail: changes of permissions, policies and other configuration, and refused attempts."""

_MAX_SCANNED: Final = 10_000
"""Events scanned for one page of a selection. After that the page ends early, possibly empty."""


@dataclass(frozen=True, slots=True)
class EventPage:
    """A page of events, and the bounds of the log."""

    entries: Sequence[OutboxEntry]
    next_after: int
    """The last scanned event, selected or not."""
    last_seq: int
    """The newest event; 0 for an empty log."""
    first_seq: int
    """The oldest retained event; 0 for an empty log."""


class EventLog:
    """Reads the event log, or the part of it that an action permits."""

    def __init__(self, context: ObjectContext, action: str = READ_EVENTS, scope: EventSelection = ALL_EVENTS) -> None:
        """`action` is the permission that reading events in `scope` requires."""
        self._context = context
        self._action = action
        self._scope = scope

    async def authorize(self, caller: Caller) -> None:
        """Return if the caller has permission to read the log. Raises AccessDenied."""
        await self._context.authorize_account(caller, self._action, "*")

    async def read(self, caller: Caller, selection: EventSelection, *, after: int, limit: int) -> EventPage:
        """Up to `limit` events after a sequence number, oldest first. Raises AccessDenied."""
        await self.authorize(caller)
        meta, outbox = self._context.meta, self._context.outbox
        last = await outbox.last_seq(meta)
        first = await outbox.first_seq(meta)
        found: list[OutboxEntry] = []
        start, scanned = after, 0
        while len(found) < limit and scanned < _MAX_SCANNED and after < last:
            batch_size = MAX_EVENTS if self._filters(selection) else limit - len(found)
            entries = await outbox.read_after(meta, after, batch_size)
            if not entries:
                break
            for entry in entries:
                scanned += 1
                after = entry.seq
                if self._scope.matches(entry.event) and selection.matches(entry.event):
                    found.append(entry)
                    if len(found) == limit:
                        break
        if last > start:
            # Numbers that clients have seen must not be reused after a power loss.
            await meta.sync()
        return EventPage(found, after, max(last, after if scanned else 0), first)

    async def wait_for_event(self, after: int, timeout_seconds: float) -> bool:
        """Wait for an event of any kind after a sequence number; False on timeout."""
        return await self._context.outbox.wait_for_event(after, timeout_seconds)

    def _filters(self, selection: EventSelection) -> bool:
        """Whether the scope or the selection excludes events."""
        return not (self._scope.matches_all and selection.matches_all)


def audit_trail(context: ObjectContext) -> EventLog:
    """The part of the log that the permission `lakebed:ReadAudit` covers."""
    return EventLog(context, READ_AUDIT, AUDIT)
