"""Returns freed memory from the C library to the kernel."""

from __future__ import annotations

import ctypes

__all__ = ["release_free_memory"]


def release_free_memory() -> None:
    """Return freed memory to the kernel. Blocks for some milliseconds.

    glibc keeps free pieces between allocations in use: after mixed workloads, more than any of them needed. C libraries
    without `malloc_trim` return memory by themselves.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
