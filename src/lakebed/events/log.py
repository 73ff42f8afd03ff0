"""The event log for readers: pages behind a cursor, of events that will still be there after a power loss.

A reader that goes on from a page's `next_after` sees every event that it asked for, once and in order. Nothing is
remembered here of readers; how long events stay for them is `meta.event_retention`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from lakebed.meta.outbox import OutboxEntry
from lakebed.objects.context import ObjectContext
from lakebed.objects.model import Caller

from .selection import EVERYTHING, EventSelection

READ_EVENTS: Final = "lakebed:ReadEvents"
READ_AUDIT: Final = "lakebed:ReadAudit"

MAX_EVENTS: Final = 1000
"""Most events of a page."""

AUDIT: Final = EventSelection(
    names=frozenset({"CatalogConfigured", "CatalogCreated", "CatalogDeleted"}),
    beginnings=(
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
"""What tells who may do what, what is done to tables by itself, who changed either, and who tried in vain."""

_MAX_LOOKED_AT: Final = 10_000
"""How many events are gone through for one page of a few kinds: then the page ends, and the reader asks again."""


@dataclass(frozen=True, slots=True)
class EventPage:
    """Some events, and where the log stands."""

    entries: Sequence[OutboxEntry]
    next_after: int
    """Behind the last event that was looked at, asked for or not."""
    last_seq: int
    first_seq: int
    """The newest and the oldest event there is; 0 if there is none."""


class EventLog:
    """The log, or the part of it that a right is for."""

    def __init__(self, context: ObjectContext, action: str = READ_EVENTS, within: EventSelection = EVERYTHING) -> None:
        """`action` is what readers of what is `within` have to be allowed."""
        self._context = context
        self._action = action
        self._within = within

    async def authorize(self, caller: Caller) -> None:
        """Return if the caller may read it. Raises AccessDenied."""
        await self._context.authorize_account(caller, self._action, "*")

    async def read(self, caller: Caller, selection: EventSelection, *, after: int, limit: int) -> EventPage:
        """Up to `limit` events after a number, oldest first. Raises AccessDenied."""
        await self.authorize(caller)
        meta, outbox = self._context.meta, self._context.outbox
        last = await outbox.last_seq(meta)
        first = await outbox.first_seq(meta)
        found: list[OutboxEntry] = []
        start, looked_at = after, 0
        while len(found) < limit and looked_at < _MAX_LOOKED_AT and after < last:
            asked = MAX_EVENTS if self._is_sparse(selection) else limit - len(found)
            entries = await outbox.read_after(meta, after, asked)
            if not entries:
                break
            for entry in entries:
                looked_at += 1
                after = entry.seq
                if self._within.matches(entry.event) and selection.matches(entry.event):
                    found.append(entry)
                    if len(found) == limit:
                        break
        if last > start:
            # A number that is told is never given to another event, even if the machine stops now.
            await meta.sync()
        return EventPage(found, after, max(last, after if looked_at else 0), first)

    async def wait_for_event(self, after: int, timeout_seconds: float) -> bool:
        """Wait until there is an event after a number, of whatever kind; False if the time was over first."""
        return await self._context.outbox.wait_for_event(after, timeout_seconds)

    def _is_sparse(self, selection: EventSelection) -> bool:
        """Whether events have to be passed over."""
        return not (self._within.is_everything and selection.is_everything)


def audit_trail(context: ObjectContext) -> EventLog:
    """What tells of rights, policies and refusals: for those who may read no more of the log than this."""
    return EventLog(context, READ_AUDIT, AUDIT)
