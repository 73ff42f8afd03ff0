"""Memory that was freed, and that the C library keeps for whoever asks next."""

from __future__ import annotations

import ctypes

__all__ = ["release_free_memory"]


def release_free_memory() -> None:
    """Return to the kernel what was freed. Blocks, for some milliseconds.

    The C library keeps it in pieces between what is still in use: after work of different kinds, more than any of it
    took. Libraries that cannot be asked for it look after that by themselves.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
