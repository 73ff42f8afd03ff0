from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from tests.wire.iceberg.lake import Lake, allow

from .tables_with_data import TABLE, append, message, pointer, set_property, table_with_data

CATALOG = TABLE + "/catalog"
EXTERNAL = CATALOG + "/external"
SYNC = EXTERNAL + "/sync"
GLUE = {"catalog": "glue", "external-namespace": "theirs", "external-table": "t"}
REST: dict[str, Any] = {
    "catalog": "iceberg-rest",
    "externalNamespace": ["a", "b"],
    "externalTable": "t",
    "uri": "https://catalog.example/iceberg",
    "warehouse": "lake",
    "sync-mode": "poll",
    "poll-interval-seconds": 30,
    "auth": {"type": "bearer", "token": "t0k3n-of-theirs"},
}


async def history(lake: Lake) -> list[str]:
    """Metadata files of an unregistered table, oldest first."""
    files = [(await table_with_data(lake))["metadata-location"]]
    for _ in range(2):
        files.append((await append(lake))["metadata-location"])
    assert (await lake.call("DELETE", TABLE)).status == 204
    return files


# -- import ----------------------------------------------------------------------------------------------------------


async def test_table_is_imported_once(lake: Lake) -> None:
    files = await history(lake)
    created = await lake.call("POST", CATALOG + "/import", {"metadataLocation": files[2]})
    assert created.status == 200
    assert {"metadata-location", "metadata", "config"} <= created.document.keys()
    assert created.document["metadata-location"] == files[2]
    repeated = await lake.call("POST", CATALOG + "/import", {"metadata-location": files[2]})
    assert repeated.document["metadata"] == created.document["metadata"]
    assert (await pointer(lake))["generation"] == 1
    other = await lake.call("POST", CATALOG + "/import", {"metadata-location": files[1]})
    assert other.error == (409, "AlreadyExistsException")


async def test_import_records_the_external_version(lake: Lake) -> None:
    files = await history(lake)
    document = {"metadata-location": files[2], "external-version-token": "7"}
    assert (await lake.call("POST", CATALOG + "/import", document)).status == 200
    assert (await lake.call("POST", CATALOG + "/import", document)).status == 200
    stale = await lake.call("POST", CATALOG + "/import", {**document, "external-version-token": "6"})
    assert stale.error == (409, "CommitFailedException")
    for wrong in ({}, {**document, "overwrite": True}, {"metadata-location": ""}):
        assert (await lake.call("POST", CATALOG + "/import", wrong)).error == (400, "BadRequestException")


async def test_repeated_import_gets_the_first_response(lake: Lake) -> None:
    files = await history(lake)
    key = str(uuid4())
    document = {"metadata-location": files[2]}
    first = await lake.call("POST", CATALOG + "/import", document, idempotency_key=key)
    repeated = await lake.call("POST", CATALOG + "/import", document, idempotency_key=key)
    assert first.document == repeated.document


# -- bridges ---------------------------------------------------------------------------------------------------------


async def test_bridge_is_configured_before_its_table_exists(lake: Lake) -> None:
    before = (await lake.call("GET", EXTERNAL)).document
    assert (before["status"], before["unsupported-bridges"]) == ("bridge-unconfigured", [])
    assert "bridge" not in before
    kinds = {one["catalog"]: one["status"] for one in before["capabilities"]}
    assert kinds == {
        "polaris": "operator-sync-supported",
        "glue": "operator-sync-supported",
        "dlf": "operator-sync-supported",
        "hive-metastore": "operator-sync-supported",
        "iceberg-rest": "polling-supported",
        "metadata-folder": "polling-supported",
    }
    created = await lake.call("PUT", EXTERNAL, {**GLUE, "policy-mode": "lakebed-authoritative"})
    assert created.status == 200
    after = (await lake.call("GET", EXTERNAL)).document
    assert after == created.document
    assert after["status"] == "bridge-configured"
    bridge = after["bridge"]
    assert (bridge["catalog"], bridge["external-namespace"], bridge["external-table"]) == ("glue", "theirs", "t")
    assert (bridge["sync-mode"], bridge["rollback-strategy"]) == ("manual", "retain-current-pointer")
    assert (bridge["last-sync-status"], bridge["last-synced-metadata-location"]) == ("never-synced", None)
    assert (await lake.call("DELETE", EXTERNAL)).status == 204
    assert (await lake.call("GET", EXTERNAL)).document["status"] == "bridge-unconfigured"
    assert (await lake.call("DELETE", EXTERNAL)).error == (404, "NoSuchResourceException")


async def test_secrets_of_bridges_are_never_returned(lake: Lake) -> None:
    created = await lake.call("PUT", EXTERNAL, REST)
    assert created.status == 200, created.body
    returned = await lake.call("GET", EXTERNAL)
    assert b"t0k3n" not in created.body + returned.body
    bridge = returned.document["bridge"]
    assert bridge["auth"] == {
        "type": "bearer",
        "access-key-id": "",
        "region": "",
        "service": "",
        "client-id": "",
        "token-uri": "",
        "has-secrets": True,
    }
    assert (bridge["external-namespace"], bridge["poll-interval-seconds"]) == ("a.b", 30)


@pytest.mark.parametrize(
    "change",
    [
        {"catalog": "unity"},
        {"catalog": None},
        {"sync-mode": "push"},
        {"sync-mode": "poll"},
        {"policy-mode": "external-authoritative"},
        {"credential-mode": "theirs"},
        {"external-table": ""},
        {"external-table": "a/b"},
        {"external-namespace": ""},
        {"external-namespace": 7},
        {"uri": "https://x"},
        {"password": "x"},
        {"auth": {"type": "basic"}},
        {"auth": {"type": "bearer", "token": "x", "user": "y"}},
        {"poll-interval-seconds": 0},
        {"external-table-uuid": "no-uuid"},
    ],
)
async def test_invalid_bridges_are_refused(lake: Lake, change: dict[str, Any]) -> None:
    assert (await lake.call("PUT", EXTERNAL, {**GLUE, **change})).error == (400, "BadRequestException")


async def test_namespace_of_a_bridge_must_exist(lake: Lake) -> None:
    path = "/lake/namespaces/none/tables/t/catalog/external"
    assert (await lake.call("GET", path)).error == (404, "NoSuchNamespaceException")
    assert (await lake.call("PUT", path, GLUE)).error == (404, "NoSuchNamespaceException")


async def test_bridges_require_permissions(lake: Lake) -> None:
    reader = await lake.user("reader", allow("s3tables:GetTableMetadataLocation"))
    maker = await lake.user("maker", allow("s3tables:*"))
    assert (await lake.call("GET", EXTERNAL, keys=reader)).status == 200
    assert (await lake.call("PUT", EXTERNAL, GLUE, keys=reader)).error == (403, "ForbiddenException")
    assert (await lake.call("PUT", EXTERNAL, GLUE, keys=maker)).status == 200
    assert (await lake.call("PUT", EXTERNAL, REST, keys=maker)).error == (403, "ForbiddenException")


# -- sync ------------------------------------------------------------------------------------------------------------


async def test_sync_registers_then_commits(lake: Lake) -> None:
    files = await history(lake)
    first = await lake.call("POST", SYNC, {**GLUE, "metadata-location": files[0]})
    assert first.status == 200, first.body
    assert first.document["action"] == "registered"
    table = first.document["table"]
    assert table["metadata-location"] == files[0]
    assert {"metadata", "config", "storage-credentials", "version-token"} <= table.keys()
    second = await lake.call(
        "POST",
        SYNC,
        {
            **GLUE,
            "metadata-location": files[2],
            "expected-version-token": table["version-token"],
            "expected-metadata-location": files[0],
        },
    )
    assert second.document["action"] == "committed"
    bridge = second.document["bridge"]
    assert (bridge["last-sync-status"], bridge["last-synced-metadata-location"]) == ("committed", files[2])
    assert (await pointer(lake))["metadata-location"] == files[2]


async def test_conflicting_sync_touches_nothing(lake: Lake) -> None:
    files = await history(lake)
    table = (await lake.call("POST", SYNC, {**GLUE, "metadata-location": files[0]})).document["table"]
    await set_property(lake, "mine", "1")
    before = await pointer(lake)
    stale = await lake.call(
        "POST",
        SYNC,
        {
            "metadata-location": files[2],
            "expected-version-token": table["version-token"],
            "expected-metadata-location": files[0],
        },
    )
    assert stale.error == (409, "CommitFailedException")
    assert await pointer(lake) == before
    bridge = (await lake.call("GET", EXTERNAL)).document["bridge"]
    assert (bridge["last-sync-status"], bridge["last-synced-metadata-location"]) == ("conflict", files[0])
    assert bridge["last-sync-message"]


async def test_incomplete_syncs_are_refused(lake: Lake) -> None:
    files = await history(lake)
    other = str(uuid4())
    for document in (
        {**GLUE},
        {"metadata-location": files[0]},
        {"metadata-location": files[0], "external-table": "t"},
        {**GLUE, "metadata-location": files[0], "expected-version-token": "x"},
        {**GLUE, "metadata-location": files[0], "external-table-uuid": other},
        {**GLUE, "metadata-location": files[0], "rollback-strategy": "restore-previous"},
        {**GLUE, "metadata-location": files[0], "unknown": 1},
    ):
        assert (await lake.call("POST", SYNC, document)).error == (400, "BadRequestException")
    assert (await lake.call("GET", TABLE)).status == 404
    await lake.call("POST", SYNC, {**GLUE, "metadata-location": files[0]})
    unstated = await lake.call("POST", SYNC, {"metadata-location": files[1]})
    assert unstated.error == (400, "BadRequestException")
    assert "expected-version-token" in message(unstated)


async def test_repeated_sync_gets_the_first_response(lake: Lake) -> None:
    files = await history(lake)
    document = {**GLUE, "metadata-location": files[0]}
    key = str(uuid4())
    first = await lake.call("POST", SYNC, document, idempotency_key=key)
    repeated = await lake.call("POST", SYNC, document, idempotency_key=key)
    assert repeated.status == 200
    assert repeated.document == first.document


async def test_metadata_folder_is_synced_on_request(lake: Lake) -> None:
    files = await history(lake)
    folder = files[0].rpartition("/")[0]
    configured = {"catalog": "metadata-folder", "metadata-folder": folder}
    synced = await lake.call("POST", SYNC, configured)
    assert synced.status == 200, synced.body
    assert synced.document["table"]["metadata-location"] == files[2]
    assert (await lake.call("POST", SYNC, {})).document["action"] == "unchanged"
