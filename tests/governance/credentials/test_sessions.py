from __future__ import annotations

import string
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakebed.core.access import ANONYMOUS, Credential, Principal, root_of
from lakebed.core.clock import ManualClock
from lakebed.core.errors import (
    AccessDenied,
    CredentialsExpired,
    CredentialsRevoked,
    InvalidInput,
    InvalidPolicy,
    InvalidTag,
    TooLarge,
    Unauthenticated,
)
from lakebed.core.secrets import Secret
from lakebed.governance import AccessKeys, MasterKeys, Principals, Sessions, TemporaryKey
from lakebed.governance.credentials.sessions import MAX_DURATION_SECONDS, MIN_DURATION_SECONDS
from lakebed.meta.outbox import Outbox
from lakebed.meta.seam import MetaStore, Row, Value, Work
from tests.governance.documents import OTHER, OWNER, policy, statement, user

READ = policy(statement())
WRITE = policy(statement(action="s3:PutObject"))
URLSAFE = string.ascii_letters + string.digits + "-_"
ROLE = f"arn:aws:iam::{OWNER}:role/team/etl"


BOBS_KEY = "bobs-key"
T = TypeVar("T")


@pytest.fixture
async def bob(principals: Principals, access_keys: AccessKeys) -> Principal:
    """A user with an access key."""
    await principals.create_user("bob", canned=["readwrite"])
    await access_keys.create("bob", access_key_id=BOBS_KEY)
    return (await access_keys.lookup(BOBS_KEY)).principal


async def use(sessions: Sessions, key: TemporaryKey) -> Credential:
    return await sessions.credential(key.session_token.reveal(), key.access_key_id)


async def test_temporary_key_has_the_parents_identity_and_the_sessions_limits(
    bob: Principal, sessions: Sessions, clock: ManualClock
) -> None:
    parent = bob
    key = sessions.issue(
        parent, role_arn=ROLE, session_name="nightly", policy=READ, duration_seconds=900, tags={"team": "x"}
    )
    found = await use(sessions, key)
    caller = found.principal
    assert found.secret == key.secret
    assert (caller.name, caller.arn, caller.policies) == ("bob", parent.arn, parent.policies)
    assert caller.key == parent.key
    assert caller.caller_arn == f"arn:aws:sts::{OWNER}:assumed-role/etl/nightly"
    assert caller.session is not None
    assert caller.session.policies == (READ,)
    assert caller.session.tags == (("team", "x"),)
    assert caller.session.issued_ms == clock.now_ms()
    assert found.expires_ms == caller.session.expires_ms == clock.now_ms() + 900_000
    assert key.principal == caller


async def test_temporary_keys_have_the_expected_format(sessions: Sessions, root: Credential) -> None:
    one, two = sessions.issue(root.principal), sessions.issue(root.principal)
    assert one.access_key_id.startswith("LKBT")
    assert (len(one.access_key_id), len(one.secret.reveal())) == (20, 40)
    assert one.access_key_id != two.access_key_id
    assert one.secret != two.secret
    for hidden in (one.secret, one.session_token):
        assert hidden.reveal() not in repr(one)


async def test_without_a_role_the_caller_keeps_its_arn(sessions: Sessions, root: Credential) -> None:
    key = sessions.issue(root.principal)
    found = await use(sessions, key)
    assert found.principal.is_root
    assert found.principal.caller_arn == f"arn:aws:iam::{OWNER}:root"


async def test_credential_is_the_same_object_until_the_parent_changes(
    bob: Principal, principals: Principals, sessions: Sessions
) -> None:
    key = sessions.issue(bob)
    first = await use(sessions, key)
    assert await use(sessions, key) is first
    await principals.detach_canned("bob", "readwrite")
    assert (await use(sessions, key)).principal.policies == ()


async def test_session_ends_at_its_expiry(sessions: Sessions, root: Credential, clock: ManualClock) -> None:
    key = sessions.issue(root.principal, duration_seconds=900)
    token = key.session_token.reveal()
    clock.advance(899.999)
    await sessions.credential(token, key.access_key_id)
    clock.advance(0.001)
    with pytest.raises(CredentialsExpired):
        sessions.open(token, key.access_key_id)
    with pytest.raises(CredentialsExpired):
        await sessions.credential(token, key.access_key_id)


async def test_session_ends_with_its_user(bob: Principal, principals: Principals, sessions: Sessions) -> None:
    key = sessions.issue(bob)
    await use(sessions, key)
    await principals.set_user_enabled("bob", enabled=False)
    with pytest.raises(CredentialsRevoked, match="disabled or deleted"):
        await use(sessions, key)
    await principals.set_user_enabled("bob", enabled=True)
    await use(sessions, key)
    await principals.delete_user("bob")
    with pytest.raises(CredentialsRevoked, match="disabled or deleted"):
        await use(sessions, key)


async def test_session_ends_with_its_parent_key_only(
    bob: Principal, access_keys: AccessKeys, sessions: Sessions
) -> None:
    other = await access_keys.create("bob")
    key, other_session = sessions.issue(bob), sessions.issue((await access_keys.lookup(other.key.id)).principal)
    await use(sessions, key)
    await access_keys.set_enabled(BOBS_KEY, enabled=False)
    with pytest.raises(CredentialsRevoked, match="disabled or deleted"):
        await use(sessions, key)
    await access_keys.set_enabled(BOBS_KEY, enabled=True)
    await use(sessions, key)
    await access_keys.delete(BOBS_KEY)
    with pytest.raises(CredentialsRevoked, match="disabled or deleted"):
        await use(sessions, key)
    assert (await use(sessions, other_session)).principal.name == "bob"


async def test_nested_session_ends_with_the_parent_key(
    bob: Principal, access_keys: AccessKeys, sessions: Sessions
) -> None:
    outer = await use(sessions, sessions.issue(bob))
    inner = sessions.issue(outer.principal)
    await use(sessions, inner)
    await access_keys.delete(BOBS_KEY)
    with pytest.raises(CredentialsRevoked):
        await use(sessions, inner)


async def test_session_ends_in_a_process_that_has_cached_it(
    bob: Principal,
    access_keys: AccessKeys,
    sessions: Sessions,
    store: MetaStore,
    outbox: Outbox,
    master_keys: MasterKeys,
    clock: ManualClock,
    root: Credential,
) -> None:
    other_process = Sessions(master_keys, AccessKeys(store, outbox, master_keys, clock, root), clock)
    key = sessions.issue(bob)
    await use(other_process, key)
    await access_keys.set_enabled(BOBS_KEY, enabled=False)
    with pytest.raises(CredentialsRevoked):
        await use(other_process, key)


async def test_rotating_the_parent_key_does_not_end_a_session(
    bob: Principal, access_keys: AccessKeys, sessions: Sessions
) -> None:
    key = sessions.issue(bob)
    await access_keys.rotate(BOBS_KEY)
    assert (await use(sessions, key)).secret == key.secret


async def test_session_expires_with_its_parent_key(
    principals: Principals, access_keys: AccessKeys, sessions: Sessions, clock: ManualClock
) -> None:
    await principals.create_user("eve")
    await access_keys.create("eve", access_key_id="for-a-while", expires_ms=clock.now_ms() + 60_000)
    key = sessions.issue((await access_keys.lookup("for-a-while")).principal, duration_seconds=3600)
    clock.advance(59.999)
    await use(sessions, key)
    clock.advance(0.001)
    with pytest.raises(CredentialsExpired):
        await use(sessions, key)


async def test_recreated_key_does_not_inherit_sessions(
    bob: Principal, access_keys: AccessKeys, sessions: Sessions, clock: ManualClock
) -> None:
    key = sessions.issue(bob)
    await access_keys.delete(BOBS_KEY)
    clock.advance(1)
    await access_keys.create("bob", access_key_id=BOBS_KEY)
    with pytest.raises(CredentialsRevoked, match="was replaced"):
        await use(sessions, key)


async def test_recreated_user_does_not_inherit_sessions(
    bob: Principal, principals: Principals, access_keys: AccessKeys, sessions: Sessions
) -> None:
    key = sessions.issue(bob)
    await principals.delete_user("bob")
    await principals.create_user("bob", canned=["consoleAdmin"])
    await access_keys.create("bob", access_key_id=BOBS_KEY)
    with pytest.raises(CredentialsRevoked, match="was replaced"):
        await use(sessions, key)


async def test_session_of_root_ends_when_the_settings_change_roots_key(
    sessions: Sessions,
    root: Credential,
    store: MetaStore,
    outbox: Outbox,
    master_keys: MasterKeys,
    clock: ManualClock,
) -> None:
    key = sessions.issue(root.principal)
    await use(sessions, key)
    another = Credential("NEWROOT", Secret("new-secret"), root_of(OWNER, "NEWROOT"))
    restarted = Sessions(master_keys, AccessKeys(store, outbox, master_keys, clock, another), clock)
    with pytest.raises(CredentialsRevoked):
        await use(restarted, key)


class CountingStore:
    """Counts statements."""

    def __init__(self, inner: MetaStore) -> None:
        self.inner = inner
        self.dialect = inner.dialect
        self.statements = 0

    async def row(self, sql: str, *args: Value) -> Row | None:
        self.statements += 1
        return await self.inner.row(sql, *args)

    async def rows(self, sql: str, *args: Value) -> list[Row]:
        self.statements += 1
        return await self.inner.rows(sql, *args)

    async def transact(self, work: Work[T]) -> T:
        raise AssertionError("a lookup changes nothing")

    async def sync(self) -> None:
        raise AssertionError("a lookup waits for nothing")

    async def close(self) -> None:
        await self.inner.close()


async def test_session_lookup_takes_one_statement_and_none_for_root(
    bob: Principal,
    store: MetaStore,
    outbox: Outbox,
    master_keys: MasterKeys,
    clock: ManualClock,
    root: Credential,
) -> None:
    counted = CountingStore(store)
    sessions = Sessions(master_keys, AccessKeys(counted, outbox, master_keys, clock, root), clock)
    users, roots = sessions.issue(bob), sessions.issue(root.principal)
    for used in range(1, 4):
        await use(sessions, users)
        await use(sessions, roots)
        assert counted.statements == used


async def test_token_of_one_key_does_not_open_with_another(sessions: Sessions, root: Credential) -> None:
    one, two = sessions.issue(root.principal, policy=READ), sessions.issue(root.principal)
    with pytest.raises(Unauthenticated, match="not valid"):
        await sessions.credential(two.session_token.reveal(), one.access_key_id)


async def test_token_of_another_server_does_not_open(
    access_keys: AccessKeys, sessions: Sessions, root: Credential, clock: ManualClock
) -> None:
    foreign = Sessions(MasterKeys({"first": b"9" * 32}, active="first"), access_keys, clock).issue(root.principal)
    with pytest.raises(Unauthenticated, match="not valid"):
        sessions.open(foreign.session_token.reveal(), foreign.access_key_id)


async def test_token_remains_valid_after_the_active_master_key_changes(
    access_keys: AccessKeys, sessions: Sessions, root: Credential, clock: ManualClock
) -> None:
    key = sessions.issue(root.principal)
    later = Sessions(MasterKeys({"first": b"1" * 32, "second": b"2" * 32}, "second"), access_keys, clock)
    assert later.open(key.session_token.reveal(), key.access_key_id).secret == key.secret
    newer = later.issue(root.principal)
    assert later.open(newer.session_token.reveal(), newer.access_key_id).secret == newer.secret


@given(token=st.text(max_size=80) | st.text(alphabet="AQVmaXJzdA-_", max_size=120))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_random_text_is_no_token(sessions: Sessions, token: str) -> None:
    with pytest.raises(Unauthenticated):
        sessions.open(token, "LKBTAAAAAAAAAAAAAAAA")


@given(data=st.data())
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_changed_token_does_not_open(sessions: Sessions, root: Credential, data: st.DataObject) -> None:
    key = sessions.issue(root.principal, policy=READ)
    token = key.session_token.reveal()
    at = data.draw(st.integers(0, len(token) - 2))
    shift = data.draw(st.integers(1, len(URLSAFE) - 1))
    other = URLSAFE[(URLSAFE.index(token[at]) + shift) % len(URLSAFE)]
    with pytest.raises(Unauthenticated):
        sessions.open(token[:at] + other + token[at + 1 :], key.access_key_id)


async def test_overlong_token_is_refused(sessions: Sessions) -> None:
    with pytest.raises(Unauthenticated):
        sessions.open("A" * 1_000_000, "LKBTAAAAAAAAAAAAAAAA")


async def test_nested_session_keeps_the_outer_limits_and_expiry(
    sessions: Sessions, root: Credential, clock: ManualClock
) -> None:
    outer = sessions.issue(root.principal, policy=READ, duration_seconds=900, tags={"team": "x"})
    clock.advance(600)
    inner = sessions.issue(outer.principal, policy=WRITE, duration_seconds=3600, tags={"team": "y", "job": "z"})
    opened = sessions.open(inner.session_token.reveal(), inner.access_key_id).session
    assert opened.policies == (READ, WRITE)
    assert opened.expires_ms == outer.session.expires_ms
    assert dict(opened.tags) == {"team": "x", "job": "z"}


@pytest.mark.parametrize("seconds", [0, -1, MIN_DURATION_SECONDS - 1, MAX_DURATION_SECONDS + 1])
async def test_duration_has_limits(sessions: Sessions, root: Credential, seconds: int) -> None:
    with pytest.raises(InvalidInput, match="seconds") as raised:
        sessions.issue(root.principal, duration_seconds=seconds)
    assert raised.value.argument == "DurationSeconds"


@pytest.mark.parametrize("seconds", [MIN_DURATION_SECONDS, MAX_DURATION_SECONDS])
async def test_minimum_and_maximum_duration_are_accepted(sessions: Sessions, root: Credential, seconds: int) -> None:
    session = sessions.issue(root.principal, duration_seconds=seconds).session
    assert session.expires_ms - session.issued_ms == seconds * 1000


@pytest.mark.parametrize(
    "role", ["", "etl", f"arn:aws:iam::{OWNER}:user/bob", f"arn:aws:iam::{OWNER}:role/", f"arn:aws:iam::{OWNER}:role/*"]
)
async def test_role_arn_must_be_a_role(sessions: Sessions, root: Credential, role: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        sessions.issue(root.principal, role_arn=role, session_name="nightly")
    assert raised.value.argument == "RoleArn"


async def test_role_of_another_account_is_refused(sessions: Sessions, root: Credential) -> None:
    with pytest.raises(AccessDenied, match="another account"):
        sessions.issue(root.principal, role_arn=f"arn:aws:iam::{OTHER}:role/etl", session_name="nightly")


@pytest.mark.parametrize("name", ["", "x", "a b", "a/b", "x" * 65, "nächtlich"])
async def test_invalid_session_names_are_refused(sessions: Sessions, root: Credential, name: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        sessions.issue(root.principal, role_arn=ROLE, session_name=name)
    assert raised.value.argument == "RoleSessionName"


@pytest.mark.parametrize("caller", [ANONYMOUS, root_of(OWNER)], ids=["anonymous", "the server itself"])
async def test_caller_without_a_key_cannot_get_a_session(sessions: Sessions, caller: Principal) -> None:
    with pytest.raises(AccessDenied, match="requires a key"):
        sessions.issue(caller)


async def test_invalid_session_policy_is_refused(sessions: Sessions, root: Credential) -> None:
    with pytest.raises(InvalidPolicy):
        sessions.issue(root.principal, policy=b"{}")
    with pytest.raises(InvalidPolicy):
        sessions.issue(root.principal, policy=policy(statement(principal="*")))


async def test_total_size_of_session_policies_has_a_configurable_limit(
    master_keys: MasterKeys, access_keys: AccessKeys, root: Credential, clock: ManualClock, sessions: Sessions
) -> None:
    large = policy(statement(Sid="x" * 1500))
    outer = sessions.issue(root.principal, policy=large)
    with pytest.raises(TooLarge):
        sessions.issue(outer.principal, policy=large)
    with pytest.raises(TooLarge):
        sessions.issue(root.principal, policy=policy(statement(Sid="x" * 2048)))
    larger = Sessions(master_keys, access_keys, clock, max_policy_bytes=20 * 1024)
    key = larger.issue(root.principal, policy=policy(statement(Sid="x" * 19_000)))
    assert larger.open(key.session_token.reveal(), key.access_key_id).session.policies


@pytest.mark.parametrize("tags", [{"": "x"}, {"x" * 129: "y"}, {"x": "y" * 257}, {str(n): "" for n in range(51)}])
async def test_session_tags_have_limits(sessions: Sessions, root: Credential, tags: dict[str, str]) -> None:
    with pytest.raises(InvalidTag):
        sessions.issue(root.principal, tags=tags)


async def test_session_of_an_unknown_parent_is_revoked(sessions: Sessions) -> None:
    key = sessions.issue(user("ghost"))
    with pytest.raises(CredentialsRevoked):
        await use(sessions, key)


async def test_root_of_another_account_is_refused(sessions: Sessions) -> None:
    key = sessions.issue(root_of(OTHER, "ROOTKEY"))
    with pytest.raises(CredentialsRevoked):
        await use(sessions, key)
