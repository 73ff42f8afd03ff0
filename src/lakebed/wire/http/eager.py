"""Start a coroutine at once, and make a task of it only if it has to wait.

A task costs about 4 µs and a turn of the loop; most requests finish without waiting for anything. Until its first
wait the coroutine has no current task, so a handler may not enter `asyncio.timeout` before it has waited once; none
does: time limits are the connection's (see `server`).
"""

from __future__ import annotations

import asyncio
import types
from collections.abc import Coroutine, Generator
from typing import Any

# Tasks are only weakly held by the loop: whoever starts one must hold it.
_running: set[asyncio.Task[None]] = set()


def start_eagerly(coroutine: Coroutine[Any, Any, None]) -> None:
    """Run `coroutine` until it waits; the rest, if any, runs as a task."""
    try:
        awaited = coroutine.send(None)
    except StopIteration:
        return
    task = asyncio.get_running_loop().create_task(_continue(coroutine, awaited))
    _running.add(task)
    task.add_done_callback(_running.discard)


@types.coroutine
def _continue(coroutine: Coroutine[Any, Any, None], awaited: Any) -> Generator[Any, Any, None]:
    """Drive a coroutine that was already started: hand its futures to the task, and their results back."""
    while True:
        try:
            value = yield awaited
        except BaseException as error:  # cancellation and errors alike belong to the coroutine
            try:
                awaited = coroutine.throw(error)
            except StopIteration:
                return
        else:
            try:
                awaited = coroutine.send(value)
            except StopIteration:
                return
