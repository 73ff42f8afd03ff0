from __future__ import annotations

import json
from typing import Any

import pytest

from .management_client import GRANTS, ManagementClient

TABLE = {"type": "table", "namespace": ["ns"], "tableName": "t", "privilege": "TABLE_READ_DATA"}
VIEW = {"type": "view", "namespace": ["ns"], "viewName": "v", "privilege": "VIEW_LIST"}
NAMESPACE = {"type": "namespace", "namespace": ["ns"], "privilege": "TABLE_LIST"}
CATALOG = {"type": "catalog", "privilege": "CATALOG_MANAGE_CONTENT"}
POLICY = {"type": "policy", "namespace": ["ns"], "policyName": "p", "privilege": "POLICY_ATTACH"}


async def test_grants_are_added_listed_and_revoked(management: ManagementClient) -> None:
    await management.catalog_role("reader")
    policy = {"name": "p", "type": "system.data-compaction", "content": '{"enable": true}'}
    await management.lake.send("POST", "/polaris/v1/lake/namespaces/ns/policies", json.dumps(policy).encode())
    grants: list[dict[str, Any]] = [TABLE, VIEW, NAMESPACE, CATALOG, POLICY]
    for grant in grants:
        added = await management.call("PUT", GRANTS, {"grant": grant})
        assert (added.status, added.body) == (201, b"")
    listed = (await management.call_ok("GET", GRANTS))["grants"]
    assert sorted(listed, key=str) == sorted(grants, key=str)
    for grant in grants:
        assert (await management.call("POST", GRANTS, {"grant": grant})).status == 201
        assert (await management.call("POST", GRANTS, {"grant": grant})).error == (404, "NoSuchResourceException")
    assert await management.call_ok("GET", GRANTS) == {"grants": []}


async def test_cascade_revokes_grants_on_contained_securables(management: ManagementClient) -> None:
    await management.catalog_role("reader")
    for grant in ({**CATALOG, "privilege": "TABLE_LIST"}, NAMESPACE, {**TABLE, "privilege": "TABLE_LIST"}):
        await management.call_ok("PUT", GRANTS, {"grant": grant})
    await management.call_ok("POST", GRANTS + "?cascade=true", {"grant": NAMESPACE})
    assert [grant["type"] for grant in (await management.call_ok("GET", GRANTS))["grants"]] == ["catalog"]
    assert (await management.call("POST", GRANTS + "?cascade=perhaps", {"grant": CATALOG})).status == 400


@pytest.mark.parametrize(
    "grant",
    [
        {},
        {"type": "table"},
        {**TABLE, "privilege": "NOTHING"},
        {**TABLE, "privilege": "TABLE_CREATE"},
        {**TABLE, "privilege": "SERVICE_MANAGE_ACCESS"},
        {**TABLE, "type": "bucket"},
        {**TABLE, "tableName": None},
        {**TABLE, "tableName": ""},
        {**TABLE, "viewName": "v"},
        {**TABLE, "namespace": []},
        {**TABLE, "namespace": [""]},
        {**TABLE, "namespace": ["ns\x1fx"]},
        {**CATALOG, "namespace": ["ns"]},
        {**NAMESPACE, "tableName": "t"},
        {**NAMESPACE, "namespace": "ns"},
        {**TABLE, "tableName": "t\0"},
    ],
)
async def test_invalid_grants_are_refused(management: ManagementClient, grant: dict[str, Any]) -> None:
    await management.catalog_role("reader")
    for method in ("PUT", "POST"):
        answer = await management.call(method, GRANTS, {"grant": grant})
        # A revocation of a privilege that no role can have is not found.
        is_impossible = method == "POST" and grant.get("privilege") in ("TABLE_CREATE", "SERVICE_MANAGE_ACCESS")
        assert answer.status == (404 if is_impossible else 400), answer


@pytest.mark.parametrize(
    ("grant", "kind"),
    [
        ({**TABLE, "tableName": "ghost"}, "NoSuchTableException"),
        ({**TABLE, "tableName": "v"}, "NoSuchTableException"),
        ({**VIEW, "viewName": "t"}, "NoSuchViewException"),
        ({**NAMESPACE, "namespace": ["ghost"]}, "NoSuchNamespaceException"),
        ({**TABLE, "namespace": ["ns", "deeper"]}, "NoSuchNamespaceException"),
        (POLICY, "NoSuchPolicyException"),
    ],
)
async def test_grant_on_a_missing_securable_is_not_found(
    management: ManagementClient, grant: dict[str, Any], kind: str
) -> None:
    await management.catalog_role("reader")
    assert (await management.call("PUT", GRANTS, {"grant": grant})).error == (404, kind)


async def test_manage_access_on_a_catalog_allows_grants_in_that_catalog_only(management: ManagementClient) -> None:
    keys = await management.principal_with_grant("manager", type="catalog", privilege="CATALOG_MANAGE_ACCESS")
    created = await management.call(
        "POST", "/catalogs/lake/catalog-roles", {"catalogRole": {"name": "reader"}}, keys=keys
    )
    assert created.status == 201
    assert (await management.call("PUT", GRANTS, {"grant": TABLE}, keys=keys)).status == 201
    assert (await management.call("POST", GRANTS, {"grant": TABLE}, keys=keys)).status == 201
    await management.role("engineer")
    path = "/principal-roles/engineer/catalog-roles/lake"
    assert (await management.call("PUT", path, {"catalogRole": {"name": "reader"}}, keys=keys)).status == 201
    assert (await management.call("DELETE", f"{path}/reader", keys=keys)).status == 204
    # Assigning principal roles requires a privilege on the service.
    body = {"principalRole": {"name": "service_admin"}}
    assert (await management.call("PUT", "/principals/manager/principal-roles", body, keys=keys)).status == 403
    await management.lake.store.bucket("pond")
    await management.lake.call("PUT", "/buckets/pond")
    assert (await management.call("GET", "/catalogs/pond/catalog-roles", keys=keys)).error == (
        403,
        "ForbiddenException",
    )


async def test_manage_access_on_a_namespace_allows_grants_in_that_namespace_only(management: ManagementClient) -> None:
    keys = await management.principal_with_grant(
        "manager", type="namespace", namespace=["ns"], privilege="CATALOG_MANAGE_ACCESS"
    )
    await management.catalog_role("reader")
    assert (await management.call("PUT", GRANTS, {"grant": TABLE}, keys=keys)).status == 201
    assert (await management.call("PUT", GRANTS, {"grant": NAMESPACE}, keys=keys)).status == 201
    assert (await management.call("PUT", GRANTS, {"grant": CATALOG}, keys=keys)).error == (403, "ForbiddenException")
    # A revocation also requires a privilege on the role, which belongs to the catalog.
    assert (await management.call("POST", GRANTS, {"grant": TABLE}, keys=keys)).error == (403, "ForbiddenException")
    # The privilege does not cover a namespace with the same name prefix.
    await management.lake.call("POST", "/lake/namespaces", {"namespace": ["ns1"]})
    sibling = {**NAMESPACE, "namespace": ["ns1"]}
    assert (await management.call("PUT", GRANTS, {"grant": sibling}, keys=keys)).error == (403, "ForbiddenException")
    # A caller without the privilege does not learn whether a namespace exists.
    ghost = {**NAMESPACE, "namespace": ["ghost"]}
    assert (await management.call("PUT", GRANTS, {"grant": ghost}, keys=keys)).error == (403, "ForbiddenException")


async def test_revoked_roles_take_effect_with_the_next_request(management: ManagementClient) -> None:
    keys = await management.principal_with_grant("manager", type="catalog", privilege="CATALOG_MANAGE_ACCESS")
    path = "/catalogs/lake/catalog-roles"
    assert (await management.call("GET", path, keys=keys)).status == 200
    await management.call_ok("DELETE", "/principals/manager/principal-roles/manager")
    assert (await management.call("GET", path, keys=keys)).error == (403, "ForbiddenException")
    await management.assign("manager", "manager")
    assert (await management.call("GET", path, keys=keys)).status == 200
    await management.call_ok("DELETE", "/catalogs/lake/catalog-roles/manager")
    assert (await management.call("GET", path, keys=keys)).error == (403, "ForbiddenException")


async def test_grants_follow_a_renamed_table_and_end_with_a_dropped_one(management: ManagementClient) -> None:
    await management.catalog_role("reader")
    await management.call_ok("PUT", GRANTS, {"grant": TABLE})
    renamed = {"source": {"namespace": ["ns"], "name": "t"}, "destination": {"namespace": ["ns"], "name": "u"}}
    assert (await management.lake.call("POST", "/lake/tables/rename", renamed)).status == 204
    assert (await management.call_ok("GET", GRANTS))["grants"] == [{**TABLE, "tableName": "u"}]
    assert (await management.lake.call("DELETE", "/lake/namespaces/ns/tables/u")).status == 204
    assert (await management.call_ok("GET", GRANTS))["grants"] == []
