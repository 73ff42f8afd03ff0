"""Attempts that were refused or failed, as the audit trail keeps them: who, what, on what, from where, and why not.

Whoever is refused is not kept waiting for the record of it: attempts are noted in memory and written to the outbox
together, a moment later, by each process for itself. What a process that is killed had not written yet, milliseconds
of it, is lost; one that ends writes it.

Nobody fills the trail by trying. The first attempt of a kind is written at once; the same again, by the same caller
from the same place on the same thing with the same answer, is counted, and the count written at the end of a minute. A
caller has at most a hundred kinds a minute, and all together five hundred; what is beyond is counted only.

    AttemptDenied       nobody showed who they are, or whoever it was may not
    AttemptVetoed       a listener refused
    AttemptLimited      it came too often
    AttemptFailed       a change that did not happen for any other reason, or something that broke
    AttemptsUncounted   how many were not written one by one
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, NamedTuple

import msgspec

from lakebed.core.clock import Clock
from lakebed.core.errors import AccessDenied, LakebedError, Throttled, Unauthenticated, Vetoed
from lakebed.core.operations import Operation
from lakebed.meta.outbox import Outbox, OutboxEvent
from lakebed.meta.seam import MetaStore, Transaction

log = logging.getLogger("lakebed.governance")

WINDOW_MS: Final = 60_000
MAX_KINDS: Final = 500
MAX_KINDS_PER_CALLER: Final = 100
MAX_CHARS: Final = 1024
"""Of each text: strangers choose some of them."""

_PAUSE_SECONDS: Final = 1.0


class RefusalOutcome(StrEnum):
    """How an attempt ended; also the kind of its event."""

    DENIED = "AttemptDenied"
    VETOED = "AttemptVetoed"
    LIMITED = "AttemptLimited"
    FAILED = "AttemptFailed"


UNCOUNTED: Final = "AttemptsUncounted"


@dataclass(frozen=True, slots=True)
class RefusalRecord:
    """Something that somebody tried."""

    edge: str
    """By which protocol: `catalog`, `management`, `admin`, `s3`, `oauth`."""
    route: str
    """What was asked for, by its name in that protocol: `dropTable`, `PutObject`."""
    operation: str
    """The same as an operation, where it is one: `DROP_TABLE`."""
    subject: str
    """On what: `lake/sales/orders`, `bucket/key`."""
    principal: str
    """Who, if that was found out."""
    claimed: str
    """Whose key it was said to be, if that was not found out."""
    source_ip: str
    request_id: str
    status: int
    outcome: RefusalOutcome
    reason: str


class RefusalEvent(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The payload."""

    edge: str = ""
    route: str = ""
    operation: str = ""
    principal: str = ""
    claimed: str = ""
    source_ip: str = ""
    request_id: str = ""
    """Of the last one, if there were several."""
    status: int = 0
    reason: str = ""
    count: int = 1
    first_ms: int = 0
    last_ms: int = 0
    """When the first and the last of several were."""


def outcome_of(error: LakebedError, status: int, *, changes: bool) -> RefusalOutcome | None:
    """How an attempt ended that was answered with an error; None for what is no attempt worth a word.

    That is a read that found nothing, or that was asked for in the wrong way.
    """
    if isinstance(error, Vetoed):
        return RefusalOutcome.VETOED
    if isinstance(error, AccessDenied | Unauthenticated) or status in (401, 403):
        return RefusalOutcome.DENIED
    if isinstance(error, Throttled):
        return RefusalOutcome.LIMITED
    return RefusalOutcome.FAILED if status >= 500 or (changes and status >= 400) else None


class _Kind(NamedTuple):
    outcome: RefusalOutcome
    edge: str
    route: str
    subject: str
    principal: str
    claimed: str
    source_ip: str
    status: int


@dataclass(slots=True)
class _Repeated:
    """What came after the first attempt of a kind."""

    last: RefusalRecord
    first_ms: int
    last_ms: int
    count: int = 0


class _Window(NamedTuple):
    """What a minute came to."""

    kinds: dict[_Kind, _Repeated]
    callers: dict[tuple[str, str], int]
    uncounted: int


class RefusalRecorder:
    """Notes attempts, and writes them down in the background."""

    def __init__(self, meta: MetaStore, outbox: Outbox, clock: Clock) -> None:
        self._meta = meta
        self._outbox = outbox
        self._clock = clock
        self._fresh: list[tuple[RefusalRecord, int]] = []
        """First ones of their kind, with the time of each, that are not written yet."""
        self._kinds: dict[_Kind, _Repeated] = {}
        self._callers: dict[tuple[str, str], int] = {}
        self._uncounted = 0
        self._window_ends_ms = 0
        self._news = asyncio.Event()
        self._writing = asyncio.Lock()

    def record(self, attempt: RefusalRecord) -> None:
        """Remember an attempt. Returns at once, whatever the store does."""
        now_ms = self._clock.now_ms()
        if not self._kinds:
            self._window_ends_ms = now_ms + WINDOW_MS
        kind = _kind_of(attempt)
        repeated = self._kinds.get(kind)
        if repeated is not None:
            repeated.last, repeated.last_ms = attempt, now_ms
            if not repeated.count:
                repeated.first_ms = now_ms
            repeated.count += 1
            return
        caller = (attempt.principal or attempt.claimed, attempt.source_ip)
        of_caller = self._callers.get(caller, 0)
        if of_caller >= MAX_KINDS_PER_CALLER or len(self._kinds) >= MAX_KINDS:
            self._uncounted += 1
            return
        self._callers[caller] = of_caller + 1
        self._kinds[kind] = _Repeated(attempt, now_ms, now_ms)
        self._fresh.append((attempt, now_ms))
        self._news.set()

    async def run(self) -> None:
        """Write down what is noted, until cancelled; then what is left."""
        try:
            while True:
                await self._wait()
                try:
                    # Not cut short by the end of the server: what is on its way would be lost.
                    await asyncio.shield(self.write())
                except LakebedError as error:
                    log.warning("attempts could not be written down; they are kept", exc_info=error)
                    await asyncio.sleep(_PAUSE_SECONDS)
                except Exception:
                    # A mistake of ours must not end the trail for the life of the process.
                    log.exception("writing down attempts crashed; it is tried again")
                    await asyncio.sleep(_PAUSE_SECONDS)
        finally:
            try:
                await asyncio.shield(self.write(ending=True))
            except LakebedError as error:
                log.warning("the last attempts could not be written down", exc_info=error)

    async def write(self, *, ending: bool = False) -> int:
        """Write what is new, and at the end of a minute what was repeated; how many events. Raises as stores do."""
        async with self._writing:
            return await self._write(ending=ending)

    async def _write(self, *, ending: bool) -> int:
        now_ms = self._clock.now_ms()
        closes = bool(self._kinds) and (ending or now_ms >= self._window_ends_ms)
        # What is noted from here on is noted anew: nothing is counted twice, or not at all.
        fresh, self._fresh = self._fresh, []
        closed = _Window({}, {}, 0)
        if closes:
            closed = _Window(self._kinds, self._callers, self._uncounted)
            self._kinds, self._callers, self._uncounted = {}, {}, 0
        self._news.clear()
        events = [_event(attempt, at_ms) for attempt, at_ms in fresh] + _repetitions(closed, now_ms)
        if not events:
            return 0

        async def work(tx: Transaction) -> None:
            for event in events:
                await self._outbox.append(tx, event)

        try:
            await self._meta.transact(work)
        except Exception:
            self._take_back(fresh, closed)
            raise
        return len(events)

    def _take_back(self, fresh: list[tuple[RefusalRecord, int]], closed: _Window) -> None:
        """Remember again what could not be written. What came since is kept beside it, within the same bounds."""
        self._fresh = (fresh + self._fresh)[:MAX_KINDS]
        if closed.kinds:
            since, self._kinds, self._callers = self._kinds, closed.kinds, closed.callers
            self._uncounted += closed.uncounted
            for kind, repeated in since.items():
                before = self._kinds.get(kind)
                if before is not None:
                    before.count += repeated.count
                    before.last, before.last_ms = repeated.last, repeated.last_ms
                elif len(self._kinds) < MAX_KINDS:
                    self._kinds[kind] = repeated
                else:
                    self._uncounted += repeated.count
        self._news.set()

    async def _wait(self) -> None:
        """Wait until something is to be written."""
        if not self._kinds:
            await self._news.wait()
            return
        left_seconds = max(0.0, (self._window_ends_ms - self._clock.now_ms()) / 1000)
        try:
            async with asyncio.timeout(left_seconds):
                await self._news.wait()
        except TimeoutError:
            return


def shortened(attempt: RefusalRecord) -> RefusalRecord:
    """The attempt with texts of a length that can be kept."""
    return replace(
        attempt,
        subject=_kept(attempt.subject),
        claimed=_kept(attempt.claimed),
        reason=_kept(attempt.reason),
    )


def _kept(text: str) -> str:
    """A text as a store takes it: without what is no UTF-8, without NULs, and not longer than it may be."""
    return text[:MAX_CHARS].encode(errors="backslashreplace").decode().replace("\0", "\\0")


def _kind_of(attempt: RefusalRecord) -> _Kind:
    return _Kind(
        attempt.outcome,
        attempt.edge,
        attempt.route,
        attempt.subject,
        attempt.principal,
        attempt.claimed,
        attempt.source_ip,
        attempt.status,
    )


def _repetitions(window: _Window, now_ms: int) -> list[OutboxEvent]:
    events = [
        _event(one.last, one.last_ms, count=one.count, first_ms=one.first_ms)
        for one in window.kinds.values()
        if one.count
    ]
    if window.uncounted:
        events.append(OutboxEvent(UNCOUNTED, "", msgspec.msgpack.encode(RefusalEvent(count=window.uncounted)), now_ms))
    return events


def _event(attempt: RefusalRecord, at_ms: int, *, count: int = 1, first_ms: int = 0) -> OutboxEvent:
    is_several = count > 1
    payload = RefusalEvent(
        edge=attempt.edge,
        route=attempt.route,
        operation=Operation.LIMIT_REQUEST_RATE if attempt.outcome is RefusalOutcome.LIMITED else attempt.operation,
        principal=attempt.principal,
        claimed=attempt.claimed,
        source_ip=attempt.source_ip,
        request_id=attempt.request_id,
        status=attempt.status,
        reason=attempt.reason,
        count=count,
        first_ms=first_ms if is_several else 0,
        last_ms=at_ms if is_several else 0,
    )
    return OutboxEvent(attempt.outcome, attempt.subject, msgspec.msgpack.encode(payload), at_ms)
