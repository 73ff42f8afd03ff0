"""Repeats an action until a listener has received its effect."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def repeating_action(action: Callable[[], object]) -> Iterator[None]:
    """Repeat an action until the end of the block, because a listener cannot report that it is connected."""
    stopped = threading.Event()
    failures: list[Exception] = []

    def repeat() -> None:
        try:
            while not stopped.is_set():
                action()
                time.sleep(0.02)
        except Exception as error:
            failures.append(error)

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()
    assert not failures
