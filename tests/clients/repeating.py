"""Doing something until somebody has noticed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def again_and_again(deed: Callable[[], object]) -> Iterator[None]:
    """Done from now on until the end of the block: a listener has no way to say that it listens by now."""
    is_over = threading.Event()
    failures: list[Exception] = []

    def repeat() -> None:
        try:
            while not is_over.is_set():
                deed()
                time.sleep(0.02)
        except Exception as error:
            failures.append(error)

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
    assert not failures
