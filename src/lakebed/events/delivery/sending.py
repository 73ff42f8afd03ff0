"""Sends groups of events to a target: groups concurrently, each group in order.

A group stops at its first failure that a retry can fix; undeliverable events do not stop it. When the round's time is
over or the circuit breaker opens, the remaining events stay untried.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from lakebed.core.errors import LakebedError, Undeliverable

from ..targets.seam import EventMessage, EventTarget
from .ordering import OutgoingEvent

log = logging.getLogger("lakebed.events")

MAX_FAILURE_CHARS: Final = 500

MAX_SECONDS: Final = 120.0
"""Attempts in flight for longer have failed: a backstop for the timeouts of targets."""

_GROUPS_PER_YIELD: Final = 128
"""Groups sent before yielding to the event loop, for targets whose `send` never suspends."""

Render = Callable[[OutgoingEvent], EventMessage]


class FailedEvent(NamedTuple):
    """A failed attempt."""

    event: OutgoingEvent
    reason: str
    is_final: bool = False
    """Whether a retry cannot help."""


@dataclass(slots=True)
class SendResult:
    """The outcome of sending some groups."""

    delivered: list[int] = field(default_factory=list)
    failed: list[FailedEvent] = field(default_factory=list)
    behind: list[OutgoingEvent] = field(default_factory=list)
    """Not sent, because an earlier event of the group failed."""
    untried: list[OutgoingEvent] = field(default_factory=list)
    """Not sent, because the round ended or the circuit breaker opened."""

    @property
    def last_tried(self) -> int | None:
        """The highest sequence number of an attempt; None without attempts."""
        tried = (*self.delivered, *(failed.event.entry.seq for failed in self.failed))
        return max(tried, default=None)


class SendSlots:
    """Limits the groups in flight to a target, over all its queues."""

    def __init__(self, count: int) -> None:
        self.count = max(1, count)
        self.semaphore = asyncio.Semaphore(self.count)
        self.taken = 0


class SendCallbacks(NamedTuple):
    """Connects `send_groups` with the round and the circuit breaker."""

    may_send: Callable[[], bool]
    """Whether another event may be sent."""
    on_response: Callable[[], None]
    """The target accepted an event or rejected it for good."""
    on_failure: Callable[[], None]


async def send_groups(
    target: EventTarget,
    groups: Iterable[Sequence[OutgoingEvent]],
    render: Render,
    callbacks: SendCallbacks,
    slots: SendSlots,
) -> SendResult:
    """Send groups, started in the given order."""
    queue = deque(groups)
    outcome = SendResult()

    async def work() -> None:
        while queue:
            async with slots.semaphore:
                # Taken from the queue only with a slot: cancellation before it would lose the group.
                if not queue:
                    return
                slots.taken += 1
                try:
                    await _send_group(target, queue.popleft(), render, callbacks, outcome)
                finally:
                    slots.taken -= 1
            if not len(queue) % _GROUPS_PER_YIELD:
                await asyncio.sleep(0)

    try:
        async with asyncio.timeout(MAX_SECONDS):
            workers = min(slots.count, len(queue))
            if workers <= 1:
                await work()
            else:
                async with asyncio.TaskGroup() as group:
                    for _ in range(workers):
                        group.create_task(work())
    except TimeoutError:
        outcome.untried.extend(event for group in queue for event in group)
    return outcome


async def _send_group(
    target: EventTarget, group: Sequence[OutgoingEvent], render: Render, callbacks: SendCallbacks, outcome: SendResult
) -> None:
    for position, event in enumerate(group):
        if not callbacks.may_send():
            outcome.untried.extend(group[position:])
            return
        message = _rendered(render, event)
        if isinstance(message, FailedEvent):
            outcome.failed.append(message)
            continue
        try:
            await target.send(message)
        except Undeliverable as error:
            outcome.failed.append(FailedEvent(event, _reason(error), is_final=True))
            callbacks.on_response()
            continue
        except (Exception, asyncio.CancelledError) as error:
            outcome.failed.append(FailedEvent(event, _reason(error)))
            outcome.behind.extend(group[position + 1 :])
            callbacks.on_failure()
            if isinstance(error, asyncio.CancelledError):
                raise
            if not isinstance(error, LakebedError):
                # A bug in a target stops one group, like any failure.
                log.exception("target crashed, retrying", extra={"event": message.id})
            return
        outcome.delivered.append(event.entry.seq)
        callbacks.on_response()


def _rendered(render: Render, event: OutgoingEvent) -> EventMessage | FailedEvent:
    """The message, or a final failure."""
    try:
        return render(event)
    except LakebedError as error:
        return FailedEvent(event, _reason(error), is_final=True)
    except Exception as error:
        log.exception("event cannot be rendered", extra={"seq": event.entry.seq})
        return FailedEvent(event, f"the event cannot be rendered: {type(error).__name__}", is_final=True)


def _reason(error: BaseException) -> str:
    if isinstance(error, asyncio.CancelledError):
        return f"no response within {MAX_SECONDS:g} s"
    if not isinstance(error, LakebedError):
        # Without its message, which may contain secrets.
        return f"the target crashed: {type(error).__name__}"
    return (str(error) or type(error).__name__)[:MAX_FAILURE_CHARS]
