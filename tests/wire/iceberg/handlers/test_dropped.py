from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from tests.catalog.harness import VIEW_VERSION
from tests.wire.iceberg.lake import SCHEMA, Lake, allow

DROPPED = "/lake/dropped"
TABLE = "/lake/namespaces/ns/tables/t"
VIEW = "/lake/namespaces/ns/views/v"
NAME = {"namespace": ["ns"], "name": "t"}


@pytest.fixture(autouse=True)
async def _restorable(lake: Lake) -> None:
    """Dropped tables and views are restorable for an hour."""
    window = {"updates": {"undrop-window-seconds": "3600"}}
    assert (await lake.call("POST", "/buckets/lake/properties", window)).status == 200


async def view(lake: Lake) -> None:
    document: dict[str, Any] = {"name": "v", "schema": SCHEMA, "view-version": VIEW_VERSION}
    assert (await lake.call("POST", "/lake/namespaces/ns/views", document)).status == 200


async def test_dropped_table_is_listed_and_restored(lake: Lake) -> None:
    created = (await lake.table()).document
    await lake.call("DELETE", TABLE + "?purgeRequested=true")
    assert (await lake.call("GET", TABLE)).status == 404
    (dropped,) = (await lake.call("GET", DROPPED)).document["dropped"]
    assert (dropped["namespace"], dropped["name"], dropped["kind"]) == (["ns"], "t", "table")
    assert dropped["metadata-location"] == created["metadata-location"]
    assert dropped["restorable-until-ms"] - dropped["dropped-at-ms"] == 3_600_000
    assert dropped["purge-requested"] is True
    restored = await lake.call("POST", DROPPED + "/restore", NAME)
    assert restored.status == 200
    assert (restored.document["name"], restored.document["kind"]) == ("t", "table")
    assert (await lake.call("GET", TABLE)).document["metadata-location"] == created["metadata-location"]
    assert (await lake.call("GET", DROPPED)).document == {"dropped": [], "next-page-token": None}


async def test_dropped_tables_are_paged(lake: Lake) -> None:
    for number in range(5):
        await lake.table(f"t{number}")
        await lake.call("DELETE", f"/lake/namespaces/ns/tables/t{number}")
    seen: list[str] = []
    token: str | None = ""
    while token is not None:
        page = (await lake.call("GET", f"{DROPPED}?pageSize=2&pageToken={token}")).document
        assert len(page["dropped"]) <= 2
        seen += [one["name"] for one in page["dropped"]]
        token = page["next-page-token"]
    assert sorted(seen) == [f"t{number}" for number in range(5)]
    foreign = (await lake.call("GET", f"{DROPPED}?pageSize=2&pageToken=")).document["next-page-token"]
    assert (await lake.call("GET", f"/lake/namespaces?pageToken={foreign}")).status == 400


async def test_dropped_table_is_purged(lake: Lake) -> None:
    await lake.table()
    assert (await lake.call("POST", DROPPED + "/purge", NAME)).error == (404, "NoSuchTableException")
    await lake.call("DELETE", TABLE)
    assert (await lake.call("POST", DROPPED + "/purge", {**NAME, "files": True})).status == 204
    assert (await lake.call("GET", DROPPED)).document["dropped"] == []
    assert (await lake.call("POST", DROPPED + "/restore", NAME)).error == (404, "NoSuchTableException")
    (task,) = await lake.store.meta.rows("SELECT kind FROM tasks")
    assert task == ("purge-table",)


async def test_existing_and_missing_tables_cannot_be_restored(lake: Lake) -> None:
    await lake.table()
    assert (await lake.call("POST", DROPPED + "/restore", NAME)).error == (409, "AlreadyExistsException")
    none = {"namespace": ["ns"], "name": "none"}
    assert (await lake.call("POST", DROPPED + "/restore", none)).error == (404, "NoSuchTableException")
    for document in ({"name": "t"}, {**NAME, "kind": "table"}, {"namespace": [], "name": "t"}):
        assert (await lake.call("POST", DROPPED + "/restore", document)).error == (400, "BadRequestException")


@pytest.mark.parametrize("path", [TABLE, VIEW])
async def test_protected_table_or_view_cannot_be_dropped(lake: Lake, path: str) -> None:
    await lake.table()
    await view(lake)
    assert (await lake.call("GET", path + "/protection")).document["protected"] is False
    key = str(uuid4())
    for _ in range(2):
        answer = await lake.call("PUT", path + "/protection", {"protected": True}, idempotency_key=key)
        assert (answer.status, answer.document["protected"]) == (200, True)
    assert (await lake.call("GET", path + "/protection")).document["protected"] is True
    assert (await lake.call("DELETE", path)).error == (409, "TableProtectedException")
    assert (await lake.call("PUT", path + "/protection", {"protected": False})).document["protected"] is False
    assert (await lake.call("DELETE", path)).status == 204


async def test_invalid_protection_requests_are_refused(lake: Lake) -> None:
    await lake.table()
    await view(lake)
    for document in ({}, {"protected": "yes"}, {"protected": True, "until": 5}):
        assert (await lake.call("PUT", TABLE + "/protection", document)).error == (400, "BadRequestException")
    as_table = await lake.call("PUT", "/lake/namespaces/ns/tables/v/protection", {"protected": True})
    assert as_table.error == (404, "NoSuchTableException")
    as_view = await lake.call("GET", "/lake/namespaces/ns/views/t/protection")
    assert as_view.error == (404, "NoSuchViewException")


async def test_repeated_restore_gets_the_first_response(lake: Lake) -> None:
    await lake.table()
    await lake.call("DELETE", TABLE)
    key = str(uuid4())
    first = await lake.call("POST", DROPPED + "/restore", NAME, idempotency_key=key)
    repeated = await lake.call("POST", DROPPED + "/restore", NAME, idempotency_key=key)
    assert first.document == repeated.document


async def test_dropped_tables_require_permissions(lake: Lake) -> None:
    await lake.table()
    reader = await lake.user("reader", allow("s3tables:GetTable"))
    assert (await lake.call("GET", TABLE + "/protection", keys=reader)).status == 200
    for method, path, document in (
        ("PUT", TABLE + "/protection", {"protected": True}),
        ("GET", DROPPED, None),
        ("POST", DROPPED + "/restore", NAME),
        ("POST", DROPPED + "/purge", NAME),
    ):
        assert (await lake.call(method, path, document, keys=reader)).error == (403, "ForbiddenException")
