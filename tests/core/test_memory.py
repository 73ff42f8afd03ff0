from __future__ import annotations

from lakebed.core.memory import release_free_memory


def test_memory_in_use_is_kept_when_free_memory_is_returned() -> None:
    held = [bytes([number % 256]) * 10_000 for number in range(2000)]
    del held[::2]
    release_free_memory()
    assert all(piece == bytes([(2 * number + 1) % 256]) * 10_000 for number, piece in enumerate(held))
