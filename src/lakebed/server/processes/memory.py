"""Tunes Python's garbage collector and glibc's allocator for a serving process."""

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
    """Freeze the objects of start-up, and collect garbage less often.

    A request makes some sixty objects that live until its response, and rarely a cycle. Collections after every 700
    objects, and full ones through all imported modules, would cost request time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_GARBAGE_THRESHOLD, 20, 20)
    _keep_freed_memory()


def _keep_freed_memory() -> None:
    """Keep the buffers of finished uploads in glibc instead of returning them to the kernel.

    The kernel clears every returned page for the next upload: one in twenty cycles of a large PUT. Two arenas for all
    threads bound the retained memory; concurrent allocations are rare. C libraries without `mallopt` keep their
    defaults.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _KEPT_BUFFER_BYTES)
        mallopt(_M_TRIM_THRESHOLD, _KEPT_HEAP_BYTES)
        mallopt(_M_ARENA_MAX, _ARENAS)
