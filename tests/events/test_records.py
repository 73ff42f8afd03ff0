from __future__ import annotations

from urllib.parse import unquote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.events.documents import event_document
from lakebed.events.names import SINGLES, EventName
from lakebed.events.records import (
    encode_key,
    other_record_of,
    record_of,
    rfc3339,
    s3_event_of,
    sequencer_of,
)
from lakebed.meta.outbox import OutboxEntry, OutboxEvent

from .samples import OCCURRED_MS, other_entry, s3_entry

KEYS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=40)


def record(entry: OutboxEntry, rule_id: str = "rule-1") -> dict[str, object]:
    event = s3_event_of(entry)
    assert event is not None
    return record_of(event, rule_id=rule_id, region="us-east-1")


def test_record_has_all_fields_of_s3() -> None:
    entry = s3_entry(
        "ObjectCreated:Put",
        version="3c1e",
        size=1024,
        etag="9a03",
        content_type="text/csv",
        metadata={"team": "ops", "internal-key": "secret", "X-Minio-Internal-x": "secret"},
        request_id="0d2f",
        source_ip="10.0.0.7",
        user_agent="aws-cli/2.17",
        host="store.example:9000",
    )
    assert record(entry) == {
        "eventVersion": "2.1",
        "eventSource": "lakebed:s3",
        "awsRegion": "us-east-1",
        "eventTime": "2026-03-04T05:06:07.089Z",
        "eventName": "s3:ObjectCreated:Put",
        "userIdentity": {"principalId": "ann"},
        "requestParameters": {"principalId": "ann", "region": "us-east-1", "sourceIPAddress": "10.0.0.7"},
        "responseElements": {"x-amz-request-id": "0d2f", "x-amz-id-2": ""},
        "s3": {
            "s3SchemaVersion": "1.0",
            "configurationId": "rule-1",
            "bucket": {
                "name": "sales",
                "ownerIdentity": {"principalId": "000000000000"},
                "arn": "arn:aws:s3:::sales",
            },
            "object": {
                "key": "in/2026+Q1.csv",
                "size": 1024,
                "eTag": "9a03",
                "contentType": "text/csv",
                "userMetadata": {"x-amz-meta-team": "ops"},
                "versionId": "3c1e",
                "sequencer": "000000000000002A",
            },
        },
        "source": {"host": "store.example", "port": "9000", "userAgent": "aws-cli/2.17"},
    }


@pytest.mark.parametrize("name", SINGLES)
def test_records_of_removals_omit_object_fields(name: EventName) -> None:
    entry = s3_entry(name.kind, version="v", size=3, etag="e", content_type="c", metadata={"a": "b"})
    document = record(entry)["s3"]["object"]  # type: ignore[index]  # a document
    described = {"size", "eTag", "contentType", "userMetadata"}
    is_removal = name.value.startswith("s3:ObjectRemoved:")
    assert described & set(document) == (set() if is_removal else described)
    assert document["versionId"] == "v"


def test_unknown_fields_are_omitted() -> None:
    document = record(s3_entry("ObjectCreated:Put"))["s3"]["object"]  # type: ignore[index]  # a document
    assert document == {"key": "in/2026+Q1.csv", "size": 0, "sequencer": "000000000000002A"}


def test_bucket_owner_is_the_principal_id() -> None:
    document = record(s3_entry("ObjectCreated:Put", owner="111111111111"))
    assert document["s3"]["bucket"]["ownerIdentity"] == {"principalId": "111111111111"}  # type: ignore[index]  # a document


def test_bucket_event_has_an_empty_key() -> None:
    document = record(s3_entry("BucketRemoved", key=""))
    assert document["eventName"] == "s3:BucketRemoved:*"
    assert document["s3"]["object"] == {"key": "", "sequencer": "000000000000002A"}  # type: ignore[index]  # a document


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("", ("", "")),
        ("store.example", ("store.example", "")),
        ("10.0.0.1:9000", ("10.0.0.1", "9000")),
        ("[::1]:9000", ("[::1]", "9000")),
        ("[::1]", ("[::1]", "")),
        ("a:b", ("a:b", "")),
        ("a:²", ("a:²", "")),
    ],
)
def test_source_has_host_and_port(host: str, expected: tuple[str, str]) -> None:
    source = record(s3_entry("ObjectCreated:Put", host=host))["source"]
    assert (source["host"], source["port"]) == expected  # type: ignore[index]  # a document


def test_other_events_have_a_record_with_the_same_frame() -> None:
    document = other_record_of(other_entry(), event_document(other_entry(), "evt_7"), region="eu-1")
    assert (document["eventName"], document["eventSource"], document["awsRegion"]) == (
        "TableCommitted",
        "lakebed:events",
        "eu-1",
    )
    assert document["userIdentity"] == {"principalId": "bob"}
    assert document["requestParameters"]["sourceIPAddress"] == "10.0.0.7"
    assert document["responseElements"]["x-amz-request-id"] == "R9"
    assert document["lakebed"]["subject"] == "lake/ns/t"
    assert document["lakebed"]["id"] == "evt_7"


def test_undecodable_entry_is_not_an_s3_event() -> None:
    assert s3_event_of(other_entry()) is None
    assert s3_event_of(OutboxEntry(1, OutboxEvent("ObjectCreated:Put", "b/k", b"\xc1", 0))) is None
    assert s3_event_of(OutboxEntry(1, OutboxEvent("ObjectCreated:Put", "b/k", b"\x80", 0))) is None


# -- keys, numbers, times ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "encoded"),
    [
        ("photos/2026 Q1/a+b.csv", "photos/2026+Q1/a%2Bb.csv"),
        ("a*b-c.d_e~f", "a*b-c.d_e%7Ef"),
        ("ü=&%", "%C3%BC%3D%26%25"),
    ],
)
def test_keys_are_encoded_as_in_s3(key: str, encoded: str) -> None:
    assert encode_key(key) == encoded


@given(KEYS)
def test_encoded_key_round_trips(key: str) -> None:
    encoded = encode_key(key)
    assert unquote_plus(encoded) == key
    assert encoded.isascii()
    assert " " not in encoded


@given(st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1))
def test_sequencers_sort_like_their_events(one: int, other: int) -> None:
    assert (sequencer_of(one) < sequencer_of(other)) == (one < other)
    assert len(sequencer_of(one)) == 16


@given(st.integers(0, 253_402_300_799_999))
def test_timestamps_have_milliseconds(ms: int) -> None:
    text = rfc3339(ms)
    assert len(text) == len("2026-03-04T05:06:07.089Z")
    assert int(text[-4:-1]) == ms % 1000


def test_timestamp_of_an_event() -> None:
    assert rfc3339(OCCURRED_MS) == "2026-03-04T05:06:07.089Z"
