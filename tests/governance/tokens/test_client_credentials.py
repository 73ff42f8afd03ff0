from __future__ import annotations

import re

import msgspec
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from lakebed.core.access import Credential
from lakebed.core.clock import ManualClock
from lakebed.core.errors import (
    AlreadyExists,
    CredentialsExpired,
    InvalidInput,
    InvalidName,
    StateConflict,
    Throttled,
    Unauthenticated,
)
from lakebed.core.secrets import Secret
from lakebed.governance import AccessKeys, Principals
from lakebed.governance.events import IdentityEvent
from lakebed.governance.tokens import ClientAuthenticator, ClientCredentialInfo, ClientCredentialStore
from lakebed.meta.outbox import Outbox
from lakebed.meta.seam import MetaStore, Transaction

from .users import ADDRESS, with_credentials


async def is_accepted(clients: ClientAuthenticator, client_id: str, secret: Secret) -> bool:
    try:
        await clients.authenticate(client_id, secret, ADDRESS)
    except Unauthenticated:
        return False
    return True


async def test_credentials_have_the_format_of_polaris(
    store: MetaStore, principals: Principals, client_credentials: ClientCredentialStore, clients: ClientAuthenticator
) -> None:
    user, created = await with_credentials(store, principals, client_credentials)
    assert re.fullmatch("[0-9a-f]{16}", created.client_id)
    assert re.fullmatch("[0-9a-f]{32}", created.secret.reveal())
    assert created.secret.reveal() not in repr(created)
    client = await clients.authenticate(created.client_id, created.secret, ADDRESS)
    assert (client.user_id, client.generation) == (user.user_id, "1")


async def test_expiry_of_an_access_key_is_revealed_only_with_its_secret(
    principals: Principals, access_keys: AccessKeys, clients: ClientAuthenticator, clock: ManualClock
) -> None:
    await principals.create_user("bob")
    created = await access_keys.create("bob", expires_ms=clock.now_ms() + 1000)
    clock.advance(1)
    with pytest.raises(CredentialsExpired, match=f"the access key has expired. access_key_id={created.key.id}"):
        await clients.authenticate(created.key.id, created.secret, ADDRESS)
    with pytest.raises(Unauthenticated, match="wrong client id or secret"):
        await clients.authenticate(created.key.id, Secret("wrong"), ADDRESS)


async def test_store_contains_no_secret(
    store: MetaStore, principals: Principals, client_credentials: ClientCredentialStore
) -> None:
    _, created = await with_credentials(store, principals, client_credentials)
    rows = await store.rows("SELECT * FROM client_credentials")
    assert created.secret.reveal() not in repr(rows)
    assert "$argon2id$" in repr(rows)


async def test_credentials_are_created_and_rolled_back_with_their_user(
    store: MetaStore, principals: Principals, client_credentials: ClientCredentialStore, clients: ClientAuthenticator
) -> None:
    user = await principals.create_user("bob")

    async def failing(tx: Transaction) -> None:
        await client_credentials.create(tx, user)
        raise InvalidInput("something else")

    with pytest.raises(InvalidInput):
        await store.transact(failing)
    assert await client_credentials.of_user(user) is None

    async def work(tx: Transaction) -> tuple[str, Secret]:
        created = await client_credentials.create(tx, user)
        return created.client_id, created.secret

    client_id, secret = await store.transact(work)
    assert await is_accepted(clients, client_id, secret)
    await principals.delete_user("bob")
    assert await store.rows("SELECT * FROM client_credentials") == []
    assert not await is_accepted(clients, client_id, secret)


async def test_user_has_at_most_one_pair_of_credentials(
    store: MetaStore, principals: Principals, client_credentials: ClientCredentialStore
) -> None:
    user, _ = await with_credentials(store, principals, client_credentials)
    with pytest.raises(StateConflict):
        await store.transact(lambda tx: client_credentials.create(tx, user))


async def test_secret_is_valid_until_the_second_rotation(
    store: MetaStore, principals: Principals, client_credentials: ClientCredentialStore, clients: ClientAuthenticator
) -> None:
    user, first = await with_credentials(store, principals, client_credentials)
    second = await client_credentials.rotate(user)
    assert second.client_id == first.client_id
    assert await is_accepted(clients, first.client_id, first.secret)
    assert await is_accepted(clients, first.client_id, second.secret)
    third = await client_credentials.rotate(user)
    assert not await is_accepted(clients, first.client_id, first.secret)
    assert await is_accepted(clients, first.client_id, second.secret)
    assert await is_accepted(clients, first.client_id, third.secret)


async def test_reset_invalidates_both_secrets(
    store: MetaStore, principals: Principals, client_credentials: ClientCredentialStore, clients: ClientAuthenticator
) -> None:
    user, first = await with_credentials(store, principals, client_credentials)
    second = await client_credentials.rotate(user)
    third = await client_credentials.reset(user)
    assert [await is_accepted(clients, first.client_id, created.secret) for created in (first, second, third)] == [
        False,
        False,
        True,
    ]


async def test_reset_accepts_a_given_id_and_secret(
    store: MetaStore, principals: Principals, client_credentials: ClientCredentialStore, clients: ClientAuthenticator
) -> None:
    user, first = await with_credentials(store, principals, client_credentials)
    created = await client_credentials.reset(user, client_id="bobs-client", secret=Secret("a-chosen-secret"))
    assert created.client_id == "bobs-client"
    assert await is_accepted(clients, "bobs-client", created.secret)
    assert not await is_accepted(clients, first.client_id, created.secret)


async def test_taken_client_ids_are_refused(
    store: MetaStore,
    principals: Principals,
    access_keys: AccessKeys,
    client_credentials: ClientCredentialStore,
    root: Credential,
) -> None:
    user, _ = await with_credentials(store, principals, client_credentials)
    _, eves = await with_credentials(store, principals, client_credentials, "eve")
    key = await access_keys.create("eve")
    for taken in (eves.client_id, key.key.id, root.access_key_id):
        with pytest.raises(AlreadyExists):
            await client_credentials.reset(user, client_id=taken)
    for odd in ("a:b", "a/b", "", "LKBTABC"):
        with pytest.raises(InvalidName):
            await client_credentials.reset(user, client_id=odd)
    with pytest.raises(InvalidInput):
        await client_credentials.reset(user, secret=Secret("short"))


async def test_changes_without_credentials_are_refused(
    principals: Principals, client_credentials: ClientCredentialStore
) -> None:
    user = await principals.create_user("bob")
    with pytest.raises(InvalidInput):
        await client_credentials.rotate(user)
    with pytest.raises(InvalidInput):
        await client_credentials.reset(user)


async def test_changes_emit_events_without_secrets(
    store: MetaStore, principals: Principals, client_credentials: ClientCredentialStore, outbox: Outbox
) -> None:
    user, first = await with_credentials(store, principals, client_credentials)
    second = await client_credentials.rotate(user)
    third = await client_credentials.reset(user)
    entries = [entry.event for entry in await outbox.read_after(store, 0, 100) if entry.event.kind.startswith("Client")]
    assert [event.kind for event in entries] == [
        "ClientCredentialsCreated",
        "ClientCredentialsRotated",
        "ClientCredentialsReset",
    ]
    for event in entries:
        payload = msgspec.msgpack.decode(event.payload, type=IdentityEvent)
        assert (payload.user, payload.client) == ("bob", first.client_id)
        assert not any(created.secret.reveal().encode() in event.payload for created in (first, second, third))


async def test_failed_attempts_throttle_the_right_secret_too(
    store: MetaStore,
    principals: Principals,
    client_credentials: ClientCredentialStore,
    clients: ClientAuthenticator,
    clock: ManualClock,
) -> None:
    """Otherwise a correct guess would not be throttled."""
    _, created = await with_credentials(store, principals, client_credentials)
    for number in range(10):
        assert not await is_accepted(clients, created.client_id, Secret(f"guess-{number}"))
    for secret in (Secret("guess-10"), created.secret):
        with pytest.raises(Throttled):
            await clients.authenticate(created.client_id, secret, ADDRESS)
    clock.advance(6)
    assert await is_accepted(clients, created.client_id, created.secret)


async def test_attempts_per_address_are_limited(clients: ClientAuthenticator) -> None:
    for number in range(60):
        assert not await is_accepted(clients, f"client-{number}", Secret("password"))
    with pytest.raises(Throttled):
        await clients.authenticate("client-60", Secret("password"), ADDRESS)
    with pytest.raises(Throttled):
        await clients.authenticate("not a client id \0", Secret("password"), ADDRESS)


async def test_access_keys_are_accepted_while_valid(
    principals: Principals, access_keys: AccessKeys, clients: ClientAuthenticator, root: Credential
) -> None:
    user = await principals.create_user("bob")
    created = await access_keys.create("bob")
    assert (await clients.authenticate(created.key.id, created.secret, ADDRESS)).user_id == user.user_id
    assert (await clients.authenticate("ROOTKEY", root.secret, ADDRESS)).user_id == root.principal.user_id
    assert not await is_accepted(clients, "ROOTKEY", Secret("not root's"))
    assert not await is_accepted(clients, created.key.id, root.secret)
    await access_keys.set_enabled(created.key.id, enabled=False)
    assert not await is_accepted(clients, created.key.id, created.secret)


async def test_client_of_a_disabled_user_is_refused(
    store: MetaStore, principals: Principals, client_credentials: ClientCredentialStore, clients: ClientAuthenticator
) -> None:
    _, created = await with_credentials(store, principals, client_credentials)
    await principals.set_user_enabled("bob", enabled=False)
    assert not await is_accepted(clients, created.client_id, created.secret)


class Rotations(RuleBasedStateMachine):
    """The accepted secrets after rotations and resets, compared with a model."""

    def __init__(self) -> None:
        super().__init__()
        self.pair = ClientCredentialInfo("c", "u", generation=1, has_secondary=False, created_ms=0, rotated_ms=0)
        self.good = {1}
        self.created = 1

    @rule()
    def rotate(self) -> None:
        present = self.pair.generation
        self.pair = ClientCredentialInfo("c", "u", present + 1, True, 0, 0)
        self.created += 1
        self.good = {present, present + 1}

    @rule()
    def reset(self) -> None:
        self.pair = ClientCredentialInfo("c", "u", self.pair.generation + 1, False, 0, 0)
        self.created += 1
        self.good = {self.pair.generation}

    @invariant()
    def accepted_secrets_agree_with_the_model(self) -> None:
        assert {number for number in range(self.created + 2) if self.pair.accepts(number)} == self.good


TestRotations = Rotations.TestCase
TestRotations.settings = settings(max_examples=30, stateful_step_count=10)
