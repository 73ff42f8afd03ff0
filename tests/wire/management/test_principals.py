from __future__ import annotations

import pytest

from tests.wire.iceberg.lake import allow

from .management_client import ManagementClient


async def test_principal_is_created_returned_updated_and_deleted(management: ManagementClient) -> None:
    created = await management.call(
        "POST", "/principals", {"principal": {"name": "ann", "properties": {"team": "data"}}}
    )
    assert created.status == 201
    principal, credentials = created.document["principal"], created.document["credentials"]
    now_ms = management.lake.clock.now_ms()
    assert principal == {
        "name": "ann",
        "clientId": credentials["clientId"],
        "properties": {"team": "data"},
        "entityVersion": 1,
        "createTimestamp": now_ms,
        "lastUpdateTimestamp": now_ms,
    }
    assert len(credentials["clientSecret"]) == 32
    assert await management.call_ok("GET", "/principals/ann") == principal
    listed = await management.call_ok("GET", "/principals")
    assert [each["name"] for each in listed["principals"]] == ["ann", "root"]
    changed = await management.call_ok("PUT", "/principals/ann", {"currentEntityVersion": 1, "properties": {"a": "b"}})
    assert (changed["properties"], changed["entityVersion"]) == ({"a": "b"}, 2)
    deleted = await management.call("DELETE", "/principals/ann")
    assert (deleted.status, deleted.body) == (204, b"")
    assert (await management.call("GET", "/principals/ann")).error == (404, "NotFoundException")


async def test_client_secret_is_returned_only_at_creation(management: ManagementClient) -> None:
    secret = (await management.principal("ann"))["credentials"]["clientSecret"]
    for path in ("/principals", "/principals/ann"):
        assert secret.encode() not in (await management.call("GET", path)).body


async def test_credentials_are_rotated_and_reset(management: ManagementClient) -> None:
    created = (await management.principal("ann"))["credentials"]
    rotated = (await management.call_ok("POST", "/principals/ann/rotate"))["credentials"]
    assert rotated["clientId"] == created["clientId"]
    assert rotated["clientSecret"] != created["clientSecret"]
    reset = (await management.call_ok("POST", "/principals/ann/reset"))["credentials"]
    assert reset["clientSecret"] not in (created["clientSecret"], rotated["clientSecret"])
    chosen = {"clientId": "ann-client", "clientSecret": "a-secret-of-anns"}
    answer = await management.call_ok("POST", "/principals/ann/reset", chosen)
    assert (answer["credentials"], answer["principal"]["clientId"]) == (chosen, "ann-client")
    await management.principal("bob")
    taken = await management.call("POST", "/principals/bob/reset", {"clientId": "ann-client"})
    assert taken.error == (409, "AlreadyExistsException")


async def test_creation_can_require_a_rotation(management: ManagementClient) -> None:
    for name, required in (("ann", True), ("bob", False), ("eve", None)):
        body = {"principal": {"name": name}, "credentialRotationRequired": required}
        assert (await management.call("POST", "/principals", body)).status == 201
    rows = await management.lake.store.meta.rows(
        "SELECT p.name, c.rotate_only FROM principals p JOIN client_credentials c ON c.user_id = p.user_id ORDER BY 1"
    )
    assert rows == [("ann", 1), ("bob", None), ("eve", None)]


async def test_update_of_a_stale_version_is_a_conflict(management: ManagementClient) -> None:
    await management.principal("ann")
    await management.role("engineer")
    await management.catalog_role("reader")
    stale = {"currentEntityVersion": 7, "properties": {}}
    for path in ("/principals/ann", "/principal-roles/engineer", "/catalogs/lake/catalog-roles/reader"):
        assert (await management.call("PUT", path, stale)).error == (409, "CommitFailedException")


async def test_root_is_listed_and_cannot_be_changed(management: ManagementClient) -> None:
    root = await management.call_ok("GET", "/principals/root")
    assert (root["name"], root["clientId"]) == ("root", "ROOTKEY")
    change = {"currentEntityVersion": 1, "properties": {}}
    assert (await management.call("PUT", "/principals/root", change)).error == (400, "BadRequestException")
    assert (await management.call("DELETE", "/principals/root")).error == (400, "BadRequestException")
    assert (await management.call("POST", "/principals/root/rotate")).error == (400, "BadRequestException")


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"principal": {}},
        {"principal": {"name": ""}},
        {"principal": {"name": 7}},
        {"principal": {"name": "a/b"}},
        {"principal": {"name": "root"}},
        {"principal": {"name": "system$x"}},
        {"principal": {"name": "ann", "properties": {"a": 1}}},
        {"principal": {"name": "ann", "properties": {"": "x"}}},
        [],
        "x",
    ],
)
async def test_invalid_principals_are_refused(management: ManagementClient, document: object) -> None:
    assert (await management.call("POST", "/principals", document)).error == (400, "BadRequestException")


async def test_duplicate_name_is_a_conflict(management: ManagementClient) -> None:
    await management.principal("ann")
    duplicate = await management.call("POST", "/principals", {"principal": {"name": "ann"}})
    assert duplicate.error == (409, "AlreadyExistsException")


async def test_principal_roles_are_assigned_listed_and_revoked(management: ManagementClient) -> None:
    await management.principal("ann")
    await management.role("engineer")
    path = "/principals/ann/principal-roles"
    assigned = await management.call("PUT", path, {"principalRole": {"name": "engineer"}})
    assert (assigned.status, assigned.body) == (201, b"")
    assert [role["name"] for role in (await management.call_ok("GET", path))["roles"]] == ["engineer"]
    holders = await management.call_ok("GET", "/principal-roles/engineer/principals")
    assert [principal["name"] for principal in holders["principals"]] == ["ann"]
    assert (await management.call("DELETE", f"{path}/engineer")).status == 204
    assert (await management.call("DELETE", f"{path}/engineer")).error == (404, "NotFoundException")
    assert (await management.call_ok("GET", path)) == {"roles": []}
    assert (await management.call("PUT", path, {"principalRole": {"name": "ghost"}})).error == (
        404,
        "NotFoundException",
    )
    assert (await management.call("PUT", path, {})).error == (400, "BadRequestException")


async def test_service_admin_manages_principals_and_roles(management: ManagementClient) -> None:
    admin = await management.principal_with_role("admin", "service_admin")
    assert (await management.call("POST", "/principals", {"principal": {"name": "ann"}}, keys=admin)).status == 201
    assert (await management.call("GET", "/principals", keys=admin)).status == 200
    assert (
        await management.call("POST", "/principal-roles", {"principalRole": {"name": "r"}}, keys=admin)
    ).status == 201
    # With the catalog_admin role, which service_admin has.
    assert (await management.call("GET", "/catalogs/lake/catalog-roles", keys=admin)).status == 200
    # Only root can get the credentials of other principals.
    assert (await management.call("POST", "/principals/ann/reset", keys=admin)).error == (403, "ForbiddenException")
    assert (await management.call("POST", "/principals/ann/rotate", keys=admin)).error == (403, "ForbiddenException")
    assert (await management.call("POST", "/principals/admin/rotate", keys=admin)).status == 200


async def test_principal_without_privileges_is_denied_everything(management: ManagementClient) -> None:
    keys = await management.lake.user("ann")
    await management.principal("bob")
    for method, path, document in (
        ("GET", "/principals", None),
        ("GET", "/principals/bob", None),
        ("GET", "/principals/ghost", None),
        ("DELETE", "/principals/bob", None),
        ("DELETE", "/principals/ghost", None),
        ("POST", "/principals", {"principal": {"name": "eve"}}),
        ("PUT", "/principals/ann/principal-roles", {"principalRole": {"name": "service_admin"}}),
        ("POST", "/principals/bob/rotate", None),
        ("POST", "/principals/bob/reset", None),
        ("GET", "/principal-roles", None),
        ("POST", "/principal-roles", {"principalRole": {"name": "r"}}),
        ("GET", "/catalogs", None),
        ("GET", "/catalogs/lake", None),
        ("GET", "/catalogs/lake/catalog-roles", None),
    ):
        answer = await management.call(method, path, document, keys=keys)
        assert answer.error == (403, "ForbiddenException"), (method, path)


async def test_user_policy_allows_single_operations(management: ManagementClient) -> None:
    keys = await management.lake.user("ann", allow("lakebed:ListPrincipals", "lakebed:GetCatalog"))
    assert (await management.call("GET", "/principals", keys=keys)).status == 200
    assert (await management.call("GET", "/catalogs/lake", keys=keys)).status == 200
    assert (await management.call("GET", "/principal-roles", keys=keys)).status == 403


async def test_deny_statement_applies_to_administrators(management: ManagementClient) -> None:
    admin = await management.principal_with_role("admin", "service_admin")
    deny = b'{"Version":"2012-10-17","Statement":[{"Effect":"Deny","Action":"lakebed:Delete*","Resource":"*"}]}'
    await management.lake.principals.put_policy("admin", "no-deletes", deny)
    await management.principal("ann")
    assert (await management.call("DELETE", "/principals/ann", keys=admin)).error == (403, "ForbiddenException")
    assert (await management.call("GET", "/principals/ann", keys=admin)).status == 200


async def test_unsigned_request_is_refused(management: ManagementClient) -> None:
    assert (await management.call("GET", "/principals", keys=None)).error == (401, "NotAuthorizedException")
