from __future__ import annotations

from uuid import uuid4

import pytest

from tests.wire.iceberg.lake import Lake, allow

from .tables_with_data import TABLE, message, table_with_data

REFS = TABLE + "/refs"


async def snapshot_of(lake: Lake) -> int:
    current: int = (await table_with_data(lake))["metadata"]["current-snapshot-id"]
    return current


async def test_refs_are_listed_with_their_retention(lake: Lake) -> None:
    snapshot = await snapshot_of(lake)
    await lake.call("PUT", REFS + "/v1", {"snapshot-id": snapshot, "type": "tag"})
    branch = {"snapshot-id": snapshot, "type": "branch", "min-snapshots-to-keep": 2, "max-ref-age-ms": 5}
    await lake.call("PUT", REFS + "/audit", branch)
    found = (await lake.call("GET", REFS)).document
    assert found["refs"] == {
        "main": {"snapshot-id": snapshot, "type": "branch"},
        "v1": {"snapshot-id": snapshot, "type": "tag"},
        "audit": branch,
    }
    assert (found["protected-ref-count"], found["user-defined-ref-count"]) == (2, 2)
    assert (found["table-bucket"], found["namespace"], found["table"]) == ("lake", "ns", "t")
    assert found["current-snapshot-id"] == snapshot
    assert found["current-metadata-location"].endswith(".metadata.json")


async def test_tag_is_created_and_force_deleted(lake: Lake) -> None:
    snapshot = await snapshot_of(lake)
    created = await lake.call(
        "PUT", REFS + "/smoke", {"snapshot-id": snapshot, "type": "tag", "max-ref-age-ms": 86_400_000}
    )
    assert created.status == 200
    assert {"metadata-location", "metadata", "version-token", "generation", "commit-id"} <= created.document.keys()
    refused = await lake.call("DELETE", REFS + "/smoke", {})
    assert refused.error == (400, "BadRequestException")
    assert "force is required" in message(refused)
    assert (await lake.call("DELETE", REFS + "/smoke", {"force": True})).status == 200
    assert "smoke" not in (await lake.call("GET", REFS)).document["refs"]


async def test_expected_snapshot_must_match(lake: Lake) -> None:
    snapshot = await snapshot_of(lake)
    tag = {"snapshotId": snapshot, "type": "tag"}
    stale = await lake.call("PUT", REFS + "/v1", {**tag, "expectedSnapshotId": snapshot})
    assert stale.error == (409, "CommitFailedException")
    assert (await lake.call("PUT", REFS + "/v1", {**tag, "expected-snapshot-id": None})).status == 200
    repeated = await lake.call("PUT", REFS + "/v1", {**tag, "expected-snapshot-id": None})
    assert repeated.error == (409, "CommitFailedException")
    wrong = await lake.call("DELETE", REFS + "/v1", {"expected-snapshot-id": snapshot + 1})
    assert wrong.error == (409, "CommitFailedException")
    assert (await lake.call("DELETE", REFS + "/v1", {"expected-snapshot-id": snapshot})).status == 200


@pytest.mark.parametrize(
    ("method", "ref", "document"),
    [
        ("DELETE", "main", {"force": True}),
        ("DELETE", "v1", {"forced": True}),
        ("DELETE", "v1", {"force": "yes"}),
        ("PUT", "v1", {"type": "tag"}),
        ("PUT", "v1", {"snapshot-id": 1, "type": "tag", "max-ref-age-ms": 0}),
        ("PUT", "v1", {"snapshot-id": 1, "type": "tag", "min-snapshots-to-keep": 1}),
        ("PUT", "v1", {"snapshot-id": 1, "type": "tag"}),
        ("PUT", "v1", {"snapshot-id": "1", "type": "tag"}),
        ("PUT", "v1", {"snapshot-id": 1, "type": "tag", "unknown": 1}),
    ],
)
async def test_invalid_requests_are_refused(lake: Lake, method: str, ref: str, document: dict[str, object]) -> None:
    await table_with_data(lake)
    assert (await lake.call(method, f"{REFS}/{ref}", document)).error == (400, "BadRequestException")


async def test_deletion_without_a_body_is_not_forced(lake: Lake) -> None:
    snapshot = await snapshot_of(lake)
    await lake.call("PUT", REFS + "/v1", {"snapshot-id": snapshot, "type": "tag"})
    assert (await lake.call("DELETE", REFS + "/v1")).status == 200
    assert (await lake.call("DELETE", REFS + "/v1")).status == 200


async def test_names_may_have_slashes(lake: Lake) -> None:
    snapshot = await snapshot_of(lake)
    assert (await lake.call("PUT", REFS + "/a%2Fb", {"snapshot-id": snapshot, "type": "branch"})).status == 200
    assert "a/b" in (await lake.call("GET", REFS)).document["refs"]


async def test_repeated_request_gets_the_first_response(lake: Lake) -> None:
    snapshot = await snapshot_of(lake)
    key = str(uuid4())
    document = {"snapshot-id": snapshot, "type": "tag", "expected-snapshot-id": None}
    first = await lake.call("PUT", REFS + "/v1", document, idempotency_key=key)
    repeated = await lake.call("PUT", REFS + "/v1", document, idempotency_key=key)
    assert (first.status, repeated.status) == (200, 200)
    assert first.document["version-token"] == repeated.document["version-token"]
    by_id = {**document, "commit-id": "c1"}
    assert (await lake.call("PUT", REFS + "/v2", by_id)).document["commit-id"] == "c1"
    assert (await lake.call("PUT", REFS + "/v2", by_id)).status == 200


async def test_changes_require_write_permission(lake: Lake) -> None:
    snapshot = await snapshot_of(lake)
    reader = await lake.user("reader", allow("s3tables:GetTableMetadataLocation"))
    assert (await lake.call("GET", REFS, keys=reader)).status == 200
    tag = {"snapshot-id": snapshot, "type": "tag"}
    assert (await lake.call("PUT", REFS + "/v1", tag, keys=reader)).error == (403, "ForbiddenException")
    assert (await lake.call("DELETE", REFS + "/v1", keys=reader)).error == (403, "ForbiddenException")
    absent = await lake.call("GET", "/lake/namespaces/ns/tables/none/refs")
    assert absent.error == (404, "NoSuchTableException")
