from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.errors import InvalidInput
from lakebed.events.documents import event_document
from lakebed.events.forms import Form, kebab_case, operation_of, parse_form, render
from lakebed.events.names import SINGLES, EventName
from lakebed.meta.outbox import OutboxEntry, OutboxEvent

from .samples import IDS, OCCURRED_MS, other_entry, s3_entry


def body(entry: OutboxEntry, form: Form, rule_id: str = "") -> dict[str, Any]:
    found = json.loads(render(entry, form, rule_id, region="us-east-1", ids=IDS).body)
    assert isinstance(found, dict)
    return found


PUT = s3_entry("ObjectCreated:Put", size=3, etag="e", version="v")


def test_s3_form_is_minios_format() -> None:
    document = body(PUT, Form.S3, "rule-1")
    assert list(document) == ["EventName", "Key", "Records"]
    assert (document["EventName"], document["Key"]) == ("s3:ObjectCreated:Put", "sales/in/2026 Q1.csv")
    (record,) = document["Records"]
    assert record["s3"]["configurationId"] == "rule-1"
    assert record["eventName"] == "s3:ObjectCreated:Put"


def test_other_events_have_a_record_in_s3_form() -> None:
    document = body(other_entry(), Form.S3)
    assert (document["EventName"], document["Key"]) == ("TableCommitted", "lake/ns/t")
    assert document["Records"][0]["lakebed"]["kind"] == "TableCommitted"


def test_envelope_has_neutral_fields_and_the_record() -> None:
    document = body(PUT, Form.ENVELOPE)
    payload = document.pop("payload")
    assert document == {
        "id": IDS.cursor(42),
        "namespace": "storage.object",
        "operation": "created.put",
        "timestamp": "2026-03-04T05:06:07.089Z",
        "source": "lakebed",
        "metadata": {
            "bucket": "sales",
            "key": "in/2026 Q1.csv",
            "size": 3,
            "eTag": "e",
            "versionId": "v",
            "sequencer": "000000000000002A",
            "principalId": "ann",
            "eventVersion": "2.1",
        },
    }
    assert payload == body(PUT, Form.S3)["Records"][0]


def test_envelope_omits_unknown_fields() -> None:
    removed = body(s3_entry("ObjectRemoved:NoOP", size=3), Form.ENVELOPE)
    assert set(removed["metadata"]) == {"bucket", "key", "sequencer", "principalId", "eventVersion"}
    other = body(other_entry(), Form.ENVELOPE)
    assert (other["namespace"], other["operation"]) == ("lakebed", "table-committed")
    assert other["metadata"] == {"subject": "lake/ns/t", "sequencer": "0000000000000007", "principalId": "bob"}


@pytest.mark.parametrize(
    ("name", "operation"),
    [
        (EventName.OBJECT_CREATED_PUT, "created.put"),
        (EventName.OBJECT_CREATED_POST, "created.post"),
        (EventName.OBJECT_CREATED_COPY, "created.copy"),
        (EventName.OBJECT_CREATED_COMPLETE_MULTIPART_UPLOAD, "created.multipart-complete"),
        (EventName.OBJECT_REMOVED_DELETE, "removed.delete"),
        (EventName.OBJECT_REMOVED_DELETE_MARKER_CREATED, "removed.delete-marker-created"),
        (EventName.OBJECT_REMOVED_NO_OP, "removed.no-op"),
        (EventName.OBJECT_ACCESSED_GET, "accessed.get"),
        (EventName.OBJECT_ACCESSED_HEAD, "accessed.head"),
        (EventName.OBJECT_TAGGING_DELETE, "tagging.delete"),
        (EventName.LIFECYCLE_EXPIRATION_DELETE, "lifecycle-expiration.delete"),
        (EventName.LIFECYCLE_TRANSITION, "lifecycle-transition"),
        (EventName.BUCKET_CREATED, "created"),
        (EventName.BUCKET_REMOVED, "removed"),
    ],
)
def test_operation_names(name: EventName, operation: str) -> None:
    assert operation_of(name) == operation


def test_object_operations_are_distinct() -> None:
    of_objects = [name for name in SINGLES if "Bucket" not in name.value]
    assert len({operation_of(name) for name in of_objects}) == len(of_objects)


def test_operation_names_are_kebab_case() -> None:
    assert kebab_case("AFTER_LOAD_TABLE") == "after-load-table"
    assert body(other_entry("lakebed:TaskPlanned"), Form.ENVELOPE)["operation"] == "task-planned"


def test_cloudevent_has_the_required_attributes() -> None:
    message = render(PUT, Form.CLOUDEVENTS, "r", region="us-east-1", ids=IDS)
    assert message.content_type == "application/cloudevents+json"
    document = json.loads(message.body)
    data = document.pop("data")
    assert document == {
        "specversion": "1.0",
        "id": IDS.cursor(42),
        "source": "urn:lakebed:s3:us-east-1:sales",
        "type": "lakebed.storage.object.created.put",
        "subject": "in/2026 Q1.csv",
        "time": "2026-03-04T05:06:07.089Z",
        "sequence": "000000000000002A",
        "datacontenttype": "application/json",
    }
    assert data["s3"]["configurationId"] == "r"


def test_cloudevent_of_a_bucket_has_no_subject() -> None:
    document = body(s3_entry("BucketRemoved", key=""), Form.CLOUDEVENTS)
    assert "subject" not in document
    assert document["type"] == "lakebed.storage.bucket.removed"
    other = body(other_entry(), Form.CLOUDEVENTS)
    assert (other["type"], other["subject"]) == ("lakebed.table-committed", "lake/ns/t")
    assert other["source"] == "urn:lakebed:events:us-east-1"


def test_lakebed_form_is_the_document_of_the_log() -> None:
    document = body(other_entry(), Form.LAKEBED)
    assert document["seq"] == 7
    assert set(document) == set(event_document(other_entry(), IDS.cursor(7)))


# -- messages ----------------------------------------------------------------------------------------------------


@given(st.sampled_from(Form), st.text(max_size=5))
def test_message_attributes_are_the_same_in_every_form(form: Form, rule_id: str) -> None:
    message = render(PUT, form, rule_id, region="r", ids=IDS)
    assert (message.id, message.name, message.key) == (IDS.cursor(42), "s3:ObjectCreated:Put", "sales/in/2026 Q1.csv")
    assert (message.is_removal, message.occurred_ms) == (False, OCCURRED_MS)
    other = render(other_entry(), form, region="r", ids=IDS)
    assert (other.id, other.name, other.key, other.is_removal) == (IDS.cursor(7), "TableCommitted", "lake/ns/t", False)


@pytest.mark.parametrize(
    ("kind", "removes"),
    [
        ("ObjectRemoved:Delete", True),
        ("ObjectRemoved:DeleteMarkerCreated", True),
        ("ObjectRemoved:NoOP", True),
        ("LifecycleExpiration:Delete", True),
        ("LifecycleExpiration:DeleteMarkerCreated", True),
        ("BucketRemoved", True),
        ("ObjectTagging:Delete", False),
        ("ObjectAccessed:Get", False),
        ("ObjectCreated:Copy", False),
    ],
)
def test_is_removal_unless_something_remains(kind: str, removes: bool) -> None:
    assert render(s3_entry(kind), Form.S3, region="r", ids=IDS).is_removal is removes
    assert not render(s3_entry(kind, remains=True), Form.S3, region="r", ids=IDS).is_removal


@given(st.sampled_from(Form), st.binary(max_size=40), st.sampled_from(["ObjectCreated:Put", "Other"]))
def test_no_payload_stops_the_renderer(form: Form, payload: bytes, kind: str) -> None:
    message = render(OutboxEntry(1, OutboxEvent(kind, "b/k", payload, 0)), form, region="r", ids=IDS)
    assert isinstance(json.loads(message.body), dict)


def test_forms_are_parsed_by_name() -> None:
    assert parse_form("cloudevents") is Form.CLOUDEVENTS
    with pytest.raises(InvalidInput, match="s3, envelope, cloudevents, lakebed"):
        parse_form("xml")
