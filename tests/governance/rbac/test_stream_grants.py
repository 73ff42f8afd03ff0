from __future__ import annotations

import pytest

from lakebed.core.access import AccessRequest, ResourceRules, Securable
from lakebed.core.errors import AccessDenied, NoSuchPrincipal
from lakebed.governance import PolicyAuthorizer
from lakebed.governance.rbac.grant_cleanup import remove_stream_grants
from lakebed.governance.rbac.privileges import Privilege
from lakebed.governance.rbac.securables import stream_key, stream_securable
from lakebed.governance.rbac.stream_grants import GranteeKind, StreamGrant, StreamGrants
from lakebed.meta.seam import Transaction
from tests.governance.documents import OWNER
from tests.governance.rbac.world import ROOT, World

P = Privilege
USER, ROLE = GranteeKind.USER, GranteeKind.ROLE


@pytest.fixture
def grants(world: World) -> StreamGrants:
    return StreamGrants(world.store, world.outbox, world.clock)


async def may(world: World, key: str, securable: Securable, privilege: Privilege) -> bool:
    caller = (await world.access_keys.lookup(key)).principal
    request = AccessRequest(
        caller, "streams:Any", "arn:aws:lakebed:::streams", securable=securable, privileges=(privilege,)
    )
    try:
        await PolicyAuthorizer(world.clock).authorize(request, ResourceRules(owner=OWNER))
    except AccessDenied:
        return False
    return True


async def user(world: World, name: str) -> str:
    await world.users.create_user(name)
    return (await world.access_keys.create(name)).key.id


async def test_grant_to_a_user_without_roles_applies_to_the_next_request(world: World, grants: StreamGrants) -> None:
    key = await user(world, "alice")
    table = stream_securable("sales", "orders")
    assert not await may(world, key, table, P.STREAM_READ)
    grant = StreamGrant(USER, "alice", stream_key("sales", "orders"), P.STREAM_READ)
    assert await grants.add(grant, ROOT)
    assert not await grants.add(grant, ROOT)
    assert await may(world, key, table, P.STREAM_READ)
    assert await may(world, key, table, P.STREAM_DESCRIBE)
    assert not await may(world, key, table, P.STREAM_WRITE)
    assert not await may(world, key, stream_securable("sales", "returns"), P.STREAM_READ)
    assert not await may(world, key, stream_securable("sales"), P.STREAM_DESCRIBE)
    assert await grants.remove([grant], ROOT) == [grant]
    assert await grants.remove([grant], ROOT) == []
    assert not await may(world, key, table, P.STREAM_READ)


@pytest.mark.parametrize(
    ("place", "reaches_table", "reaches_database", "reaches_all"),
    [
        (stream_key(), True, True, True),
        (stream_key("sales"), True, True, False),
        (stream_key("*"), True, True, False),
        (stream_key("*", "*"), True, False, False),
        (stream_key("sales", "orders"), True, False, False),
        (stream_key("sale"), False, False, False),
    ],
)
async def test_grants_are_inherited_by_children(
    world: World, grants: StreamGrants, place: str, reaches_table: bool, reaches_database: bool, reaches_all: bool
) -> None:
    key = await user(world, "alice")
    await grants.add(StreamGrant(USER, "alice", place, P.STREAM_ALL), ROOT)
    assert await may(world, key, stream_securable("sales", "orders"), P.STREAM_WRITE) is reaches_table
    assert await may(world, key, stream_securable("sales"), P.STREAM_CREATE) is reaches_database
    assert await may(world, key, stream_securable(), P.STREAM_ALTER) is reaches_all


async def test_grants_to_any_user_and_to_roles_apply(world: World, grants: StreamGrants) -> None:
    alice, bob = await user(world, "alice"), await user(world, "bob")
    await world.principal_roles.create(world.by, "writers", properties={})
    await world.principal_roles.assign(world.by, "bob", "writers")
    await grants.add(StreamGrant(USER, "*", stream_key("sales"), P.STREAM_READ), ROOT)
    await grants.add(StreamGrant(ROLE, "writers", stream_key("sales"), P.STREAM_WRITE), ROOT)
    place = stream_securable("sales", "orders")
    assert [await may(world, key, place, P.STREAM_READ) for key in (alice, bob)] == [True, True]
    assert [await may(world, key, place, P.STREAM_WRITE) for key in (alice, bob)] == [False, True]
    assert set(await grants.all()) == {
        StreamGrant(USER, "*", stream_key("sales"), P.STREAM_READ),
        StreamGrant(ROLE, "writers", stream_key("sales"), P.STREAM_WRITE),
    }


async def test_grant_to_an_unknown_grantee_is_refused(world: World, grants: StreamGrants) -> None:
    for kind in GranteeKind:
        with pytest.raises(NoSuchPrincipal):
            await grants.add(StreamGrant(kind, "ghost", stream_key(), P.STREAM_READ), ROOT)


async def test_root_and_service_admin_have_stream_privileges(world: World, grants: StreamGrants) -> None:
    assert await grants.add(StreamGrant(USER, "root", stream_key(), P.STREAM_READ), ROOT)
    key = await user(world, "carol")
    await world.principal_roles.assign(world.by, "carol", "service_admin")
    assert await may(world, key, stream_securable(), P.STREAM_ALTER)
    assert not await may(world, key, stream_securable("sales", "orders"), P.STREAM_READ)


async def test_grants_are_deleted_with_their_grantee(world: World, grants: StreamGrants) -> None:
    await user(world, "alice")
    await world.principal_roles.create(world.by, "writers", properties={})
    await grants.add(StreamGrant(USER, "alice", stream_key(), P.STREAM_READ), ROOT)
    await grants.add(StreamGrant(ROLE, "writers", stream_key(), P.STREAM_WRITE), ROOT)
    await world.users.delete_user("alice")
    await world.principal_roles.delete(world.by, "writers")
    assert await grants.all() == []
    again = await user(world, "alice")
    assert not await may(world, again, stream_securable(), P.STREAM_READ)


async def test_grants_are_deleted_with_their_securable(world: World, grants: StreamGrants) -> None:
    key = await user(world, "alice")
    for place in (
        stream_key("sales"),
        stream_key("sales", "orders"),
        stream_key("sales", "returns"),
        stream_key("sales2"),
        stream_key("sales-2", "orders"),
    ):
        await grants.add(StreamGrant(USER, "alice", place, P.STREAM_READ), ROOT)

    async def drop_table(tx: Transaction) -> None:
        await remove_stream_grants(tx, "sales", "orders")

    async def drop_database(tx: Transaction) -> None:
        await remove_stream_grants(tx, "sales")

    await world.store.transact(drop_table)
    assert len(await grants.all()) == 4
    await world.store.transact(drop_database)
    assert {grant.securable for grant in await grants.all()} == {stream_key("sales2"), stream_key("sales-2", "orders")}
    assert not await may(world, key, stream_securable("sales", "orders"), P.STREAM_READ)


async def test_changes_emit_events(world: World, grants: StreamGrants) -> None:
    await user(world, "alice")
    grant = StreamGrant(USER, "alice", stream_key("sales", "orders"), P.STREAM_READ)
    await grants.add(grant, ROOT)
    await grants.add(grant, ROOT)
    await grants.remove([grant], ROOT)
    events = [
        entry for entry in await world.events("GrantAdded", "GrantRevoked") if entry[1].securable.startswith("streams")
    ]
    assert [kind for kind, _ in events] == ["GrantAdded", "GrantRevoked"]
    assert {(event.user, event.securable, event.privilege) for _, event in events} == {
        ("alice", "streams sales.orders", "STREAM_READ")
    }
