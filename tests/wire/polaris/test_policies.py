from __future__ import annotations

from typing import Any

import pytest

from lakebed.wire.polaris.operations import polaris_routes
from tests.wire.iceberg.lake import allow

from .policy_lake import BASES, CATALOG, COMPACTION, EXPIRY, OFF, ON, PolicyLake

ALL = "/namespaces/ns/policies"
ONE = "/namespaces/ns/policies/p"


@pytest.mark.parametrize("base", BASES)
async def test_policy_is_created_returned_updated_and_dropped_at_every_base(policies: PolicyLake, base: str) -> None:
    document = {"name": "p", "type": COMPACTION, "description": "daily", "content": ON}
    created = await policies.call("POST", ALL, document, base=base)
    expected = {
        "policy": {
            "policy-type": COMPACTION,
            "inheritable": True,
            "name": "p",
            "description": "daily",
            "content": ON,
            "version": 0,
        }
    }
    assert (created.status, created.document) == (200, expected)
    assert (await policies.call("GET", ONE, base=base)).document == expected
    listed = await policies.call("GET", ALL, base=base)
    assert listed.document == {"identifiers": [{"namespace": ["ns"], "name": "p"}], "next-page-token": None}
    changed = await policies.call("PUT", ONE, {"content": OFF, "current-policy-version": 0}, base=base)
    assert changed.status == 200
    assert changed.document["policy"] == {
        "policy-type": COMPACTION,
        "inheritable": True,
        "name": "p",
        "content": OFF,
        "version": 1,
    }
    dropped = await policies.call("DELETE", ONE, base=base)
    assert (dropped.status, dropped.body) == (204, b"")
    assert (await policies.call("GET", ONE, base=base)).error == (404, "NoSuchPolicyException")


async def test_configuration_lists_the_routes(policies: PolicyLake) -> None:
    endpoints = (await policies.lake.call("GET", "/config?warehouse=lake")).document["endpoints"]
    one = "/polaris/v1/{prefix}/namespaces/{namespace}/policies/{policy-name}"
    assert [endpoint for endpoint in endpoints if "/polaris/" in endpoint] == [
        "POST /polaris/v1/{prefix}/namespaces/{namespace}/policies",
        "GET /polaris/v1/{prefix}/namespaces/{namespace}/policies",
        f"GET {one}",
        f"PUT {one}",
        f"DELETE {one}",
        f"PUT {one}/mappings",
        f"POST {one}/mappings",
        "GET /polaris/v1/{prefix}/applicable-policies",
        "POST /polaris/v1/{prefix}/namespaces/{namespace}/generic-tables",
        "GET /polaris/v1/{prefix}/namespaces/{namespace}/generic-tables",
        "GET /polaris/v1/{prefix}/namespaces/{namespace}/generic-tables/{generic-table}",
        "DELETE /polaris/v1/{prefix}/namespaces/{namespace}/generic-tables/{generic-table}",
    ]
    assert "GET /v1/{prefix}/namespaces" in endpoints


async def test_routes_have_the_paths_of_the_specifications(policies: PolicyLake) -> None:
    assert (await policies.lake.send("GET", "/v1/lake/namespaces")).status == 200
    assert (await policies.lake.send("GET", "/polaris/v1/none")).error == (404, "NoSuchResourceException")
    assert (await policies.lake.send("GET", "/iceberg/v1/lake/applicable-policies")).status == 404
    assert (await policies.call("POST", ONE)).status == 405


@pytest.mark.parametrize(
    ("document", "error"),
    [
        ({"type": COMPACTION, "content": ON}, "BadRequestException"),
        ({"name": "p", "content": ON}, "BadRequestException"),
        ({"name": "p", "type": "system.nothing", "content": ON}, "BadRequestException"),
        ({"name": "p q", "type": COMPACTION, "content": ON}, "BadRequestException"),
        ({"name": "p", "type": COMPACTION, "content": {"enable": True}}, "BadRequestException"),
        ({"name": "p", "type": COMPACTION, "content": ON, "description": 5}, "BadRequestException"),
        ({"name": "p", "type": COMPACTION}, "InvalidPolicyException"),
        ({"name": "p", "type": COMPACTION, "content": None}, "InvalidPolicyException"),
        ({"name": "p", "type": COMPACTION, "content": ""}, "InvalidPolicyException"),
        ({"name": "p", "type": COMPACTION, "content": "{}"}, "InvalidPolicyException"),
    ],
)
async def test_invalid_policies_are_refused(policies: PolicyLake, document: Any, error: str) -> None:
    assert (await policies.call("POST", ALL, document)).error == (400, error)
    assert (await policies.call("GET", ALL)).document["identifiers"] == []


async def test_error_for_invalid_content_has_its_path(policies: PolicyLake) -> None:
    content = '{"enable": true, "config": {"target_file_size_bytes": "huge"}}'
    refused = await policies.create(content=content)
    assert refused.error == (400, "InvalidPolicyException")
    message = refused.document["error"]["message"]
    assert message == '$.config.target_file_size_bytes: must be a whole number from 1. found="huge"'


async def test_missing_namespaces_and_policies_are_not_found(policies: PolicyLake) -> None:
    await policies.create()
    assert (await policies.create()).error == (409, "AlreadyExistsException")
    missing_namespace = "/namespaces/none/policies"
    document = {"name": "p", "type": COMPACTION, "content": ON}
    assert (await policies.call("POST", missing_namespace, document)).error == (404, "NoSuchNamespaceException")
    assert (await policies.call("GET", missing_namespace)).error == (404, "NoSuchNamespaceException")
    for method, body in (("GET", None), ("PUT", {"content": ON, "current-policy-version": 0}), ("DELETE", None)):
        for path in (f"{ALL}/none", f"{missing_namespace}/p"):
            assert (await policies.call(method, path, body)).error == (404, "NoSuchPolicyException")
    missing = await policies.lake.send("GET", "/polaris/v1/none/namespaces/ns/policies")
    assert missing.error == (404, "NoSuchWarehouseException")


async def test_namespace_levels_are_separated_as_in_the_catalog_api(policies: PolicyLake) -> None:
    await policies.lake.call("POST", "/lake/namespaces", {"namespace": ["a", "b"]})
    path = "/namespaces/a%1Fb/policies"
    await policies.call("POST", path, {"name": "p", "type": COMPACTION, "content": ON})
    assert (await policies.call("GET", path)).document["identifiers"] == [{"namespace": ["a", "b"], "name": "p"}]


async def test_policies_are_paged_and_filtered_by_type(policies: PolicyLake) -> None:
    for number in range(5):
        await policies.create(f"p{number}", EXPIRY if number == 3 else COMPACTION)

    async def listed(query: str) -> list[str]:
        return [one["name"] for one in await policies.pages(f"{ALL}{query}", "identifiers")]

    assert await listed("") == ["p0", "p1", "p2", "p3", "p4"]
    assert await listed("?policyType=") == ["p0", "p1", "p2", "p3", "p4"]
    assert await listed(f"?policyType={COMPACTION}") == ["p0", "p1", "p2", "p4"]
    assert await listed(f"?policyType={EXPIRY}") == ["p3"]
    assert len((await policies.call("GET", ALL)).document["identifiers"]) == 5
    unknown = await policies.call("GET", f"{ALL}?policyType=system.nothing")
    assert unknown.error == (400, "BadRequestException")
    token = (await policies.call("GET", f"{ALL}?pageSize=2&pageToken=")).document["next-page-token"]
    foreign = await policies.call("GET", f"{ALL}?pageToken={token}&policyType={EXPIRY}")
    assert foreign.error == (400, "BadRequestException")


async def test_update_requires_the_current_version(policies: PolicyLake) -> None:
    await policies.create()
    same = await policies.call("PUT", ONE, {"content": ON, "current-policy-version": 0})
    assert (same.status, same.document["policy"]["version"]) == (200, 0)
    await policies.call("PUT", ONE, {"content": OFF, "current-policy-version": 0})
    stale = await policies.call("PUT", ONE, {"content": ON, "current-policy-version": 0})
    assert stale.error == (409, "PolicyVersionMismatchException")
    for document, error in (
        ({"content": ON}, "BadRequestException"),
        ({"content": ON, "current-policy-version": "1"}, "BadRequestException"),
        ({"current-policy-version": 1}, "InvalidPolicyException"),
        ({"content": '{"enable": 1}', "current-policy-version": 1}, "InvalidPolicyException"),
    ):
        assert (await policies.call("PUT", ONE, document)).error == (400, error)
    assert (await policies.call("GET", ONE)).document["policy"]["version"] == 1


async def test_patch_changes_only_the_given_fields(policies: PolicyLake) -> None:
    await policies.create(description="daily")
    changed = await policies.call("PATCH", ONE, {"content": OFF, "current-policy-version": 0})
    assert changed.status == 200
    assert (
        changed.document["policy"] | {"content": OFF, "description": "daily", "version": 1}
        == changed.document["policy"]
    )
    changed = await policies.call("PATCH", ONE, {"description": "weekly", "current-policy-version": 1})
    assert (changed.document["policy"]["content"], changed.document["policy"]["description"]) == (OFF, "weekly")
    cleared = await policies.call("PATCH", ONE, {"description": None, "current-policy-version": 2})
    assert "description" not in cleared.document["policy"]
    same = await policies.call("PATCH", ONE, {"current-policy-version": 3})
    assert (same.status, same.document["policy"]["version"]) == (200, 3)
    stale = await policies.call("PATCH", ONE, {"content": ON, "current-policy-version": 2})
    assert stale.error == (409, "PolicyVersionMismatchException")
    for document, error in (
        ({"content": ON}, "BadRequestException"),
        ({"content": 5, "current-policy-version": 3}, "BadRequestException"),
        ({"content": None, "current-policy-version": 3}, "InvalidPolicyException"),
        ({"content": '{"enable": 1}', "current-policy-version": 3}, "InvalidPolicyException"),
    ):
        assert (await policies.call("PATCH", ONE, document)).error == (400, error)
    assert (await policies.call("GET", ONE)).document == same.document


async def test_policy_in_use_is_dropped_only_with_detach_all(policies: PolicyLake) -> None:
    await policies.create()
    await policies.attach(CATALOG)
    for query in ("", "?detach-all=false"):
        assert (await policies.call("DELETE", ONE + query)).error == (400, "PolicyInUseException")
    assert (await policies.call("DELETE", ONE + "?detach-all=perhaps")).error == (400, "BadRequestException")
    assert (await policies.call("DELETE", ONE + "?detach-all=true")).status == 204
    assert await policies.applicable() == []


async def test_policies_require_permissions(policies: PolicyLake) -> None:
    await policies.create()
    reader = await policies.lake.user("reader", allow("s3tables:*", "lakebed:ReadPolicy"))
    assert (await policies.call("GET", ONE, keys=reader)).status == 200
    for method, path, document in (
        ("POST", ALL, {"name": "q", "type": COMPACTION, "content": ON}),
        ("GET", ALL, None),
        ("PUT", ONE, {"content": OFF, "current-policy-version": 0}),
        ("PATCH", ONE, {"content": OFF, "current-policy-version": 0}),
        ("DELETE", ONE, None),
        ("PUT", f"{ONE}/mappings", {"target": CATALOG}),
        ("POST", f"{ONE}/mappings", {"target": CATALOG}),
    ):
        assert (await policies.call(method, path, document, keys=reader)).error == (403, "ForbiddenException")
    unsigned = await policies.lake.send("GET", "/polaris/v1/lake/namespaces/ns/policies", keys=None)
    assert unsigned.error == (401, "NotAuthorizedException")


def test_standard_routes_are_those_of_the_specifications() -> None:
    assert {route.name for route in polaris_routes().routes if route.is_standard} == {
        "createPolicy",
        "listPolicies",
        "loadPolicy",
        "updatePolicy",
        "dropPolicy",
        "attachPolicy",
        "detachPolicy",
        "getApplicablePolicies",
        "createGenericTable",
        "listGenericTables",
        "loadGenericTable",
        "dropGenericTable",
    }
