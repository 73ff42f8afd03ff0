"""Writes that nobody holds: their buckets are found in whatever pieces they come."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.wire.fluss import messages_pb2 as pb
from lakebed.wire.fluss.transport.oversized import MAX_BUCKETS, Oversized

PRODUCE, PUT, FETCH = 1014, 1016, 1015
FAILURE = FlussError(ErrorCode.RECORD_TOO_LARGE, "too large. limit=1")

Answers = pb.ProduceLogResponse | pb.PutKvResponse

named = st.lists(
    st.tuples(st.none() | st.integers(-(2**63), 2**63 - 1), st.integers(0, 2**31 - 1), st.integers(0, 300)), max_size=5
)


def written(key: int, buckets: list[tuple[int | None, int, int]]) -> bytes:
    request = (
        pb.ProduceLogRequest(acks=-1, table_id=2**40, timeout_ms=1000)
        if key == PRODUCE
        else pb.PutKvRequest(acks=-1, table_id=2**40, timeout_ms=1000, target_columns=range(200), agg_mode=1)
    )
    for partition_id, bucket, size in buckets:
        added = request.buckets.add(bucket_id=bucket, records=b"\xff" * size)
        if partition_id is not None:
            added.partition_id = partition_id
    return request.SerializeToString()


def answer_to(key: int, body: bytes, pieces: list[int]) -> Answers | None:
    """What is answered, given pieces of these sizes in turn."""
    passing = Oversized(key, 1, len(body), FAILURE)
    at, turn = 0, 0
    while True:
        size = pieces[turn % len(pieces)]
        answer = passing.take(memoryview(body)[at : at + size])
        at, turn = at + size, turn + 1
        if answer is not None or at >= len(body):
            assert answer is None or at >= len(body)
            assert answer is None or isinstance(answer, Answers)
            return answer


@given(st.sampled_from([PRODUCE, PUT]), named, st.lists(st.integers(1, 40) | st.just(10_000), min_size=1, max_size=4))
def test_every_bucket_is_refused_once(key: int, buckets: list[tuple[int | None, int, int]], pieces: list[int]) -> None:
    answer = answer_to(key, written(key, buckets), pieces)
    assert isinstance(answer, pb.ProduceLogResponse if key == PRODUCE else pb.PutKvResponse)
    assert [
        (each.partition_id if each.HasField("partition_id") else None, each.bucket_id) for each in answer.buckets
    ] == [(partition_id, bucket) for partition_id, bucket, _ in buckets]
    assert all((each.error_code, each.error_message) == (13, str(FAILURE)) for each in answer.buckets)


@given(st.sampled_from([PRODUCE, PUT]), st.binary(min_size=1), st.integers(1, 40))
def test_noise_is_answered_or_fails_as_a_whole(key: int, noise: bytes, piece: int) -> None:
    with contextlib.suppress(FlussError):  # and nothing else
        assert answer_to(key, noise, [piece]) is not None


@given(named, st.data())
def test_a_message_that_ends_within_a_field_fails_as_a_whole(
    buckets: list[tuple[int | None, int, int]], data: st.DataObject
) -> None:
    body = written(PRODUCE, [*buckets, (None, 1, 200)])
    cut = data.draw(st.integers(len(body) - 200, len(body) - 1))
    with pytest.raises(FlussError):
        answer_to(PRODUCE, body[:cut], [50])


def test_what_follows_is_not_read() -> None:
    body = written(PRODUCE, [(None, 3, 10)])
    answer = Oversized(PRODUCE, 1, len(body), FAILURE).take(memoryview(body + b"\xff" * 100))
    assert isinstance(answer, pb.ProduceLogResponse)
    assert [each.bucket_id for each in answer.buckets] == [3]


def test_other_calls_fail_as_a_whole_and_at_once() -> None:
    with pytest.raises(FlussError) as raised:
        Oversized(FETCH, 1, 10**9, FAILURE).take(memoryview(b""))
    assert raised.value is FAILURE


def test_more_buckets_than_are_told_of_fail_as_a_whole() -> None:
    with pytest.raises(FlussError):
        answer_to(PRODUCE, written(PRODUCE, [(None, number, 0) for number in range(MAX_BUCKETS + 1)]), [10_000])
