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


class CountingReader:
    """Counts reads."""

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
    """A role `engineer` that reads a table, rows by new users of these names."""
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


async def test_access_key_has_the_grants_of_all_roles_of_its_user(world: World) -> None:
    await engineer(world, "ann")
    created = await world.access_keys.create("ann", access_key_id="KEY")
    securable = await table(world)
    caller = await called(world, created.key.id)
    assert may_read(caller, securable)
    assert caller.grants is not None
    assert not caller.grants.covers(securable, (P.TABLE_WRITE_DATA,))
    assert not caller.grants.covers(SERVICE, (P.PRINCIPAL_LIST,))
    await world.principal_roles.assign(world.by, "ann", "service_admin")
    wider = await called(world, created.key.id)
    assert may_read(wider, securable)
    assert wider.grants is not None
    assert wider.grants.covers(SERVICE, (P.PRINCIPAL_LIST,))


async def test_change_applies_to_the_next_request(world: World) -> None:
    await engineer(world, "ann")
    await world.access_keys.create("ann", access_key_id="KEY")
    securable = await table(world)
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
        assert may_read(await called(world, "KEY"), securable)
        await take
        assert not may_read(await called(world, "KEY"), securable)
        await give
    assert may_read(await called(world, "KEY"), securable)
    await world.principal_roles.delete(by, "engineer")
    assert (await called(world, "KEY")).grants is None


async def test_session_has_the_grants_of_its_principal(sqlite_world: World) -> None:
    world = sqlite_world
    await engineer(world, "ann")
    await world.access_keys.create("ann", access_key_id="KEY")
    sessions = Sessions(MasterKeys({"k": b"1" * 32}, "k"), world.access_keys, world.clock)
    created = sessions.issue(await called(world, "KEY"))
    securable = await table(world)
    token = created.session_token.reveal()
    assert may_read((await sessions.credential(token, created.access_key_id)).principal, securable)
    await world.principal_roles.revoke(world.by, "ann", "engineer")
    assert not may_read((await sessions.credential(token, created.access_key_id)).principal, securable)


async def test_lookup_takes_one_read_while_nothing_changes(sqlite_world: World) -> None:
    world = sqlite_world
    await engineer(world, "ann")
    for user in ("ann", "bob"):
        if user == "bob":
            await world.users.create_user(user)
        await world.access_keys.create(user, access_key_id=f"KEY-{user}")
    counted = CountingReader(world.store)
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
    # A user without roles costs no further read, and stays the same object.
    assert [await cost("KEY-bob") for _ in range(2)] == [1, 1]
    same = await keys.lookup("KEY-bob")
    await world.principal_roles.create(world.by, "other", properties={})
    await world.users.create_user("eve")
    await world.principal_roles.assign(world.by, "eve", "other")
    assert await keys.lookup("KEY-bob") is same
    assert [await cost("KEY-ann") for _ in range(2)] == [2, 1]
    assert await cost("ROOTKEY") == 0


async def test_grants_are_those_of_the_named_roles(world: World) -> None:
    await engineer(world, "ann")
    await world.principal_roles.assign(world.by, "ann", "service_admin")
    grants, number, securable = CallerGrants(world.store), await world.number(), await table(world)

    async def holds(roles: frozenset[str] | None) -> tuple[bool, bool]:
        granted = await grants.of("ann", number, roles)
        assert granted is not None
        return granted.covers(securable, (P.TABLE_READ_DATA,)), granted.covers(SERVICE, (P.PRINCIPAL_LIST,))

    assert await holds(None) == (True, True)
    assert await holds(frozenset({"engineer"})) == (True, False)
    assert await holds(frozenset({"service_admin"})) == (False, True)
    assert await holds(frozenset({"engineer", "service_admin"})) == (True, True)
    # Roles that are not assigned, or unknown, grant nothing, and neither does an empty list.
    await world.principal_roles.create(world.by, "boss", properties={})
    assert await holds(frozenset({"boss", "ghost"})) == (False, False)
    assert await holds(frozenset()) == (False, False)
    assert await grants.of("ann", None) is None


async def test_grants_are_cached_while_the_number_is_unchanged(sqlite_world: World) -> None:
    await engineer(sqlite_world, "ann")
    counted = CountingReader(sqlite_world.store)
    grants = CallerGrants(counted)
    number = await sqlite_world.number()
    first = await grants.of("ann", number)
    assert await grants.of("ann", number) is first
    assert counted.reads == 1
    assert await grants.of("ann", number, frozenset({"engineer"})) is not first
    assert await grants.of("ann", number + 1) is not first
    assert counted.reads == 3


async def test_roles_without_grants_are_listed(world: World) -> None:
    await engineer(world, "ann")
    for name in ("idle", "of-others"):
        await world.principal_roles.create(world.by, name, properties={})
    await world.principal_roles.create(world.by, "of-a-provider", properties={}, federated=True)
    await world.principal_roles.assign(world.by, "ann", "idle")
    own, federated = CallerGrants(world.store), CallerGrants(world.store, federated=True)
    named = frozenset({"idle", "of-others", "of-a-provider", "nowhere"})
    events = [
        await own.of("ann", 1),
        await own.of("ann", 1, named),
        await federated.of("ann", 1, named),
        await federated.of("ann", 1, frozenset()),
    ]
    assert [grants and grants.roles for grants in events] == [
        ("engineer", "idle"),
        ("idle",),
        ("idle", "of-a-provider"),
        (),
    ]


keys = st.sampled_from(["service", "catalog 1", "catalog 2", "namespace 1 a", "namespace 1 a1", "entry t", "policy 1"])
privileges = st.sampled_from(list(Privilege))
securables = st.lists(keys, unique=True, max_size=5).map(lambda path: Securable(tuple(path)))


def covers_naively(rows: list[tuple[str, Privilege]], securable: Securable, required: list[Privilege]) -> bool:
    """Each privilege is included in one that is granted on some level of the path."""
    return bool(required) and all(
        any(key in securable.path and privilege in INCLUDES[granted] for key, granted in rows) for privilege in required
    )


@given(st.lists(st.tuples(keys, privileges), max_size=8), securables, st.lists(privileges, max_size=4))
def test_covers_agrees_with_a_naive_search(
    rows: list[tuple[str, Privilege]], securable: Securable, required: list[Privilege]
) -> None:
    assert GrantSet(rows).covers(securable, required) == covers_naively(rows, securable, required)


@given(st.lists(st.tuples(keys, privileges), max_size=8), privileges)
def test_granted_keys_are_those_that_cover_alone(rows: list[tuple[str, Privilege]], privilege: Privilege) -> None:
    grants = GrantSet(rows)
    alone = {key for key, _ in rows if grants.covers(Securable((key,)), [privilege])}
    assert grants.granted_keys(privilege) == alone


@given(
    st.lists(st.tuples(keys, privileges), max_size=6),
    st.lists(st.tuples(keys, privileges), max_size=6),
    securables,
    st.lists(privileges, min_size=1, max_size=3),
)
def test_more_grants_never_cover_less(
    rows: list[tuple[str, Privilege]],
    more: list[tuple[str, Privilege]],
    securable: Securable,
    required: list[Privilege],
) -> None:
    if GrantSet(rows).covers(securable, required):
        assert GrantSet(rows + more).covers(securable, required)


def test_no_privileges_are_not_covered() -> None:
    assert not GrantSet([("service", P.SERVICE_MANAGE_ACCESS)]).covers(SERVICE, ())


def test_privileges_can_be_granted_on_different_levels() -> None:
    grants = GrantSet([("catalog 1", P.TABLE_LIST), ("entry t", P.TABLE_READ_DATA)])
    securable = entry_securable(1, ["a"], "t")
    assert grants.covers(securable, (P.TABLE_LIST, P.TABLE_READ_DATA))
    assert not grants.covers(entry_securable(1, ["a"], "u"), (P.TABLE_LIST, P.TABLE_READ_DATA))


def test_grants_are_inherited_by_children_only() -> None:
    grants = GrantSet([(namespace_key(3, ["ns1"]), P.TABLE_READ_DATA)])
    required = (P.TABLE_READ_DATA,)
    assert grants.covers(namespace_securable(3, ["ns1"]), required)
    assert grants.covers(entry_securable(3, ["ns1", "in"], "t"), required)
    assert not grants.covers(catalog_securable(3), required)
    # Keys are compared whole: `ns1` does not include `ns10`, nor `ns1` of another catalog or parent.
    assert not grants.covers(namespace_securable(3, ["ns10"]), required)
    assert not grants.covers(entry_securable(3, ["ns10"], "ns1"), required)
    assert not grants.covers(namespace_securable(30, ["ns1"]), required)
    assert not grants.covers(namespace_securable(3, ["out", "ns1"]), required)


levels = st.lists(st.text(st.sampled_from("ab1. "), min_size=1, max_size=4), min_size=1, max_size=4)


@given(st.integers(1, 20), levels, st.integers(1, 20), levels)
def test_namespace_keys_are_unique(catalog: int, one: list[str], other_catalog: int, other: list[str]) -> None:
    is_same = (catalog, one) == (other_catalog, other)
    assert (namespace_key(catalog, one) == namespace_key(other_catalog, other)) == is_same
    securable = namespace_securable(catalog, one).path
    assert securable[2:] == tuple(namespace_key(catalog, one[:depth]) for depth in range(1, len(one) + 1))


def test_unknown_privilege_number_grants_nothing() -> None:
    grants = GrantSet([("catalog 1", 5000), ("catalog 1", P.TABLE_LIST)])
    assert grants.covers(catalog_securable(1), (P.TABLE_LIST,))
    assert not grants.covers(catalog_securable(1), (5000,))


def test_repr_hides_securables() -> None:
    assert repr(GrantSet([("entry secret", P.TABLE_LIST)])) == "GrantSet(of 1 securables)"


def test_paths_begin_at_the_service() -> None:
    assert SERVICE.path == ("service",)
    assert catalog_securable(3).path == ("service", "catalog 3")
    assert namespace_securable(3, ()) == catalog_securable(3)
    assert namespace_securable(3, ["a", "b"]).path == ("service", "catalog 3", "namespace 3 a", "namespace 3 a\x1fb")
    assert entry_securable(3, ["a"], "x").path == ("service", "catalog 3", "namespace 3 a", "entry x")
    assert policy_securable(3, ["a"], 9).path == ("service", "catalog 3", "namespace 3 a", "policy 9")
