from __future__ import annotations

from lakebed.core.access import Principal, Securable
from lakebed.governance import AccessKeys, MasterKeys, Sessions
from lakebed.governance.rbac.catalogs import find_catalog, find_place
from lakebed.governance.rbac.loading import CallerGrants
from lakebed.governance.rbac.model import GrantTarget
from lakebed.governance.rbac.privileges import GrantKind, Privilege
from lakebed.governance.rbac.securables import SERVICE
from lakebed.meta.seam import MetaStore, Row, Value

from .world import World

P = Privilege
TABLE = GrantTarget(GrantKind.TABLE, ("a", "b"), "t")


class Counted:
    """A reader that counts."""

    def __init__(self, store: MetaStore) -> None:
        self._store = store
        self.reads = 0

    async def row(self, sql: str, *args: Value) -> Row | None:
        self.reads += 1
        return await self._store.row(sql, *args)

    async def rows(self, sql: str, *args: Value) -> list[Row]:
        self.reads += 1
        return await self._store.rows(sql, *args)


async def engineer(world: World, *names: str) -> None:
    """A role `engineer` that reads a table, held by new users of these names."""
    await world.principal_roles.create(world.by, "engineer", properties={})
    await world.catalog_roles.create(world.by, "lake", "reader", properties={})
    await world.catalog_roles.assign(world.by, "engineer", "lake", "reader")
    await world.granting.add(world.by, "lake", "reader", TABLE, P.TABLE_READ_DATA)
    for name in names:
        await world.users.create_user(name)
        await world.principal_roles.assign(world.by, name, "engineer")


async def table(world: World) -> Securable:
    return (await find_place(world.store, await find_catalog(world.store, "lake"), TABLE)).securable


async def called(world: World, key_id: str) -> Principal:
    return (await world.access_keys.lookup(key_id)).principal


def may_read(principal: Principal, securable: Securable) -> bool:
    return principal.grants is not None and principal.grants.covers(securable, (P.TABLE_READ_DATA,))


async def test_key_brings_the_grants_of_all_roles_of_its_user(world: World) -> None:
    await engineer(world, "ann")
    made = await world.access_keys.create("ann", access_key_id="KEY")
    way = await table(world)
    caller = await called(world, made.key.id)
    assert may_read(caller, way)
    assert caller.grants is not None
    assert not caller.grants.covers(way, (P.TABLE_WRITE_DATA,))
    assert not caller.grants.covers(SERVICE, (P.PRINCIPAL_LIST,))
    await world.principal_roles.assign(world.by, "ann", "service_admin")
    wider = await called(world, made.key.id)
    assert may_read(wider, way)
    assert wider.grants is not None
    assert wider.grants.covers(SERVICE, (P.PRINCIPAL_LIST,))


async def test_change_holds_for_the_next_request(world: World) -> None:
    await engineer(world, "ann")
    await world.access_keys.create("ann", access_key_id="KEY")
    way = await table(world)
    by = world.by
    for take, give in (
        (
            world.granting.revoke(by, "lake", "reader", TABLE, P.TABLE_READ_DATA),
            world.granting.add(by, "lake", "reader", TABLE, P.TABLE_READ_DATA),
        ),
        (
            world.catalog_roles.revoke(by, "engineer", "lake", "reader"),
            world.catalog_roles.assign(by, "engineer", "lake", "reader"),
        ),
        (
            world.principal_roles.revoke(by, "ann", "engineer"),
            world.principal_roles.assign(by, "ann", "engineer"),
        ),
    ):
        assert may_read(await called(world, "KEY"), way)
        await take
        assert not may_read(await called(world, "KEY"), way)
        await give
    assert may_read(await called(world, "KEY"), way)
    await world.principal_roles.delete(by, "engineer")
    assert (await called(world, "KEY")).grants is None


async def test_session_has_the_grants_of_who_it_is_of(light_world: World) -> None:
    world = light_world
    await engineer(world, "ann")
    await world.access_keys.create("ann", access_key_id="KEY")
    sessions = Sessions(MasterKeys({"k": b"1" * 32}, "k"), world.access_keys, world.clock)
    made = sessions.issue(await called(world, "KEY"))
    way = await table(world)
    token = made.session_token.reveal()
    assert may_read((await sessions.credential(token, made.access_key_id)).principal, way)
    await world.principal_roles.revoke(world.by, "ann", "engineer")
    assert not may_read((await sessions.credential(token, made.access_key_id)).principal, way)


async def test_lookup_is_one_read_while_nothing_changes(light_world: World) -> None:
    world = light_world
    await engineer(world, "ann")
    for user in ("ann", "bob"):
        if user == "bob":
            await world.users.create_user(user)
        await world.access_keys.create(user, access_key_id=f"KEY-{user}")
    counted = Counted(world.store)
    keys = AccessKeys(
        counted,  # type: ignore[arg-type]  # only read here
        world.outbox,
        MasterKeys({"first": b"1" * 32}, "first"),
        world.clock,
        await world.access_keys.lookup("ROOTKEY"),
    )

    async def cost(key_id: str) -> int:
        before = counted.reads
        await keys.lookup(key_id)
        return counted.reads - before

    assert [await cost("KEY-ann") for _ in range(3)] == [2, 1, 1]
    # Who has no role never pays, and stays the same object whatever becomes of roles.
    assert [await cost("KEY-bob") for _ in range(2)] == [1, 1]
    same = await keys.lookup("KEY-bob")
    await world.principal_roles.create(world.by, "other", properties={})
    await world.users.create_user("eve")
    await world.principal_roles.assign(world.by, "eve", "other")
    assert await keys.lookup("KEY-bob") is same
    assert [await cost("KEY-ann") for _ in range(2)] == [2, 1]
    assert await cost("ROOTKEY") == 0


async def test_grants_are_those_of_the_roles_that_are_named(world: World) -> None:
    await engineer(world, "ann")
    await world.principal_roles.assign(world.by, "ann", "service_admin")
    grants, number, way = CallerGrants(world.store), await world.number(), await table(world)

    async def holds(roles: frozenset[str] | None) -> tuple[bool, bool]:
        held = await grants.of("ann", number, roles)
        assert held is not None
        return held.covers(way, (P.TABLE_READ_DATA,)), held.covers(SERVICE, (P.PRINCIPAL_LIST,))

    assert await holds(None) == (True, True)
    assert await holds(frozenset({"engineer"})) == (True, False)
    assert await holds(frozenset({"service_admin"})) == (False, True)
    assert await holds(frozenset({"engineer", "service_admin"})) == (True, True)
    # One that somebody else has, or nobody, gives nothing; no name is no role.
    await world.principal_roles.create(world.by, "boss", properties={})
    assert await holds(frozenset({"boss", "ghost"})) == (False, False)
    assert await holds(frozenset()) == (False, False)
    assert await grants.of("ann", None) is None


async def test_what_was_compiled_is_used_while_the_number_stays(light_world: World) -> None:
    await engineer(light_world, "ann")
    counted = Counted(light_world.store)
    grants = CallerGrants(counted)
    number = await light_world.number()
    first = await grants.of("ann", number)
    assert await grants.of("ann", number) is first
    assert counted.reads == 1
    assert await grants.of("ann", number, frozenset({"engineer"})) is not first
    assert await grants.of("ann", number + 1) is not first
    assert counted.reads == 3


async def test_roles_are_told_by_name_whether_they_hold_anything_or_not(world: World) -> None:
    await engineer(world, "ann")
    for name in ("idle", "of-others"):
        await world.principal_roles.create(world.by, name, properties={})
    await world.principal_roles.create(world.by, "of-a-provider", properties={}, federated=True)
    await world.principal_roles.assign(world.by, "ann", "idle")
    own, federated = CallerGrants(world.store), CallerGrants(world.store, federated=True)
    named = frozenset({"idle", "of-others", "of-a-provider", "nowhere"})
    told = [
        await own.of("ann", 1),
        await own.of("ann", 1, named),
        await federated.of("ann", 1, named),
        await federated.of("ann", 1, frozenset()),
    ]
    assert [grants and grants.roles for grants in told] == [
        ("engineer", "idle"),
        ("idle",),
        ("idle", "of-a-provider"),
        (),
    ]
