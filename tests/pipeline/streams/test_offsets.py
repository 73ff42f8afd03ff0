from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.errors import InvalidInput
from lakebed.pipeline.streams.offsets import Offsets, ReadSpan, TableOffsets, missing_spans, plan_spans

FLAT = st.dictionaries(st.tuples(st.none(), st.integers(0, 20)), st.integers(0, 2**62), min_size=1)
PARTITIONED = st.dictionaries(st.tuples(st.integers(1, 9), st.integers(0, 5)), st.integers(0, 2**62), min_size=1)


@given(FLAT | PARTITIONED)
def test_offsets_round_trip(offsets: dict[tuple[int | None, int], int]) -> None:
    table_offsets = TableOffsets(7, offsets)
    assert TableOffsets.parse(table_offsets.text()) == table_offsets
    assert TableOffsets.parse(table_offsets.document()) == table_offsets


def test_offsets_have_the_json_form_of_fluss() -> None:
    assert TableOffsets(7, {(None, 0): 12, (None, 2): 5}).text() == (
        '{"version":1,"table_id":7,"bucket_offsets":[12,-1,5]}'
    )
    assert TableOffsets(7, {(4, 0): 1, (3, 1): 2}).document()["partition_offsets"] == [
        {"partition_id": 3, "bucket_offsets": [-1, 2]},
        {"partition_id": 4, "bucket_offsets": [1]},
    ]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"table_id":1}', '{"table_id":1,"bucket_offsets":["x"]}', "null"])
def test_invalid_offsets_are_rejected(text: str) -> None:
    with pytest.raises(InvalidInput, match="invalid offsets"):
        TableOffsets.parse(text)


def test_bucket_is_read_from_the_last_offset_to_its_end() -> None:
    start: Offsets = {(None, 0): 5, (None, 1): 9}
    end: Offsets = {(None, 2): 4, (None, 1): 9, (None, 0): 8}
    assert plan_spans(start, {}, end) == [ReadSpan((None, 0), 5, 8), ReadSpan((None, 2), 0, 4)]


def test_deleted_spans_are_not_planned_but_reported() -> None:
    start: Offsets = {(None, 0): 5}
    begin: Offsets = {(None, 0): 7, (None, 1): 2}
    end: Offsets = {(None, 0): 8, (None, 1): 3}
    assert plan_spans(start, begin, end) == [ReadSpan((None, 0), 7, 8), ReadSpan((None, 1), 2, 3)]
    assert missing_spans(start, begin) == [ReadSpan((None, 0), 5, 7), ReadSpan((None, 1), 0, 2)]


@given(FLAT, FLAT, FLAT)
def test_spans_of_rounds_are_contiguous(
    start: dict[tuple[int | None, int], int],
    middle: dict[tuple[int | None, int], int],
    end: dict[tuple[int | None, int], int],
) -> None:
    """Two consecutive rounds read the same spans as one round."""
    first = plan_spans(start, {}, middle)
    reached = start | {span.bucket: span.end for span in first}
    twice = [*first, *plan_spans(reached, {}, end)]
    for bucket in start.keys() | middle.keys() | end.keys():
        at = start.get(bucket, 0)
        for span in (span for span in twice if span.bucket == bucket):
            assert span.start == at
            at = span.end
        assert at == max(start.get(bucket, 0), middle.get(bucket, 0), end.get(bucket, 0))
