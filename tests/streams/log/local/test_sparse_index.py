"""Positions of batches in a segment are found by offset, position and time."""

from __future__ import annotations

import pytest

from lakebed.streams.log.local.sparse_index import INDEX_BYTES, SparseIndex


def sparse_index(count: int, step: int = INDEX_BYTES) -> SparseIndex:
    index = SparseIndex()
    for at in range(count):
        index.add(10 * at, step * at, 100 * at)
    return index


def test_positions_are_found() -> None:
    index = sparse_index(5)
    assert [index.before(offset) for offset in (0, 9, 10, 49, 999)] == [0, 0, 4096, 16384, 16384]
    assert [index.last_until(place) for place in (0, 4095, 4096, 99999)] == [(0, 0), (0, 0), (4096, 10), (16384, 40)]
    assert [index.before_time(time) for time in (0, 1, 100, 101, 999)] == [0, 0, 0, 4096, 16384]
    assert SparseIndex().before(5) == 0
    assert SparseIndex().last_until(5) is None


def test_index_is_sparse_for_small_batches() -> None:
    assert len(sparse_index(1000, 41)) == 10


def test_index_survives_serialization_and_rejects_noise() -> None:
    document = sparse_index(5).document(20000)
    assert SparseIndex.parse(document, 20000).document(20000) == document
    for bad in (document[:10], document[:-1], document[:-1] + b"x", b""):
        with pytest.raises(ValueError, match="index"):
            SparseIndex.parse(bad, 20000)
    with pytest.raises(ValueError, match="another"):
        SparseIndex.parse(document, 20001)
