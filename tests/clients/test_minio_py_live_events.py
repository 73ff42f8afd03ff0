"""Live events on a running server of two workers: minio-py's listeners, and server-sent events."""

from __future__ import annotations

import http.client
import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import pytest
import urllib3
from minio import Minio, S3Error
from minio.notificationconfig import NotificationConfig, QueueConfig

from tests.clients.boto import REGION, root_keys
from tests.clients.repeating import repeating_action
from tests.clients.signing import EMPTY_SHA256, Signer
from tests.clients.users import User, make_user
from tests.fixtures.server import RunningServer

pytestmark = pytest.mark.integration

GUARD_SECONDS = 60.0


def client_of(server: RunningServer, pool: urllib3.PoolManager, user: User | None = None) -> Minio:
    keys = root_keys(server) if user is None else user.keys
    return Minio(
        server.endpoint.removeprefix("http://"),
        keys.access_key,
        keys.secret_key,
        secure=False,
        region=REGION,
        http_client=pool,
    )


@pytest.fixture(scope="module")
def pool() -> Iterator[urllib3.PoolManager]:
    with urllib3.PoolManager(retries=False, timeout=GUARD_SECONDS) as made:
        yield made


@pytest.fixture(scope="module")
def minio_py(lakebed_server: RunningServer, pool: urllib3.PoolManager) -> Minio:
    return client_of(lakebed_server, pool)


def put(minio: Minio, bucket: str, key: str, body: bytes = b"abc") -> None:
    minio.put_object(bucket, key, io.BytesIO(body), len(body))


def test_minio_py_receives_events_of_writes(minio_py: Minio, bucket: str) -> None:
    numbers = count()

    def write() -> None:
        number = next(numbers)
        put(minio_py, bucket, f"in/{number} ü.csv")
        put(minio_py, bucket, f"out/{number}.csv")

    with (
        minio_py.listen_bucket_notification(bucket, "in/", ".csv", ("s3:ObjectCreated:*",)) as events,
        repeating_action(write),
    ):
        heard = [next(events) for _ in range(5)]
    records = [record for event in heard for record in event["Records"]]
    assert {record["eventName"] for record in records} == {"s3:ObjectCreated:Put"}
    assert all(record["s3"]["bucket"]["name"] == bucket for record in records)
    keys = [record["s3"]["object"]["key"] for record in records]
    first = int(keys[0].removeprefix("in/").partition("+")[0])
    assert keys == [f"in/{first + place}+%C3%BC.csv" for place in range(5)]
    sequencers = [record["s3"]["object"]["sequencer"] for record in records]
    assert sequencers == sorted(set(sequencers))
    assert records[0]["source"]["userAgent"].startswith("MinIO")


def test_minio_py_receives_read_events_of_every_worker(
    minio_py: Minio, bucket: str, lakebed_server: RunningServer
) -> None:
    put(minio_py, bucket, "k")

    def read() -> None:
        # On a new connection each, so that both workers serve some.
        with urllib3.PoolManager(retries=False) as pool:
            client_of(lakebed_server, pool).stat_object(bucket, "k")

    with minio_py.listen_bucket_notification(bucket, events=("s3:ObjectAccessed:*",)) as events, repeating_action(read):
        heard = [next(events) for _ in range(30)]
    assert {record["eventName"] for event in heard for record in event["Records"]} == {"s3:ObjectAccessed:Head"}


def test_listening_requires_permission(
    minio_py: Minio, bucket: str, lakebed_server: RunningServer, pool: urllib3.PoolManager
) -> None:
    with pytest.raises(S3Error) as refused:
        next(minio_py.listen_bucket_notification(f"{bucket}-absent"))
    assert refused.value.code == "NoSuchBucket"
    with pytest.raises(S3Error) as refused:
        next(client_of(lakebed_server, pool, make_user(lakebed_server)).listen_bucket_notification(bucket))
    assert refused.value.code == "AccessDenied"
    with pytest.raises(S3Error) as refused:
        next(minio_py.listen_bucket_notification(bucket, events=("s3:ObjectCreated:Teleport",)))
    assert refused.value.code == "InvalidArgument"


def test_minio_py_reads_and_clears_configurations(minio_py: Minio, bucket: str) -> None:
    assert not minio_py.get_bucket_notification(bucket).queue_config_list
    unknown = QueueConfig(queue="arn:minio:sqs::absent:webhook", events=["s3:ObjectCreated:*"], config_id="1")
    with pytest.raises(S3Error) as refused:
        minio_py.set_bucket_notification(bucket, NotificationConfig(queue_config_list=[unknown]))
    assert refused.value.code == "InvalidArgument"
    minio_py.delete_bucket_notification(bucket)
    assert not minio_py.get_bucket_notification(bucket).queue_config_list


# -- server-sent events -----------------------------------------------------------------------------------------


@contextmanager
def stream_of(server: RunningServer, query: str, headers: dict[str, str] | None = None) -> Iterator[Iterator[Any]]:
    """The events of a stream, with their ids."""
    url = f"{server.endpoint}/lakebed/v1/events/stream?{query}"
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=GUARD_SECONDS)
    try:
        signed = Signer(root_keys(server)).headers("GET", url, EMPTY_SHA256, headers)
        connection.request("GET", url.removeprefix(server.endpoint), headers=signed)
        response = connection.getresponse()
        assert (response.status, response.getheader("Content-Type")) == (200, "text/event-stream; charset=utf-8")

        def events() -> Iterator[tuple[str, Any]]:
            fields: dict[str, str] = {}
            while line := response.readline():
                name, _, value = line.decode().rstrip("\n").partition(": ")
                if name:
                    fields[name] = value
                elif "data" in fields:
                    yield fields["id"], json.loads(fields["data"])
                    fields = {}

        yield events()
    finally:
        connection.close()


def test_event_stream_resumes_after_last_event_id(s3: Any, bucket: str, lakebed_server: RunningServer) -> None:
    for number in range(4):
        s3.put_object(Bucket=bucket, Key=f"k{number}")
    query = f"kind=ObjectCreated:*&subject={bucket}&after=0"
    with stream_of(lakebed_server, query) as events:
        seen = [next(events) for _ in range(2)]
    assert [event["payload"]["key"] for _, event in seen] == ["k0", "k1"]
    with stream_of(lakebed_server, query, {"Last-Event-ID": seen[-1][0]}) as events:
        seen = [next(events) for _ in range(2)]
        assert [event["payload"]["key"] for _, event in seen] == ["k2", "k3"]
        s3.put_object(Bucket=bucket, Key="later")
        assert next(events)[1]["payload"]["key"] == "later"


def test_event_stream_serves_cloudevents(s3: Any, bucket: str, lakebed_server: RunningServer) -> None:
    s3.put_object(Bucket=bucket, Key="k", Metadata={"team": "ops"})
    with stream_of(lakebed_server, f"kind=ObjectCreated:Put&subject={bucket}&after=0&form=cloudevents") as events:
        event_id, event = next(events)
    assert (event["specversion"], event["id"], event["subject"]) == ("1.0", event_id, "k")
    record = event["data"]["s3"]
    assert record["object"]["userMetadata"] == {"x-amz-meta-team": "ops"}
    assert record["bucket"]["arn"] == f"arn:aws:s3:::{bucket}"
