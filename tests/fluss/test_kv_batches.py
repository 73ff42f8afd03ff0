from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.fluss.kv_batches import ValueRecordBatch, read_kv_batch, write_kv_batch

records = st.lists(st.tuples(st.binary(max_size=200), st.none() | st.binary(min_size=1, max_size=30)), max_size=8)


@given(records, st.integers(0, 2**15 - 1), st.integers(-1, 2**63 - 1), st.integers(-1, 2**31 - 1))
def test_batch_survives_serialization(
    given_: list[tuple[bytes, bytes | None]], schema_id: int, writer_id: int, sequence: int
) -> None:
    batch = read_kv_batch(memoryview(write_kv_batch(given_, schema_id, writer_id, sequence)))
    prefix = schema_id.to_bytes(2, "little")
    assert (batch.schema_id, batch.writer_id, batch.sequence) == (schema_id, writer_id, sequence)
    assert batch.keys == [key for key, _ in given_]
    assert batch.values == [None if row is None else prefix + row for _, row in given_]
    rows = [row for _, row in given_ if row is not None]
    assert [batch.rows.data[s:e] for s, e in zip(batch.rows.starts, batch.rows.ends, strict=True)] == rows


@given(records, st.data())
def test_changed_batch_is_corrupt(given_: list[tuple[bytes, bytes | None]], data: st.DataObject) -> None:
    whole = write_kv_batch(given_, 1)
    at = data.draw(st.integers(0, len(whole) - 1))
    changed = bytearray(whole)
    changed[at] ^= data.draw(st.integers(1, 255))
    for bad in (bytes(changed), whole[:at]):
        with pytest.raises(FlussError) as failed:
            read_kv_batch(bad)
        assert failed.value.code is ErrorCode.CORRUPT_RECORD


def test_values_are_written_with_their_lengths() -> None:
    batch = ValueRecordBatch()
    assert b"".join(batch.pieces()) == bytes.fromhex("050000000000000000")
    batch.add([b"\1\0abc", b"\2\0"])
    assert batch.size_bytes == 15
    assert b"".join(batch.pieces()) == bytes.fromhex("140000000002000000050000000100616263020000000200")
    batch.add([b"\3\0"])
    assert b"".join(batch.pieces()) == bytes.fromhex("1a0000000003000000050000000100616263020000000200020000000300")
