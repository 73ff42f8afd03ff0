from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.wire.iceberg.lake import SCHEMA
from tests.wire.iceberg.two_lakes import CATALOG, CONNECTION, TwoLakes, two_lakes


@pytest.fixture
async def lakes(tmp_path: Path) -> AsyncIterator[TwoLakes]:
    async with two_lakes(tmp_path, connected=False) as both:
        await both.near.store.bucket("files")
        yield both


def catalog(name: str = "sales", **changes: Any) -> dict[str, Any]:
    document = {
        "type": "EXTERNAL",
        "name": name,
        "properties": {"default-base-location": f"s3://files/{name}/"},
        "storageConfigInfo": {"storageType": "S3"},
        "connectionConfigInfo": CONNECTION,
    }
    return {"catalog": {**document, **changes}}


async def test_catalog_is_created_with_its_connection(lakes: TwoLakes) -> None:
    created = await lakes.management.call("POST", "/catalogs", catalog())
    assert created.status == 201, created
    info = created.document["connectionConfigInfo"]
    assert info["remoteCatalogName"] == "lake"
    assert "secretAccessKey" not in info["authenticationParameters"]
    assert (await lakes.management.call_ok("GET", "/catalogs/sales"))["connectionConfigInfo"] == info
    listed = {one["name"]: one for one in (await lakes.management.call_ok("GET", "/catalogs"))["catalogs"]}
    assert listed["sales"]["connectionConfigInfo"] == info
    assert "connectionConfigInfo" not in listed[CATALOG]
    table = await lakes.near.call("POST", "/sales/namespaces/ns/tables", {"name": "t", "schema": SCHEMA})
    assert table.status == 200
    assert (await lakes.far.call("HEAD", "/lake/namespaces/ns/tables/t")).status == 204
    change = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"k": "v"}}]}
    assert (await lakes.near.call("POST", "/sales/namespaces/ns/tables/t", change)).status == 200


async def test_dropping_a_federated_catalog_keeps_the_external_one(lakes: TwoLakes) -> None:
    await lakes.management.call_ok("POST", "/catalogs", catalog())
    await lakes.management.call_ok("POST", "/catalogs/sales/catalog-roles", {"catalogRole": {"name": "r"}})
    grant = {"type": "namespace", "namespace": ["ns"], "privilege": "TABLE_LIST"}
    await lakes.management.call_ok("PUT", "/catalogs/sales/catalog-roles/r/grants", {"grant": grant})
    assert (await lakes.management.call("DELETE", "/catalogs/sales")).status == 204
    assert (await lakes.near.call("GET", "/sales/namespaces")).status == 404
    assert (await lakes.far.call("HEAD", "/lake/namespaces/ns")).status == 204
    assert (await lakes.management.call("POST", "/catalogs", catalog())).status == 201


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"type": "INTERNAL"}, 400),
        ({"connectionConfigInfo": {**CONNECTION, "uri": "http://elsewhere.test"}}, 400),
        ({"connectionConfigInfo": {**CONNECTION, "connectionType": "HIVE"}}, 406),
        ({"connectionConfigInfo": {"connectionType": "ICEBERG_REST"}}, 400),
    ],
)
async def test_catalog_with_an_invalid_connection_is_not_created(
    lakes: TwoLakes, changes: dict[str, Any], status: int
) -> None:
    assert (await lakes.management.call("POST", "/catalogs", catalog(**changes))).status == status
    assert (await lakes.management.call("GET", "/catalogs/sales")).status == 404
