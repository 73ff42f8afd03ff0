"""The hand-written protobuf code reads and writes the same bytes as the generated classes."""

from __future__ import annotations

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.streams.kv.scanners import KvScanPage
from lakebed.streams.seam import RemoteSegment
from lakebed.wire.fluss import messages_pb2 as pb
from lakebed.wire.fluss.encoding import MAX_FIELDS, MAX_MESSAGE_BYTES, fields, read_message, signed_64, varint
from lakebed.wire.fluss.records import (
    BucketRecords,
    FetchedBucket,
    fetch_response,
    limit_scan_response,
    lookup_response,
    read_produce,
    read_put,
    scan_response,
)

ids = st.integers(0, 2**63 - 1)
buckets = st.integers(0, 2**31 - 1)
parts = st.lists(st.tuples(st.none() | ids, buckets, st.binary(max_size=300)), max_size=5)


def records_of(found: list[BucketRecords]) -> list[tuple[int | None, int, bytes]]:
    return [(partition, bucket, bytes(records)) for partition, bucket, records in found]


@given(st.integers(-(2**63), 2**63 - 1))
def test_varints_of_every_size(number: int) -> None:
    (found,) = fields(memoryview(b"\x08" + varint(number)))
    assert found[0] == 1
    assert signed_64(found[1]) == number


@given(st.sampled_from([0, 1, -1]), ids, parts)
def test_produce_request(acks: int, table_id: int, written: list[tuple[int | None, int, bytes]]) -> None:
    message = pb.ProduceLogRequest(acks=acks, table_id=table_id, timeout_ms=30_000)
    for partition, bucket, records in written:
        message.buckets.add(partition_id=partition, bucket_id=bucket, records=records)
    found = read_produce(memoryview(message.SerializeToString()))
    assert (found.acks, found.table_id, found.timeout_ms) == (acks, table_id, 30_000)
    assert records_of(found.buckets) == written


@given(ids, st.lists(st.integers(0, 2**31 - 1), max_size=20), st.sampled_from([0, 1]), parts)
def test_put_request(
    table_id: int, columns: list[int], mode: int, written: list[tuple[int | None, int, bytes]]
) -> None:
    message = pb.PutKvRequest(acks=-1, table_id=table_id, timeout_ms=1, target_columns=columns, agg_mode=mode)
    for partition, bucket, records in written:
        message.buckets.add(partition_id=partition, bucket_id=bucket, records=records)
    found = read_put(memoryview(message.SerializeToString()))
    assert (found.acks, found.table_id, found.target_columns, found.merge_mode) == (-1, table_id, columns, mode)
    assert records_of(found.buckets) == written


@given(st.binary(max_size=60))
def test_random_bytes_raise_only_decode_errors(noise: bytes) -> None:
    for read in (read_produce, read_put):
        try:
            read(memoryview(noise))
        except DecodeError:
            continue


@pytest.mark.parametrize("cut", range(1, 30))
def test_truncated_request_is_refused(cut: int) -> None:
    message = pb.ProduceLogRequest(acks=-1, table_id=5, timeout_ms=1)
    message.buckets.add(bucket_id=3, records=b"r" * 40)
    whole = message.SerializeToString()
    with pytest.raises(DecodeError):
        read_produce(memoryview(whole[:-cut]))


fetched = st.tuples(st.none() | ids, buckets, ids, ids, st.binary(max_size=500)).map(
    lambda drawn: FetchedBucket(drawn[0], drawn[1], high_watermark=drawn[2], start_offset=drawn[3], records=drawn[4])
)


@given(st.lists(st.tuples(ids, st.lists(fetched, max_size=4)), max_size=4))
def test_fetch_response(found: list[tuple[int, list[FetchedBucket]]]) -> None:
    response = pb.FetchLogResponse.FromString(b"".join(fetch_response(found)))
    assert [table.table_id for table in response.tables] == [table_id for table_id, _ in found]
    for table, (_, expected) in zip(response.tables, found, strict=True):
        for bucket, each in zip(table.buckets, expected, strict=True):
            assert bucket.HasField("partition_id") == (each.partition_id is not None)
            assert bucket.partition_id == (each.partition_id or 0)
            assert (bucket.bucket_id, bucket.records) == (each.bucket, each.records)
            assert (bucket.high_watermark, bucket.log_start_offset) == (each.high_watermark, each.start_offset)
            assert not bucket.HasField("error_code")


def test_fetch_response_with_an_error_and_remote_segments() -> None:
    failed = FetchedBucket(None, 0, error_code=19, error_message="no such offset")
    segment = RemoteSegment("abc", 0, 100, 4096, 17)
    remote = FetchedBucket(
        8, 1, high_watermark=200, remote=[segment], remote_start=12, remote_folder="/r", partition_name="EU"
    )
    response = pb.FetchLogResponse.FromString(b"".join(fetch_response([(7, [failed, remote])])))
    first, second = response.tables[0].buckets
    assert (first.error_code, first.error_message, first.HasField("records")) == (19, "no such offset", False)
    info = second.remote_log_fetch_info
    assert (info.tablet_dir, info.partition_name, info.first_start_pos) == ("/r", "EU", 12)
    (only,) = info.segments
    assert (only.segment_id, only.end_offset, only.size_in_bytes) == ("abc", 100, 4096)


@given(st.none() | ids, buckets, st.lists(st.none() | st.binary(max_size=400), max_size=10))
def test_lookup_response(partition: int | None, bucket: int, values: list[bytes | None]) -> None:
    (found,) = pb.LookupResponse.FromString(lookup_response(partition, bucket, values)).buckets
    assert (found.bucket_id, found.partition_id) == (bucket, partition or 0)
    assert [value.values if value.HasField("values") else None for value in found.values] == values


pieces = st.lists(st.binary(max_size=200), max_size=3)


@given(pieces, st.booleans())
def test_limit_scan_response(records: list[bytes], is_log: bool) -> None:
    response = pb.LimitScanResponse.FromString(b"".join(limit_scan_response(records, is_log=is_log)))
    assert response == pb.LimitScanResponse(is_log_table=is_log, records=b"".join(records))


@given(
    st.builds(
        KvScanPage,
        st.none() | st.binary(max_size=40),
        st.booleans(),
        st.none() | pieces,
        st.none() | st.integers(0, 2**62),
    )
)
def test_scan_response(page: KvScanPage) -> None:
    response = pb.ScanKvResponse.FromString(b"".join(scan_response(page)))
    records = None if page.records is None else b"".join(page.records)
    assert response == pb.ScanKvResponse(
        scanner_id=page.scanner_id, has_more_results=page.has_more, records=records, log_offset=page.log_offset
    )


# -- limits: decoding blocks the event loop at a cost per field ---------------------------------------------------


def produced(bucket: bytes) -> bytes:
    return b"\x18\x01" + b"\x10\x01" + b"\x22" + varint(len(bucket)) + bucket


@pytest.mark.parametrize(
    "body",
    [
        b"\x78\x00" * (MAX_FIELDS + 1),
        b"\x7d\x00\x00\x00\x00" * (MAX_FIELDS + 1),
        produced(b"\x78\x00" * 17 + b"\x10\x00\x1a\x00"),
    ],
    ids=["unknown-numbers", "fixed-width", "in-a-bucket"],
)
def test_messages_with_too_many_fields_are_refused(body: bytes) -> None:
    with pytest.raises(DecodeError, match="too many fields"):
        read_produce(memoryview(body))


def test_requests_with_the_most_buckets_are_read() -> None:
    bucket = b"\x10\x00\x1a\x00"
    body = b"\x10\x01" + (b"\x22" + varint(len(bucket)) + bucket) * (MAX_FIELDS - 1)
    assert len(read_produce(memoryview(body)).buckets) == MAX_FIELDS - 1
    with pytest.raises(DecodeError, match="too many fields"):
        read_produce(memoryview(body + b"\x22" + varint(len(bucket)) + bucket))


def columns(count: int) -> bytes:
    return b"\x22" + varint(count) + b"\x01" * count


def test_puts_with_too_many_target_columns_are_refused() -> None:
    table = b"\x10\x01"
    assert len(read_put(memoryview(table + columns(MAX_FIELDS))).target_columns) == MAX_FIELDS
    for body in (columns(MAX_FIELDS + 1), columns(MAX_FIELDS) + columns(1), columns(MAX_FIELDS) + b"\x20\x01"):
        with pytest.raises(DecodeError, match="too many"):
            read_put(memoryview(table + body))


def test_long_messages_without_records_are_refused_before_they_are_parsed() -> None:
    # The bytes are not a message: parsing them would raise DecodeError.
    for kind, most in ((pb.GetMetadataRequest, MAX_MESSAGE_BYTES), (pb.LookupRequest, 10)):
        with pytest.raises(FlussError, match=f"limit={most}") as refused:
            read_message(kind, memoryview(b"\xff" * (most + 1)), max_bytes=most)
        assert refused.value.code is ErrorCode.RECORD_TOO_LARGE
        with pytest.raises(DecodeError):
            read_message(kind, memoryview(b"\xff" * most), max_bytes=most)
