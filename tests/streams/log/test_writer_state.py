"""Writer states survive serialization and the wrap-around of sequences."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.fluss.errors import ErrorCode
from lakebed.fluss.log_batches import LogRecordBatch, iterate_batches
from lakebed.streams.log.writer_state import WriterStates
from tests.contracts.stream_log import plain_batch, refused


def batch(sequence: int, writer_id: int = 1) -> LogRecordBatch:
    return next(iterate_batches(plain_batch(2, writer_id=writer_id, sequence=sequence)))


def test_sequences_wrap_around() -> None:
    writers = WriterStates()
    writers.record(batch(2**31 - 1), 10, 0)
    assert writers.find_duplicate(batch(0), 0) is None
    writers.record(batch(0), 12, 0)
    found = writers.find_duplicate(batch(2**31 - 1), 0)
    assert found is not None
    assert found.base_offset == 10
    with refused(ErrorCode.OUT_OF_ORDER_SEQUENCE):
        writers.find_duplicate(batch(2), 0)


@given(st.lists(st.tuples(st.integers(0, 2**62), st.integers(1, 9)), max_size=8, unique_by=lambda it: it[0]))
def test_writer_states_survive_serialization(known: list[tuple[int, int]]) -> None:
    writers = WriterStates()
    for writer_id, count in known:
        for sequence in range(count):
            writers.record(batch(sequence, writer_id), 2 * sequence, 5)
    again = WriterStates.parse(writers.document())
    assert again.document() == writers.document()
    for writer_id, count in known:
        assert again.find_duplicate(batch(count, writer_id), 5) is None
        assert again.find_duplicate(batch(count - 1, writer_id), 5) is not None


def test_truncated_document_is_rejected() -> None:
    writers = WriterStates()
    writers.record(batch(0), 0, 0)
    with pytest.raises(ValueError, match="truncated"):
        WriterStates.parse(writers.document()[:-1])


def test_idle_writers_are_forgotten() -> None:
    writers = WriterStates()
    writers.record(batch(0, 1), 0, 0)
    writers.record(batch(0, 2), 2, 10**9)
    writers.forget_idle(10**9)
    assert len(writers) == 1
