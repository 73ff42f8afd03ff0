from __future__ import annotations

from typing import Any

import pytest

from tests.wire.iceberg.lake import allow

from .policy_lake import PolicyLake

RETENTION: dict[str, Any] = {
    "type": "object",
    "required": ["days"],
    "properties": {"days": {"type": "integer", "minimum": 1}},
}
DOCUMENT: dict[str, Any] = {
    "name": "user.retention",
    "description": "how long",
    "schema": RETENTION,
    "inheritable": False,
    "targets": ["view", "table"],
}
ONE = "/policy-types/user.retention"


async def test_policy_type_is_created_used_and_dropped(policies: PolicyLake) -> None:
    created = await policies.call("POST", "/policy-types", DOCUMENT)
    expected = {
        "policy-type": {
            "name": "user.retention",
            "description": "how long",
            "inheritable": False,
            "targets": ["table", "view"],
            "system": False,
            "schema": RETENTION,
            "created-at-ms": policies.lake.clock.now_ms(),
        }
    }
    assert (created.status, created.document) == (200, expected)
    assert (await policies.call("GET", ONE, base="/api/catalog")).document == expected
    assert (await policies.call("POST", "/policy-types", DOCUMENT)).error == (409, "AlreadyExistsException")
    refused = await policies.create(kind="user.retention", content='{"days": 0}')
    assert refused.error == (400, "InvalidPolicyException")
    assert refused.document["error"]["message"].startswith("$.days: ")
    policy = (await policies.create(kind="user.retention", content='{"days": 3}')).document["policy"]
    assert (policy["policy-type"], policy["inheritable"]) == ("user.retention", False)
    assert (await policies.call("DELETE", ONE)).error == (400, "PolicyInUseException")
    await policies.call("DELETE", "/namespaces/ns/policies/p")
    assert (await policies.call("DELETE", ONE)).status == 204
    for method in ("GET", "DELETE"):
        assert (await policies.call(method, ONE)).error == (404, "NoSuchPolicyTypeException")


async def test_predefined_types_are_listed_and_cannot_be_dropped(policies: PolicyLake) -> None:
    listed = (await policies.call("GET", "/policy-types")).document["policy-types"]
    assert [one["name"] for one in listed] == [
        "lakebed.column-mask",
        "lakebed.row-filter",
        "system.data-compaction",
        "system.metadata-compaction",
        "system.orphan-file-removal",
        "system.snapshot-expiry",
    ]
    for one in listed:
        version = "2026-11-01" if one["name"].startswith("lakebed.") else "2025-02-03"
        assert (one["system"], one["inheritable"], one["content-version"]) == (True, True, version)
        assert (await policies.call("GET", f"/policy-types/{one['name']}")).document["policy-type"] == one
        assert (await policies.call("DELETE", f"/policy-types/{one['name']}")).error == (400, "PolicyInUseException")
    assert listed[2]["config"]["target_file_size_bytes"] == "a whole number from 1"
    assert listed[1]["schema"]["required"] == ["enable", "restricts", "filter"]


async def test_types_are_paged(policies: PolicyLake) -> None:
    await policies.call("POST", "/policy-types", DOCUMENT)
    names = [one["name"] for one in await policies.pages("/policy-types", "policy-types")]
    assert len(names) == 7
    assert names == sorted(names)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"name": "system.mine"}, "BadRequestException", "names of policy types that begin"),
        ({"name": "a b"}, "BadRequestException", "the name of a policy type"),
        ({"targets": []}, "BadRequestException", "a policy type requires"),
        ({"targets": ["branch"]}, "BadRequestException", "the request document"),
        ({"schema": "object"}, "BadRequestException", "the request document"),
        ({"more": 1}, "BadRequestException", "the request document"),
        ({"schema": {"type": "record"}}, "InvalidPolicyException", "$.schema.type: "),
        ({"schema": {"$ref": "https://example.com/"}}, "InvalidPolicyException", "$.schema['$ref']: "),
    ],
)
async def test_invalid_types_are_refused(
    policies: PolicyLake, change: dict[str, Any], error: str, message: str
) -> None:
    refused = await policies.call("POST", "/policy-types", DOCUMENT | change)
    assert refused.error == (400, error)
    assert refused.document["error"]["message"].startswith(message)
    assert len((await policies.call("GET", "/policy-types")).document["policy-types"]) == 6


async def test_types_require_permissions(policies: PolicyLake) -> None:
    reader = await policies.lake.user("reader", allow("lakebed:ListPolicies", "lakebed:CreatePolicy"))
    assert (await policies.call("GET", "/policy-types", keys=reader)).status == 200
    assert (await policies.call("POST", "/policy-types", DOCUMENT, keys=reader)).error == (403, "ForbiddenException")
    await policies.call("POST", "/policy-types", DOCUMENT)
    assert (await policies.call("DELETE", ONE, keys=reader)).error == (403, "ForbiddenException")
