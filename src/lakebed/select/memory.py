"""Where the memory of queries comes from, and when it goes back."""

from __future__ import annotations

import ctypes
from typing import Final

LARGE_BYTES: Final = 32 * 1024 * 1024
"""What a query has read after which it is worth looking for memory that nobody uses: the look takes milliseconds."""


def share_allocator() -> None:
    """Have Arrow take memory from where all else takes it: a place of its own keeps what others could use."""
    import pyarrow as pa

    pa.set_memory_pool(pa.system_memory_pool())


def give_back() -> None:
    """Return to the kernel what queries have freed. Blocks, for some milliseconds.

    The C library keeps it for the next, in pieces between what is still in use: after a few large queries of different
    kinds, more than any of them took. Libraries that cannot be asked for it look after that by themselves.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
