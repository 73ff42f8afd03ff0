"""`kv_records.c` gives the same results as the Python code, and stays within its memory."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from hatch_build import KV_RECORDS
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lakebed.fluss import kv_batches, kv_records
from lakebed.fluss.errors import FlussError
from lakebed.fluss.kv_batches import KvRecordBatch, ValueRecordBatch, read_kv_batch, write_kv_batch
from lakebed.fluss.kv_records import KvRecords, join_values, load_library, scan_records
from tests.fixtures.c_libraries import compiled, fuzzed

FUZZ = Path(__file__).with_name("kv_records_fuzz.c")

pieces = st.one_of(st.binary(max_size=9), st.integers(120, 300).map(bytes), st.integers(65_500, 65_600).map(bytes))
records = st.lists(st.tuples(pieces, st.none() | pieces.filter(len)), max_size=6)


@pytest.fixture(scope="module", autouse=True)
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Build the library from the current source."""
    path = compiled(KV_RECORDS, tmp_path_factory.mktemp("keys"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kv_records, "load_library", lambda: load_library(path))
        yield


def _plain(records: KvRecords) -> tuple[object, ...]:
    return records.keys, records.values, records.starts.tolist(), records.ends.tolist()


def _one_by_one(data: bytes, size: int, count: int, schema_id: int) -> object:
    try:
        return _plain(kv_batches._read_records(data, size, count, schema_id))
    except FlussError:
        return None


@settings(deadline=None)
@given(records, st.integers(-(2**15), 2**15 - 1))
def test_valid_batches_are_read_by_the_library(given_: list[tuple[bytes, bytes | None]], schema_id: int) -> None:
    data = write_kv_batch(given_, schema_id)
    found = scan_records(data, kv_batches._HEADER.size, len(data), len(given_), schema_id)
    assert found is not None
    assert _plain(found) == _one_by_one(data, len(data), len(given_), schema_id)
    assert found.keys == [key for key, _ in given_]


@settings(deadline=None)
@given(records, st.data())
@example([(b"k" * 200, b"row")], None)
def test_damaged_batches_are_read_alike_or_rejected(
    given_: list[tuple[bytes, bytes | None]], data: st.DataObject | None
) -> None:
    batch = bytearray(write_kv_batch(given_, 1))
    count = len(given_)
    if data is None:
        batch[kv_batches._HEADER.size + 4 : kv_batches._HEADER.size + 9] = b"\xff" * 5
    else:
        for _ in range(data.draw(st.integers(0, 3))):
            batch[data.draw(st.integers(0, len(batch) - 1))] = data.draw(st.integers(0, 255))
        del batch[data.draw(st.integers(kv_batches._HEADER.size, len(batch))) :]
        count = data.draw(st.sampled_from([count, count + 1, max(0, count - 1), 2**31 - 1, -1]))
    found = scan_records(bytes(batch), kv_batches._HEADER.size, len(batch), count, 1)
    assert (found and _plain(found)) == (_one_by_one(bytes(batch), len(batch), count, 1) if count >= 0 else None)


@settings(deadline=None)
@given(st.lists(pieces, max_size=20))
@example([b""] * 70_000)
def test_joined_values_equal_those_of_python(values: list[bytes]) -> None:
    joined = join_values(values)
    assert joined == b"".join(len(value).to_bytes(4, "little") + value for value in values)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kv_records, "load_library", lambda: None)
        assert join_values(values) is None
        without = _batch(values)
    assert without == _batch(values)


def _batch(values: list[bytes]) -> list[bytes]:
    batch = ValueRecordBatch()
    batch.add(values)
    return batch.pieces()


def test_batches_are_read_without_the_library(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def read() -> KvRecordBatch:
        return read_kv_batch(write_kv_batch([(b"a", b"1"), (b"b", None)], 1))

    with_library = read()
    with caplog.at_level(logging.INFO, "lakebed.streams"):
        monkeypatch.setattr(kv_records, "load_library", lambda: load_library(tmp_path / "missing.so"))
        without = read()
    assert (
        (without.keys, without.values) == (with_library.keys, with_library.values) == ([b"a", b"b"], [b"\1\x001", None])
    )
    assert "without a C compiler" in caplog.text


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_library_stays_within_its_memory(tmp_path: Path, seed: int) -> None:
    # Enough of the records must be valid.
    assert fuzzed(FUZZ, tmp_path, rounds=100_000, seed=seed) > 10_000
