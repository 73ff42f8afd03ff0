from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.errors import AccessDenied, NoSuchPrincipal
from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.streams.admin.acls import CLUSTER, Acl, AclFilter, AclOperation, Permission, ResourceType, acl_of, grant_of
from lakebed.streams.authorization import StreamOperation
from tests.streams.world import StreamWorld

R, O = ResourceType, AclOperation  # noqa: E741 - as short as the tables below want it

resources = st.one_of(
    st.just((CLUSTER, R.CLUSTER)),
    st.tuples(st.sampled_from(["sales", "a-b", "*"]), st.just(R.DATABASE)),
    st.tuples(st.sampled_from(["sales.orders", "a.b", "*"]), st.just(R.TABLE)),
)
operations = st.sampled_from([each for each in AclOperation if each is not O.ANY])


def acl(
    operation: int, name: str = "sales.orders", kind: int = R.TABLE, principal: str = "alice", type_: str = "User"
) -> Acl:
    return Acl(name, kind, principal, type_, "*", operation, Permission.ALLOW)


@given(resources, operations, st.sampled_from(["User", "Role"]))
def test_acl_survives_the_conversion_to_a_grant(resource: tuple[str, ResourceType], operation: int, type_: str) -> None:
    written = acl(operation, *resource, type_=type_)
    assert acl_of(grant_of(written)) == written


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (acl(O.READ)._replace(permission=1), ErrorCode.INVALID_CONFIG),
        (acl(O.READ)._replace(permission=3), ErrorCode.INVALID_CONFIG),
        (acl(O.READ)._replace(host="10.0.0.1"), ErrorCode.INVALID_CONFIG),
        (acl(O.ANY), ErrorCode.INVALID_CONFIG),
        (acl(99), ErrorCode.INVALID_CONFIG),
        (acl(O.READ, type_="Group"), ErrorCode.INVALID_CONFIG),
        (acl(O.READ, kind=R.ANY), ErrorCode.INVALID_CONFIG),
        (acl(O.READ, "a b", R.DATABASE), ErrorCode.INVALID_DATABASE),
        (acl(O.READ, "sales", R.TABLE), ErrorCode.INVALID_TABLE),
        (acl(O.READ, "sales.orders.x", R.TABLE), ErrorCode.INVALID_TABLE),
    ],
)
def test_invalid_acls_are_rejected(bad: Acl, reason: ErrorCode) -> None:
    with pytest.raises(FlussError) as caught:
        grant_of(bad)
    assert caught.value.code is reason


@pytest.mark.parametrize(
    ("operation", "allowed"),
    [
        (O.READ, {StreamOperation.READ, StreamOperation.DESCRIBE}),
        (O.WRITE, {StreamOperation.WRITE, StreamOperation.DESCRIBE}),
        (O.CREATE, {StreamOperation.CREATE, StreamOperation.DESCRIBE}),
        (O.DROP, {StreamOperation.DROP, StreamOperation.DESCRIBE}),
        (O.ALTER, {StreamOperation.ALTER, StreamOperation.DESCRIBE}),
        (O.DESCRIBE, {StreamOperation.DESCRIBE}),
        (O.ALL, set(StreamOperation)),
    ],
)
async def test_operations_allowed_by_each_acl(
    light_world: StreamWorld, operation: int, allowed: set[StreamOperation]
) -> None:
    world = light_world
    key = await world.user("alice")
    await world.acls.create(world.root, acl(operation))
    caller = await world.caller(key)
    assert {
        need for need in StreamOperation if await world.authorizer.is_authorized(caller, need, "sales", "orders")
    } == allowed
    assert not any([await world.authorizer.is_authorized(caller, need, "sales") for need in StreamOperation])


async def test_acls_are_listed_and_dropped_by_filter(world: StreamWorld) -> None:
    await world.user("alice")
    await world.user("bob")
    kept = [acl(O.READ, principal="bob"), acl(O.WRITE, principal="bob")]
    dropped = [acl(O.READ), acl(O.ALL, "sales", R.DATABASE)]
    for each in [*kept, *dropped]:
        await world.acls.create(world.root, each)
        await world.acls.create(world.root, each)
    assert set(await world.acls.matching(AclFilter())) == {*kept, *dropped}
    assert await world.acls.matching(AclFilter(resource_type=R.DATABASE)) == dropped[1:]
    assert await world.acls.matching(AclFilter(operation=O.WRITE, permission=Permission.ALLOW)) == kept[1:]
    assert await world.acls.matching(AclFilter(host="10.0.0.1")) == []
    assert set(await world.acls.drop(world.root, AclFilter(principal_name="alice"))) == set(dropped)
    assert await world.acls.drop(world.root, AclFilter(principal_name="alice")) == []
    assert set(await world.acls.matching(AclFilter())) == set(kept)


async def test_acl_for_an_unknown_principal_is_rejected(light_world: StreamWorld) -> None:
    with pytest.raises(NoSuchPrincipal):
        await light_world.acls.create(light_world.root, acl(O.READ, principal="unknown"))


async def test_dropping_a_table_drops_its_acls(world: StreamWorld) -> None:
    key = await world.user("alice")
    await world.table()
    await world.acls.create(world.root, acl(O.ALL, "fluss.orders"))
    assert await world.databases.list_tables(await world.caller(key), "fluss") == ["orders"]
    await world.tables.drop(await world.caller(key), "fluss", "orders")
    await world.table()
    assert await world.acls.matching(AclFilter()) == []
    assert await world.databases.list_tables(await world.caller(key), "fluss") == []


async def test_acls_are_administered_with_cluster_permissions(light_world: StreamWorld) -> None:
    world = light_world
    key = await world.user("alice")
    with pytest.raises(AccessDenied):
        await world.acls.authorize(await world.caller(key), to_change=False)
    await world.acls.create(world.root, acl(O.DESCRIBE, CLUSTER, R.CLUSTER))
    await world.acls.authorize(await world.caller(key), to_change=False)
    with pytest.raises(AccessDenied):
        await world.acls.authorize(await world.caller(key), to_change=True)
    await world.acls.create(world.root, acl(O.ALTER, CLUSTER, R.CLUSTER))
    await world.acls.authorize(await world.caller(key), to_change=True)
