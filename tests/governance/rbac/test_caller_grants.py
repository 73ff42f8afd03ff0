from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.access import Principal, Securable
from lakebed.governance import AccessKeys, MasterKeys, Sessions
from lakebed.governance.rbac.caller_grants import CallerGrants, GrantSet
from lakebed.governance.rbac.catalogs import find_catalog, resolve_target
from lakebed.governance.rbac.model import GrantTarget
from lakebed.governance.rbac.privileges import INCLUDES, GrantKind, Privilege
from lakebed.governance.rbac.securables import (
    SERVICE,
    catalog_securable,
    entry_securable,
    namespace_key,
    namespace_securable,
    policy_securable,
)
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
    await world.catalog_grants.add(world.by, "lake", "reader", TABLE, P.TABLE_READ_DATA)
    for name in names:
        await world.users.create_user(name)
        await world.principal_roles.assign(world.by, name, "engineer")


async def table(world: World) -> Securable:
    return (await resolve_target(world.store, await find_catalog(world.store, "lake"), TABLE)).securable


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
            world.catalog_grants.revoke(by, "lake", "reader", TABLE, P.TABLE_READ_DATA),
            world.catalog_grants.add(by, "lake", "reader", TABLE, P.TABLE_READ_DATA),
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


keys = st.sampled_from(["service", "catalog 1", "catalog 2", "namespace 1 a", "namespace 1 a1", "entry t", "policy 1"])
privileges = st.sampled_from(list(Privilege))
ways = st.lists(keys, unique=True, max_size=5).map(lambda path: Securable(tuple(path)))


def covers_naively(held: list[tuple[str, Privilege]], way: Securable, asked: list[Privilege]) -> bool:
    """For every privilege, some grant on some object of the way is of it, or of one that brings it along."""
    return bool(asked) and all(
        any(key in way.path and privilege in INCLUDES[granted] for key, granted in held) for privilege in asked
    )


@given(st.lists(st.tuples(keys, privileges), max_size=8), ways, st.lists(privileges, max_size=4))
def test_set_covers_what_a_naive_search_finds(
    held: list[tuple[str, Privilege]], way: Securable, asked: list[Privilege]
) -> None:
    assert GrantSet(held).covers(way, asked) == covers_naively(held, way, asked)


@given(st.lists(st.tuples(keys, privileges), max_size=8), privileges)
def test_carriers_are_those_that_cover_alone(held: list[tuple[str, Privilege]], privilege: Privilege) -> None:
    grants = GrantSet(held)
    alone = {key for key, _ in held if grants.covers(Securable((key,)), [privilege])}
    assert grants.granted_keys(privilege) == alone


@given(
    st.lists(st.tuples(keys, privileges), max_size=6),
    st.lists(st.tuples(keys, privileges), max_size=6),
    ways,
    st.lists(privileges, min_size=1, max_size=3),
)
def test_more_grants_never_cover_less(
    held: list[tuple[str, Privilege]], more: list[tuple[str, Privilege]], way: Securable, asked: list[Privilege]
) -> None:
    if GrantSet(held).covers(way, asked):
        assert GrantSet(held + more).covers(way, asked)


def test_nothing_is_covered_by_asking_for_nothing() -> None:
    assert not GrantSet([("service", P.SERVICE_MANAGE_ACCESS)]).covers(SERVICE, ())


def test_privileges_may_be_held_on_different_steps_of_the_way() -> None:
    grants = GrantSet([("catalog 1", P.TABLE_LIST), ("entry t", P.TABLE_READ_DATA)])
    way = entry_securable(1, ["a"], "t")
    assert grants.covers(way, (P.TABLE_LIST, P.TABLE_READ_DATA))
    assert not grants.covers(entry_securable(1, ["a"], "u"), (P.TABLE_LIST, P.TABLE_READ_DATA))


def test_grants_flow_down_and_neither_up_nor_sideways() -> None:
    grants = GrantSet([(namespace_key(3, ["ns1"]), P.TABLE_READ_DATA)])
    asked = (P.TABLE_READ_DATA,)
    assert grants.covers(namespace_securable(3, ["ns1"]), asked)
    assert grants.covers(entry_securable(3, ["ns1", "in"], "t"), asked)
    assert not grants.covers(catalog_securable(3), asked)
    # `ns1` is not the beginning of `ns10`: keys are compared whole. Nor is it that of another catalog, or further in.
    assert not grants.covers(namespace_securable(3, ["ns10"]), asked)
    assert not grants.covers(entry_securable(3, ["ns10"], "ns1"), asked)
    assert not grants.covers(namespace_securable(30, ["ns1"]), asked)
    assert not grants.covers(namespace_securable(3, ["out", "ns1"]), asked)


levels = st.lists(st.text(st.sampled_from("ab1. "), min_size=1, max_size=4), min_size=1, max_size=4)


@given(st.integers(1, 20), levels, st.integers(1, 20), levels)
def test_each_namespace_has_a_key_of_its_own(
    catalog: int, one: list[str], other_catalog: int, other: list[str]
) -> None:
    is_same = (catalog, one) == (other_catalog, other)
    assert (namespace_key(catalog, one) == namespace_key(other_catalog, other)) == is_same
    way = namespace_securable(catalog, one).path
    assert way[2:] == tuple(namespace_key(catalog, one[:depth]) for depth in range(1, len(one) + 1))


def test_number_that_is_not_known_holds_nothing() -> None:
    grants = GrantSet([("catalog 1", 5000), ("catalog 1", P.TABLE_LIST)])
    assert grants.covers(catalog_securable(1), (P.TABLE_LIST,))
    assert not grants.covers(catalog_securable(1), (5000,))


def test_repr_tells_how_much_and_not_what() -> None:
    assert repr(GrantSet([("entry secret", P.TABLE_LIST)])) == "GrantSet(of 1 securables)"


def test_ways_are_from_the_service_down() -> None:
    assert SERVICE.path == ("service",)
    assert catalog_securable(3).path == ("service", "catalog 3")
    assert namespace_securable(3, ()) == catalog_securable(3)
    assert namespace_securable(3, ["a", "b"]).path == ("service", "catalog 3", "namespace 3 a", "namespace 3 a\x1fb")
    assert entry_securable(3, ["a"], "x").path == ("service", "catalog 3", "namespace 3 a", "entry x")
    assert policy_securable(3, ["a"], 9).path == ("service", "catalog 3", "namespace 3 a", "policy 9")
