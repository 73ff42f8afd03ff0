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
OUTSIDE = GrantTarget(GrantKind.TABLE, ("c",), "t")


@pytest.fixture
async def role_world(world: World) -> World:
    await world.catalog_roles.create(world.by, "lake", "reader", properties={})
    return world


async def add(world: World, target: GrantTarget, privilege: Privilege) -> None:
    await world.catalog_grants.add(world.by, "lake", "reader", target, privilege)


async def revoke(world: World, target: GrantTarget, privilege: Privilege, *, cascade: bool = False) -> None:
    await world.catalog_grants.revoke(world.by, "lake", "reader", target, privilege, cascade=cascade)


async def granted(world: World) -> set[tuple[GrantTarget, Privilege]]:
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
async def test_privilege_can_be_granted_and_revoked_on_each_kind(
    role_world: World, target: GrantTarget, privilege: Privilege
) -> None:
    before = await role_world.number()
    await add(role_world, target, privilege)
    await add(role_world, target, privilege)
    assert await granted(role_world) == {(target, privilege)}
    assert await role_world.number() == before + 1
    await revoke(role_world, target, privilege)
    assert await granted(role_world) == set()
    assert await role_world.number() == before + 2
    events = [
        (kind, event.securable, event.privilege)
        for kind, event in await role_world.events("GrantAdded", "GrantRevoked")
    ]
    assert events[-2:] == [("GrantAdded", str(target), privilege.name), ("GrantRevoked", str(target), privilege.name)]


async def test_privilege_that_the_kind_cannot_have_is_refused(role_world: World) -> None:
    with pytest.raises(InvalidInput, match="TABLE_CREATE"):
        await add(role_world, TABLE, P.TABLE_CREATE)
    with pytest.raises(InvalidInput, match="SERVICE_MANAGE_ACCESS"):
        await add(role_world, CATALOG, P.SERVICE_MANAGE_ACCESS)
    assert await granted(role_world) == set()


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
async def test_unknown_targets_raise_not_found(
    role_world: World, target: GrantTarget, privilege: Privilege, error: type[NotFound]
) -> None:
    with pytest.raises(error):
        await add(role_world, target, privilege)
    with pytest.raises(error):
        await revoke(role_world, target, privilege)


async def test_unknown_role_is_refused(role_world: World) -> None:
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
async def test_incomplete_target_is_refused(role_world: World, target: GrantTarget) -> None:
    for privilege in (P.TABLE_LIST, P.POLICY_READ):
        with pytest.raises(InvalidInput):
            await add(role_world, target, privilege)
        with pytest.raises(InvalidInput):
            await revoke(role_world, target, privilege)


@pytest.mark.parametrize("levels", [("a\x1fb",), ("a", ""), ("",), ("a\0",)])
async def test_invalid_namespace_level_is_refused(role_world: World, levels: tuple[str, ...]) -> None:
    with pytest.raises(InvalidName):
        await add(role_world, GrantTarget(GrantKind.NAMESPACE, levels), P.TABLE_LIST)


async def test_revoking_a_missing_grant_is_refused(role_world: World) -> None:
    await add(role_world, CATALOG, P.TABLE_FULL_METADATA)
    before = await role_world.number()
    # Neither what comes with another privilege, nor what is granted further up.
    for target, privilege in ((CATALOG, P.TABLE_LIST), (TABLE, P.TABLE_FULL_METADATA), (OUTER, P.TABLE_FULL_METADATA)):
        with pytest.raises(NotFound, match="no such grant"):
            await revoke(role_world, target, privilege)
        with pytest.raises(NotFound, match="no such grant"):
            await revoke(role_world, target, privilege, cascade=True)
    assert await granted(role_world) == {(CATALOG, P.TABLE_FULL_METADATA)}
    assert await role_world.number() == before


async def test_cascade_revokes_inside_the_target(role_world: World) -> None:
    for target in (CATALOG, OUTER, INNER, TABLE, OUTSIDE):
        await add(role_world, target, P.TABLE_LIST)
    await add(role_world, TABLE, P.TABLE_READ_DATA)
    await revoke(role_world, OUTER, P.TABLE_LIST, cascade=True)
    assert await granted(role_world) == {
        (CATALOG, P.TABLE_LIST),
        (OUTSIDE, P.TABLE_LIST),
        (TABLE, P.TABLE_READ_DATA),
    }
    assert len(await role_world.events("GrantRevoked")) == 3
    await revoke(role_world, CATALOG, P.TABLE_LIST, cascade=True)
    assert await granted(role_world) == {(TABLE, P.TABLE_READ_DATA)}


async def test_without_cascade_only_the_target_is_revoked(role_world: World) -> None:
    for target in (OUTER, INNER, TABLE):
        await add(role_world, target, P.TABLE_LIST)
    await revoke(role_world, OUTER, P.TABLE_LIST)
    assert await granted(role_world) == {(INNER, P.TABLE_LIST), (TABLE, P.TABLE_LIST)}


async def test_grants_are_deleted_with_their_target(role_world: World) -> None:
    for target, privilege in (
        (TABLE, P.TABLE_LIST),
        (VIEW, P.VIEW_LIST),
        (INNER, P.TABLE_LIST),
        (POLICY, P.POLICY_READ),
    ):
        await add(role_world, target, privilege)
    await role_world.run("DELETE FROM entries WHERE name = 't'")
    assert await granted(role_world) == {(VIEW, P.VIEW_LIST), (INNER, P.TABLE_LIST), (POLICY, P.POLICY_READ)}
    await role_world.run("DELETE FROM entries WHERE name = 'v'")
    await role_world.run("DELETE FROM namespaces WHERE path = ?", "a\x1fb")
    await role_world.run("DELETE FROM policies WHERE name = 'p'")
    assert await granted(role_world) == set()
    assert (
        await role_world.store.rows(
            "SELECT g.role FROM grants g JOIN catalog_roles r ON r.id = g.role WHERE r.name = 'reader'"
        )
        == []
    )


async def test_grants_follow_a_renamed_table(role_world: World) -> None:
    await add(role_world, TABLE, P.TABLE_LIST)
    await role_world.run("UPDATE entries SET name = 'u' WHERE id = (SELECT entry FROM grants WHERE entry IS NOT NULL)")
    assert await granted(role_world) == {(TABLE._replace(name="u"), P.TABLE_LIST)}


async def test_grants_of_a_restorable_dropped_table_are_hidden_and_kept(role_world: World) -> None:
    await add(role_world, TABLE, P.TABLE_LIST)
    await role_world.run("UPDATE entries SET dropped_ms = 7 WHERE name = 't'")
    assert await granted(role_world) == set()
    with pytest.raises(NoSuchTable):
        await revoke(role_world, TABLE, P.TABLE_LIST)
    await role_world.run("UPDATE entries SET dropped_ms = NULL WHERE name = 't'")
    assert await granted(role_world) == {(TABLE, P.TABLE_LIST)}
    # What is taken away from all that is inside is taken away from it, too.
    await role_world.run("UPDATE entries SET dropped_ms = 7 WHERE name = 't'")
    await revoke(role_world, CATALOG, P.TABLE_LIST, cascade=True)
    await role_world.run("UPDATE entries SET dropped_ms = NULL WHERE name = 't'")
    assert await granted(role_world) == set()


async def test_grants_are_authorized_on_their_target(role_world: World) -> None:
    lake = (await find_catalog(role_world.store, "lake")).id
    namespace = await find_namespace(role_world.store, lake, ("a", "b"))
    assert namespace is not None
    row = await role_world.store.row("SELECT id FROM entries WHERE namespace = ? AND name = 't'", namespace)
    assert row is not None
    role_world.authorizer.requests.clear()
    await add(role_world, TABLE, P.TABLE_LIST)
    await revoke(role_world, TABLE, P.TABLE_LIST)
    table = entry_securable(lake, ("a", "b"), row[0])
    assert [(action, securable, privileges) for action, _, securable, privileges in role_world.authorizer.requests] == [
        ("lakebed:AddGrantToCatalogRole", table, (P.TABLE_MANAGE_GRANTS_ON_SECURABLE,)),
        ("lakebed:RevokeGrantFromCatalogRole", table, (P.TABLE_MANAGE_GRANTS_ON_SECURABLE,)),
        (
            "lakebed:RevokeGrantFromCatalogRole",
            catalog_securable(lake),
            (P.CATALOG_ROLE_MANAGE_GRANTS_FOR_GRANTEE,),
        ),
    ]


async def test_refusal_does_not_reveal_whether_the_target_exists(role_world: World) -> None:
    lake = (await find_catalog(role_world.store, "lake")).id
    role_world.authorizer.refuses = lambda action: True
    for target in (TABLE, TABLE._replace(name="ghost")):
        with pytest.raises(AccessDenied):
            await add(role_world, target, P.TABLE_LIST)
    *_, securable, _ = role_world.authorizer.requests[-1]
    # What it would lie in.
    assert securable == namespace_securable(lake, ("a", "b"))


async def test_namespace_is_resolved_in_its_catalog(world: World) -> None:
    lake, pond = [(await find_catalog(world.store, name)).id for name in ("lake", "pond")]
    deep = tuple(f"level{depth}" for depth in range(20))
    created = await world.namespace(lake, *deep)
    assert await find_namespace(world.store, lake, deep) == created
    assert await find_namespace(world.store, pond, deep) is None
    assert await find_namespace(world.store, lake, deep[:-1]) is None
    assert await find_namespace(world.store, lake, ()) is None
    for level in ("", "a\x1fb", "a\0"):
        with pytest.raises(InvalidName):
            await find_namespace(world.store, lake, (level,))


async def test_migrated_grants_on_namespaces_are_keyed_by_path(world: World) -> None:
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
    stored = await world.store.rows("SELECT securable FROM grants WHERE namespace IS NOT NULL")
    assert stored == [(namespace_key(lake, ("a", "b")),)]
    assert await world.number() == before + 1
    await revoke(world, INNER, P.TABLE_LIST)
    assert await granted(world) == {(TABLE, P.TABLE_DROP)}
