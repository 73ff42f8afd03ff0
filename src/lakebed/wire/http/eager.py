"""Start a coroutine at once, and make a task of it only if it has to wait.

A task costs about 4 µs and a turn of the loop; most requests finish without waiting for anything. Libraries ask which
task they run in before they wait, though (`asyncio.timeout` to cancel it, asyncpg whenever it connects): until there
is one, a stand-in is the current task, and passes on to the task what is asked of it later.
"""

from __future__ import annotations

import asyncio
from asyncio import tasks
from collections.abc import Coroutine, Generator
from types import TracebackType
from typing import Any, TypeAlias

Exchanged: TypeAlias = Any  # whatever futures and the loop's tasks hand each other

# Tasks are only weakly held by the loop: whoever starts one must hold it.
_running: set[asyncio.Task[None]] = set()


def start_eagerly(
    coroutine: Coroutine[Exchanged, Exchanged, None], loop: asyncio.AbstractEventLoop | None = None
) -> None:
    """Run `coroutine` until it waits; the rest, if any, runs as a task of the running loop. Not from within a task.

    What it raises before its first wait is raised here; afterwards nobody is there to take it, so it must not raise.
    Who has the loop at hand gives it: asking which one runs is a system call (Python 3.11 looks for a fork).
    """
    loop = loop or asyncio.get_running_loop()
    stand_in = _StandIn()
    # These two are there for whoever makes tasks of his own (see "Extending" in the documentation of asyncio).
    tasks._enter_task(loop, stand_in)  # type: ignore[arg-type]  # is a task as far as anybody looks
    try:
        awaited = coroutine.send(None)
    except StopIteration:
        return
    finally:
        tasks._leave_task(loop, stand_in)  # type: ignore[arg-type]  # as above
    task = stand_in.task = loop.create_task(_Begun(coroutine, awaited))
    _running.add(task)
    task.add_done_callback(_running.discard)


class _StandIn:
    """The current task, before there is one."""

    task: asyncio.Task[None] | None = None  # of the class, so that making one costs nothing more

    def done(self) -> bool:
        """Whether it has ended."""
        return self.task is not None and self.task.done()

    def cancelling(self) -> int:
        """How often it was asked to end."""
        return 0 if self.task is None else self.task.cancelling()

    def cancel(self, msg: object = None) -> bool:
        """Ask it to end."""
        return self.task is not None and self.task.cancel(msg)

    def uncancel(self) -> int:
        """Take one such word back."""
        return 0 if self.task is None else self.task.uncancel()


class _Begun(Coroutine[Exchanged, Exchanged, None]):
    """A coroutine that already waits: tells the task for what, then is that coroutine.

    Not a generator around it: a task cancelled before its first step would end the generator before its first line,
    and the coroutine would never learn of it.
    """

    __slots__ = ("_awaited", "_coroutine", "_told")

    def __init__(self, coroutine: Coroutine[Exchanged, Exchanged, None], awaited: Exchanged) -> None:
        self._coroutine = coroutine
        self._awaited = awaited
        self._told = False

    def send(self, value: Exchanged) -> Exchanged:
        """Go on with the result of what was awaited."""
        if self._told:
            return self._coroutine.send(value)
        self._told = True
        awaited, self._awaited = self._awaited, None
        return awaited

    def throw(self, kind: Exchanged, value: Exchanged = None, trace: TracebackType | None = None) -> Exchanged:
        """Go on with an error: cancellation and errors alike belong to the coroutine."""
        self._told = True
        return self._coroutine.throw(kind if value is None else value)

    def close(self) -> None:
        """End it where it waits."""
        self._coroutine.close()

    def __await__(self) -> Generator[Exchanged, Exchanged, None]:
        raise NotImplementedError("only a task drives it")
