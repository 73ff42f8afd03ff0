from __future__ import annotations

import pytest

from lakebed.core.access import Credential, LongLivedKey
from lakebed.core.clock import ManualClock
from lakebed.core.errors import (
    AlreadyExists,
    Corrupted,
    CredentialsExpired,
    InvalidInput,
    InvalidName,
    NoSuchPrincipal,
    Unauthenticated,
)
from lakebed.core.secrets import Secret
from lakebed.governance import CANNED_POLICIES, AccessKeys, MasterKeys, Principals
from lakebed.meta.outbox import Outbox
from lakebed.meta.seam import Transaction
from lakebed.meta.sqlite.store import SqliteStore
from tests.governance.documents import OTHER


async def change(store: SqliteStore, sql: str, *args: str) -> None:
    async def work(tx: Transaction) -> None:
        await tx.run(sql, *args)

    await store.transact(work)


async def test_lookup_returns_secret_and_user(principals: Principals, access_keys: AccessKeys) -> None:
    user = await principals.create_user("bob", canned=["readonly", "writeonly"])
    created = await access_keys.create("bob")
    found = await access_keys.lookup(created.key.id)
    assert found.secret == created.secret
    assert found.principal.name == "bob"
    assert found.principal.arn == user.arn
    assert found.principal.user_id == user.user_id
    assert found.principal.policies == (CANNED_POLICIES["readonly"], CANNED_POLICIES["writeonly"])
    assert found.principal.key == LongLivedKey(created.key.id, created.key.created_ms)
    assert not found.principal.is_root
    assert (len(created.key.id), len(created.secret.reveal())) == (20, 40)


async def test_key_of_a_user_of_another_account_has_that_account(
    principals: Principals, access_keys: AccessKeys
) -> None:
    user = await principals.create_user("bob", account=OTHER)
    caller = (await access_keys.lookup((await access_keys.create("bob")).key.id)).principal
    assert (caller.account, caller.arn) == (OTHER, user.arn) == (OTHER, f"arn:aws:iam::{OTHER}:user/bob")


async def test_user_without_policies_has_none(principals: Principals, access_keys: AccessKeys) -> None:
    await principals.create_user("bob")
    created = await access_keys.create("bob")
    assert (await access_keys.lookup(created.key.id)).principal.policies == ()


async def test_given_id_and_secret_are_used(principals: Principals, access_keys: AccessKeys) -> None:
    await principals.create_user("bob")
    await access_keys.create("bob", access_key_id="bobs-key", secret=Secret("bobs-secret"))
    assert (await access_keys.lookup("bobs-key")).secret == Secret("bobs-secret")


async def test_lookup_of_root_reads_nothing(access_keys: AccessKeys, root: Credential, store: SqliteStore) -> None:
    await store.close()
    assert await access_keys.lookup("ROOTKEY") is root


async def test_credential_is_the_same_object_while_unchanged(principals: Principals, access_keys: AccessKeys) -> None:
    await principals.create_user("bob")
    key_id = (await access_keys.create("bob")).key.id
    first = await access_keys.lookup(key_id)
    assert await access_keys.lookup(key_id) is first
    await principals.attach_canned("bob", "readonly")
    assert (await access_keys.lookup(key_id)).principal.policies == (CANNED_POLICIES["readonly"],)
    await principals.detach_canned("bob", "readonly")
    assert (await access_keys.lookup(key_id)) == first


@pytest.mark.parametrize("key_id", ["UNKNOWN", "", "x" * 500, "a b", "\0", "\ud800", "é", "' OR 1=1 --"])
async def test_error_for_an_unknown_key_does_not_contain_it(access_keys: AccessKeys, key_id: str) -> None:
    with pytest.raises(Unauthenticated, match=r"^unknown access key$"):
        await access_keys.lookup(key_id)


async def test_key_is_refused_while_the_key_or_user_is_disabled(
    principals: Principals, access_keys: AccessKeys
) -> None:
    await principals.create_user("bob")
    key_id = (await access_keys.create("bob")).key.id
    await access_keys.lookup(key_id)
    assert not (await access_keys.set_enabled(key_id, enabled=False)).enabled
    with pytest.raises(Unauthenticated, match="disabled"):
        await access_keys.lookup(key_id)
    await access_keys.set_enabled(key_id, enabled=True)
    await access_keys.lookup(key_id)
    await principals.set_user_enabled("bob", enabled=False)
    with pytest.raises(Unauthenticated, match="disabled"):
        await access_keys.lookup(key_id)


async def test_key_expires(principals: Principals, access_keys: AccessKeys, clock: ManualClock) -> None:
    await principals.create_user("bob")
    expires_ms = clock.now_ms() + 1000
    key_id = (await access_keys.create("bob", expires_ms=expires_ms)).key.id
    assert (await access_keys.lookup(key_id)).expires_ms == expires_ms
    clock.advance(0.999)
    await access_keys.lookup(key_id)
    clock.advance(0.001)
    with pytest.raises(CredentialsExpired):
        await access_keys.lookup(key_id)


async def test_rotated_key_has_a_new_secret_and_the_old_id(
    principals: Principals, access_keys: AccessKeys, clock: ManualClock
) -> None:
    await principals.create_user("bob")
    created = await access_keys.create("bob")
    await access_keys.lookup(created.key.id)
    clock.advance(60)
    rotated = await access_keys.rotate(created.key.id)
    assert rotated.key.id == created.key.id
    assert rotated.secret != created.secret
    assert (await access_keys.lookup(created.key.id)).secret == rotated.secret
    stored = await access_keys.key(created.key.id)
    assert (stored.created_ms, stored.rotated_ms) == (created.key.created_ms, created.key.created_ms + 60_000)
    assert stored == rotated.key


async def test_deleted_key_is_unknown(principals: Principals, access_keys: AccessKeys) -> None:
    await principals.create_user("bob")
    other, deleted = (await access_keys.create("bob")).key, (await access_keys.create("bob")).key
    await access_keys.delete(deleted.id)
    with pytest.raises(Unauthenticated):
        await access_keys.lookup(deleted.id)
    assert await access_keys.of_user("bob") == [other]


async def test_key_ids_are_unique(principals: Principals, access_keys: AccessKeys) -> None:
    await principals.create_user("bob")
    await principals.create_user("eve")
    created = await access_keys.create("bob", access_key_id="shared-id")
    for taken in ("shared-id", "ROOTKEY"):
        with pytest.raises(AlreadyExists, match=taken):
            await access_keys.create("eve", access_key_id=taken)
    assert (await access_keys.lookup("shared-id")).secret == created.secret


async def test_unknown_user_or_key_raises_no_such_principal(access_keys: AccessKeys) -> None:
    for call in (
        access_keys.create("ghost"),
        access_keys.key("UNKNOWN"),
        access_keys.rotate("UNKNOWN"),
        access_keys.delete("UNKNOWN"),
        access_keys.set_enabled("UNKNOWN", enabled=True),
    ):
        with pytest.raises(NoSuchPrincipal):
            await call
    assert await access_keys.of_user("ghost") == []


@pytest.mark.parametrize("key_id", ["", "ab", "a/b", "a b", "x" * 129, "LKBTABCDEFGHIJKLMNOP"])
async def test_invalid_key_ids_are_refused(principals: Principals, access_keys: AccessKeys, key_id: str) -> None:
    await principals.create_user("bob")
    with pytest.raises(InvalidName):
        await access_keys.create("bob", access_key_id=key_id)


@pytest.mark.parametrize("secret", ["", "short", "with a space", "x" * 129, "pässword"])
async def test_invalid_secret_is_refused_without_revealing_it(
    principals: Principals, access_keys: AccessKeys, secret: str
) -> None:
    await principals.create_user("bob")
    with pytest.raises(InvalidInput) as raised:
        await access_keys.create("bob", secret=Secret(secret))
    assert not secret or secret not in str(raised.value)
    assert raised.value.value is None


async def test_key_cannot_expire_in_the_past(
    principals: Principals, access_keys: AccessKeys, clock: ManualClock
) -> None:
    await principals.create_user("bob")
    with pytest.raises(InvalidInput, match="future"):
        await access_keys.create("bob", expires_ms=clock.now_ms())


async def test_store_contains_no_plaintext_secret(
    principals: Principals, access_keys: AccessKeys, store: SqliteStore
) -> None:
    await principals.create_user("bob")
    created = await access_keys.create("bob")
    row = await store.row("SELECT secret FROM access_keys WHERE id = ?", created.key.id)
    assert row is not None
    assert created.secret.reveal().encode() not in row[0]
    assert created.secret.reveal() not in repr(created)


async def test_row_moved_to_another_user_does_not_decrypt(
    principals: Principals, access_keys: AccessKeys, store: SqliteStore
) -> None:
    await principals.create_user("bob")
    await principals.create_user("admin", canned=["consoleAdmin"])
    key_id = (await access_keys.create("bob")).key.id
    await change(store, "UPDATE access_keys SET principal = 'admin' WHERE id = ?", key_id)
    with pytest.raises(Corrupted):
        await access_keys.lookup(key_id)


async def test_secrets_decrypt_after_the_active_master_key_changes(
    principals: Principals,
    access_keys: AccessKeys,
    store: SqliteStore,
    outbox: Outbox,
    clock: ManualClock,
    root: Credential,
) -> None:
    await principals.create_user("bob")
    created = await access_keys.create("bob")
    both = MasterKeys({"first": b"1" * 32, "second": b"2" * 32}, active="second")
    later = AccessKeys(store, outbox, both, clock, root)
    assert (await later.lookup(created.key.id)).secret == created.secret
    rotated = await later.rotate(created.key.id)
    assert (await later.lookup(created.key.id)).secret == rotated.secret
    with pytest.raises(Corrupted, match="key=second"):
        await access_keys.lookup(created.key.id)
