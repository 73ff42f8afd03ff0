"""Who may not ask learns nothing of what is there: not from the status, not from the words."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from lakebed.wire.iceberg.operations import catalog_routes
from lakebed.wire.iceberg.services import IcebergServices
from lakebed.wire.json.routing import Route

from .lake import SCHEMA, Lake, opened_lake

CHANGE: dict[str, Any] = {"requirements": [], "updates": []}
VIEW_VERSION: dict[str, Any] = {
    "version-id": 1,
    "timestamp-ms": 1_700_000_000_000,
    "schema-id": 0,
    "summary": {},
    "default-namespace": ["ns"],
    "representations": [{"type": "sql", "sql": "SELECT 1", "dialect": "spark"}],
}
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
"""Bodies that get as far as the gate. Where there is none, the route takes none or any."""

NAMED = {"warehouse": "lake", "table": "t", "view": "v", "ref": "main", "job": "latest", "plan-id": "p"}
ROUTES = [route for route in catalog_routes().routes if "{namespace}" in route.path]


@pytest.fixture
async def lake(tmp_path: Path) -> AsyncIterator[Lake]:
    """A lake with a table and a view."""
    async with opened_lake(tmp_path) as opened:
        assert (await opened.table()).status == 200
        view = {"name": "v", **{key: one for key, one in DOCUMENTS["createView"].items() if key != "name"}}
        assert (await opened.call("POST", "/lake/namespaces/ns/views", view)).status == 200
        yield opened


def path_of(route: Route[IcebergServices], **names: str) -> str:
    named = NAMED | names
    return re.sub(r"{([^}]+)}", lambda found: named.get(found[1], "x"), route.path).removeprefix("/v1")


def words(body: bytes) -> bytes:
    """What was said, without the names that were asked for."""
    return re.sub(rb"\b(namespace|tableName)=\w+", rb"\1=", body)


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
async def test_refusal_is_the_same_whether_anything_has_the_name(lake: Lake, route: Route[IcebergServices]) -> None:
    keys = await lake.user("nobody")
    answers = [
        await lake.call(route.method, path_of(route, **names), DOCUMENTS.get(route.name), keys=keys)
        for names in (
            {"namespace": "ns"},
            {"namespace": "none"},
            {"namespace": "ns", "table": "u", "view": "w"},
            {"namespace": "ns", "table": "v", "view": "t"},
        )
    ]
    assert len({(answer.status, words(answer.body)) for answer in answers}) == 1, [one.body for one in answers]


@pytest.mark.parametrize("route", [route for route in ROUTES if route.name in DOCUMENTS], ids=lambda route: route.name)
async def test_who_may_not_ask_is_told_so_and_who_may_what_is_missing(
    lake: Lake, route: Route[IcebergServices]
) -> None:
    keys = await lake.user("nobody")
    document, path = DOCUMENTS[route.name], path_of(route, namespace="none")
    assert (await lake.call(route.method, path, document, keys=keys)).error == (403, "ForbiddenException")
    assert (await lake.call(route.method, path, document)).status == 404


@pytest.mark.parametrize("route", ["registerTable", "createTable", "createView", "registerView"])
async def test_name_that_is_taken_is_refused_in_the_same_words(lake: Lake, route: str) -> None:
    keys = await lake.user("nobody")
    (path,) = [path_of(one, namespace="ns") for one in ROUTES if one.name == route]
    refused = {
        words((await lake.call("POST", path, DOCUMENTS[route] | {"name": name, "overwrite": True}, keys=keys)).body)
        for name in ("t", "v", "new")
    }
    assert len(refused) == 1, refused
    assert b"ForbiddenException" in refused.pop()
