"""Requests repeated with their Idempotency-Key get the same response, without a second effect."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from lakebed.wire.polaris.operations import polaris_routes

from .policy_lake import CATALOG, COMPACTION, NAMESPACE, OFF, ON, PolicyLake

ONE = "/namespaces/ns/policies/p"
GENERIC = "/namespaces/ns/generic-tables"
REQUESTS: dict[str, tuple[str, str, Any]] = {
    "createPolicy": ("POST", "/namespaces/ns/policies", {"name": "new", "type": COMPACTION, "content": ON}),
    "updatePolicy": ("PUT", ONE, {"content": OFF, "current-policy-version": 0}),
    "patchPolicy": ("PATCH", ONE, {"content": OFF, "current-policy-version": 0}),
    "dropPolicy": ("DELETE", f"{ONE}?detach-all=true", None),
    "attachPolicy": ("PUT", f"{ONE}/mappings", {"target": NAMESPACE}),
    "detachPolicy": ("POST", f"{ONE}/mappings", {"target": CATALOG}),
    "createPolicyType": ("POST", "/policy-types", {"name": "user.new", "schema": {}}),
    "dropPolicyType": ("DELETE", "/policy-types/user.old", None),
    "createGenericTable": ("POST", GENERIC, {"name": "g", "format": "delta", "base-location": "s3://lake/g"}),
    "dropGenericTable": ("DELETE", f"{GENERIC}/old", None),
}


def test_all_changing_routes_are_tested() -> None:
    assert REQUESTS.keys() == {route.name for route in polaris_routes().routes if route.changes}


@pytest.mark.parametrize("operation", REQUESTS)
async def test_repeated_request_gets_the_same_response_without_effect(policies: PolicyLake, operation: str) -> None:
    await policies.create()
    await policies.attach(CATALOG)
    await policies.call("POST", "/policy-types", {"name": "user.old", "schema": {}})
    await policies.call("POST", GENERIC, {"name": "old", "format": "csv"})
    method, path, document = REQUESTS[operation]
    outbox, meta = policies.lake.store.object_context.outbox, policies.lake.store.meta
    key = str(uuid4())
    first = await policies.call(method, path, document, idempotency_key=key)
    assert first.status in (200, 204), first
    before = await outbox.last_seq(meta)
    repeated = await policies.call(method, path, document, idempotency_key=key)
    assert (repeated.status, repeated.body) == (first.status, first.body)
    assert await outbox.last_seq(meta) == before
