"""The authorizer with grants: they allow what no policy allows, and nothing that a policy denies."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lakebed.core.access import ANONYMOUS, AccessRequest, Principal, ResourceRules, Securable, Session
from lakebed.core.clock import ManualClock
from lakebed.core.errors import AccessDenied
from lakebed.governance import PolicyAuthorizer
from lakebed.governance.rbac.caller_grants import GrantSet
from lakebed.governance.rbac.privileges import Privilege
from lakebed.governance.rbac.securables import catalog_securable, entry_securable
from tests.governance.documents import OTHER, OWNER, policy, statement

P = Privilege
ACTION = "s3tables:GetTableData"
ARN = f"arn:aws:s3tables:us-east-1:{OWNER}:bucket/lake/table/t"
TABLE = entry_securable(1, ["ns"], "t")
READER = GrantSet([("namespace 1 ns", P.TABLE_READ_DATA)])
RULES = ResourceRules(owner=OWNER)


def ann(*policies: bytes, grants: GrantSet | None = READER, account: str = OWNER) -> Principal:
    return Principal(
        "ann", account, f"arn:aws:iam::{account}:user/ann", policies=policies, user_id="ANN", grants=grants
    )


def is_allowed(
    caller: Principal,
    rules: ResourceRules = RULES,
    *,
    action: str = ACTION,
    resource: str = ARN,
    securable: Securable | None = TABLE,
    privileges: tuple[int, ...] = (P.TABLE_READ_DATA,),
) -> bool:
    request = AccessRequest(caller, action, resource, {}, securable, privileges)
    try:
        PolicyAuthorizer(ManualClock()).decide(request, rules)
    except AccessDenied:
        return False
    return True


DENY = policy(statement("Deny", ACTION, "*"))
ALLOW = policy(statement("Allow", ACTION, "*"))


def test_grant_allows_what_no_policy_allows() -> None:
    assert is_allowed(ann())
    assert not is_allowed(ann(grants=None))
    assert not is_allowed(ann(grants=GrantSet()))


def test_all_required_privileges_must_be_granted() -> None:
    assert not is_allowed(ann(), privileges=(P.TABLE_READ_DATA, P.TABLE_DROP))
    assert not is_allowed(ann(), privileges=(P.TABLE_WRITE_DATA,))


def test_grant_applies_only_to_its_path() -> None:
    assert not is_allowed(ann(), securable=catalog_securable(1))
    assert not is_allowed(ann(), securable=entry_securable(1, ["ns1"], "t"))


def test_request_without_a_securable_or_privileges_is_decided_by_policies_alone() -> None:
    everything = GrantSet([("service", privilege) for privilege in Privilege])
    assert not is_allowed(ann(grants=everything), securable=None)
    assert not is_allowed(ann(grants=everything), privileges=())
    assert is_allowed(ann(ALLOW, grants=None), securable=None, privileges=())


def test_policies_allow_without_grants() -> None:
    assert is_allowed(ann(ALLOW, grants=None))
    assert is_allowed(ann(ALLOW), privileges=(P.TABLE_DROP,))


def test_deny_in_an_identity_policy_overrides_grants() -> None:
    assert not is_allowed(ann(DENY))


def test_deny_in_the_resource_policy_overrides_grants() -> None:
    denies = policy(statement("Deny", ACTION, "*", Principal="*"))
    assert not is_allowed(ann(), ResourceRules(owner=OWNER, policy=denies))


def test_session_policy_must_allow_too() -> None:
    session = Session(None, 0, 10**15, policies=(policy(statement("Allow", "s3:GetObject", "*")),))
    assert not is_allowed(replace(ann(), session=session))
    assert is_allowed(replace(ann(), session=replace(session, policies=(ALLOW,))))
    assert not is_allowed(replace(ann(), session=replace(session, policies=(ALLOW, DENY))))
    assert not is_allowed(replace(ann(), session=replace(session, policies=(), outer_policies=(DENY,))))


def test_grant_applies_to_users_of_other_accounts() -> None:
    assert is_allowed(ann(account=OTHER))
    assert not is_allowed(ann(account=OTHER, grants=None))
    # As without grants: an identity policy alone is not enough there.
    assert not is_allowed(ann(ALLOW, account=OTHER, grants=None))


def test_anonymous_callers_have_no_grants() -> None:
    assert not is_allowed(ANONYMOUS)


def test_refusal_mentions_missing_grants() -> None:
    request = AccessRequest(ann(grants=None), ACTION, ARN, {}, TABLE, (P.TABLE_READ_DATA,))
    with pytest.raises(AccessDenied, match="and no grant"):
        PolicyAuthorizer(ManualClock()).decide(request, RULES)
    with pytest.raises(AccessDenied) as refused:
        PolicyAuthorizer(ManualClock()).decide(AccessRequest(ann(), "s3:GetObject", "arn:aws:s3:::b/k"), RULES)
    assert "grant" not in str(refused.value)


def test_grants_do_not_widen_vended_credentials() -> None:
    everything = GrantSet([("service", privilege) for privilege in Privilege])
    files = policy(statement("Allow", "s3:GetObject", "arn:aws:s3:::lake/t/*"))
    session = Session(None, 0, 10**15, policies=(files,), delegated_for="t")
    caller = replace(ann(grants=everything), session=session)
    assert not is_allowed(caller)
    assert is_allowed(caller, action="s3:GetObject", resource="arn:aws:s3:::lake/t/f", securable=None, privileges=())
