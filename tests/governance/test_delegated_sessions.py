"""Vended credentials: what they permit beyond the caller's own policies, and their limits."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakebed.core.access import AccessRequest, ActivatedRoles, Credential, Principal, ResourceRules
from lakebed.core.clock import ManualClock
from lakebed.core.errors import AccessDenied, CredentialsExpired, CredentialsRevoked, InvalidInput, InvalidPolicy
from lakebed.governance import AccessKeys, Principals, Sessions
from lakebed.governance.authorizer import PolicyAuthorizer

from .documents import OTHER, OWNER, policy, session, statement, user

IN_T = policy(statement(action=["s3:GetObject", "s3:PutObject"], resource="arn:aws:s3:::bucket/t/*"))
EVERYTHING = policy(statement(action="*", resource="*"))
CATALOG_ONLY = policy(statement(action="s3tables:*", resource="*"))
KEY = "arn:aws:s3:::bucket/t/file"
ROLE = f"arn:aws:iam::{OWNER}:role/engine"


def allowed(
    caller: Principal,
    action: str = "s3:GetObject",
    resource: str = KEY,
    bucket_policy: bytes | None = None,
    owner: str = OWNER,
) -> bool:
    rules = ResourceRules(owner=owner, policy=bucket_policy)
    try:
        PolicyAuthorizer(ManualClock()).decide(AccessRequest(caller, action, resource), rules)
    except AccessDenied:
        return False
    return True


def deny(resource: str = "*", **more: object) -> bytes:
    return policy(statement(effect="Deny", action="s3:GetObject", resource=resource, **more))


# -- authorization ------------------------------------------------------------------------------------------------


def test_vended_credentials_need_no_identity_policy() -> None:
    vended = session(IN_T, delegated_for="t1")
    assert allowed(user(session=vended))
    assert not allowed(user(session=session(IN_T)))
    assert not allowed(user(session=vended), resource="arn:aws:s3:::bucket/u/file")
    assert not allowed(user(session=vended), action="s3:DeleteObject")


def test_deny_in_any_policy_refuses_vended_credentials() -> None:
    vended = session(IN_T, delegated_for="t1")
    assert not allowed(user("bob", OWNER, deny(), session=vended))
    assert not allowed(user(session=session(IN_T, deny(), delegated_for="t1")))
    assert not allowed(user(session=session(IN_T, delegated_for="t1", outer_policies=(deny(),))))
    bucket_policy = deny("arn:aws:s3:::bucket/*", principal="*")
    assert not allowed(user(session=vended), bucket_policy=bucket_policy)
    assert not allowed(user("root", OWNER, session=vended), bucket_policy=bucket_policy)


def test_policies_of_the_outer_session_need_not_allow() -> None:
    """Those policies govern the catalog request, which the catalog authorized."""
    assert allowed(user(session=session(IN_T, delegated_for="t1", outer_policies=(CATALOG_ONLY,))))


def test_vended_credentials_give_no_access_to_another_accounts_bucket() -> None:
    """A bucket that another account recreated has the name in the session policy."""
    vended = session(IN_T, delegated_for="t1")
    assert not allowed(user(session=vended), owner=OTHER)
    everyone = policy(statement(principal="*", resource="arn:aws:s3:::bucket/*"))
    assert not allowed(user(session=vended), owner=OTHER, bucket_policy=everyone)


def test_delegation_without_a_policy_permits_nothing() -> None:
    assert not allowed(user(session=session(delegated_for="t1")))


# -- issuing ------------------------------------------------------------------------------------------------------


@pytest.fixture
async def bob(principals: Principals, access_keys: AccessKeys) -> Principal:
    """A user without policies, with an access key."""
    await principals.create_user("bob")
    await access_keys.create("bob", access_key_id="bobs-key")
    return (await access_keys.lookup("bobs-key")).principal


async def test_session_token_contains_the_delegation(bob: Principal, sessions: Sessions, clock: ManualClock) -> None:
    key = sessions.delegate(bob, table="t1", policy=IN_T, duration_seconds=60)
    caller = (await sessions.credential(key.session_token.reveal(), key.access_key_id)).principal
    assert caller == key.principal
    assert caller.session is not None
    assert (caller.session.delegated_for, caller.session.policies) == ("t1", (IN_T,))
    clock.advance(60)
    with pytest.raises(CredentialsExpired):
        await sessions.credential(key.session_token.reveal(), key.access_key_id)


async def test_derived_sessions_keep_the_id_of_the_vended_key(bob: Principal, sessions: Sessions) -> None:
    """Sessions derived from vended credentials keep their delegation; other sessions have none."""
    vended = sessions.delegate(bob, table="t1", policy=IN_T, duration_seconds=3600)
    assert vended.session.delegation == vended.access_key_id
    derived = sessions.issue(vended.principal, duration_seconds=900)
    again = sessions.issue(derived.principal, duration_seconds=900)
    for key in (vended, derived, again):
        caller = (await sessions.credential(key.session_token.reveal(), key.access_key_id)).principal
        assert caller.session is not None
        assert caller.session.delegation == vended.access_key_id
    assert derived.access_key_id != vended.access_key_id
    assert sessions.issue(bob).session.delegation == ""


async def test_delegation_ends_with_its_parent_key(bob: Principal, sessions: Sessions, access_keys: AccessKeys) -> None:
    key = sessions.delegate(bob, table="t1", policy=IN_T, duration_seconds=60)
    await access_keys.set_enabled("bobs-key", enabled=False)
    with pytest.raises(CredentialsRevoked):
        await sessions.credential(key.session_token.reveal(), key.access_key_id)


def test_sts_sessions_are_not_delegated(root: Credential, sessions: Sessions) -> None:
    assert sessions.issue(root.principal, policy=IN_T).session.delegated_for == ""


async def test_delegation_of_a_session_keeps_its_expiry_name_tags_and_denies(
    bob: Principal, sessions: Sessions, clock: ManualClock
) -> None:
    outer = sessions.issue(
        bob, role_arn=ROLE, session_name="job", policy=CATALOG_ONLY, duration_seconds=900, tags={"team": "x"}
    )
    clock.advance(600)
    key = sessions.delegate(outer.principal, table="t1", policy=IN_T, duration_seconds=3600)
    derived = key.session
    assert derived.expires_ms == outer.session.expires_ms
    assert (derived.arn, derived.tags) == (outer.session.arn, outer.session.tags)
    assert (derived.policies, derived.outer_policies) == ((IN_T,), (CATALOG_ONLY,))
    named = policy(
        {"Effect": "Deny", "Principal": {"AWS": ROLE}, "Action": "s3:*", "Resource": "arn:aws:s3:::bucket/*"}
    )
    assert allowed(key.principal)
    assert not allowed(key.principal, bucket_policy=named)


@pytest.mark.parametrize("by_provider", [False, True])
async def test_vended_credentials_keep_the_activated_roles(
    bob: Principal, sessions: Sessions, by_provider: bool
) -> None:
    roles = ActivatedRoles(frozenset({"a", "b"}), by_provider)
    key = sessions.delegate(replace(bob, activated=roles), table="t1", policy=IN_T, duration_seconds=60)
    inner = sessions.issue(key.principal)
    for issued in (key, inner):
        found = await sessions.credential(issued.session_token.reveal(), issued.access_key_id)
        assert found.principal.calling_roles == roles
    plain = sessions.delegate(bob, table="t1", policy=IN_T, duration_seconds=60)
    assert (
        await sessions.credential(plain.session_token.reveal(), plain.access_key_id)
    ).principal.calling_roles is None


async def test_vended_credentials_cannot_obtain_vended_credentials(bob: Principal, sessions: Sessions) -> None:
    key = sessions.delegate(bob, table="t1", policy=IN_T, duration_seconds=60)
    with pytest.raises(AccessDenied, match="cannot be used to obtain vended credentials"):
        sessions.delegate(key.principal, table="t2", policy=EVERYTHING, duration_seconds=60)


async def test_session_of_vended_credentials_keeps_their_limits_and_expiry(bob: Principal, sessions: Sessions) -> None:
    key = sessions.delegate(bob, table="t1", policy=IN_T, duration_seconds=60)
    for inner in (
        sessions.issue(key.principal, role_arn=ROLE, session_name="wider", policy=EVERYTHING),
        sessions.issue(key.principal),
    ):
        found = await sessions.credential(inner.session_token.reveal(), inner.access_key_id)
        assert inner.session.expires_ms == key.session.expires_ms
        assert allowed(found.principal)
        assert not allowed(found.principal, resource="arn:aws:s3:::bucket/u/file")
        assert not allowed(found.principal, action="s3:DeleteObject")


documents = st.lists(
    st.builds(
        statement,
        effect=st.sampled_from(["Allow", "Deny"]),
        action=st.sampled_from(["*", "s3:*", "s3:GetObject", "s3:PutObject", "s3tables:*"]),
        resource=st.sampled_from(["*", "arn:aws:s3:::bucket/*", "arn:aws:s3:::bucket/t/*", "arn:aws:s3:::bucket/u/*"]),
    ),
    min_size=1,
    max_size=3,
).map(lambda statements: policy(*statements))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(vended=documents, further=st.lists(documents, max_size=3), own=st.lists(documents, max_size=2))
def test_no_chain_of_sessions_widens_a_delegation(
    sessions: Sessions, vended: bytes, further: list[bytes], own: list[bytes]
) -> None:
    base = user("bob", OWNER, *own)
    callers = [sessions.delegate(base, table="t1", policy=vended, duration_seconds=60).principal]
    for document in further:
        callers.append(sessions.issue(callers[-1], role_arn=ROLE, session_name="next", policy=document).principal)
    for action in ("s3:GetObject", "s3:PutObject", "s3:DeleteBucket"):
        for resource in ("arn:aws:s3:::bucket/t/f", "arn:aws:s3:::bucket/u/f", "arn:aws:s3:::other/f"):
            decisions = [allowed(caller, action, resource) for caller in callers]
            assert decisions == sorted(decisions, reverse=True)


@pytest.mark.parametrize("seconds", [0, 59, 3601])
def test_delegation_lasts_a_minute_to_an_hour(root: Credential, sessions: Sessions, seconds: int) -> None:
    with pytest.raises(InvalidInput, match="60 to 3600"):
        sessions.delegate(root.principal, table="t1", policy=IN_T, duration_seconds=seconds)


def test_delegation_requires_a_table_and_a_policy(root: Credential, sessions: Sessions) -> None:
    with pytest.raises(InvalidInput, match="name a table"):
        sessions.delegate(root.principal, table="", policy=IN_T, duration_seconds=60)
    with pytest.raises(InvalidPolicy):
        sessions.delegate(root.principal, table="t1", policy=b"{}", duration_seconds=60)
