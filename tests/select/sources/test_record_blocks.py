from __future__ import annotations

import io
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.errors import SelectError, Unavailable
from lakebed.select.model import ScanRange
from lakebed.select.sources.object_bytes import LocalBytes
from lakebed.select.sources.record_blocks import Blocks, check_lengths, cut_after, first_record, resolve_range

texts = st.text("ab;\n", max_size=60).map(str.encode)


@given(texts, st.sampled_from([b"\n", b";;", b"a;"]), st.lists(st.integers(0, 60), max_size=4))
def test_adjacent_ranges_have_each_record_once(data: bytes, delimiter: bytes, cuts: list[int]) -> None:
    source = LocalBytes([data])
    bounds = [0, *sorted(cut for cut in cuts if cut <= len(data)), len(data)]
    starts = [first_record(source, offset, delimiter) if offset < len(data) else len(data) for offset in bounds]
    assert starts == sorted(starts)
    joined = b"".join(data[start:stop] for start, stop in pairwise(starts))
    assert joined == data
    for start in starts:
        assert start in (0, len(data)) or data[:start].endswith(delimiter)


@pytest.mark.parametrize(
    ("scan_range", "size", "found"),
    [
        (ScanRange(0, 9), 100, (0, 10)),
        (ScanRange(5, 5), 100, (5, 6)),
        (ScanRange(5, 500), 100, (5, 100)),
        (ScanRange(5), 100, (5, 100)),
        (ScanRange(None, 30), 100, (70, 100)),
        (ScanRange(None, 300), 100, (0, 100)),
        (ScanRange(0), 0, (0, 0)),
    ],
)
def test_range_is_resolved(scan_range: ScanRange, size: int, found: tuple[int, int]) -> None:
    assert resolve_range(scan_range, size) == found


@pytest.mark.parametrize(
    "scan_range", [ScanRange(), ScanRange(-1, 5), ScanRange(5, 4), ScanRange(100), ScanRange(None, -1)]
)
def test_invalid_range_is_rejected(scan_range: ScanRange) -> None:
    with pytest.raises(SelectError) as raised:
        resolve_range(scan_range, 100)
    assert raised.value.code == "InvalidScanRange"


@given(texts)
def test_blocks_join_to_the_stream(data: bytes) -> None:
    blocks = Blocks(io.BytesIO(data), cut_after(b"\n"))
    blocks.first()
    taken = []
    while (block := blocks.take()) is not None:
        taken.append(block)
    assert b"".join(taken) == data


def test_blocks_end_with_whole_records() -> None:
    line = b"x" * 1000 + b"\n"
    blocks = Blocks(io.BytesIO(line * 12_000), cut_after(b"\n"))
    taken = []
    while (block := blocks.take()) is not None:
        taken.append(block)
    assert len(taken) > 2
    assert all(block.endswith(b"\n") for block in taken)
    assert b"".join(taken) == line * 12_000


def test_take_after_stop_raises() -> None:
    blocks = Blocks(io.BytesIO(b"a\n" * 5_000_000), cut_after(b"\n"))
    blocks.take()
    blocks.stop()
    with pytest.raises(Unavailable):
        blocks.take()


def test_record_without_end_is_rejected() -> None:
    with pytest.raises(SelectError) as raised:
        check_lengths(b"a\n" + b"x" * (1024 * 1024 + 1) + b"\n", b"\n")
    assert raised.value.code == "OverMaxRecordSize"
    check_lengths((b"x" * 1024 * 1023 + b"\n") * 4, b"\n")
