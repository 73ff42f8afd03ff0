from __future__ import annotations

from pathlib import Path

import pytest

from lakebed.streams.kv.index.rocksdb import RocksIndex, RocksMemory
from lakebed.streams.kv.index.write_buffer import UNKNOWN, BufferedWrites, WriteBuffer, WriteBufferMemory
from tests.contracts.kv_bucket import key_of

ROW_BYTES = 140 + 8  # a key and a value of four bytes each


def values_of(*numbers: int) -> dict[bytes, bytes | None]:
    return {key_of(number): key_of(number) for number in numbers}


def taken(buffer: WriteBuffer) -> BufferedWrites:
    group = buffer.take()
    assert group is not None
    return group


def test_latest_values_are_found() -> None:
    buffer = WriteBuffer(WriteBufferMemory(), 7, 5)
    buffer.add(values_of(1, 2), 9, 7)
    buffer.add({key_of(1): None}, 10, 6)
    assert buffer.find([key_of(1), key_of(2)]) == [None, key_of(2)]
    assert buffer.find([key_of(3)])[0] is UNKNOWN
    assert buffer.find_all([key_of(2), key_of(1)]) == [key_of(2), None]
    assert buffer.find_all([key_of(2), key_of(3)]) is None
    assert (buffer.log_offset, buffer.row_count) == (10, 6)


def test_complete_buffer_knows_absent_keys_until_an_eviction() -> None:
    memory = WriteBufferMemory(most_bytes=10 * ROW_BYTES)
    buffer = WriteBuffer(memory, 0, 0)
    assert buffer.find_all([key_of(1)]) == [None]
    buffer.add(values_of(*range(10)), 10, 10)
    buffer.finish(taken(buffer), is_on_disk=True)
    assert buffer.find([key_of(9), key_of(10)]) == [key_of(9), None]
    buffer.add(values_of(10), 11, 11)
    memory.evict()
    found = buffer.find([key_of(0), key_of(10), key_of(11)])
    assert found[0] is found[2] is UNKNOWN
    assert found[1] == key_of(10)
    assert buffer.find_all([key_of(11)]) is None


def test_taken_writes_stay_cached() -> None:
    buffer = WriteBuffer(WriteBufferMemory(), 5, None)
    assert buffer.take() is None
    buffer.add(values_of(1), 6, None)
    group = taken(buffer)
    assert group == BufferedWrites(values_of(1), 6, None)
    buffer.add(values_of(2), 7, None)
    buffer.finish(group, is_on_disk=True)
    assert buffer.find([key_of(1), key_of(2)]) == [key_of(1), key_of(2)]
    assert buffer.take() == (values_of(2), 7, None)


def test_empty_put_advances_the_offset() -> None:
    buffer = WriteBuffer(WriteBufferMemory(), 5, 1)
    buffer.add({}, 6, 1)
    assert buffer.take() == ({}, 6, 1)


def test_failed_writes_are_taken_again_beneath_later_ones() -> None:
    buffer = WriteBuffer(WriteBufferMemory(), 0, 0)
    buffer.add(values_of(1, 2), 2, 2)
    group = taken(buffer)
    buffer.add({key_of(2): b"later"}, 3, 2)
    buffer.finish(group, is_on_disk=False)
    assert buffer.take() == ({key_of(1): key_of(1), key_of(2): b"later"}, 3, 2)


def test_eviction_removes_the_oldest_written_rows_first() -> None:
    memory = WriteBufferMemory(most_bytes=100 * ROW_BYTES, fresh_bytes=50 * ROW_BYTES)
    buffer = WriteBuffer(memory, 0, 0)
    buffer.add(values_of(*range(50)), 50, 50)
    was_full = buffer.is_full
    buffer.add(values_of(*range(90)), 90, 90)
    assert (was_full, buffer.is_full) == (False, True)
    buffer.finish(taken(buffer), is_on_disk=True)
    assert all(value is not UNKNOWN for value in buffer.find([key_of(number) for number in range(90)]))
    buffer.add(values_of(0, *range(90, 120)), 121, 120)  # the oldest key is written again, and fresh
    memory.evict()
    assert buffer.size_bytes <= 100 * ROW_BYTES
    found = buffer.find([key_of(number) for number in range(120)])
    assert found[0] == key_of(0)
    assert found[1] is UNKNOWN
    assert all(value is not UNKNOWN for value in found[90:])


def test_largest_buffers_are_evicted_first() -> None:
    memory = WriteBufferMemory(most_bytes=100 * ROW_BYTES)
    large, small = WriteBuffer(memory, 0, 0), WriteBuffer(memory, 0, 0)
    for buffer, count in ((large, 95), (small, 20)):
        buffer.add(values_of(*range(count)), count, count)
        buffer.finish(taken(buffer), is_on_disk=True)
    assert small.size_bytes == 20 * ROW_BYTES
    assert large.size_bytes <= 80 * ROW_BYTES
    large.close()
    assert large.size_bytes == 0
    assert large.find([key_of(94)])[0] is UNKNOWN


def test_many_small_buffers_are_full_together() -> None:
    memory = WriteBufferMemory(fresh_bytes=100 * ROW_BYTES)
    many = [WriteBuffer(memory, 0, 0) for _ in range(36)]
    for buffer in many:
        buffer.add(values_of(*range(90)), 90, 90)
    assert all(buffer.is_full for buffer in many)
    many[0].finish(taken(many[0]), is_on_disk=True)
    assert not any(buffer.is_full for buffer in many)
    many[0].add(values_of(*range(90)), 180, 90)
    assert many[0].is_full
    many[1].close()
    assert not any(buffer.is_full for buffer in many)


@pytest.mark.parametrize("most_bytes", [1, 1 << 20])
def test_index_combines_disk_and_memory(tmp_path: Path, most_bytes: int) -> None:
    index = RocksIndex(tmp_path / "index", RocksMemory(8 << 20, 8 << 20, WriteBufferMemory(most_bytes, fresh_bytes=1)))
    keys = [key_of(number) for number in range(3000)]
    index.apply(dict.fromkeys(keys, b"old"), 3000, 3000)
    assert index.is_full
    index.spill()
    index.apply({keys[1]: b"new", keys[2]: None}, 3002, 2999)
    expected = [b"old", b"new", None, *[b"old"] * 2997]
    assert index.get_many(keys) == expected
    cached = index.get_cached(keys)
    assert cached == (None if most_bytes == 1 else expected)
    assert index.get_cached(keys[1:3]) == [b"new", None]
    assert len(list(index.get_prefixed(b""))) == 2999
    view = index.view()
    assert view.log_offset == 3002
    index.apply({keys[0]: None}, 3003, 2998)
    assert len(view.take(1 << 30, None)[0]) == 2999
    index.close()
    again = RocksIndex(tmp_path / "index", RocksMemory(8 << 20, 8 << 20))
    assert (again.log_offset, again.row_count) == (3003, 2998)
    assert again.get_many(keys[:2]) == [None, b"new"]
    again.close()
