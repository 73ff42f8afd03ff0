"""A buffer is reused only when no view of it exists."""

from __future__ import annotations

import threading
from random import Random

import pytest

from lakebed.core.buffers import ALIGNMENT, BufferPool, address_of


def test_buffer_is_aligned_and_has_the_requested_size() -> None:
    buffer = BufferPool(3 * ALIGNMENT).take()
    assert len(buffer) == 3 * ALIGNMENT
    assert address_of(buffer) % ALIGNMENT == 0
    buffer[:5] = b"bytes"
    assert bytes(buffer[:5]) == b"bytes"


def test_size_is_a_whole_number_of_pages() -> None:
    with pytest.raises(ValueError, match="whole number of pages"):
        BufferPool(ALIGNMENT + 1)


def test_buffer_is_reused_after_its_last_view() -> None:
    pool = BufferPool(ALIGNMENT)
    buffer = pool.take()
    views = [buffer[10:100][5:20], buffer.toreadonly(), memoryview(buffer)]
    del buffer
    while views:
        assert pool.idle == 0
        views.pop()
    assert pool.idle == 1


def test_slices_prevent_reuse_of_a_buffer() -> None:
    pool = BufferPool(ALIGNMENT)
    buffer = pool.take()
    buffer[:5] = b"bytes"
    held = buffer[2:5]
    del buffer
    assert pool.idle == 0
    pool.take()[:5] = b"other"
    assert bytes(held) == b"tes"
    before = pool.idle
    del held
    assert pool.idle == before + 1


def test_memory_is_reused() -> None:
    pool = BufferPool(ALIGNMENT)
    addresses = {address_of(pool.take()) for _ in range(10)}
    assert len(addresses) == 1


def test_number_of_kept_buffers_is_limited() -> None:
    pool = BufferPool(ALIGNMENT, kept=2)
    held = [pool.take() for _ in range(5)]
    assert pool.idle == 0
    held.clear()
    assert pool.idle == 2


def test_threads_never_share_a_buffer() -> None:
    pool = BufferPool(ALIGNMENT, kept=3)
    mixed: list[int] = []

    def use(number: int) -> None:
        random = Random(number)
        held: list[memoryview] = []
        for _ in range(300):
            buffer = pool.take()
            buffer[:] = bytes([number]) * ALIGNMENT
            held.append(buffer[random.randrange(ALIGNMENT) :])
            if len(held) > 3:
                for view in held:
                    if bytes(view) != bytes([number]) * len(view):
                        mixed.append(number)
                del held[random.randrange(3) :]

    threads = [threading.Thread(target=use, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not mixed
