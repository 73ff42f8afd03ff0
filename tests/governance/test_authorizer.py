from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import pytest

from lakebed.core.access import ANONYMOUS, AccessRequest, Authorizer, PolicyLanguage, Principal, ResourceRules, root_of
from lakebed.core.clock import ManualClock
from lakebed.core.errors import AccessDenied, Corrupted, InvalidPolicy
from lakebed.governance.authorizer import PolicyAuthorizer

from .documents import OTHER, OWNER, policy, session, statement, user

KEY = "arn:aws:s3:::bucket/key"
ANY = {"resource": "*"}

READ = policy(statement(action="s3:GetObject", **ANY))
WRITE = policy(statement(action="s3:PutObject", **ANY))
ALL = policy(statement(action="*", **ANY))
DENY_READ = policy(statement(effect="Deny", action="s3:GetObject", **ANY))
ALL_BUT_READ = policy(statement(action="*", **ANY), statement(effect="Deny", action="s3:GetObject", **ANY))

PUBLIC = policy(statement(principal="*"))
TO_BOB = policy(statement(principal={"AWS": f"arn:aws:iam::{OWNER}:user/bob"}))
TO_OTHER_BOB = policy(statement(principal={"AWS": f"arn:aws:iam::{OTHER}:user/bob"}))
TO_OWNER = policy(statement(principal={"AWS": OWNER}))
TO_OTHER = policy(statement(principal={"AWS": f"arn:aws:iam::{OTHER}:root"}))
DENY_ALL = policy(statement(effect="Deny", action="s3:*", principal="*", resource=["arn:aws:s3:::bucket*"]))
DENY_BOB = policy(
    statement(principal="*"), statement(effect="Deny", principal={"AWS": f"arn:aws:iam::{OWNER}:user/bob"})
)
DENY_ALL_BUT_BOB = policy(
    {
        "Effect": "Deny",
        "NotPrincipal": {"AWS": f"arn:aws:iam::{OWNER}:user/bob"},
        "Action": "s3:*",
        "Resource": "arn:aws:s3:::bucket/*",
    },
)

ROOT = root_of(OWNER)
ETL = f"arn:aws:sts::{OWNER}:assumed-role/etl/nightly"


def root_with(*policies: bytes) -> Principal:
    return Principal("root", OWNER, f"arn:aws:iam::{OWNER}:root", is_root=True, session=session(*policies))


def is_allowed(
    caller: Principal,
    bucket_policy: bytes | None = None,
    action: str = "s3:GetObject",
    resource: str = KEY,
    *,
    owner: str = OWNER,
    restricted: bool = False,
    context: Mapping[str, str] = MappingProxyType({}),
) -> bool:
    rules = ResourceRules(owner, bucket_policy, restricted)
    try:
        PolicyAuthorizer(ManualClock()).decide(AccessRequest(caller, action, resource, context), rules)
    except AccessDenied:
        return False
    return True


def test_policy_authorizer_implements_authorizer_and_policy_language() -> None:
    authorizer: Authorizer = PolicyAuthorizer(ManualClock())
    language: PolicyLanguage = PolicyAuthorizer(ManualClock())
    assert callable(authorizer.authorize)
    assert language.is_public(PUBLIC)
    language.check_bucket_policy(PUBLIC, "bucket")
    with pytest.raises(InvalidPolicy):
        language.check_bucket_policy(PUBLIC, "another")


@pytest.mark.parametrize(
    ("caller", "bucket_policy", "expected"),
    [
        # Root of the owning account.
        (ROOT, None, True),
        (ROOT, TO_OTHER, True),
        (ROOT, DENY_ALL, False),
        (ROOT, DENY_BOB, True),
        (ROOT, DENY_ALL_BUT_BOB, False),
        # Users of the owning account: identity or resource policy.
        (user(), None, False),
        (user("bob", OWNER, READ), None, True),
        (user("bob", OWNER, WRITE), None, False),
        (user("bob", OWNER, WRITE, READ), None, True),
        (user("bob", OWNER, ALL, DENY_READ), None, False),
        (user("bob", OWNER, ALL_BUT_READ), TO_BOB, False),
        (user(), PUBLIC, True),
        (user(), TO_BOB, True),
        (user("eve"), TO_BOB, False),
        (user(), TO_OWNER, False),
        (user("bob", OWNER, READ), TO_OWNER, True),
        (user("bob", OWNER, READ), DENY_ALL, False),
        (user("bob", OWNER, READ), DENY_BOB, False),
        (user("eve", OWNER), DENY_BOB, True),
        (user("bob", OWNER, READ), DENY_ALL_BUT_BOB, True),
        (user("eve", OWNER, READ), DENY_ALL_BUT_BOB, False),
        # Other accounts: both policies.
        (user("bob", OTHER), None, False),
        (user("bob", OTHER, READ), None, False),
        (user("bob", OTHER), PUBLIC, False),
        (user("bob", OTHER, READ), PUBLIC, True),
        (user("bob", OTHER), TO_OTHER_BOB, False),
        (user("bob", OTHER, READ), TO_OTHER_BOB, True),
        (user("bob", OTHER, READ), TO_OTHER, True),
        (user("eve", OTHER, READ), TO_OTHER_BOB, False),
        (user("bob", OTHER, READ), TO_BOB, False),
        (user("bob", OTHER, ALL_BUT_READ), TO_OTHER_BOB, False),
        (root_of(OTHER), None, False),
        (root_of(OTHER), TO_OTHER, True),
        (root_of(OTHER), PUBLIC, True),
        (root_of(OTHER), TO_OWNER, False),
        # Anonymous callers.
        (ANONYMOUS, None, False),
        (ANONYMOUS, PUBLIC, True),
        (ANONYMOUS, TO_OWNER, False),
        (ANONYMOUS, DENY_BOB, True),
        (ANONYMOUS, DENY_ALL, False),
        # Sessions: each session policy must allow too.
        (root_with(), None, True),
        (root_with(READ), None, True),
        (root_with(WRITE), None, False),
        (root_with(READ), DENY_ALL, False),
        (user("bob", OWNER, READ, session=session()), None, True),
        (user("bob", OWNER, ALL, session=session(READ)), None, True),
        (user("bob", OWNER, ALL, session=session(WRITE)), None, False),
        (user("bob", OWNER, ALL, session=session(READ, WRITE)), None, False),
        (user("bob", OWNER, ALL, session=session(ALL, READ)), None, True),
        (user("bob", OWNER, ALL, session=session(ALL_BUT_READ)), None, False),
        (user("bob", OWNER, WRITE, session=session(READ)), None, False),
        (user("bob", OWNER, session=session(READ)), TO_BOB, True),
        (user("bob", OWNER, session=session(WRITE)), TO_BOB, False),
        (user("bob", OWNER, session=session(WRITE)), PUBLIC, False),
        (user("bob", OWNER, READ, session=session(READ)), DENY_BOB, False),
        (user("bob", OTHER, READ, session=session(READ)), TO_OTHER, True),
    ],
)
def test_decision_follows_identity_resource_and_session_policies(
    caller: Principal, bucket_policy: bytes | None, expected: bool
) -> None:
    assert is_allowed(caller, bucket_policy) is expected


@pytest.mark.parametrize("named", [ETL, f"arn:aws:iam::{OWNER}:role/etl", f"arn:aws:iam::{OWNER}:user/bob", OWNER, "*"])
def test_session_role_does_not_escape_a_deny(named: str) -> None:
    caller = user("bob", OWNER, ALL, session=session(arn=ETL))
    denial = policy(statement(effect="Deny", principal={"AWS": named}))
    assert is_allowed(caller)
    assert not is_allowed(caller, denial)


@pytest.mark.parametrize("named", [ETL, f"arn:aws:iam::{OWNER}:role/etl"])
def test_session_role_gives_no_permission(named: str) -> None:
    assert not is_allowed(user(session=session(arn=ETL)), policy(statement(principal={"AWS": named})))
    by_condition = policy(statement(principal="*", condition={"ArnLike": {"aws:PrincipalArn": named}}))
    assert not is_allowed(user(session=session(arn=ETL)), by_condition)


@pytest.mark.parametrize("action", ["s3:GetBucketPolicy", "s3:PutBucketPolicy", "s3:DeleteBucketPolicy"])
def test_bucket_policy_cannot_lock_the_owners_root_out_of_itself(action: str) -> None:
    bucket = "arn:aws:s3:::bucket"
    assert is_allowed(ROOT, DENY_ALL, action, bucket)
    assert is_allowed(root_with(), DENY_ALL, action, bucket)
    assert not is_allowed(root_with(READ), DENY_ALL, action, bucket)
    assert not is_allowed(root_of(OTHER), DENY_ALL, action, bucket)
    assert not is_allowed(user("bob", OWNER, ALL), DENY_ALL, action, bucket)


@pytest.mark.parametrize(
    ("caller", "bucket_policy", "expected"),
    [
        (ROOT, PUBLIC, True),
        (user(), PUBLIC, True),
        (user("bob", OWNER, READ), PUBLIC, True),
        (ANONYMOUS, PUBLIC, False),
        (user("bob", OTHER, READ), PUBLIC, False),
        (user("bob", OTHER, READ), TO_OTHER, True),
        (user("bob", OTHER, READ), policy(statement(principal="*"), statement(principal={"AWS": OTHER})), False),
    ],
)
def test_restricted_public_policy_applies_only_within_the_account(
    caller: Principal, bucket_policy: bytes, expected: bool
) -> None:
    assert is_allowed(caller, bucket_policy, restricted=True) is expected


def test_condition_decides() -> None:
    tls_only = policy(
        statement(principal="*"),
        statement(effect="Deny", principal="*", condition={"Bool": {"aws:SecureTransport": "false"}}),
    )
    assert is_allowed(ANONYMOUS, tls_only, context={"aws:SecureTransport": "true"})
    assert not is_allowed(ANONYMOUS, tls_only, context={"aws:SecureTransport": "false"})
    assert not is_allowed(ROOT, tls_only, context={"aws:SecureTransport": "false"})


def test_prefix_policy_of_vended_credentials_excludes_sibling_prefixes() -> None:
    scoped = policy(
        statement(action=["s3:GetObject", "s3:PutObject"], resource="arn:aws:s3:::bucket/t1/*"),
        statement(
            action="s3:ListBucket",
            resource="arn:aws:s3:::bucket",
            condition={"StringLike": {"s3:prefix": ["t1/*"]}},
        ),
    )
    caller = root_with(scoped)
    bucket = "arn:aws:s3:::bucket"
    assert is_allowed(caller, None, "s3:PutObject", f"{bucket}/t1/data/x.parquet")
    assert not is_allowed(caller, None, "s3:PutObject", f"{bucket}/t10/data/x.parquet")
    assert not is_allowed(caller, None, "s3:DeleteObject", f"{bucket}/t1/data/x.parquet")
    assert is_allowed(caller, None, "s3:ListBucket", bucket, context={"s3:prefix": "t1/data/"})
    assert not is_allowed(caller, None, "s3:ListBucket", bucket, context={"s3:prefix": "t10/"})
    assert not is_allowed(caller, None, "s3:ListBucket", bucket)


def test_username_variable_limits_users_to_their_prefix() -> None:
    home = policy(statement(action="s3:*", resource="arn:aws:s3:::bucket/${aws:username}/*"))
    assert is_allowed(user("bob", OWNER, home), resource="arn:aws:s3:::bucket/bob/x")
    assert not is_allowed(user("eve", OWNER, home), resource="arn:aws:s3:::bucket/bob/x")


def test_token_issue_time_condition_revokes_older_sessions() -> None:
    revoked = policy(
        statement(
            effect="Deny",
            action="*",
            resource="*",
            condition={"DateLessThan": {"aws:TokenIssueTime": "2023-11-14T22:13:21Z"}},
        )
    )
    assert not is_allowed(user("bob", OWNER, ALL, revoked, session=session()))
    assert is_allowed(user("bob", OWNER, ALL, revoked))


@pytest.mark.parametrize("action", ["sts:GetCallerIdentity", "sts:GetSessionToken", "sts:AssumeRole"])
def test_own_identity_actions_are_allowed_unless_denied(action: str) -> None:
    role = f"arn:aws:iam::{OWNER}:role/etl"
    deny = policy(statement(effect="Deny", action="sts:*", resource="*"))
    assert is_allowed(user(), None, action, role)
    assert is_allowed(user(session=session(READ)), None, action, role)
    assert not is_allowed(user("bob", OWNER, deny), None, action, role)
    assert not is_allowed(user(session=session(deny)), None, action, role)
    assert not is_allowed(user(), None, action, f"arn:aws:iam::{OTHER}:role/etl", owner=OTHER)
    assert not is_allowed(ANONYMOUS, None, action, role, owner="")


def test_tagging_a_session_needs_a_policy() -> None:
    assert not is_allowed(user(), None, "sts:TagSession", f"arn:aws:iam::{OWNER}:role/etl")
    assert is_allowed(user("bob", OWNER, ALL), None, "sts:TagSession", f"arn:aws:iam::{OWNER}:role/etl")


def test_refusal_names_principal_action_and_resource() -> None:
    request = AccessRequest(user(session=session(arn=ETL)), "s3:GetObject", KEY)
    with pytest.raises(AccessDenied, match=rf"principal={ETL} action=s3:GetObject resource={KEY}$"):
        PolicyAuthorizer(ManualClock()).decide(request, ResourceRules(OWNER))
    with pytest.raises(AccessDenied, match="principal=anonymous "):
        PolicyAuthorizer(ManualClock()).decide(AccessRequest(ANONYMOUS, "s3:GetObject", KEY), ResourceRules(OWNER))


@pytest.mark.parametrize(
    ("caller", "bucket_policy"),
    [
        (ROOT, b"{"),
        (ANONYMOUS, b"{}"),
        (user("bob", OWNER, b"damaged"), None),
        (user("bob", OWNER, ALL, session=session(b"damaged")), None),
    ],
)
def test_damaged_policy_fails_the_request(caller: Principal, bucket_policy: bytes | None) -> None:
    with pytest.raises(Corrupted, match="does not parse"):
        is_allowed(caller, bucket_policy)


def test_owners_root_can_replace_a_damaged_policy() -> None:
    assert is_allowed(ROOT, b"damaged", "s3:PutBucketPolicy", "arn:aws:s3:::bucket")
    with pytest.raises(Corrupted):
        is_allowed(user("bob", OWNER, ALL), b"damaged", "s3:PutBucketPolicy", "arn:aws:s3:::bucket")
