"""How a process that serves has its memory looked after: by Python, and by the C library."""

from __future__ import annotations

import ctypes
import gc
from typing import Final

_GARBAGE_THRESHOLD: Final = 10_000
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_M_ARENA_MAX: Final = -8
_ARENAS: Final = 2
_KEPT_BUFFER_BYTES: Final = 4 * 1024 * 1024
_KEPT_HEAP_BYTES: Final = 64 * 1024 * 1024


def settle_memory() -> None:
    """Leave what start-up made out of every later search for garbage, and search less often.

    A request makes some sixty objects that live until its answer and hardly ever a cycle: looking for cycles after
    every 700 of them, and through everything that was imported now and then, is time taken from requests.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_GARBAGE_THRESHOLD, 20, 20)
    _keep_freed_memory()


def _keep_freed_memory() -> None:
    """Have the C library keep the buffers of finished uploads for the next, instead of giving them back.

    By default it returns them to the kernel, which clears every page of them again for the next upload: one in twenty
    cycles of a large PUT. Each thread would keep its own, however: two places for all of them are enough, because two
    threads hardly ever ask at the same time. Where the library has no such setting, nothing is lost but that.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _KEPT_BUFFER_BYTES)
        mallopt(_M_TRIM_THRESHOLD, _KEPT_HEAP_BYTES)
        mallopt(_M_ARENA_MAX, _ARENAS)
