"""Callers without permission learn nothing about existing entities from the status or message of an error."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from lakebed.wire.iceberg.operations import catalog_routes
from lakebed.wire.iceberg.services import IcebergServices
from lakebed.wire.json.routing import Route
from tests.catalog.harness import VIEW_VERSION

from .lake import SCHEMA, Lake, opened_lake

CHANGE: dict[str, Any] = {"requirements": [], "updates": []}
FILE = "s3://lake/x.metadata.json"
DOCUMENTS: dict[str, Any] = {
    "updateProperties": {"updates": {"k": "v"}, "removals": []},
    "createTable": {"name": "new", "schema": SCHEMA},
    "updateTable": CHANGE | {"commit-id": "c"},
    "registerTable": {"name": "new", "metadata-location": FILE},
    "createView": {"name": "new", "schema": SCHEMA, "properties": {}, "view-version": VIEW_VERSION},
    "replaceView": CHANGE,
    "registerView": {"name": "new", "metadata-location": FILE},
    "reportMetrics": {"report-type": "scan-report", "table-name": "t"},
    "planTableScan": {},
    "fetchScanTasks": {"plan-task": "x"},
    "signRequest": {"region": "us-east-1", "uri": "http://lake.example:9000/lake/x", "method": "GET", "headers": {}},
}
"""Bodies that reach the authorization. Other routes have no body, or accept any."""

NAMED = {"warehouse": "lake", "table": "t", "view": "v", "ref": "main", "job": "latest", "plan-id": "p"}
ROUTES = [route for route in catalog_routes().routes if "{namespace}" in route.path]


@pytest.fixture
async def lake(tmp_path: Path) -> AsyncIterator[Lake]:
    """A server with a table and a view."""
    async with opened_lake(tmp_path) as opened:
        assert (await opened.table()).status == 200
        view = {"name": "v", **{key: one for key, one in DOCUMENTS["createView"].items() if key != "name"}}
        assert (await opened.call("POST", "/lake/namespaces/ns/views", view)).status == 200
        yield opened


def path_of(route: Route[IcebergServices], **names: str) -> str:
    named = NAMED | names
    return re.sub(r"{([^}]+)}", lambda found: named.get(found[1], "x"), route.path).removeprefix("/v1")


def message_without_names(body: bytes) -> bytes:
    """An error without the requested names."""
    return re.sub(rb"\b(namespace|tableName)=\w+", rb"\1=", body)


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
async def test_refusal_is_the_same_for_existing_and_missing_names(lake: Lake, route: Route[IcebergServices]) -> None:
    keys = await lake.user("unprivileged")
    answers = [
        await lake.call(route.method, path_of(route, **names), DOCUMENTS.get(route.name), keys=keys)
        for names in (
            {"namespace": "ns"},
            {"namespace": "none"},
            {"namespace": "ns", "table": "u", "view": "w"},
            {"namespace": "ns", "table": "v", "view": "t"},
        )
    ]
    assert len({(answer.status, message_without_names(answer.body)) for answer in answers}) == 1, [
        one.body for one in answers
    ]


@pytest.mark.parametrize("route", [route for route in ROUTES if route.name in DOCUMENTS], ids=lambda route: route.name)
async def test_missing_names_are_reported_only_with_permission(lake: Lake, route: Route[IcebergServices]) -> None:
    keys = await lake.user("unprivileged")
    document, path = DOCUMENTS[route.name], path_of(route, namespace="none")
    assert (await lake.call(route.method, path, document, keys=keys)).error == (403, "ForbiddenException")
    assert (await lake.call(route.method, path, document)).status == 404


@pytest.mark.parametrize("route", ["registerTable", "createTable", "createView", "registerView"])
async def test_taken_and_free_names_are_refused_with_the_same_message(lake: Lake, route: str) -> None:
    keys = await lake.user("unprivileged")
    (path,) = [path_of(one, namespace="ns") for one in ROUTES if one.name == route]
    refused = {
        message_without_names(
            (await lake.call("POST", path, DOCUMENTS[route] | {"name": name, "overwrite": True}, keys=keys)).body
        )
        for name in ("t", "v", "new")
    }
    assert len(refused) == 1, refused
    assert b"ForbiddenException" in refused.pop()
