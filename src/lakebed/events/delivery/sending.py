"""Sends lanes of events to a target: several lanes at a time, each in order, for as long as it makes sense.

Of a lane, what comes behind one that failed is not tried. What the target will never take holds nothing up. When the
time of a round is over, or the target is found to be down, the rest is left untried.
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

LONGEST_SECONDS: Final = 120.0
"""After that whatever is still under way has failed: a target has timeouts of its own, and they did not help."""

_TURN: Final = 128
"""How many lanes are sent before others have a turn, to a target that never makes anybody wait."""

Render = Callable[[OutgoingEvent], EventMessage]


class FailedEvent(NamedTuple):
    """An event that was tried and not delivered."""

    one: OutgoingEvent
    why: str
    is_final: bool = False
    """Whether no other attempt would help."""


@dataclass(slots=True)
class SendResult:
    """What came of some lanes."""

    delivered: list[int] = field(default_factory=list)
    failed: list[FailedEvent] = field(default_factory=list)
    behind: list[OutgoingEvent] = field(default_factory=list)
    """Behind one of their lane that failed."""
    untried: list[OutgoingEvent] = field(default_factory=list)
    """Left when there was no time, or no hope, for more."""

    @property
    def last_tried(self) -> int | None:
        """The last event that was tried; None if none was."""
        tried = (*self.delivered, *(failed.one.entry.seq for failed in self.failed))
        return max(tried, default=None)


class SendSlots:
    """How many may be under way at once, whoever sends: one is had for as long as a lane is sent."""

    def __init__(self, count: int) -> None:
        self.count = max(1, count)
        self.turns = asyncio.Semaphore(self.count)
        self.taken = 0


class SendCallbacks(NamedTuple):
    """What is asked and told while lanes are sent."""

    may_send: Callable[[], bool]
    """Whether one more may be sent."""
    answered: Callable[[], None]
    """The target has taken one, or said that it never will."""
    failed: Callable[[], None]


async def send_groups(
    target: EventTarget,
    groups: Iterable[Sequence[OutgoingEvent]],
    render: Render,
    watch: SendCallbacks,
    slots: SendSlots,
) -> SendResult:
    """Send these lanes, in the order in which they come."""
    queue = deque(groups)
    outcome = SendResult()

    async def work() -> None:
        while queue:
            async with slots.turns:
                # Only now: what was taken out and not begun would be nowhere, were this to end here.
                if not queue:
                    return
                slots.taken += 1
                try:
                    await _send_group(target, queue.popleft(), render, watch, outcome)
                finally:
                    slots.taken -= 1
            if not len(queue) % _TURN:
                await asyncio.sleep(0)

    try:
        async with asyncio.timeout(LONGEST_SECONDS):
            workers = min(slots.count, len(queue))
            if workers <= 1:
                await work()
            else:
                async with asyncio.TaskGroup() as group:
                    for _ in range(workers):
                        group.create_task(work())
    except TimeoutError:
        outcome.untried.extend(one for group in queue for one in group)
    return outcome


async def _send_group(
    target: EventTarget, group: Sequence[OutgoingEvent], render: Render, watch: SendCallbacks, outcome: SendResult
) -> None:
    for position, one in enumerate(group):
        if not watch.may_send():
            outcome.untried.extend(group[position:])
            return
        message = _rendered(render, one)
        if isinstance(message, FailedEvent):
            outcome.failed.append(message)
            continue
        try:
            await target.send(message)
        except Undeliverable as error:
            outcome.failed.append(FailedEvent(one, _words(error), is_final=True))
            watch.answered()
            continue
        except (Exception, asyncio.CancelledError) as error:
            outcome.failed.append(FailedEvent(one, _words(error)))
            outcome.behind.extend(group[position + 1 :])
            watch.failed()
            if isinstance(error, asyncio.CancelledError):
                raise
            if not isinstance(error, LakebedError):
                # A mistake in a target's code holds up one lane, as any failure does.
                log.exception("a target crashed; it is tried again", extra={"event": message.id})
            return
        outcome.delivered.append(one.entry.seq)
        watch.answered()


def _rendered(render: Render, one: OutgoingEvent) -> EventMessage | FailedEvent:
    """The message; or why there is none, which will be so for ever."""
    try:
        return render(one)
    except LakebedError as error:
        return FailedEvent(one, _words(error), is_final=True)
    except Exception as error:
        log.exception("an event cannot be rendered", extra={"seq": one.entry.seq})
        return FailedEvent(one, f"the event cannot be rendered: {type(error).__name__}", is_final=True)


def _words(error: BaseException) -> str:
    if isinstance(error, asyncio.CancelledError):
        return f"no answer within {LONGEST_SECONDS:g} s"
    if not isinstance(error, LakebedError):
        # Not its words: nobody has seen to it that no secret is among them.
        return f"the target crashed: {type(error).__name__}"
    return (str(error) or type(error).__name__)[:MAX_FAILURE_CHARS]
