"""Paging of every list of the catalog, with the parameters of Iceberg and Polaris clients."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.catalog.harness import VIEW_VERSION
from tests.wire.iceberg.lake import SCHEMA, Lake, opened_lake
from tests.wire.iceberg.two_lakes import two_lakes

POLICY = {"type": "system.data-compaction", "content": '{"enable": true}'}
OF_POLICIES = "/polaris/v1/lake/namespaces/ns"

LISTS = {
    "/iceberg/v1/lake/namespaces": "namespaces",
    "/iceberg/v1/lake/namespaces?parent=ns": "namespaces",
    "/iceberg/v1/lake/namespaces/ns/tables": "identifiers",
    "/iceberg/v1/lake/namespaces/ns/views": "identifiers",
    "/iceberg/v1/lake/dropped": "dropped",
    "/iceberg/v1/buckets": "table-buckets",
    f"{OF_POLICIES}/generic-tables": "identifiers",
    f"{OF_POLICIES}/policies": "identifiers",
    f"{OF_POLICIES}/policies/p0/mappings": "mappings",
    f"{OF_POLICIES}/policies/p0/versions": "versions",
    "/polaris/v1/lake/applicable-policies": "applicable-policies",
    "/polaris/v1/lake/policy-types": "policy-types",
}
"""Every paged list, and the field of its entries."""


@pytest.fixture
async def filled(tmp_path: Path) -> AsyncIterator[Lake]:
    """A lake in which every list has at least two entries."""
    async with opened_lake(tmp_path) as lake:
        await lake.store.bucket("second")
        await expect_success(lake, "PUT", "/iceberg/v1/buckets/second")
        window = {"updates": {"undrop-window-seconds": "3600"}}
        await expect_success(lake, "POST", "/iceberg/v1/buckets/lake/properties", window)
        for name in ("a", "b"):
            await expect_success(lake, "POST", "/iceberg/v1/lake/namespaces", {"namespace": [name]})
            await expect_success(lake, "POST", "/iceberg/v1/lake/namespaces", {"namespace": ["ns", name]})
            view = {"name": f"view_{name}", "schema": SCHEMA, "view-version": VIEW_VERSION}
            await expect_success(lake, "POST", "/iceberg/v1/lake/namespaces/ns/views", view)
            generic = {"name": f"generic_{name}", "format": "delta"}
            await expect_success(lake, "POST", f"{OF_POLICIES}/generic-tables", generic)
            await expect_success(
                lake, "POST", "/iceberg/v1/lake/namespaces/ns/tables", {"name": name, "schema": SCHEMA}
            )
            await expect_success(
                lake, "POST", "/iceberg/v1/lake/namespaces/ns/tables", {"name": f"old_{name}", "schema": SCHEMA}
            )
            await expect_success(lake, "DELETE", f"/iceberg/v1/lake/namespaces/ns/tables/old_{name}")
        kinds = (POLICY["type"], "system.snapshot-expiry")
        for number, kind in enumerate(kinds):
            policy = POLICY | {"name": f"p{number}", "type": kind}
            await expect_success(lake, "POST", f"{OF_POLICIES}/policies", policy)
            await expect_success(
                lake, "PUT", f"{OF_POLICIES}/policies/p{number}/mappings", {"target": {"type": "catalog"}}
            )
        target = {"target": {"type": "namespace", "path": ["ns"]}}
        await expect_success(lake, "PUT", f"{OF_POLICIES}/policies/p0/mappings", target)
        change = {"content": '{"enable": false}', "current-policy-version": 0}
        await expect_success(lake, "PUT", f"{OF_POLICIES}/policies/p0", change)
        yield lake


async def expect_success(lake: Lake, method: str, path: str, document: object = None) -> None:
    response = await lake.send(method, path, body_of(document))
    assert response.status in (200, 204), response.body


def body_of(document: object) -> bytes:
    return b"" if document is None else json.dumps(document).encode()


def with_query(path: str, query: str) -> str:
    return f"{path}{'&' if '?' in path else '?'}{query}"


@pytest.mark.parametrize("path", LISTS)
@pytest.mark.parametrize("size", ["pageSize", "page-size"])
async def test_page_size_alone_requests_the_first_page(filled: Lake, path: str, size: str) -> None:
    whole = (await filled.send("GET", path)).document
    assert whole["next-page-token"] is None
    everything = whole[LISTS[path]]
    assert len(everything) >= 2
    token = "page-token" if size == "page-size" else "pageToken"
    seen, query = [], f"{size}=1"
    while query:
        page = (await filled.send("GET", with_query(path, query))).document
        assert len(page[LISTS[path]]) == 1
        seen += page[LISTS[path]]
        following = page["next-page-token"]
        query = "" if following is None else f"{size}=1&{token}={quote(following)}"
    assert seen == everything


@pytest.mark.parametrize("path", LISTS)
@pytest.mark.parametrize(
    "query",
    [
        "pageSize=0",
        f"pageSize={'9' * 5000}",
        "page-size=0",
        "pageSize=x",
        "page-size=",
        "pageSize=1&page-size=1",
        "page-token=a&pageToken=a",
    ],
    ids=lambda query: query[:24],
)
async def test_invalid_page_parameters_are_rejected(filled: Lake, path: str, query: str) -> None:
    assert (await filled.send("GET", with_query(path, query))).error == (400, "BadRequestException")


async def test_empty_token_without_a_size_requests_the_first_page(filled: Lake) -> None:
    page = (await filled.send("GET", "/iceberg/v1/lake/namespaces/ns/tables?pageToken=")).document
    assert ([one["name"] for one in page["identifiers"]], page["next-page-token"]) == (["a", "b"], None)


async def test_both_spellings_are_forwarded_to_a_federated_catalog(tmp_path: Path) -> None:
    async with two_lakes(tmp_path) as lakes:
        for name in "abc":
            assert (await lakes.far.table(name)).status == 200
        for query in ("pageSize=2", "page-size=2"):
            page = await lakes.call_ok("GET", f"/namespaces/ns/tables?{query}")
            assert [one["name"] for one in page["identifiers"]] == ["a", "b"]
            rest = await lakes.call_ok("GET", f"/namespaces/ns/tables?{query}&page-token={page['next-page-token']}")
            assert ([one["name"] for one in rest["identifiers"]], rest["next-page-token"]) == (["c"], None)
