"""Where the memory of queries comes from, and after how much of it some is given back."""

from __future__ import annotations

from typing import Final

LARGE_BYTES: Final = 32 * 1024 * 1024
"""What a query has read after which it is worth looking for memory that nobody uses: the look takes milliseconds."""


def share_allocator() -> None:
    """Have Arrow take memory from where all else takes it: a place of its own keeps what others could use."""
    import pyarrow as pa

    pa.set_memory_pool(pa.system_memory_pool())
