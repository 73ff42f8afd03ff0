"""Starts a coroutine immediately, and creates a task for it only if it suspends.

A task costs about 4 µs and an iteration of the event loop; most requests finish without suspending. Libraries look up
the current task before they suspend, though (`asyncio.timeout` to cancel it, asyncpg when it connects). Until the task
exists, a placeholder is the current task; it forwards later calls to the task.
"""

from __future__ import annotations

import asyncio
from asyncio import tasks
from collections.abc import Coroutine, Generator
from types import TracebackType
from typing import Any, TypeAlias

Exchanged: TypeAlias = Any  # values between futures and the loop's tasks

# The loop has only weak references to tasks.
_running: set[asyncio.Task[None]] = set()


def start_eagerly(
    coroutine: Coroutine[Exchanged, Exchanged, None], loop: asyncio.AbstractEventLoop | None = None
) -> None:
    """Run `coroutine` until it suspends; the rest, if any, runs as a task of the running loop. Not from within a task.

    Errors before the first suspension are raised here; the coroutine must not raise later, since nothing awaits it.
    A caller that has the loop should pass it: `get_running_loop` is a system call (Python 3.11 checks for a fork).
    """
    loop = loop or asyncio.get_running_loop()
    placeholder = _PlaceholderTask()
    # Both functions exist for custom task implementations (see "Extending" in the documentation of asyncio).
    tasks._enter_task(loop, placeholder)  # type: ignore[arg-type]  # has the methods of a task that libraries call
    try:
        awaited = coroutine.send(None)
    except StopIteration:
        return
    finally:
        tasks._leave_task(loop, placeholder)  # type: ignore[arg-type]  # as above
    task = placeholder.task = loop.create_task(_StartedCoroutine(coroutine, awaited))
    _running.add(task)
    task.add_done_callback(_running.discard)


class _PlaceholderTask:
    """The current task until the real one exists."""

    task: asyncio.Task[None] | None = None  # a class attribute: instances that never get a task cost nothing more

    def done(self) -> bool:
        return self.task is not None and self.task.done()

    def cancelling(self) -> int:
        return 0 if self.task is None else self.task.cancelling()

    def cancel(self, msg: object = None) -> bool:
        return self.task is not None and self.task.cancel(msg)

    def uncancel(self) -> int:
        return 0 if self.task is None else self.task.uncancel()


class _StartedCoroutine(Coroutine[Exchanged, Exchanged, None]):
    """A suspended coroutine: its first step yields the awaited future to the task; later steps resume the coroutine.

    Not a generator: cancelling a task before its first step would close the generator before its first line, and the
    coroutine would not be cancelled.
    """

    __slots__ = ("_awaited", "_coroutine", "_yielded")

    def __init__(self, coroutine: Coroutine[Exchanged, Exchanged, None], awaited: Exchanged) -> None:
        self._coroutine = coroutine
        self._awaited = awaited
        self._yielded = False

    def send(self, value: Exchanged) -> Exchanged:
        """Resume with the result of the awaited future."""
        if self._yielded:
            return self._coroutine.send(value)
        self._yielded = True
        awaited, self._awaited = self._awaited, None
        return awaited

    def throw(self, kind: Exchanged, value: Exchanged = None, trace: TracebackType | None = None) -> Exchanged:
        """Resume with an error or a cancellation."""
        self._yielded = True
        return self._coroutine.throw(kind if value is None else value)

    def close(self) -> None:
        """End the coroutine where it is suspended."""
        self._coroutine.close()

    def __await__(self) -> Generator[Exchanged, Exchanged, None]:
        raise NotImplementedError("only a task drives it")
