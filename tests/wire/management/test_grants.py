from __future__ import annotations

import json
from typing import Any

import pytest

from .office import GRANTS, Office

TABLE = {"type": "table", "namespace": ["ns"], "tableName": "t", "privilege": "TABLE_READ_DATA"}
VIEW = {"type": "view", "namespace": ["ns"], "viewName": "v", "privilege": "VIEW_LIST"}
NAMESPACE = {"type": "namespace", "namespace": ["ns"], "privilege": "TABLE_LIST"}
CATALOG = {"type": "catalog", "privilege": "CATALOG_MANAGE_CONTENT"}
POLICY = {"type": "policy", "namespace": ["ns"], "policyName": "p", "privilege": "POLICY_ATTACH"}


async def test_grants_are_added_listed_and_revoked(office: Office) -> None:
    await office.catalog_role("reader")
    policy = {"name": "p", "type": "system.data-compaction", "content": '{"enable": true}'}
    await office.lake.send("POST", "/polaris/v1/lake/namespaces/ns/policies", json.dumps(policy).encode())
    every: list[dict[str, Any]] = [TABLE, VIEW, NAMESPACE, CATALOG, POLICY]
    for grant in every:
        added = await office.call("PUT", GRANTS, {"grant": grant})
        assert (added.status, added.body) == (201, b"")
    listed = (await office.done("GET", GRANTS))["grants"]
    assert sorted(listed, key=str) == sorted(every, key=str)
    for grant in every:
        assert (await office.call("POST", GRANTS, {"grant": grant})).status == 201
        assert (await office.call("POST", GRANTS, {"grant": grant})).error == (404, "NoSuchResourceException")
    assert await office.done("GET", GRANTS) == {"grants": []}


async def test_cascade_revokes_inside(office: Office) -> None:
    await office.catalog_role("reader")
    for grant in ({**CATALOG, "privilege": "TABLE_LIST"}, NAMESPACE, {**TABLE, "privilege": "TABLE_LIST"}):
        await office.done("PUT", GRANTS, {"grant": grant})
    await office.done("POST", GRANTS + "?cascade=true", {"grant": NAMESPACE})
    assert [grant["type"] for grant in (await office.done("GET", GRANTS))["grants"]] == ["catalog"]
    assert (await office.call("POST", GRANTS + "?cascade=perhaps", {"grant": CATALOG})).status == 400


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
async def test_bad_grant_is_told(office: Office, grant: dict[str, Any]) -> None:
    await office.catalog_role("reader")
    for method in ("PUT", "POST"):
        answer = await office.call(method, GRANTS, {"grant": grant})
        # What no role can hold is not revoked either: it is not there.
        is_unheld = method == "POST" and grant.get("privilege") in ("TABLE_CREATE", "SERVICE_MANAGE_ACCESS")
        assert answer.status == (404 if is_unheld else 400), answer


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
async def test_what_is_not_there_cannot_be_granted_on(office: Office, grant: dict[str, Any], kind: str) -> None:
    await office.catalog_role("reader")
    assert (await office.call("PUT", GRANTS, {"grant": grant})).error == (404, kind)


async def test_who_manages_access_to_the_catalog_grants_in_it_and_nowhere_else(office: Office) -> None:
    keys = await office.user_with_grant("warden", type="catalog", privilege="CATALOG_MANAGE_ACCESS")
    made = await office.call("POST", "/catalogs/lake/catalog-roles", {"catalogRole": {"name": "reader"}}, keys=keys)
    assert made.status == 201
    assert (await office.call("PUT", GRANTS, {"grant": TABLE}, keys=keys)).status == 201
    assert (await office.call("POST", GRANTS, {"grant": TABLE}, keys=keys)).status == 201
    await office.role("engineer")
    path = "/principal-roles/engineer/catalog-roles/lake"
    assert (await office.call("PUT", path, {"catalogRole": {"name": "reader"}}, keys=keys)).status == 201
    assert (await office.call("DELETE", f"{path}/reader", keys=keys)).status == 204
    # Principal roles are given to users by who manages access to the service.
    give = {"principalRole": {"name": "service_admin"}}
    assert (await office.call("PUT", "/principals/warden/principal-roles", give, keys=keys)).status == 403
    await office.lake.store.bucket("pond")
    await office.lake.call("PUT", "/buckets/pond")
    assert (await office.call("GET", "/catalogs/pond/catalog-roles", keys=keys)).error == (403, "ForbiddenException")


async def test_who_manages_access_to_a_namespace_grants_in_it_and_nowhere_else(office: Office) -> None:
    keys = await office.user_with_grant("warden", type="namespace", namespace=["ns"], privilege="CATALOG_MANAGE_ACCESS")
    await office.catalog_role("reader")
    assert (await office.call("PUT", GRANTS, {"grant": TABLE}, keys=keys)).status == 201
    assert (await office.call("PUT", GRANTS, {"grant": NAMESPACE}, keys=keys)).status == 201
    assert (await office.call("PUT", GRANTS, {"grant": CATALOG}, keys=keys)).error == (403, "ForbiddenException")
    # Taking away is asked about the role as well, which is the catalog's.
    assert (await office.call("POST", GRANTS, {"grant": TABLE}, keys=keys)).error == (403, "ForbiddenException")
    # A namespace whose name begins alike is another one.
    await office.lake.call("POST", "/lake/namespaces", {"namespace": ["ns1"]})
    beside = {**NAMESPACE, "namespace": ["ns1"]}
    assert (await office.call("PUT", GRANTS, {"grant": beside}, keys=keys)).error == (403, "ForbiddenException")
    # What is not there is not told to who may not know.
    ghost = {**NAMESPACE, "namespace": ["ghost"]}
    assert (await office.call("PUT", GRANTS, {"grant": ghost}, keys=keys)).error == (403, "ForbiddenException")


async def test_who_loses_a_right_loses_it_with_the_next_request(office: Office) -> None:
    keys = await office.user_with_grant("warden", type="catalog", privilege="CATALOG_MANAGE_ACCESS")
    path = "/catalogs/lake/catalog-roles"
    assert (await office.call("GET", path, keys=keys)).status == 200
    await office.done("DELETE", "/principals/warden/principal-roles/warden")
    assert (await office.call("GET", path, keys=keys)).error == (403, "ForbiddenException")
    await office.give("warden", "warden")
    assert (await office.call("GET", path, keys=keys)).status == 200
    await office.done("DELETE", "/catalogs/lake/catalog-roles/warden")
    assert (await office.call("GET", path, keys=keys)).error == (403, "ForbiddenException")


async def test_grants_go_with_a_dropped_table_and_stay_with_a_renamed_one(office: Office) -> None:
    await office.catalog_role("reader")
    await office.done("PUT", GRANTS, {"grant": TABLE})
    renamed = {"source": {"namespace": ["ns"], "name": "t"}, "destination": {"namespace": ["ns"], "name": "u"}}
    assert (await office.lake.call("POST", "/lake/tables/rename", renamed)).status == 204
    assert (await office.done("GET", GRANTS))["grants"] == [{**TABLE, "tableName": "u"}]
    assert (await office.lake.call("DELETE", "/lake/namespaces/ns/tables/u")).status == 204
    assert (await office.done("GET", GRANTS))["grants"] == []
