from __future__ import annotations

from pathlib import Path

import pytest

from lakebed.streams.kv.index.rocksdb import RocksIndex, RocksMemory
from lakebed.streams.kv.index.write_buffer import UNKNOWN, BufferedWrites, WriteBuffer, WriteBufferMemory
from tests.contracts.kv_bucket import key_of

ROW_BYTES = 140 + 8  # of a key and a value of four bytes each


def values_of(*numbers: int) -> dict[bytes, bytes | None]:
    return {key_of(number): key_of(number) for number in numbers}


def taken(warm: WriteBuffer) -> BufferedWrites:
    group = warm.take()
    assert group is not None
    return group


def test_what_was_given_last_is_found() -> None:
    warm = WriteBuffer(WriteBufferMemory(), 7, 5)
    warm.add(values_of(1, 2), 9, 7)
    warm.add({key_of(1): None}, 10, 6)
    assert warm.find([key_of(1), key_of(2)]) == [None, key_of(2)]
    assert warm.find([key_of(3)])[0] is UNKNOWN
    assert warm.find_all([key_of(2), key_of(1)]) == [key_of(2), None]
    assert warm.find_all([key_of(2), key_of(3)]) is None
    assert (warm.log_offset, warm.row_count) == (10, 6)


def test_what_an_index_that_began_empty_does_not_have_is_not_there_until_it_forgets_something() -> None:
    memory = WriteBufferMemory(most_bytes=10 * ROW_BYTES)
    warm = WriteBuffer(memory, 0, 0)
    assert warm.find_all([key_of(1)]) == [None]
    warm.add(values_of(*range(10)), 10, 10)
    warm.finish(taken(warm), is_on_disk=True)
    assert warm.find([key_of(9), key_of(10)]) == [key_of(9), None]
    warm.add(values_of(10), 11, 11)
    memory.evict()
    found = warm.find([key_of(0), key_of(10), key_of(11)])
    assert found[0] is found[2] is UNKNOWN
    assert found[1] == key_of(10)
    assert warm.find_all([key_of(11)]) is None


def test_what_is_taken_is_all_up_to_an_offset_and_stays_known() -> None:
    warm = WriteBuffer(WriteBufferMemory(), 5, None)
    assert warm.take() is None
    warm.add(values_of(1), 6, None)
    group = taken(warm)
    assert group == BufferedWrites(values_of(1), 6, None)
    warm.add(values_of(2), 7, None)
    warm.finish(group, is_on_disk=True)
    assert warm.find([key_of(1), key_of(2)]) == [key_of(1), key_of(2)]
    assert warm.take() == (values_of(2), 7, None)


def test_a_put_that_changes_nothing_moves_the_offset_on_disk_too() -> None:
    warm = WriteBuffer(WriteBufferMemory(), 5, 1)
    warm.add({}, 6, 1)
    assert warm.take() == ({}, 6, 1)


def test_what_the_disk_refused_is_taken_again_under_what_came_later() -> None:
    warm = WriteBuffer(WriteBufferMemory(), 0, 0)
    warm.add(values_of(1, 2), 2, 2)
    group = taken(warm)
    warm.add({key_of(2): b"later"}, 3, 2)
    warm.finish(group, is_on_disk=False)
    assert warm.take() == ({key_of(1): key_of(1), key_of(2): b"later"}, 3, 2)


def test_the_oldest_goes_when_there_is_too_much_and_never_what_is_fresh() -> None:
    memory = WriteBufferMemory(most_bytes=100 * ROW_BYTES, fresh_bytes=50 * ROW_BYTES)
    warm = WriteBuffer(memory, 0, 0)
    warm.add(values_of(*range(50)), 50, 50)
    was_full = warm.is_full
    warm.add(values_of(*range(90)), 90, 90)
    assert (was_full, warm.is_full) == (False, True)
    warm.finish(taken(warm), is_on_disk=True)
    assert all(value is not UNKNOWN for value in warm.find([key_of(number) for number in range(90)]))
    warm.add(values_of(0, *range(90, 120)), 121, 120)  # the oldest again: fresh, wherever it stands
    memory.evict()
    assert warm.size_bytes <= 100 * ROW_BYTES
    found = warm.find([key_of(number) for number in range(120)])
    assert found[0] == key_of(0)
    assert found[1] is UNKNOWN
    assert all(value is not UNKNOWN for value in found[90:])


def test_the_largest_make_room_for_all() -> None:
    memory = WriteBufferMemory(most_bytes=100 * ROW_BYTES)
    large, small = WriteBuffer(memory, 0, 0), WriteBuffer(memory, 0, 0)
    for warm, count in ((large, 95), (small, 20)):
        warm.add(values_of(*range(count)), count, count)
        warm.finish(taken(warm), is_on_disk=True)
    assert small.size_bytes == 20 * ROW_BYTES
    assert large.size_bytes <= 80 * ROW_BYTES
    large.close()
    assert large.size_bytes == 0
    assert large.find([key_of(94)])[0] is UNKNOWN


def test_many_that_have_a_little_are_full_together() -> None:
    memory = WriteBufferMemory(fresh_bytes=100 * ROW_BYTES)
    many = [WriteBuffer(memory, 0, 0) for _ in range(36)]
    for warm in many:
        warm.add(values_of(*range(90)), 90, 90)
    assert all(warm.is_full for warm in many)
    many[0].finish(taken(many[0]), is_on_disk=True)
    assert not any(warm.is_full for warm in many)
    many[0].add(values_of(*range(90)), 180, 90)
    assert many[0].is_full
    many[1].close()
    assert not any(warm.is_full for warm in many)


@pytest.mark.parametrize("most_bytes", [1, 1 << 20])
def test_an_index_finds_what_is_on_disk_in_memory_and_in_both(tmp_path: Path, most_bytes: int) -> None:
    index = RocksIndex(tmp_path / "index", RocksMemory(8 << 20, 8 << 20, WriteBufferMemory(most_bytes, fresh_bytes=1)))
    keys = [key_of(number) for number in range(3000)]
    index.apply(dict.fromkeys(keys, b"old"), 3000, 3000)
    assert index.is_full
    index.spill()
    index.apply({keys[1]: b"new", keys[2]: None}, 3002, 2999)
    expected = [b"old", b"new", None, *[b"old"] * 2997]
    assert index.get_many(keys) == expected
    recalled = index.get_cached(keys)
    assert recalled == (None if most_bytes == 1 else expected)
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
