from __future__ import annotations

import pytest

from lakebed.core.access import AccessRequest, ResourceRules
from lakebed.core.clock import ManualClock
from lakebed.core.errors import AccessDenied
from lakebed.governance import CANNED_POLICIES, PolicyAuthorizer, check_identity_policy
from tests.governance.documents import OWNER, user


@pytest.mark.parametrize(
    ("name", "allowed", "refused"),
    [
        ("readonly", ["s3:GetObject", "s3:ListBucket", "s3:ListAllMyBuckets"], ["s3:PutObject", "s3:DeleteBucket"]),
        ("readwrite", ["s3:GetObject", "s3:PutObject", "s3:CreateBucket"], ["admin:CreateUser", "sts:TagSession"]),
        (
            "writeonly",
            ["s3:PutObject", "s3:AbortMultipartUpload"],
            ["s3:GetObject", "s3:ListBucket", "s3:DeleteObject"],
        ),
        ("consoleAdmin", ["s3:GetObject", "admin:CreateUser", "sts:TagSession"], []),
    ],
)
def test_canned_policy_allows_and_refuses(name: str, allowed: list[str], refused: list[str]) -> None:
    caller = user("bob", OWNER, CANNED_POLICIES[name])
    authorizer = PolicyAuthorizer(ManualClock())
    for action in allowed:
        authorizer.decide(AccessRequest(caller, action, "arn:aws:s3:::bucket/key"), ResourceRules(OWNER))
    for action in refused:
        with pytest.raises(AccessDenied):
            authorizer.decide(AccessRequest(caller, action, "arn:aws:s3:::bucket/key"), ResourceRules(OWNER))


READS = ["GetTable", "GetTableData", "GetTableMetadataLocation", "GetTableMaintenanceConfiguration", "ListTables"]
WRITES = ["PutTableData", "CreateTable", "DeleteTable", "UpdateTableMetadataLocation", "RunTableMaintenance"]


@pytest.mark.parametrize(
    ("name", "allowed", "refused"),
    [
        ("readonly", READS, WRITES),
        ("readwrite", [*READS, *WRITES], []),
        ("writeonly", [], [*READS, *WRITES]),
        ("consoleAdmin", [*READS, *WRITES], []),
    ],
)
@pytest.mark.parametrize("what", ["bucket/lake", "bucket/lake/table/0123", "bucket/*"])
def test_canned_policy_applies_to_tables(name: str, allowed: list[str], refused: list[str], what: str) -> None:
    caller = user("bob", OWNER, CANNED_POLICIES[name])
    authorizer = PolicyAuthorizer(ManualClock())
    resource = f"arn:aws:s3tables:us-east-1:{OWNER}:{what}"
    for action in allowed:
        authorizer.decide(AccessRequest(caller, f"s3tables:{action}", resource), ResourceRules(OWNER))
    for action in refused:
        with pytest.raises(AccessDenied):
            authorizer.decide(AccessRequest(caller, f"s3tables:{action}", resource), ResourceRules(OWNER))


@pytest.mark.parametrize("name", ["readonly", "readwrite", "writeonly"])
def test_canned_policy_does_not_permit_bridges(name: str) -> None:
    caller = user("bob", OWNER, CANNED_POLICIES[name])
    resource = f"arn:aws:s3tables:us-east-1:{OWNER}:bucket/lake"
    with pytest.raises(AccessDenied):
        PolicyAuthorizer(ManualClock()).decide(
            AccessRequest(caller, "lakebed:ConfigureBridge", resource), ResourceRules(OWNER)
        )


def test_every_canned_policy_is_a_valid_identity_policy() -> None:
    for document in CANNED_POLICIES.values():
        assert check_identity_policy(document).grants
