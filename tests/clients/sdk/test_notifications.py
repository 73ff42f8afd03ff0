"""Notification configurations with boto3, and the event kinds of the SDK's operations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from lakebed.client import LakebedClient
from tests.client.conftest import access_to
from tests.clients.boto import Connect, refused
from tests.clients.users import User
from tests.fixtures.server import RunningServer
from tests.server.running_processes import wait_until

pytestmark = pytest.mark.integration

ARN = "arn:lakebed:sqs:us-east-1:absent:webhook"


def queue(events: list[str], *, name: str = "r", arn: str = ARN, **filters: str) -> dict[str, Any]:
    made: dict[str, Any] = {"Id": name, "QueueArn": arn, "Events": events}
    if filters:
        rules = [{"Name": kind, "Value": value} for kind, value in filters.items()]
        made["Filter"] = {"Key": {"FilterRules": rules}}
    return made


def put(s3: Any, bucket: str, *queues: dict[str, Any], skip: bool = True, **others: Any) -> None:
    s3.put_bucket_notification_configuration(
        Bucket=bucket,
        NotificationConfiguration={"QueueConfigurations": list(queues), **others},
        SkipDestinationValidation=skip,
    )


def configured_queues(s3: Any, bucket: str) -> list[dict[str, Any]]:
    found = s3.get_bucket_notification_configuration(Bucket=bucket)
    return list(found.get("QueueConfigurations", []))


def test_notification_configuration_reads_back(s3: Any, bucket: str) -> None:
    assert configured_queues(s3, bucket) == []
    queues = [
        queue(["s3:ObjectCreated:*", "s3:ObjectTagging:*"], name="in", prefix="in/ü &<", suffix=".csv"),
        queue(["s3:ObjectRemoved:Delete"], name="gone"),
    ]
    put(s3, bucket, *queues)
    assert configured_queues(s3, bucket) == queues
    put(s3, bucket, queue(["s3:ObjectCreated:Put"]))
    assert configured_queues(s3, bucket) == [queue(["s3:ObjectCreated:Put"])]
    put(s3, bucket)
    assert configured_queues(s3, bucket) == []


def test_deprecated_operations_of_the_sdk_work(s3: Any, bucket: str) -> None:
    put(s3, bucket, queue(["s3:ObjectCreated:Put"]))
    found = s3.get_bucket_notification(Bucket=bucket)
    assert found["QueueConfiguration"]["Queue"] == ARN


@pytest.mark.parametrize(
    "queues",
    [
        [queue(["s3:ObjectCreated:Teleport"])],
        [queue(["s3:ObjectCreated:Put", "s3:ObjectCreated:Put"])],
        [queue(["s3:ObjectCreated:*"], name="a"), queue(["s3:ObjectCreated:Put"], name="b", prefix="x")],
        [queue(["s3:ObjectCreated:*"]), queue(["s3:ObjectRemoved:*"])],
        [queue(["s3:ObjectCreated:*"], arn="arn:lakebed:sqs:eu-west-1:1:webhook")],
        [queue(["s3:ObjectCreated:*"], arn="arn:aws:sqs:us-east-1:000000000000:mine")],
        [queue(["s3:ObjectCreated:*"], prefix="a/../b")],
        [queue(["s3:ObjectCreated:*"], infix="a")],
    ],
)
def test_invalid_configuration_is_refused_entirely(s3: Any, bucket: str, queues: list[dict[str, Any]]) -> None:
    put(s3, bucket, queue(["s3:ObjectTagging:*"], name="kept"))
    with refused("InvalidArgument", 400):
        put(s3, bucket, *queues)
    assert [one["Id"] for one in configured_queues(s3, bucket)] == ["kept"]


def test_unknown_target_is_refused(s3: Any, bucket: str) -> None:
    with refused("InvalidArgument", 400):
        put(s3, bucket, queue(["s3:ObjectCreated:*"]), skip=False)


@pytest.mark.parametrize(
    "others",
    [
        {"TopicConfigurations": [{"TopicArn": "arn:aws:sns:us-east-1:1:t", "Events": ["s3:ObjectCreated:*"]}]},
        {
            "LambdaFunctionConfigurations": [
                {"LambdaFunctionArn": "arn:aws:lambda:us-east-1:1:function:f", "Events": ["s3:ObjectCreated:*"]}
            ]
        },
        {"EventBridgeConfiguration": {}},
    ],
)
def test_sns_lambda_and_eventbridge_destinations_are_refused(s3: Any, bucket: str, others: dict[str, Any]) -> None:
    with refused("UnsupportedNotification", 400):
        put(s3, bucket, **others)


def test_notification_configuration_requires_permissions(
    bucket: str, lakebed_server: RunningServer, unprivileged: User, reader: User, connect: Connect
) -> None:
    unprivileged_s3, reader_s3 = connect(lakebed_server, unprivileged.keys), connect(lakebed_server, reader.keys)
    with refused("AccessDenied", 403):
        configured_queues(unprivileged_s3, bucket)
    with refused("AccessDenied", 403):
        put(reader_s3, bucket)
    assert configured_queues(reader_s3, bucket) == []
    with refused("NoSuchBucket", 404):
        configured_queues(reader_s3, f"{bucket}-absent")


# -- event kinds of operations ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def log(lakebed_server: RunningServer) -> Iterator[LakebedClient]:
    with LakebedClient(access=access_to(lakebed_server)) as client:
        yield client


def event_kinds(log: LakebedClient, bucket: str) -> list[str]:
    """The event kinds of a bucket's objects, in order."""
    kinds: list[str] = []
    page = log.events.read(subject=bucket)
    while True:
        kinds += [event.kind for event in page.events if not event.kind.startswith("Bucket")]
        if page.next_after >= page.last_seq:
            return kinds
        page = log.events.read(page.next_after, subject=bucket)


def test_every_change_of_an_object_emits_an_event_of_its_kind(s3: Any, new_name: str, log: LakebedClient) -> None:
    bucket, key = new_name, {"Bucket": new_name, "Key": "k"}
    s3.create_bucket(Bucket=bucket, ObjectLockEnabledForBucket=True)
    s3.put_object(**key, Body=b"abc")
    s3.copy_object(**key, CopySource=key, MetadataDirective="REPLACE", ContentType="a/b")
    s3.put_object_tagging(**key, Tagging={"TagSet": [{"Key": "a", "Value": "b"}]})
    s3.delete_object_tagging(**key)
    s3.put_object_legal_hold(**key, LegalHold={"Status": "ON"})
    s3.put_object_legal_hold(**key, LegalHold={"Status": "OFF"})
    s3.put_object_retention(**key, Retention={"Mode": "GOVERNANCE", "RetainUntilDate": "2999-01-01T00:00:00Z"})
    upload = s3.create_multipart_upload(**key)["UploadId"]
    part = s3.upload_part(**key, UploadId=upload, PartNumber=1, Body=b"abc")
    parts = [{"PartNumber": 1, "ETag": part["ETag"]}]
    s3.complete_multipart_upload(**key, UploadId=upload, MultipartUpload={"Parts": parts})
    deleted = s3.delete_object(**key)
    s3.delete_object(**key, VersionId=deleted["VersionId"])
    assert event_kinds(log, bucket) == [
        "ObjectCreated:Put",
        "ObjectCreated:Copy",
        "ObjectTagging:Put",
        "ObjectTagging:Delete",
        "ObjectCreated:PutLegalHold",
        "ObjectCreated:PutLegalHold",
        "ObjectCreated:PutRetention",
        "ObjectCreated:CompleteMultipartUpload",
        "ObjectRemoved:DeleteMarkerCreated",
        "ObjectRemoved:Delete",
    ]


def test_reads_and_no_op_deletes_emit_events_if_a_rule_subscribes(s3: Any, bucket: str, log: LakebedClient) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"abc")
    s3.get_object(Bucket=bucket, Key="k")["Body"].read()
    s3.delete_object(Bucket=bucket, Key="absent")
    put(s3, bucket, queue(["s3:ObjectAccessed:*", "s3:ObjectRemoved:NoOP"]))
    s3.get_object(Bucket=bucket, Key="k")["Body"].read()
    s3.head_object(Bucket=bucket, Key="k")
    s3.get_object_attributes(Bucket=bucket, Key="k", ObjectAttributes=["ETag"])
    s3.delete_object(Bucket=bucket, Key="absent")
    expected = ["ObjectAccessed:Attributes", "ObjectAccessed:Get", "ObjectAccessed:Head", "ObjectRemoved:NoOP"]
    wait_until(lambda: len(event_kinds(log, bucket)) == 5, "events of reads")
    found = event_kinds(log, bucket)
    assert (found[0], sorted(found[1:])) == ("ObjectCreated:Put", expected)
