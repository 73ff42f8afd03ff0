"""The request log of a running server, delivered to a receiver."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import boto3
import pytest
import requests
from botocore.config import Config

from lakebed.client import LakebedClient
from lakebed.core.webhooks import new_secret
from tests.client.conftest import access_to
from tests.fixtures.server import RunningServer, running_server
from tests.fixtures.webhook_receiver import Receiver, running_receiver

from ..running_processes import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.slow]

SECRET = new_secret()


def entries(receiver: Receiver) -> list[dict[str, Any]]:
    """The received audit log entries, without duplicates, in the order of their requests."""
    found = {entry["requestID"]: entry for one in receiver.requests() if "version" in (entry := json.loads(one.body))}
    return sorted(found.values(), key=lambda entry: entry["time"])


def s3_of(server: RunningServer) -> Any:  # Any: boto3 creates its clients at run time
    return boto3.client(
        "s3",
        endpoint_url=server.endpoint,
        aws_access_key_id=server.access_key,
        aws_secret_access_key=server.secret_key,
        region_name="us-east-1",
        config=Config(signature_version="s3v4"),
    )


def named(receiver: Receiver, event: str) -> list[dict[str, Any]]:
    return [entry for entry in entries(receiver) if entry["event"] == event]


def test_requests_of_every_protocol_are_recorded_without_secrets(tmp_path: Path) -> None:
    with (
        running_receiver(tmp_path / "receiver", SECRET) as receiver,
        running_server(tmp_path / "data", workers=1) as server,
        LakebedClient(access=access_to(server)) as client,
    ):
        client.targets.put("webhook", "audit", {"endpoint": receiver.url, "secret": SECRET.reveal()}, requests=True)
        s3 = s3_of(server)
        s3.create_bucket(Bucket="sales")
        s3.put_object(Bucket="sales", Key="in/a b", Body=b"12345")
        assert s3.get_object(Bucket="sales", Key="in/a b")["Body"].read() == b"12345"
        presigned = s3.generate_presigned_url("get_object", Params={"Bucket": "sales", "Key": "in/a b"})
        assert requests.get(presigned, timeout=60).status_code == 200
        assert requests.get(f"{server.endpoint}/sales/secret?token=abc", timeout=60).status_code == 403
        call = client._connection.call
        call("PUT", "/lake")
        call("PUT", "/iceberg/v1/buckets/lake")
        call("POST", "/iceberg/v1/lake/namespaces", document={"namespace": ["ns"]})
        call("GET", "/api/management/v1/catalogs")
        client.targets.list()
        form = {"grant_type": "client_credentials", "client_id": "unknown", "client_secret": "a-secret-of-a-form"}
        assert requests.post(f"{server.endpoint}/v1/oauth/tokens", data=form, timeout=60).status_code == 401
        assert requests.get(f"{server.endpoint}/health/ready", timeout=60).status_code == 200
        # Entries are unordered.
        expected = Counter({"s3:PutObject": 1, "s3:GetObject": 3, "iceberg:createNamespace": 1})
        expected.update(["management:listCatalogs", "admin:listTargets", "oauth:getToken"])
        wait_until(lambda: expected <= Counter(entry["event"] for entry in entries(receiver)), "every request arrives")
        (put,) = named(receiver, "s3:PutObject")
        assert (put["api"]["bucket"], put["api"]["object"]) == ("sales", "in/a b")
        assert (put["api"]["statusCode"], put["api"]["status"], put["api"]["tx"]) == (200, "OK", 0)
        assert put["api"]["rx"] >= 5
        assert put["accessKey"] == server.access_key
        assert put["remotehost"] == "127.0.0.1"
        assert int(put["api"]["timeToResponseInNS"]) >= int(put["api"]["timeToFirstByteInNS"]) > 0
        gets = named(receiver, "s3:GetObject")
        assert [entry["api"]["statusCode"] for entry in gets] == [200, 200, 403]
        assert [entry["api"]["tx"] for entry in gets][:2] == [5, 5]
        assert "accessKey" not in gets[2]
        assert "requestQuery" not in gets[2]
        assert named(receiver, "iceberg:createNamespace")[0]["api"]["bucket"] == "lake"
        assert named(receiver, "management:listCatalogs")
        assert named(receiver, "admin:listTargets")
        assert not [entry for entry in entries(receiver) if entry["requestPath"].startswith("/health")]
        recorded = json.dumps(entries(receiver))
        signature = presigned.partition("X-Amz-Signature=")[2].partition("&")[0]
        for secret in (server.secret_key, SECRET.reveal(), "a-secret-of-a-form", signature, "token=abc"):
            assert secret
            assert secret not in recorded
        assert "lakebed_unrecorded_requests_total" in requests.get(f"{server.endpoint}/metrics", timeout=60).text


def test_target_that_points_to_the_server_itself_causes_no_loop(tmp_path: Path) -> None:
    with (
        running_receiver(tmp_path / "receiver", SECRET) as receiver,
        running_server(tmp_path / "data", workers=1) as server,
        LakebedClient(access=access_to(server)) as client,
    ):
        settings = {"endpoint": f"{server.endpoint}/sales", "secret": SECRET.reveal()}
        client.targets.put("webhook", "myself", settings, requests=True)
        client.targets.put("webhook", "audit", {"endpoint": receiver.url, "secret": SECRET.reveal()}, requests=True)
        assert requests.get(f"{server.endpoint}/sales/k", timeout=60).status_code == 404
        wait_until(lambda: client.targets.get("webhook", "myself").waiting >= 1, "what was sent to itself is refused")
        # A request without a valid proof is recorded.
        forged = {"Lakebed-Delivery": "req_1.00", "webhook-id": "req_1", "User-Agent": "lakebed"}
        assert requests.post(f"{server.endpoint}/sales", headers=forged, timeout=60).status_code >= 400
        wait_until(
            lambda: any(entry.get("userAgent") == "lakebed" for entry in entries(receiver)), "the forged one arrives"
        )
        posts = [entry for entry in entries(receiver) if entry["tags"]["method"] == "POST"]
        assert len(posts) == 1, "the server's own messages are not recorded"


def test_last_requests_before_a_graceful_stop_arrive(tmp_path: Path) -> None:
    with running_receiver(tmp_path / "receiver", SECRET) as receiver:
        config = tmp_path / "lakebed.toml"
        config.write_text(
            f"""
            [targets.named.audit]
            type = "webhook"
            requests = true
            [targets.named.audit.settings]
            endpoint = "{receiver.url}"
            secret = "{SECRET.reveal()}"
            """
        )
        receiver.break_down()
        with running_server(tmp_path / "data", "--config", str(config), workers=1) as server:
            # The first and the last request.
            assert requests.get(f"{server.endpoint}/at-once", timeout=60).status_code == 404
            server.process.terminate()
            server.process.wait(60)
        receiver.recover()
        with running_server(tmp_path / "data", "--config", str(config), workers=1):
            wait_until(
                lambda: any(entry["requestPath"] == "/at-once" for entry in entries(receiver)), "the record arrives"
            )
