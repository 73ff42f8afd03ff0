from __future__ import annotations

import pytest

from tests.wire.iceberg.lake import allow

from .office import Office


async def test_user_s_life(office: Office) -> None:
    made = await office.call("POST", "/principals", {"principal": {"name": "ann", "properties": {"team": "data"}}})
    assert made.status == 201
    principal, credentials = made.document["principal"], made.document["credentials"]
    now_ms = office.lake.clock.now_ms()
    assert principal == {
        "name": "ann",
        "clientId": credentials["clientId"],
        "properties": {"team": "data"},
        "entityVersion": 1,
        "createTimestamp": now_ms,
        "lastUpdateTimestamp": now_ms,
    }
    assert len(credentials["clientSecret"]) == 32
    assert await office.done("GET", "/principals/ann") == principal
    listed = await office.done("GET", "/principals")
    assert [each["name"] for each in listed["principals"]] == ["ann", "root"]
    changed = await office.done("PUT", "/principals/ann", {"currentEntityVersion": 1, "properties": {"a": "b"}})
    assert (changed["properties"], changed["entityVersion"]) == ({"a": "b"}, 2)
    deleted = await office.call("DELETE", "/principals/ann")
    assert (deleted.status, deleted.body) == (204, b"")
    assert (await office.call("GET", "/principals/ann")).error == (404, "NotFoundException")


async def test_secret_is_shown_when_it_is_made_and_never_again(office: Office) -> None:
    secret = (await office.principal("ann"))["credentials"]["clientSecret"]
    for path in ("/principals", "/principals/ann"):
        assert secret.encode() not in (await office.call("GET", path)).body


async def test_credentials_are_rotated_and_reset(office: Office) -> None:
    made = (await office.principal("ann"))["credentials"]
    rotated = (await office.done("POST", "/principals/ann/rotate"))["credentials"]
    assert rotated["clientId"] == made["clientId"]
    assert rotated["clientSecret"] != made["clientSecret"]
    reset = (await office.done("POST", "/principals/ann/reset"))["credentials"]
    assert reset["clientSecret"] not in (made["clientSecret"], rotated["clientSecret"])
    chosen = {"clientId": "ann-client", "clientSecret": "a-secret-of-anns"}
    answer = await office.done("POST", "/principals/ann/reset", chosen)
    assert (answer["credentials"], answer["principal"]["clientId"]) == (chosen, "ann-client")
    await office.principal("bob")
    taken = await office.call("POST", "/principals/bob/reset", {"clientId": "ann-client"})
    assert taken.error == (409, "AlreadyExistsException")


async def test_credentials_may_have_to_be_rotated(office: Office) -> None:
    for name, required in (("ann", True), ("bob", False), ("eve", None)):
        asked = {"principal": {"name": name}, "credentialRotationRequired": required}
        assert (await office.call("POST", "/principals", asked)).status == 201
    rows = await office.lake.store.meta.rows(
        "SELECT p.name, c.rotate_only FROM principals p JOIN client_credentials c ON c.user_id = p.user_id ORDER BY 1"
    )
    assert rows == [("ann", 1), ("bob", None), ("eve", None)]


async def test_stale_change_is_a_conflict(office: Office) -> None:
    await office.principal("ann")
    await office.role("engineer")
    await office.catalog_role("reader")
    stale = {"currentEntityVersion": 7, "properties": {}}
    for path in ("/principals/ann", "/principal-roles/engineer", "/catalogs/lake/catalog-roles/reader"):
        assert (await office.call("PUT", path, stale)).error == (409, "CommitFailedException")


async def test_root_is_shown_and_left_as_it_is(office: Office) -> None:
    root = await office.done("GET", "/principals/root")
    assert (root["name"], root["clientId"]) == ("root", "ROOTKEY")
    change = {"currentEntityVersion": 1, "properties": {}}
    assert (await office.call("PUT", "/principals/root", change)).error == (400, "BadRequestException")
    assert (await office.call("DELETE", "/principals/root")).error == (400, "BadRequestException")
    assert (await office.call("POST", "/principals/root/rotate")).error == (400, "BadRequestException")


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
async def test_bad_request_is_told(office: Office, document: object) -> None:
    assert (await office.call("POST", "/principals", document)).error == (400, "BadRequestException")


async def test_second_user_of_a_name_is_a_conflict(office: Office) -> None:
    await office.principal("ann")
    again = await office.call("POST", "/principals", {"principal": {"name": "ann"}})
    assert again.error == (409, "AlreadyExistsException")


async def test_roles_of_a_user(office: Office) -> None:
    await office.principal("ann")
    await office.role("engineer")
    path = "/principals/ann/principal-roles"
    assigned = await office.call("PUT", path, {"principalRole": {"name": "engineer"}})
    assert (assigned.status, assigned.body) == (201, b"")
    assert [role["name"] for role in (await office.done("GET", path))["roles"]] == ["engineer"]
    holders = await office.done("GET", "/principal-roles/engineer/principals")
    assert [principal["name"] for principal in holders["principals"]] == ["ann"]
    assert (await office.call("DELETE", f"{path}/engineer")).status == 204
    assert (await office.call("DELETE", f"{path}/engineer")).error == (404, "NotFoundException")
    assert (await office.done("GET", path)) == {"roles": []}
    assert (await office.call("PUT", path, {"principalRole": {"name": "ghost"}})).error == (404, "NotFoundException")
    assert (await office.call("PUT", path, {})).error == (400, "BadRequestException")


async def test_service_admin_manages_users_and_roles_and_reads_no_data(office: Office) -> None:
    boss = await office.user_with("boss", "service_admin")
    assert (await office.call("POST", "/principals", {"principal": {"name": "ann"}}, keys=boss)).status == 201
    assert (await office.call("GET", "/principals", keys=boss)).status == 200
    assert (await office.call("POST", "/principal-roles", {"principalRole": {"name": "r"}}, keys=boss)).status == 201
    # By the role that administers the catalog, which service_admin has.
    assert (await office.call("GET", "/catalogs/lake/catalog-roles", keys=boss)).status == 200
    # Root alone can be anybody.
    assert (await office.call("POST", "/principals/ann/reset", keys=boss)).error == (403, "ForbiddenException")
    assert (await office.call("POST", "/principals/ann/rotate", keys=boss)).error == (403, "ForbiddenException")
    assert (await office.call("POST", "/principals/boss/rotate", keys=boss)).status == 200


async def test_user_without_rights_learns_nothing(office: Office) -> None:
    keys = await office.lake.user("ann")
    await office.principal("bob")
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
        answer = await office.call(method, path, document, keys=keys)
        assert answer.error == (403, "ForbiddenException"), (method, path)


async def test_policy_allows_operations_by_name(office: Office) -> None:
    keys = await office.lake.user("ann", allow("lakebed:ListPrincipals", "lakebed:GetCatalog"))
    assert (await office.call("GET", "/principals", keys=keys)).status == 200
    assert (await office.call("GET", "/catalogs/lake", keys=keys)).status == 200
    assert (await office.call("GET", "/principal-roles", keys=keys)).status == 403


async def test_denial_binds_administrators(office: Office) -> None:
    boss = await office.user_with("boss", "service_admin")
    deny = b'{"Version":"2012-10-17","Statement":[{"Effect":"Deny","Action":"lakebed:Delete*","Resource":"*"}]}'
    await office.lake.principals.put_policy("boss", "no-deletes", deny)
    await office.principal("ann")
    assert (await office.call("DELETE", "/principals/ann", keys=boss)).error == (403, "ForbiddenException")
    assert (await office.call("GET", "/principals/ann", keys=boss)).status == 200


async def test_caller_says_who_it_is(office: Office) -> None:
    assert (await office.call("GET", "/principals", keys=None)).error == (401, "NotAuthorizedException")
