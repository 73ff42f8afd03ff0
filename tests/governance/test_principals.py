from __future__ import annotations

import pytest

from lakebed.core.clock import ManualClock
from lakebed.core.errors import AlreadyExists, Corrupted, InvalidInput, InvalidName, InvalidPolicy, NoSuchPrincipal
from lakebed.governance import CANNED_POLICIES, AccessKeys, Principals
from lakebed.governance.principals import MAX_POLICIES, StoredPolicyProblem, stored_policy_problems
from lakebed.meta.seam import MetaStore, Transaction
from lakebed.meta.sqlite.store import SqliteStore

from .documents import OTHER, OWNER, policy, statement

READ = policy(statement())


async def test_created_user_can_be_read(principals: Principals, clock: ManualClock) -> None:
    created = await principals.create_user("bob")
    assert await principals.user("bob") == created
    assert (created.account, created.enabled, created.created_ms) == (OWNER, True, clock.now_ms())
    assert created.arn == f"arn:aws:iam::{OWNER}:user/bob"
    assert len(created.user_id) == 20


async def test_user_can_be_created_in_another_account(principals: Principals) -> None:
    created = await principals.create_user("bob", account=OTHER)
    assert (created.account, created.arn) == (OTHER, f"arn:aws:iam::{OTHER}:user/bob")
    assert await principals.user("bob") == created


async def test_duplicate_user_name_is_refused_and_the_first_user_is_unchanged(principals: Principals) -> None:
    first = await principals.create_user("bob", canned=["readonly"])
    with pytest.raises(AlreadyExists, match="name=bob"):
        await principals.create_user("bob", account=OTHER, canned=["readwrite"])
    assert await principals.user("bob") == first
    assert [each.name for each in await principals.policies("bob")] == ["readonly"]


@pytest.mark.parametrize("name", ["", "a b", "a/b", "root", "Root", "anonymous", "*", "x" * 129, "bøb", "a\n"])
async def test_invalid_user_names_are_refused(principals: Principals, name: str) -> None:
    with pytest.raises(InvalidName):
        await principals.create_user(name)


@pytest.mark.parametrize("account", ["", "12345", "1" * 13, "abcdefabcdef"])
async def test_account_must_have_twelve_digits(principals: Principals, account: str) -> None:
    with pytest.raises(InvalidName):
        await principals.create_user("bob", account=account)


async def test_users_are_listed_by_name_page_by_page(principals: Principals) -> None:
    for name in ("carol", "Bob", "alice"):
        await principals.create_user(name)
    assert [user.name for user in await principals.users()] == ["Bob", "alice", "carol"]
    assert [user.name for user in await principals.users(limit=2)] == ["Bob", "alice"]
    assert [user.name for user in await principals.users(after="alice")] == ["carol"]


async def test_unknown_user_raises_no_such_principal(principals: Principals) -> None:
    for call in (
        principals.user("ghost"),
        principals.delete_user("ghost"),
        principals.set_user_enabled("ghost", enabled=False),
        principals.policies("ghost"),
        principals.put_policy("ghost", "p", READ),
        principals.attach_canned("ghost", "readonly"),
    ):
        with pytest.raises(NoSuchPrincipal):
            await call


async def test_user_can_be_disabled_and_enabled(principals: Principals) -> None:
    await principals.create_user("bob")
    for enabled in (False, False, True, True):
        changed = await principals.set_user_enabled("bob", enabled=enabled)
        assert changed.enabled is enabled
        assert await principals.user("bob") == changed


async def test_recreated_user_does_not_inherit_keys_or_policies(
    principals: Principals, access_keys: AccessKeys
) -> None:
    first = await principals.create_user("bob", canned=["readwrite"])
    await principals.put_policy("bob", "own", READ)
    await access_keys.create("bob")
    await principals.delete_user("bob")
    second = await principals.create_user("bob")
    assert second.user_id != first.user_id
    assert await principals.policies("bob") == []
    assert await access_keys.of_user("bob") == []


async def test_policies_can_be_put_replaced_and_deleted(principals: Principals) -> None:
    await principals.create_user("bob")
    await principals.put_policy("bob", "own", READ)
    replaced = policy(statement(action="s3:PutObject"))
    await principals.put_policy("bob", "own", replaced)
    await principals.attach_canned("bob", "readonly")
    await principals.attach_canned("bob", "readonly")
    found = await principals.policies("bob")
    assert [(each.name, each.is_canned, each.document) for each in found] == [
        ("readonly", True, CANNED_POLICIES["readonly"]),
        ("own", False, replaced),
    ]
    await principals.delete_policy("bob", "own")
    await principals.detach_canned("bob", "readonly")
    assert await principals.policies("bob") == []


async def test_inline_policy_can_have_the_name_of_a_canned_policy(principals: Principals) -> None:
    await principals.create_user("bob", canned=["readonly"])
    await principals.put_policy("bob", "readonly", READ)
    await principals.detach_canned("bob", "readonly")
    (left,) = await principals.policies("bob")
    assert left.document == READ


async def test_deleting_a_missing_policy_is_refused(principals: Principals) -> None:
    await principals.create_user("bob")
    with pytest.raises(NoSuchPrincipal, match="policy=own"):
        await principals.delete_policy("bob", "own")
    with pytest.raises(NoSuchPrincipal, match="policy=readonly"):
        await principals.detach_canned("bob", "readonly")


async def test_invalid_policy_is_not_stored(principals: Principals) -> None:
    await principals.create_user("bob")
    with pytest.raises(InvalidPolicy):
        await principals.put_policy("bob", "own", policy(statement(principal="*")))
    with pytest.raises(InvalidPolicy, match='did you mean "s3:DeleteObject"'):
        await principals.put_policy("bob", "own", policy(statement(effect="Deny", action="s3:DeletObject")))
    with pytest.raises(InvalidName):
        await principals.put_policy("bob", "a/b", READ)
    with pytest.raises(NoSuchPrincipal, match="canned"):
        await principals.attach_canned("bob", "everything")
    with pytest.raises(NoSuchPrincipal, match="canned"):
        await principals.create_user("eve", canned=["everything"])
    assert await principals.policies("bob") == []


async def test_number_of_policies_per_user_is_limited(principals: Principals) -> None:
    await principals.create_user("bob")
    for number in range(MAX_POLICIES):
        await principals.put_policy("bob", f"p{number}", READ)
    with pytest.raises(InvalidInput, match="too many"):
        await principals.put_policy("bob", "one-more", READ)
    await principals.put_policy("bob", "p0", READ)
    assert len(await principals.policies("bob")) == MAX_POLICIES


async def test_canned_policy_named_twice_is_attached_once(principals: Principals) -> None:
    await principals.create_user("bob", canned=["readonly", "readonly"])
    assert [each.name for each in await principals.policies("bob")] == ["readonly"]


async def test_unknown_canned_policy_fails_the_lookup(
    principals: Principals, access_keys: AccessKeys, store: SqliteStore
) -> None:
    await principals.create_user("bob")
    key_id = (await access_keys.create("bob")).key.id

    async def work(tx: Transaction) -> None:
        await tx.run("INSERT INTO principal_policies (principal, kind, name) VALUES ('bob', 'canned', 'from-later')")

    await store.transact(work)
    for call in (principals.policies("bob"), access_keys.lookup(key_id)):
        with pytest.raises(Corrupted, match="from-later"):
            await call


async def test_unknown_actions_in_stored_policies_are_reported_by_user(
    principals: Principals, store: MetaStore
) -> None:
    misspelled = policy(statement(effect="Deny", action=["s3:DeletObject", "s3:PutObject"]))
    for name in ("alice", "bob"):
        await principals.create_user(name, canned=["readonly"])
        await principals.put_policy(name, "good", policy(statement()))

    async def work(tx: Transaction) -> None:
        await tx.run(
            "INSERT INTO principal_policies (principal, kind, name, document) VALUES (?, ?, ?, ?)",
            "bob",
            "inline",
            "old",
            misspelled,
        )

    await store.transact(work)
    found = [problem async for problem in stored_policy_problems(store)]
    assert found == [
        StoredPolicyProblem("bob", "old", 'unknown action "s3:DeletObject"; did you mean "s3:DeleteObject"?')
    ]
