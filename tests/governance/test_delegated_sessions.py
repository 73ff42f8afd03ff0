"""Keys that the catalog hands out for a table's files: what they may do that the caller may not, and no more."""

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


# -- what the authorizer makes of them ------------------------------------------------------------------------------


def test_no_identity_policy_has_to_allow_what_the_catalogs_policy_allows() -> None:
    vended = session(IN_T, delegated_for="t1")
    assert allowed(user(session=vended))
    assert not allowed(user(session=session(IN_T)))
    assert not allowed(user(session=vended), resource="arn:aws:s3:::bucket/u/file")
    assert not allowed(user(session=vended), action="s3:DeleteObject")


def test_denials_still_refuse_wherever_they_stand() -> None:
    vended = session(IN_T, delegated_for="t1")
    assert not allowed(user("bob", OWNER, deny(), session=vended))
    assert not allowed(user(session=session(IN_T, deny(), delegated_for="t1")))
    assert not allowed(user(session=session(IN_T, delegated_for="t1", outer_policies=(deny(),))))
    bucket_policy = deny("arn:aws:s3:::bucket/*", principal="*")
    assert not allowed(user(session=vended), bucket_policy=bucket_policy)
    assert not allowed(user("root", OWNER, session=vended), bucket_policy=bucket_policy)


def test_policies_of_the_session_that_asked_need_not_allow() -> None:
    """They speak of the catalog, and it is the catalog that was asked."""
    assert allowed(user(session=session(IN_T, delegated_for="t1", outer_policies=(CATALOG_ONLY,))))


def test_bucket_of_somebody_else_is_not_opened() -> None:
    """A bucket that was deleted and made anew by another account has the name that is in the policy."""
    vended = session(IN_T, delegated_for="t1")
    assert not allowed(user(session=vended), owner=OTHER)
    everybody = policy(statement(principal="*", resource="arn:aws:s3:::bucket/*"))
    assert not allowed(user(session=vended), owner=OTHER, bucket_policy=everybody)


def test_delegation_without_a_policy_gives_nothing() -> None:
    assert not allowed(user(session=session(delegated_for="t1")))


# -- making them ----------------------------------------------------------------------------------------------------


@pytest.fixture
async def bob(principals: Principals, access_keys: AccessKeys) -> Principal:
    """A user without any policy, who calls with a key."""
    await principals.create_user("bob")
    await access_keys.create("bob", access_key_id="bobs-key")
    return (await access_keys.lookup("bobs-key")).principal


async def test_token_carries_the_delegation(bob: Principal, sessions: Sessions, clock: ManualClock) -> None:
    key = sessions.delegate(bob, table="t1", policy=IN_T, duration_seconds=60)
    caller = (await sessions.credential(key.session_token.reveal(), key.access_key_id)).principal
    assert caller == key.principal
    assert caller.session is not None
    assert (caller.session.delegated_for, caller.session.policies) == ("t1", (IN_T,))
    clock.advance(60)
    with pytest.raises(CredentialsExpired):
        await sessions.credential(key.session_token.reveal(), key.access_key_id)


async def test_uses_are_traced_by_the_key_that_was_handed_out(bob: Principal, sessions: Sessions) -> None:
    """By that of the catalog too where somebody has had it make other keys; by none where no catalog was asked."""
    vended = sessions.delegate(bob, table="t1", policy=IN_T, duration_seconds=3600)
    assert vended.session.delegation == vended.access_key_id
    made = sessions.issue(vended.principal, duration_seconds=900)
    again = sessions.issue(made.principal, duration_seconds=900)
    for key in (vended, made, again):
        caller = (await sessions.credential(key.session_token.reveal(), key.access_key_id)).principal
        assert caller.session is not None
        assert caller.session.delegation == vended.access_key_id
    assert made.access_key_id != vended.access_key_id
    assert sessions.issue(bob).session.delegation == ""


async def test_delegation_ends_with_the_key_that_asked(
    bob: Principal, sessions: Sessions, access_keys: AccessKeys
) -> None:
    key = sessions.delegate(bob, table="t1", policy=IN_T, duration_seconds=60)
    await access_keys.set_enabled("bobs-key", enabled=False)
    with pytest.raises(CredentialsRevoked):
        await sessions.credential(key.session_token.reveal(), key.access_key_id)


def test_sts_makes_no_delegation(root: Credential, sessions: Sessions) -> None:
    assert sessions.issue(root.principal, policy=IN_T).session.delegated_for == ""


async def test_delegation_of_a_session_keeps_its_end_its_name_its_tags_and_its_denials(
    bob: Principal, sessions: Sessions, clock: ManualClock
) -> None:
    outer = sessions.issue(
        bob, role_arn=ROLE, session_name="job", policy=CATALOG_ONLY, duration_seconds=900, tags={"team": "x"}
    )
    clock.advance(600)
    key = sessions.delegate(outer.principal, table="t1", policy=IN_T, duration_seconds=3600)
    made = key.session
    assert made.expires_ms == outer.session.expires_ms
    assert (made.arn, made.tags) == (outer.session.arn, outer.session.tags)
    assert (made.policies, made.outer_policies) == ((IN_T,), (CATALOG_ONLY,))
    named = policy(
        {"Effect": "Deny", "Principal": {"AWS": ROLE}, "Action": "s3:*", "Resource": "arn:aws:s3:::bucket/*"}
    )
    assert allowed(key.principal)
    assert not allowed(key.principal, bucket_policy=named)


@pytest.mark.parametrize("by_provider", [False, True])
async def test_keys_are_for_the_roles_of_who_asked_for_them(
    bob: Principal, sessions: Sessions, by_provider: bool
) -> None:
    roles = ActivatedRoles(frozenset({"a", "b"}), by_provider)
    key = sessions.delegate(replace(bob, activated=roles), table="t1", policy=IN_T, duration_seconds=60)
    inner = sessions.issue(key.principal)
    for made in (key, inner):
        found = await sessions.credential(made.session_token.reveal(), made.access_key_id)
        assert found.principal.calling_roles == roles
    plain = sessions.delegate(bob, table="t1", policy=IN_T, duration_seconds=60)
    assert (
        await sessions.credential(plain.session_token.reveal(), plain.access_key_id)
    ).principal.calling_roles is None


async def test_delegated_keys_make_no_delegation(bob: Principal, sessions: Sessions) -> None:
    key = sessions.delegate(bob, table="t1", policy=IN_T, duration_seconds=60)
    with pytest.raises(AccessDenied, match="cannot be used to obtain vended credentials"):
        sessions.delegate(key.principal, table="t2", policy=EVERYTHING, duration_seconds=60)


async def test_session_of_delegated_keys_has_their_limits_and_their_end(bob: Principal, sessions: Sessions) -> None:
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
            answers = [allowed(caller, action, resource) for caller in callers]
            assert answers == sorted(answers, reverse=True)


@pytest.mark.parametrize("seconds", [0, 59, 3601])
def test_delegation_lasts_a_minute_to_an_hour(root: Credential, sessions: Sessions, seconds: int) -> None:
    with pytest.raises(InvalidInput, match="60 to 3600"):
        sessions.delegate(root.principal, table="t1", policy=IN_T, duration_seconds=seconds)


def test_delegation_names_a_table_and_has_a_policy(root: Credential, sessions: Sessions) -> None:
    with pytest.raises(InvalidInput, match="name a table"):
        sessions.delegate(root.principal, table="", policy=IN_T, duration_seconds=60)
    with pytest.raises(InvalidPolicy):
        sessions.delegate(root.principal, table="t1", policy=b"{}", duration_seconds=60)
