"""Deeply nested JSON documents are client errors on every route, not server errors."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Final

import pytest

from lakebed.wire.admin.operations import BASE as ADMIN
from lakebed.wire.admin.operations import admin_mount
from lakebed.wire.iceberg.operations import catalog_routes
from lakebed.wire.management.operations import BASE as MANAGEMENT
from lakebed.wire.management.operations import management_mount
from lakebed.wire.polaris.operations import polaris_routes
from tests.wire.iceberg.lake import SCHEMA, Lake, opened_lake

_NAMES: Final = {"{warehouse}": "lake", "{namespace}": "ns", "{table}": "t"}


def _filled(path: str) -> str:
    return re.sub(r"\{[^}]+\}", lambda found: _NAMES.get(found[0], "x"), path)


def _routes() -> Iterator[tuple[str, str]]:
    for base, routes in (
        ("/iceberg", catalog_routes().routes),
        ("", polaris_routes().routes),
        (ADMIN, admin_mount().routes.routes),
    ):
        for route in routes:
            yield route.method, base + _filled(route.path)
    for managed in management_mount().routes.routes:
        yield managed.method, MANAGEMENT + _filled(managed.path)


ROUTES: Final = sorted({(method, path) for method, path in _routes() if method in ("POST", "PUT", "PATCH")})


def nested(depth: int, opening: str = "[", closing: str = "]") -> str:
    return opening * depth + "1" + closing * depth


DEEP: Final = {
    "lists": nested(100_000),
    "objects": nested(100_000, '{"a":', "}"),
    "unclosed": "[" * 100_000,
    "within a field": f'{{"name":"x","properties":{nested(100_000)}}}',
    "at the limit": nested(899, '{"a":', "}"),
}


@pytest.fixture
async def lake(tmp_path: Path) -> AsyncIterator[Lake]:
    async with opened_lake(tmp_path) as opened:
        assert (await opened.table()).status == 200
        yield opened


def test_table_contains_all_routes_with_documents() -> None:
    assert len(ROUTES) > 70


@pytest.mark.parametrize("text", DEEP.values(), ids=DEEP)
async def test_each_route_rejects_deep_documents(lake: Lake, text: str) -> None:
    for method, path in ROUTES:
        response = await lake.send(method, path, text.encode())
        assert 200 <= response.status < 500, (method, path, response)


@pytest.mark.parametrize("depth", [500, 890, 100_000])
@pytest.mark.parametrize(
    ("path", "document"),
    [
        ("/lake/namespaces", {"namespace": ["a"], "properties": 0}),
        ("/lake/namespaces/ns/tables", {"name": "deep", "schema": 0}),
        ("/lake/namespaces/ns/tables", {"name": "deep", "schema": SCHEMA, "partition-spec": 0}),
        ("/lake/namespaces/ns/tables", {"name": "deep", "schema": {**SCHEMA, "fields": 0}}),
        ("/lake/namespaces/ns/tables/t", {"requirements": [], "updates": 0}),
        ("/lake/namespaces/ns/tables/t", {"requirements": [{"type": "assert-create", "x": 0}], "updates": []}),
        (
            "/lake/namespaces/ns/tables/t",
            {"requirements": [], "updates": [{"action": "set-properties", "updates": {}, "x": 0}]},
        ),
        (
            "/lake/namespaces/ns/tables/t",
            {"requirements": [], "updates": [{"action": "add-schema", "schema": {**SCHEMA, "x": 0}}]},
        ),
        ("/lake/namespaces/ns/views", {"name": "deep", "schema": SCHEMA, "view-version": 0, "properties": {}}),
        ("/lake/namespaces/ns/tables/t/plan", {"filter": 0}),
        ("/lake/namespaces/ns/tables/t/metrics", {"report-type": "scan-report", "table-name": "t", "filter": 0}),
        ("/lake/transactions/commit", {"table-changes": [{"identifier": {"namespace": ["ns"], "name": "t"}, "x": 0}]}),
    ],
)
async def test_deeply_nested_fields_are_rejected(lake: Lake, path: str, document: object, depth: int) -> None:
    for opening, closing in (("[", "]"), ('{"type":', "}"), ('{"type":"not","child":', "}")):
        text = re.sub(r"\b0\b", nested(depth, opening, closing), json.dumps(document), count=1)
        response = await lake.send("POST", "/iceberg/v1" + path, text.encode())
        assert 200 <= response.status < 500, (opening, response)


@pytest.mark.parametrize("depth", [500, 900, 950, 1000, 100_000])
async def test_deep_policies_are_rejected(lake: Lake, depth: int) -> None:
    await lake.store.bucket("plain")
    text = nested(depth)
    for document in (text, f'{{"Version":"2012-10-17","Statement":{text}}}'):
        response = await lake.send("PUT", "/plain?policy", document.encode())
        assert (response.status, b"MalformedPolicy" in response.body) == (400, True)
    content = {"name": "p", "type": "system.data-compaction", "content": text}
    response = await lake.send("POST", "/polaris/v1/lake/namespaces/ns/policies", json.dumps(content).encode())
    assert response.status == 400
