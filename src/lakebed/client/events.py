"""The client of the event log and the audit log: events in commit order, read by cursor.

A cursor is the id or number of the last event read. A reader that resumes at `next_cursor` reads every later event once
and in order. Exception: expired events, see `may_have_missed`. Prefer ids: other deployments reject them, but not
numbers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from .connection import ServerConnection
from .tasks import MAX_WAIT_SECONDS

DEFAULT_LIMIT: Final = 1000


class Event(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """An event."""

    seq: int
    """Number in the log of the deployment."""
    kind: str
    subject: str
    occurred_ms: int
    id: str = ""
    """`evt_DEPLOYMENT_NUMBER`, unique among all deployments; empty from servers of earlier versions."""
    type: str = ""
    """`AFTER_X` for an operation X; empty for changes by the server itself."""
    payload: dict[str, Any] = {}
    """Details; bytes are in base64. Any: JSON."""


class EventPage(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """A page of events, and the range of the log."""

    events: list[Event]
    next_after: int
    """Cursor of the next page, as a number: the last event examined, selected or not."""
    next_cursor: str = ""
    """Cursor of the next page, as an id, which other deployments reject."""
    deployment: str = ""
    """Deployment of the events."""
    last_seq: int
    """The newest event; 0 if there is none."""
    first_seq: int
    """The oldest retained event; 0 if there is none."""

    def may_have_missed(self, after: int) -> bool:
        """Whether events after `after` may have expired unread.

        Also True if only gaps lie between: numbers of transactions that were rolled back.
        """
        return self.first_seq > after + 1


class Events:
    """The API of the event log and the audit log."""

    def __init__(self, connection: ServerConnection, path: str = "/lakebed/v1/events") -> None:
        self._connection = connection
        self._path = path

    def read(
        self,
        after: int | str = 0,
        *,
        limit: int = DEFAULT_LIMIT,
        wait_seconds: float = 0.0,
        kinds: Sequence[str] = (),
        subject: str = "",
        principal: str = "",
    ) -> EventPage:
        """Up to `limit` events after `after`. If there are none, waits up to `wait_seconds` for some.

        `after` is a number, or an event id; raises InvalidInput for an id of another deployment.
        `kinds` are event kinds, `AFTER_` types, or prefixes of either followed by `*`. `subject` is a resource or a
        container of it; `principal` caused the event.
        """
        query = {"after": str(after), "limit": str(limit)}
        if wait_seconds > 0:
            query["wait-seconds"] = f"{min(wait_seconds, MAX_WAIT_SECONDS):g}"
        if kinds:
            query["kind"] = ",".join(kinds)
        if subject:
            query["subject"] = subject
        if principal:
            query["principal"] = principal
        return self._connection.read(EventPage, "GET", self._path, query=query, wait_seconds=wait_seconds)

    def pages(
        self,
        after: int | str = 0,
        *,
        until: int | None = None,
        limit: int = DEFAULT_LIMIT,
        kinds: Sequence[str] = (),
        subject: str = "",
        principal: str = "",
    ) -> Iterator[EventPage]:
        """Pages of events after `after`, up to `until` or the newest event at the first page."""
        place = after if isinstance(after, int) else None
        while until is None or place is None or place < until:
            page = self.read(after, limit=limit, kinds=kinds, subject=subject, principal=principal)
            if until is None:
                until = page.last_seq
            if page.events and page.events[-1].seq > until:
                kept = [event for event in page.events if event.seq <= until]
                yield msgspec.structs.replace(page, events=kept, next_after=until)
                return
            yield page
            if place is not None and page.next_after <= place:
                return
            place, after = page.next_after, page.next_cursor or page.next_after

    def newest(
        self, count: int, *, kinds: Sequence[str] = (), subject: str = "", principal: str = ""
    ) -> Sequence[Event]:
        """The newest `count` selected events, oldest first.

        Reads the log from its end in doubling ranges; for rare events that may be all of it.
        """
        log = self.read(limit=0)
        found: list[Event] = []
        until, span = log.last_seq, max(count, DEFAULT_LIMIT)
        while len(found) < count and until >= log.first_seq > 0:
            after = max(log.first_seq - 1, until - span)
            pages = self.pages(after, until=until, kinds=kinds, subject=subject, principal=principal)
            found[:0] = deque((event for page in pages for event in page.events), maxlen=count - len(found))
            until, span = after, span * 2
        return found

    def follow(
        self,
        after: int | str = 0,
        *,
        kinds: Sequence[str] = (),
        subject: str = "",
        principal: str = "",
        wait_seconds: float = MAX_WAIT_SECONDS,
    ) -> Iterator[Event]:
        """Every event after `after`, then new events, without end."""
        while True:
            page = self.read(after, wait_seconds=wait_seconds, kinds=kinds, subject=subject, principal=principal)
            yield from page.events
            after = page.next_cursor or page.next_after
