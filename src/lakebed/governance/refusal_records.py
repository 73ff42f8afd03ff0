"""Audit events of refused and failed requests: caller, operation, subject, address and reason.

Recording does not delay the response: each process buffers records in memory and writes them to the outbox in batches.
A killed process loses the last milliseconds of them; a stopping process writes them first.

Repetition is bounded. The first attempt of a kind is written at once. Repetitions (same caller, address, subject and
outcome) are counted, and the count is written at the end of a one-minute window. A window holds at most 100 kinds per
caller and 500 in total; attempts beyond are only counted.

    AttemptDenied       not authenticated or not authorized
    AttemptVetoed       a listener refused
    AttemptLimited      throttled
    AttemptFailed       a failed change, or an internal error
    AttemptsUncounted   number of attempts beyond the limits
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
"""Of each text: clients choose some of them."""

_PAUSE_SECONDS: Final = 1.0


class RefusalOutcome(StrEnum):
    """The outcome of an attempt; also its event kind."""

    DENIED = "AttemptDenied"
    VETOED = "AttemptVetoed"
    LIMITED = "AttemptLimited"
    FAILED = "AttemptFailed"


UNCOUNTED: Final = "AttemptsUncounted"


@dataclass(frozen=True, slots=True)
class RefusalRecord:
    """A refused or failed request."""

    edge: str
    """The API: `catalog`, `management`, `admin`, `s3`, `oauth`."""
    route: str
    """The operation's name in that API: `dropTable`, `PutObject`."""
    operation: str
    """The Lakebed operation, if any: `DROP_TABLE`."""
    subject: str
    """Such as `lake/sales/orders` or `bucket/key`."""
    principal: str
    """The authenticated principal, if any."""
    claimed: str
    """The unverified access key id or name, if the caller was not authenticated."""
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
    """Of the last attempt, if counted."""
    status: int = 0
    reason: str = ""
    count: int = 1
    first_ms: int = 0
    last_ms: int = 0
    """Times of the first and last counted attempt."""


def outcome_of(error: LakebedError, status: int, *, changes: bool) -> RefusalOutcome | None:
    """The outcome of a request that failed with `error`. None for unsuccessful reads, which are not audited."""
    if isinstance(error, Vetoed):
        return RefusalOutcome.VETOED
    if isinstance(error, AccessDenied | Unauthenticated) or status in (401, 403):
        return RefusalOutcome.DENIED
    if isinstance(error, Throttled):
        return RefusalOutcome.LIMITED
    return RefusalOutcome.FAILED if status >= 500 or (changes and status >= 400) else None


class _AttemptKind(NamedTuple):
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
    """Repetitions of a kind within the window."""

    last: RefusalRecord
    first_ms: int
    last_ms: int
    count: int = 0


class _Window(NamedTuple):
    """A finished window."""

    kinds: dict[_AttemptKind, _Repeated]
    callers: dict[tuple[str, str], int]
    uncounted: int


class RefusalRecorder:
    """Buffers attempts and writes them in the background."""

    def __init__(self, meta: MetaStore, outbox: Outbox, clock: Clock) -> None:
        self._meta = meta
        self._outbox = outbox
        self._clock = clock
        self._fresh: list[tuple[RefusalRecord, int]] = []
        """First attempts that are not written yet, with their times."""
        self._kinds: dict[_AttemptKind, _Repeated] = {}
        self._callers: dict[tuple[str, str], int] = {}
        self._uncounted = 0
        self._window_ends_ms = 0
        self._pending = asyncio.Event()
        self._writing = asyncio.Lock()

    def record(self, attempt: RefusalRecord) -> None:
        """Buffer an attempt. Never blocks."""
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
        self._pending.set()

    async def run(self) -> None:
        """Write buffered attempts until cancelled, then the rest."""
        try:
            while True:
                await self._wait()
                try:
                    # Cancellation must not interrupt a write: its attempts would be lost.
                    await asyncio.shield(self.write())
                except LakebedError as error:
                    log.warning("writing audit records of refusals failed; retrying", exc_info=error)
                    await asyncio.sleep(_PAUSE_SECONDS)
                except Exception:
                    # An unexpected error must not end auditing for the life of the process.
                    log.exception("writing audit records of refusals crashed; retrying")
                    await asyncio.sleep(_PAUSE_SECONDS)
        finally:
            try:
                await asyncio.shield(self.write(ending=True))
            except LakebedError as error:
                log.warning("writing the last audit records of refusals failed; they are lost", exc_info=error)

    async def write(self, *, ending: bool = False) -> int:
        """Write first attempts, and counts of a finished window. Returns the number of events. Raises store errors."""
        async with self._writing:
            return await self._write(ending=ending)

    async def _write(self, *, ending: bool) -> int:
        now_ms = self._clock.now_ms()
        is_over = bool(self._kinds) and (ending or now_ms >= self._window_ends_ms)
        # Attempts recorded during the transaction go to the new buffers, so each is counted exactly once.
        fresh, self._fresh = self._fresh, []
        closed = _Window({}, {}, 0)
        if is_over:
            closed = _Window(self._kinds, self._callers, self._uncounted)
            self._kinds, self._callers, self._uncounted = {}, {}, 0
        self._pending.clear()
        events = [_event(attempt, at_ms) for attempt, at_ms in fresh] + _repetition_events(closed, now_ms)
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
        """Put back attempts that could not be written, merged with newer ones within the same limits."""
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
        self._pending.set()

    async def _wait(self) -> None:
        """Wait for an attempt to write, or for the end of the window."""
        if not self._kinds:
            await self._pending.wait()
            return
        left_seconds = max(0.0, (self._window_ends_ms - self._clock.now_ms()) / 1000)
        try:
            async with asyncio.timeout(left_seconds):
                await self._pending.wait()
        except TimeoutError:
            return


def shortened(attempt: RefusalRecord) -> RefusalRecord:
    """A copy of the attempt with texts of bounded length."""
    return replace(
        attempt,
        subject=_storable(attempt.subject),
        claimed=_storable(attempt.claimed),
        reason=_storable(attempt.reason),
    )


def _storable(text: str) -> str:
    """A text that every store accepts: valid UTF-8, without NUL, of bounded length."""
    return text[:MAX_CHARS].encode(errors="backslashreplace").decode().replace("\0", "\\0")


def _kind_of(attempt: RefusalRecord) -> _AttemptKind:
    return _AttemptKind(
        attempt.outcome,
        attempt.edge,
        attempt.route,
        attempt.subject,
        attempt.principal,
        attempt.claimed,
        attempt.source_ip,
        attempt.status,
    )


def _repetition_events(window: _Window, now_ms: int) -> list[OutboxEvent]:
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
