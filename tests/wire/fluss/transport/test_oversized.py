"""OversizedRequest writes: their bucket ids are parsed from pieces of any size."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.wire.fluss import messages_pb2 as pb
from lakebed.wire.fluss.transport.oversized import MAX_BUCKETS, OversizedRequest

PRODUCE, PUT, FETCH = 1014, 1016, 1015
FAILURE = FlussError(ErrorCode.RECORD_TOO_LARGE, "too large. limit=1")

WriteResponse = pb.ProduceLogResponse | pb.PutKvResponse

bucket_lists = st.lists(
    st.tuples(st.none() | st.integers(-(2**63), 2**63 - 1), st.integers(0, 2**31 - 1), st.integers(0, 300)), max_size=5
)


def write_request(key: int, buckets: list[tuple[int | None, int, int]]) -> bytes:
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


def response_to(key: int, body: bytes, pieces: list[int]) -> WriteResponse | None:
    """The response to a body that arrives in pieces of these sizes, cyclically."""
    oversized = OversizedRequest(key, 1, len(body), FAILURE)
    at, count = 0, 0
    while True:
        size = pieces[count % len(pieces)]
        response = oversized.feed(memoryview(body)[at : at + size])
        at, count = at + size, count + 1
        if response is not None or at >= len(body):
            assert response is None or at >= len(body)
            assert response is None or isinstance(response, WriteResponse)
            return response


@given(
    st.sampled_from([PRODUCE, PUT]),
    bucket_lists,
    st.lists(st.integers(1, 40) | st.just(10_000), min_size=1, max_size=4),
)
def test_every_bucket_gets_one_error(key: int, buckets: list[tuple[int | None, int, int]], pieces: list[int]) -> None:
    response = response_to(key, write_request(key, buckets), pieces)
    assert isinstance(response, pb.ProduceLogResponse if key == PRODUCE else pb.PutKvResponse)
    assert [
        (each.partition_id if each.HasField("partition_id") else None, each.bucket_id) for each in response.buckets
    ] == [(partition_id, bucket) for partition_id, bucket, _ in buckets]
    assert all((each.error_code, each.error_message) == (13, str(FAILURE)) for each in response.buckets)


@given(st.sampled_from([PRODUCE, PUT]), st.binary(min_size=1), st.integers(1, 40))
def test_random_bytes_get_bucket_errors_or_fail_the_request(key: int, noise: bytes, piece: int) -> None:
    with contextlib.suppress(FlussError):  # any other error fails the test
        assert response_to(key, noise, [piece]) is not None


@given(bucket_lists, st.data())
def test_truncated_message_fails_the_request(buckets: list[tuple[int | None, int, int]], data: st.DataObject) -> None:
    body = write_request(PRODUCE, [*buckets, (None, 1, 200)])
    cut = data.draw(st.integers(len(body) - 200, len(body) - 1))
    with pytest.raises(FlussError):
        response_to(PRODUCE, body[:cut], [50])


def test_bytes_after_the_frame_are_ignored() -> None:
    body = write_request(PRODUCE, [(None, 3, 10)])
    response = OversizedRequest(PRODUCE, 1, len(body), FAILURE).feed(memoryview(body + b"\xff" * 100))
    assert isinstance(response, pb.ProduceLogResponse)
    assert [each.bucket_id for each in response.buckets] == [3]


def test_other_calls_fail_at_once() -> None:
    with pytest.raises(FlussError) as raised:
        OversizedRequest(FETCH, 1, 10**9, FAILURE).feed(memoryview(b""))
    assert raised.value is FAILURE


def test_too_many_buckets_fail_the_request() -> None:
    with pytest.raises(FlussError):
        response_to(PRODUCE, write_request(PRODUCE, [(None, number, 0) for number in range(MAX_BUCKETS + 1)]), [10_000])
