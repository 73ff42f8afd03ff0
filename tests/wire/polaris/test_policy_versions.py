from __future__ import annotations

from tests.wire.iceberg.lake import allow

from .policy_lake import COMPACTION, OFF, ON, PolicyLake

ONE = "/namespaces/ns/policies/p"


async def create_with_changes(policies: PolicyLake, times: int) -> None:
    """Create a policy and change it so many times."""
    await policies.create(description="first")
    for version in range(times):
        document = {"content": ON if version % 2 else OFF, "current-policy-version": version}
        assert (await policies.call("PUT", ONE, document)).status == 200


async def test_versions_are_listed_the_latest_first(policies: PolicyLake) -> None:
    await create_with_changes(policies, 2)
    now_ms = policies.lake.clock.now_ms()
    answer = await policies.call("GET", f"{ONE}/versions")
    assert answer.document == {
        "versions": [
            {"version": 2, "created-at-ms": now_ms, "created-by": "root"},
            {"version": 1, "created-at-ms": now_ms, "created-by": "root"},
            {"version": 0, "created-at-ms": now_ms, "created-by": "root", "description": "first"},
        ],
        "next-page-token": None,
    }


async def test_version_has_the_policy_at_that_time(policies: PolicyLake) -> None:
    await create_with_changes(policies, 1)
    past = (await policies.call("GET", f"{ONE}/versions/0")).document["policy"]
    assert past == {
        "policy-type": COMPACTION,
        "inheritable": True,
        "name": "p",
        "content": ON,
        "description": "first",
        "version": 0,
        "created-at-ms": policies.lake.clock.now_ms(),
        "created-by": "root",
    }
    assert (await policies.call("GET", f"{ONE}/versions/1")).document["policy"]["content"] == OFF


async def test_versions_are_paged(policies: PolicyLake) -> None:
    await create_with_changes(policies, 4)
    assert [one["version"] for one in await policies.pages(f"{ONE}/versions", "versions")] == [4, 3, 2, 1, 0]


async def test_missing_versions_and_policies_are_not_found(policies: PolicyLake) -> None:
    await create_with_changes(policies, 1)
    for path in (
        f"{ONE}/versions/2",
        f"{ONE}/versions/-1",
        f"{ONE}/versions/x",
        f"{ONE}/versions/{'9' * 40}",
        "/namespaces/ns/policies/none/versions",
        "/namespaces/ns/policies/none/versions/0",
    ):
        assert (await policies.call("GET", path)).error == (404, "NoSuchPolicyException")


async def test_versions_require_permission_to_read_the_policy(policies: PolicyLake) -> None:
    await create_with_changes(policies, 1)
    reader = await policies.lake.user("reader", allow("lakebed:ReadPolicy"))
    other = await policies.lake.user("other", allow("s3tables:*", "lakebed:ListPolicies"))
    for path in (f"{ONE}/versions", f"{ONE}/versions/0"):
        assert (await policies.call("GET", path, keys=reader)).status == 200
        assert (await policies.call("GET", path, keys=other)).error == (403, "ForbiddenException")
