"""Events and the audit trail: what happened, in the order in which it was committed, read by cursor.

A cursor is the id or the number of the last event that was read. A reader that resumes behind `next_cursor` reads every
later event that it selects, exactly once and in order, however often the connection broke in between. The exception are
events that were no longer kept: `may_have_missed` says so. An id is refused by any other deployment than its own, where
the same number is another event; a number is not.
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
    """What happened."""

    seq: int
    """Its number in the log of its deployment."""
    kind: str
    subject: str
    occurred_ms: int
    id: str = ""
    """`evt_DEPLOYMENT_NUMBER`, unique among all deployments; empty from servers of earlier versions."""
    type: str = ""
    """`AFTER_X` for what came of an operation X; empty for what the server did by itself."""
    payload: dict[str, Any] = {}
    """What is known of it; bytes are in base64. Any: JSON."""


class EventPage(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """Some events, and where the log of them stands."""

    events: list[Event]
    next_after: int
    """Where to go on: behind the last event that was looked at, asked for or not."""
    next_cursor: str = ""
    """The same as an id, which no other deployment takes for its own."""
    deployment: str = ""
    """Which deployment the events are of."""
    last_seq: int
    """The newest event; 0 if there is none."""
    first_seq: int
    """The oldest event that is still kept; 0 if there is none."""

    def may_have_missed(self, after: int) -> bool:
        """Whether events after `after` may have gone before they were read: the oldest that is kept is later.

        True also when nothing but gaps lies between: numbers of changes that were taken back.
        """
        return self.first_seq > after + 1


class Events:
    """The event log or the audit trail, over the wire."""

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
        """Up to `limit` events after `after`; if there are none, those that come within `wait_seconds`.

        `after` is a number, or an event id; raises InvalidInput for an id of another deployment.
        `kinds` are names, `AFTER_` names of operations, or beginnings of either followed by `*`; `subject` is what they
        are about, or what that is in; `principal` is who did it.
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
        """Pages of what there is after `after`, up to `until` or what is newest when the first page is read."""
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
        """The newest `count` of the events that are selected, oldest first.

        The log is read from its end, in ranges that double: rare events may take a look at all of it.
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
        """Every event after `after`, and then each as it comes, for as long as somebody asks for the next."""
        while True:
            page = self.read(after, wait_seconds=wait_seconds, kinds=kinds, subject=subject, principal=principal)
            yield from page.events
            after = page.next_cursor or page.next_after
