"""Events of users, access keys and user policies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TypeAlias

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakebed.core.access import Credential, root_of
from lakebed.core.clock import ManualClock
from lakebed.core.errors import AlreadyExists, InvalidInput, NoSuchPrincipal
from lakebed.core.secrets import Secret
from lakebed.governance import CANNED_POLICIES, AccessKeys, MasterKeys, Principals
from lakebed.governance.events import IdentityEvent
from lakebed.governance.principals import MAX_POLICIES
from lakebed.meta.migrations import migrate
from lakebed.meta.outbox import Outbox, OutboxEntry
from lakebed.meta.seam import MetaStore
from lakebed.meta.sqlite.store import SqliteStore
from tests.meta.stores import open_migrated

from .documents import OWNER, policy, statement

READ = policy(statement())
WRITE = policy(statement(action="s3:PutObject"))


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.integration)])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[MetaStore]:
    """SQLite and PostgreSQL: their statements that detect changes differ."""
    address = f"sqlite:{tmp_path / 'meta.db'}"
    if request.param == "postgres":
        address = request.getfixturevalue("postgres_dsn")
    opened = await open_migrated(address)
    yield opened
    await opened.close()


async def events_of(outbox: Outbox, store: MetaStore) -> list[OutboxEntry]:
    return await outbox.read_after(store, 0, 1000)


async def kinds_and_subjects(outbox: Outbox, store: MetaStore) -> list[tuple[str, str]]:
    return [(entry.event.kind, entry.event.subject) for entry in await events_of(outbox, store)]


async def test_each_change_emits_one_event_in_order(
    store: MetaStore, outbox: Outbox, principals: Principals, access_keys: AccessKeys
) -> None:
    await principals.create_user("bob", canned=["readonly"])
    await access_keys.create("bob", access_key_id="bobs-key")
    await access_keys.rotate("bobs-key")
    await access_keys.set_enabled("bobs-key", enabled=False)
    await access_keys.set_enabled("bobs-key", enabled=True)
    await principals.put_policy("bob", "own", READ)
    await principals.put_policy("bob", "own", WRITE)
    await principals.delete_policy("bob", "own")
    await principals.attach_canned("bob", "readwrite")
    await principals.detach_canned("bob", "readonly")
    await principals.set_user_enabled("bob", enabled=False)
    await principals.set_user_enabled("bob", enabled=True)
    await access_keys.delete("bobs-key")
    assert await kinds_and_subjects(outbox, store) == [
        ("UserCreated", "bob"),
        ("PolicyAttached", "bob/readonly"),
        ("AccessKeyCreated", "bob/bobs-key"),
        ("AccessKeyRotated", "bob/bobs-key"),
        ("AccessKeyDisabled", "bob/bobs-key"),
        ("AccessKeyEnabled", "bob/bobs-key"),
        ("PolicyAttached", "bob/own"),
        ("PolicyAttached", "bob/own"),
        ("PolicyDetached", "bob/own"),
        ("PolicyAttached", "bob/readwrite"),
        ("PolicyDetached", "bob/readonly"),
        ("UserDisabled", "bob"),
        ("UserEnabled", "bob"),
        ("AccessKeyDeleted", "bob/bobs-key"),
    ]


async def test_deleting_a_user_emits_events_for_its_keys_and_policies(
    store: MetaStore, outbox: Outbox, principals: Principals, access_keys: AccessKeys
) -> None:
    await principals.create_user("bob", canned=["readonly"])
    await principals.put_policy("bob", "own", READ)
    await access_keys.create("bob", access_key_id="key-1")
    await access_keys.create("bob", access_key_id="key-2")
    before = len(await events_of(outbox, store))
    await principals.delete_user("bob")
    assert (await kinds_and_subjects(outbox, store))[before:] == [
        ("AccessKeyDeleted", "bob/key-1"),
        ("AccessKeyDeleted", "bob/key-2"),
        ("PolicyDetached", "bob/readonly"),
        ("PolicyDetached", "bob/own"),
        ("UserDeleted", "bob"),
    ]


async def test_calls_without_a_change_emit_nothing(
    store: MetaStore, outbox: Outbox, principals: Principals, access_keys: AccessKeys
) -> None:
    await principals.create_user("bob", canned=["readonly"])
    await principals.put_policy("bob", "own", READ)
    await access_keys.create("bob", access_key_id="bobs-key")
    before = await events_of(outbox, store)
    await principals.attach_canned("bob", "readonly")
    await principals.put_policy("bob", "own", READ)
    await principals.set_user_enabled("bob", enabled=True)
    await access_keys.set_enabled("bobs-key", enabled=True)
    assert await events_of(outbox, store) == before


async def test_refused_calls_emit_nothing(
    store: MetaStore, outbox: Outbox, principals: Principals, access_keys: AccessKeys
) -> None:
    await principals.create_user("bob")
    await access_keys.create("bob", access_key_id="bobs-key")
    for number in range(MAX_POLICIES):
        await principals.put_policy("bob", f"p{number}", READ)
    before = await events_of(outbox, store)
    for refused in (
        principals.create_user("bob", canned=["readonly"]),
        access_keys.create("bob", access_key_id="bobs-key"),
        access_keys.create("ghost"),
        access_keys.delete("no-key"),
        principals.delete_user("ghost"),
        principals.detach_canned("bob", "readonly"),
        principals.put_policy("bob", "one-more", READ),
    ):
        with pytest.raises((AlreadyExists, NoSuchPrincipal, InvalidInput)):
            await refused
    assert await events_of(outbox, store) == before


async def test_event_contains_subject_caller_and_time(
    store: MetaStore, outbox: Outbox, principals: Principals, access_keys: AccessKeys, clock: ManualClock
) -> None:
    user = await principals.create_user("bob")
    clock.advance(5)
    await access_keys.create("bob", access_key_id="bobs-key")
    clock.advance(5)
    await principals.attach_canned("bob", "readonly")
    await principals.put_policy("bob", "own", READ)
    entries = await events_of(outbox, store)
    start = clock.now_ms() - 10_000
    assert [entry.event.occurred_ms - start for entry in entries] == [0, 5_000, 10_000, 10_000]
    assert [msgspec.msgpack.decode(entry.event.payload, type=IdentityEvent) for entry in entries] == [
        IdentityEvent(user="bob", user_id=user.user_id, arn=user.arn, principal="root", account=OWNER),
        IdentityEvent(user="bob", access_key="bobs-key", principal="root", account=OWNER),
        IdentityEvent(user="bob", policy="readonly", is_canned=True, principal="root", account=OWNER),
        IdentityEvent(user="bob", policy="own", principal="root", account=OWNER),
    ]


async def test_events_contain_no_secret_and_no_document(
    store: MetaStore, outbox: Outbox, principals: Principals, access_keys: AccessKeys
) -> None:
    await principals.create_user("bob")
    created = await access_keys.create("bob")
    rotated = await access_keys.rotate(created.key.id)
    await principals.put_policy("bob", "own", READ)
    await principals.delete_user("bob")
    entries = await events_of(outbox, store)
    assert len(entries) == 7
    for entry in entries:
        for hidden in (created.secret.reveal().encode(), rotated.secret.reveal().encode(), READ):
            assert hidden not in entry.event.payload


async def test_change_wakes_the_outbox_reader(outbox: Outbox, principals: Principals) -> None:
    waiting = asyncio.create_task(outbox.wait_for_event(0, 60))
    await principals.create_user("bob")
    assert await waiting


# -- replaying the events reproduces the tables --------------------------------------------------------------------


class Replay:
    """Users, keys and policies reconstructed from events."""

    def __init__(self) -> None:
        self.users: dict[str, int] = {}
        self.keys: dict[str, tuple[str, int]] = {}
        self.policies: set[tuple[str, str, str]] = set()

    def apply(self, kind: str, event: IdentityEvent) -> None:
        policy = (event.user, "canned" if event.is_canned else "inline", event.policy)
        if kind == "UserDeleted":
            del self.users[event.user]
        elif kind == "AccessKeyDeleted":
            assert self.keys.pop(event.access_key)[0] == event.user
        elif kind == "AccessKeyRotated":
            assert self.keys[event.access_key][0] == event.user
        elif kind == "PolicyDetached":
            self.policies.remove(policy)
        elif kind == "PolicyAttached":
            assert event.user in self.users
            assert policy not in self.policies or not event.is_canned, "event without a change"
            self.policies.add(policy)
        elif kind in ("UserCreated", "AccessKeyCreated"):
            known: object = self.keys.get(event.access_key) if event.access_key else self.users.get(event.user)
            assert known is None, "created twice"
            self._put(event, enabled=1)
        else:
            assert kind in ("UserEnabled", "UserDisabled", "AccessKeyEnabled", "AccessKeyDisabled")
            enabled = int(kind.endswith("Enabled"))
            before = self.keys[event.access_key][1] if event.access_key else self.users[event.user]
            assert before != enabled, "event without a change"
            self._put(event, enabled=enabled)

    def _put(self, event: IdentityEvent, *, enabled: int) -> None:
        if event.access_key:
            self.keys[event.access_key] = (event.user, enabled)
        else:
            self.users[event.user] = enabled


async def check_replay(store: MetaStore, outbox: Outbox) -> None:
    replay = Replay()
    for entry in await events_of(outbox, store):
        replay.apply(entry.event.kind, msgspec.msgpack.decode(entry.event.payload, type=IdentityEvent))
    assert replay.users == dict(await store.rows("SELECT name, enabled FROM principals"))
    keys = await store.rows("SELECT id, principal, enabled FROM access_keys")
    assert replay.keys == {key_id: (user, enabled) for key_id, user, enabled in keys}
    assert replay.policies == set(await store.rows("SELECT principal, kind, name FROM principal_policies"))


Step: TypeAlias = Callable[[Principals, AccessKeys], Awaitable[object]]

users = st.sampled_from(["ann", "bob"])
keys = st.sampled_from(["key-of-ann", "key-of-bob", "key-3"])
canned = st.sampled_from(sorted(CANNED_POLICIES))
names = st.sampled_from(["own", "readonly"])
steps: st.SearchStrategy[Step] = st.one_of(
    st.builds(lambda user, some: lambda p, k: p.create_user(user, canned=some), users, st.lists(canned, max_size=2)),
    st.builds(lambda user: lambda p, k: p.delete_user(user), users),
    st.builds(lambda user, on: lambda p, k: p.set_user_enabled(user, enabled=on), users, st.booleans()),
    st.builds(lambda user, key: lambda p, k: k.create(user, access_key_id=key), users, keys),
    st.builds(lambda key: lambda p, k: k.delete(key), keys),
    st.builds(lambda key: lambda p, k: k.rotate(key), keys),
    st.builds(lambda key, on: lambda p, k: k.set_enabled(key, enabled=on), keys, st.booleans()),
    st.builds(lambda user, name: lambda p, k: p.attach_canned(user, name), users, canned),
    st.builds(lambda user, name: lambda p, k: p.detach_canned(user, name), users, canned),
    st.builds(
        lambda user, name, text: lambda p, k: p.put_policy(user, name, text),
        users,
        names,
        st.sampled_from([READ, WRITE]),
    ),
    st.builds(lambda user, name: lambda p, k: p.delete_policy(user, name), users, names),
)


@pytest.mark.slow
@settings(max_examples=60)
@given(taken=st.lists(steps, min_size=4, max_size=24))
def test_replaying_the_events_reproduces_the_tables(taken: list[Step]) -> None:
    async def run() -> None:
        store = await SqliteStore.temporary()
        try:
            await migrate(store)
            outbox, clock = Outbox(store), ManualClock()
            root = Credential("ROOTKEY", Secret("root-secret"), root_of(OWNER, "ROOTKEY"))
            principals = Principals(store, outbox, clock, root.principal)
            access_keys = AccessKeys(store, outbox, MasterKeys({"k": b"1" * 32}, "k"), clock, root)
            # Start with data, so that most steps change something.
            for name in ("ann", "bob"):
                await principals.create_user(name, canned=["readonly"])
                await access_keys.create(name, access_key_id=f"key-of-{name}")
            for step in taken:
                try:
                    await step(principals, access_keys)
                except (NoSuchPrincipal, AlreadyExists):
                    continue
            await check_replay(store, outbox)
        finally:
            await store.close()

    asyncio.run(run())
