from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakebed.core.errors import Corrupted, InvalidSetting
from lakebed.objects.blobs.encryption import (
    FRAME_BYTES,
    SEALED_FRAME_BYTES,
    KeyRing,
    Opener,
    Sealer,
    frame_range,
    open_whole,
    seal_whole,
    sealed_size,
)
from tests.objects.stores import new_key_ring

KEY = bytes(range(32))
BORDER_SIZES = (0, 1, FRAME_BYTES - 1, FRAME_BYTES, FRAME_BYTES + 1, 2 * FRAME_BYTES, 2 * FRAME_BYTES + 7)


def _bytes(size: int) -> bytes:
    return bytes(index * 7 % 251 for index in range(size))


@pytest.mark.parametrize("size", BORDER_SIZES)
def test_encrypted_bytes_decrypt(size: int) -> None:
    plain = _bytes(size)
    sealed = seal_whole(KEY, plain)
    assert len(sealed) == sealed_size(size)
    assert open_whole(KEY, sealed, size) == plain
    assert size == 0 or plain not in sealed


@settings(max_examples=20)
@given(cuts=st.lists(st.integers(0, 2 * FRAME_BYTES + 7), max_size=6))
def test_chunk_boundaries_do_not_change_encrypted_bytes(cuts: list[int]) -> None:
    plain = _bytes(2 * FRAME_BYTES + 7)
    borders = [0, *sorted(cuts), len(plain)]
    sealer = Sealer(KEY)
    sealed = b"".join(sealer.update(memoryview(plain)[start:end]) for start, end in pairwise(borders))
    assert sealed + sealer.finish() == seal_whole(KEY, plain)


@given(start=st.integers(0, 3 * FRAME_BYTES - 1), length=st.integers(1, 3 * FRAME_BYTES))
def test_frame_range_covers_the_plain_range(start: int, length: int) -> None:
    end = min(start + length, 3 * FRAME_BYTES)
    first, sealed_start, sealed_end = frame_range(start, end)
    assert first * FRAME_BYTES <= start
    assert start < (first + 1) * FRAME_BYTES
    assert sealed_start == first * SEALED_FRAME_BYTES
    frames = (sealed_end - sealed_start) // SEALED_FRAME_BYTES
    assert (first + frames - 1) * FRAME_BYTES < end <= (first + frames) * FRAME_BYTES


@pytest.mark.parametrize("size", BORDER_SIZES)
def test_any_changed_byte_is_detected(size: int) -> None:
    sealed = seal_whole(KEY, _bytes(size))
    for at in {0, len(sealed) // 2, len(sealed) - 1, min(FRAME_BYTES, len(sealed) - 1)}:
        damaged = bytearray(sealed)
        damaged[at] ^= 1
        with pytest.raises(Corrupted):
            open_whole(KEY, bytes(damaged), size)


@pytest.mark.parametrize("size", BORDER_SIZES)
@pytest.mark.parametrize("kept", [0, 1, FRAME_BYTES, SEALED_FRAME_BYTES, SEALED_FRAME_BYTES + 1, -1])
def test_truncation_is_detected(size: int, kept: int) -> None:
    sealed = seal_whole(KEY, _bytes(size))
    cut = sealed[:kept]
    if cut == sealed:
        return
    with pytest.raises(Corrupted):
        open_whole(KEY, cut, size)


def test_appended_bytes_are_detected() -> None:
    sealed = seal_whole(KEY, _bytes(FRAME_BYTES))
    with pytest.raises(Corrupted):
        open_whole(KEY, sealed + sealed, FRAME_BYTES)


def test_swapped_frames_are_detected() -> None:
    size = 3 * FRAME_BYTES
    sealed = seal_whole(KEY, _bytes(size))
    first, second, third = (sealed[at : at + SEALED_FRAME_BYTES] for at in range(0, len(sealed), SEALED_FRAME_BYTES))
    for order in ((second, first, third), (first, third, second), (first, first, third), (third, second, first)):
        with pytest.raises(Corrupted):
            open_whole(KEY, b"".join(order), size)


def test_truncation_at_a_frame_boundary_is_detected() -> None:
    """Bytes truncated after the first frame do not decrypt as a shorter body."""
    sealed = seal_whole(KEY, _bytes(2 * FRAME_BYTES))
    with pytest.raises(Corrupted):
        open_whole(KEY, sealed[:SEALED_FRAME_BYTES], FRAME_BYTES)


def test_frame_decrypts_only_at_its_index() -> None:
    sealed = seal_whole(KEY, _bytes(3 * FRAME_BYTES))
    opener = Opener(KEY, 3 * FRAME_BYTES)
    frame = sealed[SEALED_FRAME_BYTES : 2 * SEALED_FRAME_BYTES]
    assert opener.open_frame(1, frame) == _bytes(3 * FRAME_BYTES)[FRAME_BYTES : 2 * FRAME_BYTES]
    with pytest.raises(Corrupted):
        opener.open_frame(0, frame)


def test_another_data_key_does_not_decrypt() -> None:
    with pytest.raises(Corrupted):
        open_whole(bytes(32), seal_whole(KEY, b"abc"), 3)


def test_data_keys_are_unique() -> None:
    ring = new_key_ring()
    made = [ring.new_data_key() for _ in range(100)]
    assert len({key for key, _ in made}) == len({seal for _, seal in made}) == 100
    assert all(key not in seal for key, seal in made)


def test_rotated_key_ring_unwraps_old_data_keys() -> None:
    key, seal = new_key_ring("k1").new_data_key()
    rotated = new_key_ring("k2")
    assert rotated.unwrap(seal) == key
    assert rotated.new_data_key()[1][1:3] == b"k2"


def test_seal_of_a_removed_master_key_names_it() -> None:
    _, seal = new_key_ring("k1").new_data_key()
    with pytest.raises(Corrupted, match="key=k1"):
        KeyRing({"k2": b"2" * 32}, "k2").unwrap(seal)


def test_seal_of_another_master_key_with_the_same_name_does_not_unwrap() -> None:
    _, seal = new_key_ring("k1").new_data_key()
    with pytest.raises(Corrupted, match="key=k1"):
        KeyRing({"k1": b"x" * 32}, "k1").unwrap(seal)


def test_seal_is_bound_to_its_master_key_name() -> None:
    ring = KeyRing({"k1": b"1" * 32, "k2": b"1" * 32}, "k1")
    _, seal = ring.new_data_key()
    with pytest.raises(Corrupted):
        ring.unwrap(seal.replace(b"k1", b"k2", 1))


@given(st.binary(max_size=80))
def test_random_bytes_are_a_corrupted_seal(noise: bytes) -> None:
    with pytest.raises(Corrupted):
        new_key_ring().unwrap(noise)


@given(at=st.integers(0, 62), value=st.integers(1, 255))
def test_any_changed_byte_of_a_seal_is_detected(at: int, value: int) -> None:
    ring = new_key_ring()
    seal = bytearray(ring.new_data_key()[1])
    assert len(seal) == 63
    seal[at] ^= value
    with pytest.raises(Corrupted):
        ring.unwrap(bytes(seal))


def test_key_ring_rejects_invalid_keys() -> None:
    with pytest.raises(InvalidSetting, match=r"^encryption\.active"):
        KeyRing({"k1": b"1" * 32}, "k2")
    with pytest.raises(InvalidSetting, match=r"^encryption\.keys\.k1"):
        KeyRing({"k1": b"short"}, "k1")
