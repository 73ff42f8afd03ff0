"""Callers without any permission for a request are refused before its large document is parsed."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest

from lakebed.wire.iceberg.operations import catalog_routes
from tests.clients.boto import Keys

from .lake import Lake, allow, opened_lake
from .two_lakes import CATALOG, TwoLakes, two_lakes

GARBAGE: Final = b"<<<"
ROUTES: Final = {
    "createTable": ("/namespaces/ns/tables", "s3tables:CreateTable"),
    "updateTable": ("/namespaces/ns/tables/t", "s3tables:UpdateTableMetadataLocation"),
    "commitTransaction": ("/transactions/commit", "s3tables:UpdateTableMetadataLocation"),
    "planTableScan": ("/namespaces/ns/tables/t/plan", "s3tables:GetTableData"),
    "reportMetrics": ("/namespaces/ns/tables/t/metrics", "s3tables:GetTable"),
    "createView": ("/namespaces/ns/views", "s3tables:CreateTable"),
    "replaceView": ("/namespaces/ns/views/v", "s3tables:UpdateTableMetadataLocation"),
}


@pytest.fixture
async def lake(tmp_path: Path) -> AsyncIterator[Lake]:
    async with opened_lake(tmp_path) as opened:
        assert (await opened.table()).status == 200
        yield opened


@pytest.fixture
async def lakes(tmp_path: Path) -> AsyncIterator[TwoLakes]:
    async with two_lakes(tmp_path) as both:
        await both.table()
        yield both


@pytest.fixture
async def outsider(lake: Lake) -> Keys:
    """Every S3 permission, and none in the catalog."""
    return await lake.user("outsider", allow("s3:*"))


def test_all_routes_with_large_documents_are_tested() -> None:
    assert {route.name for route in catalog_routes().routes if route.is_large} == ROUTES.keys()


@pytest.mark.parametrize("route", ROUTES)
async def test_large_document_is_not_parsed_without_a_permission(lake: Lake, outsider: Keys, route: str) -> None:
    path, action = ROUTES[route]
    refused = await lake.send("POST", f"/iceberg/v1/lake{path}", GARBAGE, keys=outsider)
    assert refused.error == (403, "ForbiddenException")
    keys = await lake.user("insider", allow(action))
    assert (await lake.send("POST", f"/iceberg/v1/lake{path}", GARBAGE, keys=keys)).status == 400


@pytest.mark.parametrize("route", ROUTES)
async def test_large_document_for_a_federated_catalog_is_not_parsed_without_a_permission(
    lakes: TwoLakes, route: str
) -> None:
    path, action = ROUTES[route]
    near = lakes.near
    outsider = await near.user("outsider", allow("s3:*"))
    refused = await near.send("POST", f"/iceberg/v1/{CATALOG}{path}", GARBAGE, keys=outsider)
    assert refused.error == (403, "ForbiddenException")
    keys = await near.user("insider", allow(action))
    answer = await near.send("POST", f"/iceberg/v1/{CATALOG}{path}", GARBAGE, keys=keys)
    assert answer.status == (406 if route == "planTableScan" else 400)  # not forwarded


async def test_conditions_on_the_document_are_evaluated_after_parsing(lake: Lake) -> None:
    path = "/iceberg/v1/lake" + ROUTES["createTable"][0]
    condition = {"StringEquals": {"s3tables:tableName": "mine"}}
    keys = await lake.user("owner", allow("s3tables:*") | {"Condition": condition})
    assert (await lake.send("POST", path, GARBAGE, keys=keys)).status == 400
    other = json.dumps({"name": "other", "schema": {"type": "struct", "fields": []}}).encode()
    assert (await lake.send("POST", path, other, keys=keys)).status == 403


async def test_permission_of_the_bucket_policy_counts(lake: Lake, outsider: Keys) -> None:
    principal = {"AWS": "arn:aws:iam::000000000000:user/outsider"}
    bucket = "arn:aws:s3tables:us-east-1:000000000000:bucket/lake"
    resources = [bucket, f"{bucket}/*"]
    granted = allow("s3tables:CreateTable") | {"Principal": principal, "Resource": resources}
    document = json.dumps({"Version": "2012-10-17", "Statement": [granted]}).encode()
    put = await lake.send("PUT", "/lake?policy", document)
    assert put.status == 204, put
    path, _ = ROUTES["createTable"]
    assert (await lake.send("POST", f"/iceberg/v1/lake{path}", GARBAGE, keys=outsider)).status == 400


async def test_missing_catalog_is_not_found(lake: Lake, outsider: Keys) -> None:
    path, _ = ROUTES["createTable"]
    answer = await lake.send("POST", f"/iceberg/v1/absent{path}", GARBAGE, keys=outsider)
    assert answer.status == 404
