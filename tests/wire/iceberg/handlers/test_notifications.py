"""Notifications as Polaris specifies them, for an external catalog."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.wire.iceberg.lake import SCHEMA, Lake
from tests.wire.management.management_client import ManagementClient

TABLE = "/mirror/namespaces/ns/tables/t"
PATH = f"{TABLE}/notifications"
FILE = "s3://sea/mirror/t/metadata/1.metadata.json"


@pytest.fixture
async def mirror(lake: Lake) -> Lake:
    """A server with an external catalog `mirror`, whose directory contains the metadata file of a table."""
    assert (await lake.send("PUT", "/sea")).status == 200
    properties, storage = {"default-base-location": "s3://sea/mirror"}, {"storageType": "S3"}
    catalog = {"type": "EXTERNAL", "name": "mirror", "properties": properties, "storageConfigInfo": storage}
    await ManagementClient(lake).call_ok("POST", "/catalogs", {"catalog": catalog})
    staged = {"name": "t", "schema": SCHEMA, "stage-create": True}
    metadata = (await lake.call("POST", "/lake/namespaces/ns/tables", staged)).document["metadata"]
    body = json.dumps(metadata | {"table-uuid": UUID, "location": "s3://sea/mirror/t"}).encode()
    assert (await lake.send("PUT", "/sea/mirror/t/metadata/1.metadata.json", body)).status == 200
    return lake


UUID = "9c12d441-03fe-4693-9a96-a0705ddf69c1"


def notification(kind: str, timestamp: object, **more: Any) -> dict[str, Any]:
    """The body of sendNotification."""
    payload = {"table-name": "t", "timestamp": timestamp, "table-uuid": UUID, "metadata-location": FILE}
    return {"notification-type": kind, "payload": payload | more}


async def test_notifications_register_and_drop_a_table(mirror: Lake) -> None:
    assert (await mirror.call("POST", PATH, notification("VALIDATE", 0))).status == 204
    assert (await mirror.call("GET", TABLE)).status == 404
    assert (await mirror.call("POST", PATH, notification("CREATE", 10))).status == 204
    loaded = await mirror.call("GET", TABLE)
    assert (loaded.status, loaded.document["metadata-location"]) == (200, FILE)
    repeated = await mirror.call("POST", PATH, notification("CREATE", 10))
    assert (repeated.status, repeated.document["error"]["type"]) == (409, "AlreadyExistsException")
    assert (await mirror.call("POST", PATH, notification("DROP", 20))).status == 204
    assert (await mirror.call("GET", TABLE)).status == 404
    assert (await mirror.call("POST", PATH, notification("UPDATE", 15))).status == 409
    assert (await mirror.call("GET", TABLE)).status == 404


async def test_repeated_notification_gets_the_first_response(mirror: Lake) -> None:
    key: dict[str, Any] = {"Idempotency-Key": "0190a0b0-0000-7000-8000-000000000001"}
    for _ in range(2):
        assert (await mirror.call("POST", PATH, notification("CREATE", 10), **key)).status == 204


async def test_configuration_lists_the_endpoint(mirror: Lake) -> None:
    config = (await mirror.call("GET", "/config?warehouse=mirror")).document
    assert "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/notifications" in config["endpoints"]


@pytest.mark.parametrize(
    "document",
    [
        notification("RENAME", 1),
        notification("CREATE", "soon"),
        {"notification-type": "CREATE"},
        notification("CREATE", 1, **{"metadata-location": "s3://sea/elsewhere/1.metadata.json"}),
        notification("CREATE", 1, **{"metadata-location": "file:///etc/passwd"}),
        notification("CREATE", 1, **{"table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c2"}),
    ],
)
async def test_invalid_notification_is_refused(mirror: Lake, document: dict[str, Any]) -> None:
    assert (await mirror.call("POST", PATH, document)).status == 400
    assert (await mirror.call("GET", TABLE)).status == 404


async def test_internal_catalog_refuses_notifications(mirror: Lake) -> None:
    answer = await mirror.call("POST", PATH.replace("mirror", "lake"), notification("CREATE", 1))
    assert (answer.status, answer.document["error"]["type"]) == (400, "BadRequestException")
