from __future__ import annotations

import pytest

from .management_client import ManagementClient


async def test_principal_role_is_created_returned_updated_and_deleted(management: ManagementClient) -> None:
    created = await management.call(
        "POST", "/principal-roles", {"principalRole": {"name": "engineer", "federated": False}}
    )
    now_ms = management.lake.clock.now_ms()
    expected = {
        "name": "engineer",
        "federated": False,
        "properties": {},
        "createTimestamp": now_ms,
        "lastUpdateTimestamp": now_ms,
        "entityVersion": 1,
    }
    assert (created.status, created.document) == (201, expected)
    assert await management.call_ok("GET", "/principal-roles/engineer") == expected
    listed = await management.call_ok("GET", "/principal-roles")
    assert [role["name"] for role in listed["roles"]] == ["engineer", "service_admin"]
    changed = await management.call_ok(
        "PUT", "/principal-roles/engineer", {"currentEntityVersion": 1, "properties": {"a": "b"}}
    )
    assert (changed["properties"], changed["entityVersion"]) == ({"a": "b"}, 2)
    assert (await management.call("DELETE", "/principal-roles/engineer")).status == 204
    assert (await management.call("GET", "/principal-roles/engineer")).error == (404, "NotFoundException")


async def test_catalog_role_is_created_returned_updated_and_deleted(management: ManagementClient) -> None:
    created = await management.call("POST", "/catalogs/lake/catalog-roles", {"catalogRole": {"name": "reader"}})
    now_ms = management.lake.clock.now_ms()
    expected = {
        "name": "reader",
        "properties": {},
        "createTimestamp": now_ms,
        "lastUpdateTimestamp": now_ms,
        "entityVersion": 1,
    }
    assert (created.status, created.document) == (201, expected)
    path = "/catalogs/lake/catalog-roles/reader"
    assert await management.call_ok("GET", path) == expected
    listed = await management.call_ok("GET", "/catalogs/lake/catalog-roles")
    assert [role["name"] for role in listed["roles"]] == ["catalog_admin", "reader"]
    changed = await management.call_ok("PUT", path, {"currentEntityVersion": 1, "properties": {"a": "b"}})
    assert changed["entityVersion"] == 2
    assert (await management.call("DELETE", path)).status == 204
    assert (await management.call("GET", path)).error == (404, "NotFoundException")
    assert (await management.call("GET", "/catalogs/ghost/catalog-roles")).error == (404, "NoSuchWarehouseException")


async def test_catalog_role_is_assigned_to_principal_roles(management: ManagementClient) -> None:
    await management.role("engineer")
    await management.catalog_role("reader")
    path = "/principal-roles/engineer/catalog-roles/lake"
    assert (await management.call("PUT", path, {"catalogRole": {"name": "reader"}})).status == 201
    assert [role["name"] for role in (await management.call_ok("GET", path))["roles"]] == ["reader"]
    holders = await management.call_ok("GET", "/catalogs/lake/catalog-roles/reader/principal-roles")
    assert [role["name"] for role in holders["roles"]] == ["engineer"]
    assert (await management.call("DELETE", f"{path}/reader")).status == 204
    assert (await management.call("DELETE", f"{path}/reader")).error == (404, "NotFoundException")
    assert await management.call_ok("GET", path) == {"roles": []}


@pytest.mark.parametrize("name", ["service_admin", "ALL", "a b", "a*", "", "system$a", "x" * 257])
async def test_invalid_and_duplicate_role_names_are_refused(management: ManagementClient, name: str) -> None:
    answer = await management.call("POST", "/principal-roles", {"principalRole": {"name": name}})
    assert answer.status == (409 if name == "service_admin" else 400)


async def test_built_in_roles_cannot_be_deleted(management: ManagementClient) -> None:
    for path in ("/principal-roles/service_admin", "/catalogs/lake/catalog-roles/catalog_admin"):
        assert (await management.call("DELETE", path)).error == (400, "BadRequestException")


async def test_federated_role_cannot_be_assigned(management: ManagementClient) -> None:
    created = await management.call_ok(
        "POST", "/principal-roles", {"principalRole": {"name": "guests", "federated": True}}
    )
    assert created["federated"] is True
    await management.principal("ann")
    assigned = await management.call("PUT", "/principals/ann/principal-roles", {"principalRole": {"name": "guests"}})
    assert assigned.error == (400, "BadRequestException")


async def test_role_names_are_url_encoded_in_paths(management: ManagementClient) -> None:
    created = await management.call("POST", "/catalogs/lake/catalog-roles", {"catalogRole": {"name": "rôle 1"}})
    assert created.status == 201
    assert (await management.call_ok("GET", "/catalogs/lake/catalog-roles/r%C3%B4le%201"))["name"] == "rôle 1"
    assert (await management.call("GET", "/principal-roles/a%2Fb")).error == (404, "NotFoundException")
    assert (await management.call("GET", "/principal-roles/a%00b")).error == (400, "BadRequestException")


async def test_table_bucket_is_listed_as_a_catalog(management: ManagementClient) -> None:
    expected = {
        "type": "INTERNAL",
        "name": "lake",
        "properties": {"default-base-location": "s3://lake/"},
        "createTimestamp": management.lake.clock.now_ms(),
        "lastUpdateTimestamp": management.lake.clock.now_ms(),
        "entityVersion": 1,
        "storageConfigInfo": {"storageType": "S3", "allowedLocations": ["s3://lake/"], "region": "us-east-1"},
    }
    assert await management.call_ok("GET", "/catalogs/lake") == expected
    assert await management.call_ok("GET", "/catalogs") == {"catalogs": [expected]}
    assert (await management.call("GET", "/catalogs/ghost")).error == (404, "NoSuchWarehouseException")


async def test_unknown_methods_and_paths_are_refused(management: ManagementClient) -> None:
    assert (await management.call("PUT", "/catalogs", {})).status == 405
    assert (await management.call("POST", "/catalogs/lake")).status == 405
    assert (await management.call("GET", "/nothing")).status == 404
