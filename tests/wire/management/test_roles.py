from __future__ import annotations

import pytest

from .office import Office


async def test_principal_role_s_life(office: Office) -> None:
    made = await office.call("POST", "/principal-roles", {"principalRole": {"name": "engineer", "federated": False}})
    now_ms = office.lake.clock.now_ms()
    shown = {
        "name": "engineer",
        "federated": False,
        "properties": {},
        "createTimestamp": now_ms,
        "lastUpdateTimestamp": now_ms,
        "entityVersion": 1,
    }
    assert (made.status, made.document) == (201, shown)
    assert await office.done("GET", "/principal-roles/engineer") == shown
    listed = await office.done("GET", "/principal-roles")
    assert [role["name"] for role in listed["roles"]] == ["engineer", "service_admin"]
    changed = await office.done(
        "PUT", "/principal-roles/engineer", {"currentEntityVersion": 1, "properties": {"a": "b"}}
    )
    assert (changed["properties"], changed["entityVersion"]) == ({"a": "b"}, 2)
    assert (await office.call("DELETE", "/principal-roles/engineer")).status == 204
    assert (await office.call("GET", "/principal-roles/engineer")).error == (404, "NotFoundException")


async def test_catalog_role_s_life(office: Office) -> None:
    made = await office.call("POST", "/catalogs/lake/catalog-roles", {"catalogRole": {"name": "reader"}})
    now_ms = office.lake.clock.now_ms()
    shown = {
        "name": "reader",
        "properties": {},
        "createTimestamp": now_ms,
        "lastUpdateTimestamp": now_ms,
        "entityVersion": 1,
    }
    assert (made.status, made.document) == (201, shown)
    path = "/catalogs/lake/catalog-roles/reader"
    assert await office.done("GET", path) == shown
    listed = await office.done("GET", "/catalogs/lake/catalog-roles")
    assert [role["name"] for role in listed["roles"]] == ["catalog_admin", "reader"]
    changed = await office.done("PUT", path, {"currentEntityVersion": 1, "properties": {"a": "b"}})
    assert changed["entityVersion"] == 2
    assert (await office.call("DELETE", path)).status == 204
    assert (await office.call("GET", path)).error == (404, "NotFoundException")
    assert (await office.call("GET", "/catalogs/ghost/catalog-roles")).error == (404, "NoSuchWarehouseException")


async def test_catalog_role_is_given_to_principal_roles(office: Office) -> None:
    await office.role("engineer")
    await office.catalog_role("reader")
    path = "/principal-roles/engineer/catalog-roles/lake"
    assert (await office.call("PUT", path, {"catalogRole": {"name": "reader"}})).status == 201
    assert [role["name"] for role in (await office.done("GET", path))["roles"]] == ["reader"]
    holders = await office.done("GET", "/catalogs/lake/catalog-roles/reader/principal-roles")
    assert [role["name"] for role in holders["roles"]] == ["engineer"]
    assert (await office.call("DELETE", f"{path}/reader")).status == 204
    assert (await office.call("DELETE", f"{path}/reader")).error == (404, "NotFoundException")
    assert await office.done("GET", path) == {"roles": []}


@pytest.mark.parametrize("name", ["service_admin", "ALL", "a b", "a*", "", "system$a", "x" * 257])
async def test_principal_role_has_a_name_of_its_own(office: Office, name: str) -> None:
    answer = await office.call("POST", "/principal-roles", {"principalRole": {"name": name}})
    assert answer.status == (409 if name == "service_admin" else 400)


async def test_roles_that_administer_stay(office: Office) -> None:
    for path in ("/principal-roles/service_admin", "/catalogs/lake/catalog-roles/catalog_admin"):
        assert (await office.call("DELETE", path)).error == (400, "BadRequestException")


async def test_nobody_is_given_a_federated_role(office: Office) -> None:
    made = await office.done("POST", "/principal-roles", {"principalRole": {"name": "guests", "federated": True}})
    assert made["federated"] is True
    await office.principal("ann")
    given = await office.call("PUT", "/principals/ann/principal-roles", {"principalRole": {"name": "guests"}})
    assert given.error == (400, "BadRequestException")


async def test_names_come_escaped_in_paths(office: Office) -> None:
    made = await office.call("POST", "/catalogs/lake/catalog-roles", {"catalogRole": {"name": "rôle 1"}})
    assert made.status == 201
    assert (await office.done("GET", "/catalogs/lake/catalog-roles/r%C3%B4le%201"))["name"] == "rôle 1"
    assert (await office.call("GET", "/principal-roles/a%2Fb")).error == (404, "NotFoundException")
    assert (await office.call("GET", "/principal-roles/a%00b")).error == (400, "BadRequestException")


async def test_catalogs_are_shown(office: Office) -> None:
    shown = {
        "type": "INTERNAL",
        "name": "lake",
        "properties": {"default-base-location": "s3://lake/"},
        "createTimestamp": office.lake.clock.now_ms(),
        "lastUpdateTimestamp": office.lake.clock.now_ms(),
        "entityVersion": 1,
        "storageConfigInfo": {"storageType": "S3", "allowedLocations": ["s3://lake/"], "region": "us-east-1"},
    }
    assert await office.done("GET", "/catalogs/lake") == shown
    assert await office.done("GET", "/catalogs") == {"catalogs": [shown]}
    assert (await office.call("GET", "/catalogs/ghost")).error == (404, "NoSuchWarehouseException")


async def test_methods_and_paths_that_are_not_served_are_told(office: Office) -> None:
    assert (await office.call("PUT", "/catalogs", {})).status == 405
    assert (await office.call("POST", "/catalogs/lake")).status == 405
    assert (await office.call("GET", "/nothing")).status == 404
