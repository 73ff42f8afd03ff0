from __future__ import annotations

import pytest

from lakebed.core.errors import (
    AccessDenied,
    InvalidInput,
    InvalidName,
    NoSuchNamespace,
    NoSuchPolicy,
    NoSuchPrincipal,
    NoSuchTable,
    NoSuchView,
    NotFound,
)
from lakebed.governance.rbac.catalogs import find_catalog, find_namespace
from lakebed.governance.rbac.model import GrantTarget
from lakebed.governance.rbac.privileges import GrantKind, Privilege
from lakebed.governance.rbac.securables import (
    catalog_securable,
    entry_securable,
    namespace_key,
    namespace_securable,
)
from lakebed.meta.migrations import product_migrations

from .world import World

P = Privilege
CATALOG = GrantTarget(GrantKind.CATALOG)
OUTER = GrantTarget(GrantKind.NAMESPACE, ("a",))
INNER = GrantTarget(GrantKind.NAMESPACE, ("a", "b"))
TABLE = GrantTarget(GrantKind.TABLE, ("a", "b"), "t")
VIEW = GrantTarget(GrantKind.VIEW, ("a", "b"), "v")
POLICY = GrantTarget(GrantKind.POLICY, ("a",), "p")
ELSEWHERE = GrantTarget(GrantKind.TABLE, ("c",), "t")


@pytest.fixture
async def role_world(world: World) -> World:
    await world.catalog_roles.create(world.by, "lake", "reader", properties={})
    return world


async def add(world: World, target: GrantTarget, privilege: Privilege) -> None:
    await world.catalog_grants.add(world.by, "lake", "reader", target, privilege)


async def revoke(world: World, target: GrantTarget, privilege: Privilege, *, cascade: bool = False) -> None:
    await world.catalog_grants.revoke(world.by, "lake", "reader", target, privilege, cascade=cascade)


async def held(world: World) -> set[tuple[GrantTarget, Privilege]]:
    return {(grant.target, grant.privilege) for grant in await world.catalog_grants.list(world.by, "lake", "reader")}


@pytest.mark.parametrize(
    ("target", "privilege"),
    [
        (CATALOG, P.CATALOG_MANAGE_CONTENT),
        (INNER, P.NAMESPACE_FULL_METADATA),
        (TABLE, P.TABLE_READ_DATA),
        (VIEW, P.VIEW_LIST),
        (POLICY, P.POLICY_ATTACH),
    ],
)
async def test_privilege_is_given_on_each_kind_and_taken_away(
    role_world: World, target: GrantTarget, privilege: Privilege
) -> None:
    before = await role_world.number()
    await add(role_world, target, privilege)
    await add(role_world, target, privilege)
    assert await held(role_world) == {(target, privilege)}
    assert await role_world.number() == before + 1
    await revoke(role_world, target, privilege)
    assert await held(role_world) == set()
    assert await role_world.number() == before + 2
    told = [
        (kind, event.securable, event.privilege) for kind, event in await role_world.told("GrantAdded", "GrantRevoked")
    ]
    assert told[-2:] == [("GrantAdded", str(target), privilege.name), ("GrantRevoked", str(target), privilege.name)]


async def test_privilege_that_does_not_go_with_the_kind_is_refused(role_world: World) -> None:
    with pytest.raises(InvalidInput, match="TABLE_CREATE"):
        await add(role_world, TABLE, P.TABLE_CREATE)
    with pytest.raises(InvalidInput, match="SERVICE_MANAGE_ACCESS"):
        await add(role_world, CATALOG, P.SERVICE_MANAGE_ACCESS)
    assert await held(role_world) == set()


@pytest.mark.parametrize(
    ("target", "privilege", "error"),
    [
        (GrantTarget(GrantKind.NAMESPACE, ("ghost",)), P.TABLE_LIST, NoSuchNamespace),
        (GrantTarget(GrantKind.NAMESPACE, ("a", "ghost")), P.TABLE_LIST, NoSuchNamespace),
        (GrantTarget(GrantKind.TABLE, ("a", "b"), "ghost"), P.TABLE_LIST, NoSuchTable),
        (GrantTarget(GrantKind.TABLE, ("a", "b"), "v"), P.TABLE_LIST, NoSuchTable),
        (GrantTarget(GrantKind.VIEW, ("a", "b"), "t"), P.VIEW_LIST, NoSuchView),
        (GrantTarget(GrantKind.POLICY, ("a",), "ghost"), P.POLICY_READ, NoSuchPolicy),
    ],
)
async def test_what_is_not_there_is_said_not_to_be(
    role_world: World, target: GrantTarget, privilege: Privilege, error: type[NotFound]
) -> None:
    with pytest.raises(error):
        await add(role_world, target, privilege)
    with pytest.raises(error):
        await revoke(role_world, target, privilege)


async def test_role_that_is_not_there_gets_nothing(role_world: World) -> None:
    with pytest.raises(NoSuchPrincipal):
        await role_world.catalog_grants.add(role_world.by, "lake", "ghost", TABLE, P.TABLE_LIST)
    with pytest.raises(NoSuchPrincipal):
        await role_world.catalog_grants.revoke(role_world.by, "lake", "ghost", TABLE, P.TABLE_LIST)


@pytest.mark.parametrize(
    "target",
    [
        GrantTarget(GrantKind.NAMESPACE),
        GrantTarget(GrantKind.TABLE, (), "t"),
        GrantTarget(GrantKind.TABLE, ("a", "b")),
        GrantTarget(GrantKind.POLICY, ("a",)),
    ],
)
async def test_target_is_named_in_full(role_world: World, target: GrantTarget) -> None:
    for privilege in (P.TABLE_LIST, P.POLICY_READ):
        with pytest.raises(InvalidInput):
            await add(role_world, target, privilege)
        with pytest.raises(InvalidInput):
            await revoke(role_world, target, privilege)


@pytest.mark.parametrize("levels", [("a\x1fb",), ("a", ""), ("",), ("a\0",)])
async def test_level_that_would_be_read_as_another_is_refused(role_world: World, levels: tuple[str, ...]) -> None:
    with pytest.raises(InvalidName):
        await add(role_world, GrantTarget(GrantKind.NAMESPACE, levels), P.TABLE_LIST)


async def test_revoking_what_is_not_held_is_no_success(role_world: World) -> None:
    await add(role_world, CATALOG, P.TABLE_FULL_METADATA)
    before = await role_world.number()
    # Neither what comes with another privilege, nor what is held further up.
    for target, privilege in ((CATALOG, P.TABLE_LIST), (TABLE, P.TABLE_FULL_METADATA), (OUTER, P.TABLE_FULL_METADATA)):
        with pytest.raises(NotFound, match="no such grant"):
            await revoke(role_world, target, privilege)
        with pytest.raises(NotFound, match="no such grant"):
            await revoke(role_world, target, privilege, cascade=True)
    assert await held(role_world) == {(CATALOG, P.TABLE_FULL_METADATA)}
    assert await role_world.number() == before


async def test_cascade_takes_the_privilege_from_all_that_is_inside(role_world: World) -> None:
    for target in (CATALOG, OUTER, INNER, TABLE, ELSEWHERE):
        await add(role_world, target, P.TABLE_LIST)
    await add(role_world, TABLE, P.TABLE_READ_DATA)
    await revoke(role_world, OUTER, P.TABLE_LIST, cascade=True)
    assert await held(role_world) == {(CATALOG, P.TABLE_LIST), (ELSEWHERE, P.TABLE_LIST), (TABLE, P.TABLE_READ_DATA)}
    assert len(await role_world.told("GrantRevoked")) == 3
    await revoke(role_world, CATALOG, P.TABLE_LIST, cascade=True)
    assert await held(role_world) == {(TABLE, P.TABLE_READ_DATA)}


async def test_without_cascade_only_the_named_one_goes(role_world: World) -> None:
    for target in (OUTER, INNER, TABLE):
        await add(role_world, target, P.TABLE_LIST)
    await revoke(role_world, OUTER, P.TABLE_LIST)
    assert await held(role_world) == {(INNER, P.TABLE_LIST), (TABLE, P.TABLE_LIST)}


async def test_grants_go_with_what_they_are_on(role_world: World) -> None:
    for target, privilege in (
        (TABLE, P.TABLE_LIST),
        (VIEW, P.VIEW_LIST),
        (INNER, P.TABLE_LIST),
        (POLICY, P.POLICY_READ),
    ):
        await add(role_world, target, privilege)
    await role_world.run("DELETE FROM entries WHERE name = 't'")
    assert await held(role_world) == {(VIEW, P.VIEW_LIST), (INNER, P.TABLE_LIST), (POLICY, P.POLICY_READ)}
    await role_world.run("DELETE FROM entries WHERE name = 'v'")
    await role_world.run("DELETE FROM namespaces WHERE path = ?", "a\x1fb")
    await role_world.run("DELETE FROM policies WHERE name = 'p'")
    assert await held(role_world) == set()
    assert (
        await role_world.store.rows(
            "SELECT g.role FROM grants g JOIN catalog_roles r ON r.id = g.role WHERE r.name = 'reader'"
        )
        == []
    )


async def test_grants_follow_a_table_that_is_renamed(role_world: World) -> None:
    await add(role_world, TABLE, P.TABLE_LIST)
    await role_world.run("UPDATE entries SET name = 'u' WHERE id = (SELECT entry FROM grants WHERE entry IS NOT NULL)")
    assert await held(role_world) == {(TABLE._replace(name="u"), P.TABLE_LIST)}


async def test_dropped_table_that_can_be_restored_keeps_its_grants_out_of_sight(role_world: World) -> None:
    await add(role_world, TABLE, P.TABLE_LIST)
    await role_world.run("UPDATE entries SET dropped_ms = 7 WHERE name = 't'")
    assert await held(role_world) == set()
    with pytest.raises(NoSuchTable):
        await revoke(role_world, TABLE, P.TABLE_LIST)
    await role_world.run("UPDATE entries SET dropped_ms = NULL WHERE name = 't'")
    assert await held(role_world) == {(TABLE, P.TABLE_LIST)}
    # What is taken away from all that is inside is taken away from it, too.
    await role_world.run("UPDATE entries SET dropped_ms = 7 WHERE name = 't'")
    await revoke(role_world, CATALOG, P.TABLE_LIST, cascade=True)
    await role_world.run("UPDATE entries SET dropped_ms = NULL WHERE name = 't'")
    assert await held(role_world) == set()


async def test_question_is_of_what_the_grant_is_on(role_world: World) -> None:
    lake = (await find_catalog(role_world.store, "lake")).id
    namespace = await find_namespace(role_world.store, lake, ("a", "b"))
    assert namespace is not None
    row = await role_world.store.row("SELECT id FROM entries WHERE namespace = ? AND name = 't'", namespace)
    assert row is not None
    role_world.questions.asked.clear()
    await add(role_world, TABLE, P.TABLE_LIST)
    await revoke(role_world, TABLE, P.TABLE_LIST)
    way = entry_securable(lake, ("a", "b"), row[0])
    assert [(action, securable, privileges) for action, _, securable, privileges in role_world.questions.asked] == [
        ("lakebed:AddGrantToCatalogRole", way, (P.TABLE_MANAGE_GRANTS_ON_SECURABLE,)),
        ("lakebed:RevokeGrantFromCatalogRole", way, (P.TABLE_MANAGE_GRANTS_ON_SECURABLE,)),
        (
            "lakebed:RevokeGrantFromCatalogRole",
            catalog_securable(lake),
            (P.CATALOG_ROLE_MANAGE_GRANTS_FOR_GRANTEE,),
        ),
    ]


async def test_refusal_tells_nothing_of_what_is_there(role_world: World) -> None:
    lake = (await find_catalog(role_world.store, "lake")).id
    role_world.questions.refuses = lambda action: True
    for target in (TABLE, TABLE._replace(name="ghost")):
        with pytest.raises(AccessDenied):
            await add(role_world, target, P.TABLE_LIST)
    *_, securable, _ = role_world.questions.asked[-1]
    # What it would lie in.
    assert securable == namespace_securable(lake, ("a", "b"))


async def test_namespace_is_found_in_its_own_catalog(world: World) -> None:
    lake, pond = [(await find_catalog(world.store, name)).id for name in ("lake", "pond")]
    deep = tuple(f"level{depth}" for depth in range(20))
    made = await world.namespace(lake, *deep)
    assert await find_namespace(world.store, lake, deep) == made
    assert await find_namespace(world.store, pond, deep) is None
    assert await find_namespace(world.store, lake, deep[:-1]) is None
    assert await find_namespace(world.store, lake, ()) is None
    for level in ("", "a\x1fb", "a\0"):
        with pytest.raises(InvalidName):
            await find_namespace(world.store, lake, (level,))


async def test_grants_on_namespaces_from_before_are_looked_up_by_their_path(world: World) -> None:
    lake = (await find_catalog(world.store, "lake")).id
    namespace = await find_namespace(world.store, lake, ("a", "b"))
    assert namespace is not None
    await world.catalog_roles.create(world.by, "lake", "reader", properties={})
    await add(world, INNER, P.TABLE_LIST)
    await add(world, TABLE, P.TABLE_DROP)
    await world.run("UPDATE grants SET securable = ? WHERE namespace = ?", f"namespace {namespace}", namespace)
    before = await world.number()
    (step,) = [step for step in product_migrations() if step.name == "namespace_grants"]
    for statement in step.script.split(";"):
        if statement.strip():
            await world.run(statement)
    kept = await world.store.rows("SELECT securable FROM grants WHERE namespace IS NOT NULL")
    assert kept == [(namespace_key(lake, ("a", "b")),)]
    assert await world.number() == before + 1
    await revoke(world, INNER, P.TABLE_LIST)
    assert await held(world) == {(TABLE, P.TABLE_DROP)}
