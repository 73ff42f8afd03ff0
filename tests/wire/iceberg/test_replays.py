"""Requests repeated with their Idempotency-Key get the same response, without a second effect."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from lakebed.wire.iceberg.operations import catalog_routes
from tests.catalog.harness import VIEW_VERSION

from .lake import BASE, SCHEMA, Answer, Lake, opened_lake

CHANGE: dict[str, Any] = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": "1"}}]}
VIEW: dict[str, Any] = {"schema": SCHEMA, "properties": {}, "view-version": VIEW_VERSION}
RENAME = {"source": {"namespace": ["ns"], "name": "{0}"}, "destination": {"namespace": ["ns"], "name": "other"}}
REQUESTS: dict[str, tuple[str, str, Any]] = {
    "createNamespace": ("POST", "/lake/namespaces", {"namespace": ["a", "b"], "properties": {"k": "v"}}),
    "dropNamespace": ("DELETE", "/lake/namespaces/empty", None),
    "updateProperties": ("POST", "/lake/namespaces/ns/properties", {"updates": {"k": "v"}, "removals": ["x"]}),
    "createTable": ("POST", "/lake/namespaces/ns/tables", {"name": "new", "schema": SCHEMA}),
    "updateTable": ("POST", "/lake/namespaces/ns/tables/t", CHANGE),
    "dropTable": ("DELETE", "/lake/namespaces/ns/tables/t?purgeRequested=true", None),
    "unregisterTable": ("POST", "/lake/namespaces/ns/tables/t/unregister", None),
    "renameTable": ("POST", "/lake/tables/rename", json.loads(json.dumps(RENAME).replace("{0}", "t"))),
    "registerTable": ("POST", "/lake/namespaces/ns/register", {"name": "again"}),
    "createView": ("POST", "/lake/namespaces/ns/views", {"name": "new", **VIEW}),
    "replaceView": ("POST", "/lake/namespaces/ns/views/v", CHANGE),
    "dropView": ("DELETE", "/lake/namespaces/ns/views/v", None),
    "renameView": ("POST", "/lake/views/rename", json.loads(json.dumps(RENAME).replace("{0}", "v"))),
    "registerView": ("POST", "/lake/namespaces/ns/register-view", {"name": "again"}),
    "commitTransaction": (
        "POST",
        "/lake/transactions/commit",
        {"table-changes": [{"identifier": {"namespace": ["ns"], "name": "t"}, **CHANGE}]},
    ),
}


@pytest.fixture
async def lake(tmp_path: Path) -> AsyncIterator[Lake]:
    """A server with tables and views, some of which are dropped and registered again."""
    async with opened_lake(tmp_path) as opened:
        await opened.call("POST", "/lake/namespaces", {"namespace": ["empty"]})
        for name in ("t", "gone"):
            assert (await opened.table(name)).status == 200
        for name in ("v", "lost"):
            assert (await opened.call("POST", "/lake/namespaces/ns/views", {"name": name, **VIEW})).status == 200
        yield opened


async def test_all_standard_changes_are_tested() -> None:
    changes = {route.name for route in catalog_routes().routes if route.is_standard and route.changes}
    # Notifications are an operation of Polaris, ordered by their timestamps.
    assert REQUESTS.keys() == changes - {"sendNotification"}


@pytest.mark.parametrize("operation", REQUESTS)
async def test_repeated_request_gets_the_same_response_without_effect(lake: Lake, operation: str) -> None:
    method, path, document = REQUESTS[operation]
    if operation.startswith("register"):
        document = {**document, "metadata-location": await _dropped_metadata(lake, operation)}
    body = b"" if document is None else json.dumps(document).encode()
    headers = {"idempotency-key": str(uuid4())}

    async def send() -> Answer:
        return await lake.send(method, BASE + path, body, headers)

    first = await send()
    assert first.status in (200, 204), first
    before = await lake.store.object_context.outbox.last_seq(lake.store.meta)
    repeated = await send()
    assert (repeated.status, repeated.headers.get("content-type")) == (first.status, first.headers.get("content-type"))
    if first.status == 200:
        assert repeated.document == first.document
    assert await lake.store.object_context.outbox.last_seq(lake.store.meta) == before


async def _dropped_metadata(lake: Lake, operation: str) -> str:
    """Drop a table or view, and return its metadata location."""
    path = "/lake/namespaces/ns/" + ("tables/gone" if operation == "registerTable" else "views/lost")
    at: str = (await lake.call("GET", path)).document["metadata-location"]
    assert (await lake.call("DELETE", path)).status == 204
    return at


async def test_unregister_returns_the_last_metadata(lake: Lake) -> None:
    committed = await lake.call("POST", "/lake/namespaces/ns/tables/t", CHANGE)
    unregistered = (await lake.call("POST", "/lake/namespaces/ns/tables/t/unregister")).document
    assert unregistered == {part: committed.document[part] for part in ("metadata-location", "metadata")}
    assert (await lake.call("POST", "/lake/namespaces/ns/tables/t", CHANGE)).error == (404, "NoSuchTableException")
