from __future__ import annotations

import pytest

from lakebed.core.clock import ManualClock
from lakebed.core.errors import (
    AccessDenied,
    AlreadyExists,
    Corrupted,
    InvalidInput,
    InvalidName,
    NoSuchCatalog,
    NoSuchPrincipal,
    PreconditionFailed,
)
from lakebed.governance.rbac.catalog_roles import ADMIN_PRIVILEGES, create_catalog_admin
from lakebed.governance.rbac.catalogs import find_catalog
from lakebed.governance.rbac.model import CATALOG_ADMIN, GrantTarget
from lakebed.governance.rbac.privileges import GrantKind, Privilege
from lakebed.governance.rbac.securables import catalog_securable
from lakebed.meta.migrations import migrate, product_migrations
from lakebed.meta.outbox import Outbox
from lakebed.meta.seam import Transaction
from tests.meta.stores import open_store

from .world import ROOT, World


async def test_role_is_of_its_catalog(world: World) -> None:
    made = await world.catalog_roles.create(world.by, "lake", "reader", properties={"a": "b"})
    assert (made.name, made.properties, made.version) == ("reader", {"a": "b"}, 1)
    assert await world.catalog_roles.get(world.by, "lake", "reader") == made
    assert [role.name for role in await world.catalog_roles.list(world.by, "lake")] == ["catalog_admin", "reader"]
    assert [role.name for role in await world.catalog_roles.list(world.by, "pond")] == ["catalog_admin"]
    other = await world.catalog_roles.create(world.by, "pond", "reader", properties={})
    assert other.id != made.id
    with pytest.raises(AlreadyExists):
        await world.catalog_roles.create(world.by, "lake", "reader", properties={})
    with pytest.raises(InvalidName):
        await world.catalog_roles.create(world.by, "lake", "system$reader", properties={})


async def test_update_replaces_properties_of_the_version_that_is_there(world: World) -> None:
    await world.catalog_roles.create(world.by, "lake", "reader", properties={"a": "1"})
    changed = await world.catalog_roles.update(world.by, "lake", "reader", properties={}, version=1)
    assert (changed.properties, changed.version) == ({}, 2)
    assert await world.catalog_roles.get(world.by, "lake", "reader") == changed
    with pytest.raises(PreconditionFailed):
        await world.catalog_roles.update(world.by, "lake", "reader", properties={}, version=1)


async def test_catalog_begins_with_a_role_that_administers_it(world: World) -> None:
    admin = await world.catalog_roles.get(world.by, "lake", "catalog_admin")
    grants = await world.catalog_grants.list(world.by, "lake", "catalog_admin")
    assert grants == [
        (GrantTarget(GrantKind.CATALOG), Privilege.CATALOG_MANAGE_ACCESS),
        (GrantTarget(GrantKind.CATALOG), Privilege.CATALOG_MANAGE_METADATA),
    ]
    assert [role.name for role in await world.catalog_roles.holders(world.by, "lake", "catalog_admin")] == [
        "service_admin"
    ]
    assert await world.catalog_roles.of_principal_role(world.by, "service_admin", "lake") == [admin]
    with pytest.raises(InvalidInput, match="cannot be deleted"):
        await world.catalog_roles.delete(world.by, "lake", "catalog_admin")


async def test_role_is_given_to_principal_roles_and_taken_away(world: World) -> None:
    await world.principal_roles.create(world.by, "engineer", properties={})
    made = await world.catalog_roles.create(world.by, "lake", "reader", properties={})
    before = await world.number()
    await world.catalog_roles.assign(world.by, "engineer", "lake", "reader")
    await world.catalog_roles.assign(world.by, "engineer", "lake", "reader")
    assert await world.number() == before + 1
    assert await world.catalog_roles.of_principal_role(world.by, "engineer", "lake") == [made]
    assert await world.catalog_roles.of_principal_role(world.by, "engineer", "pond") == []
    assert [role.name for role in await world.catalog_roles.holders(world.by, "lake", "reader")] == ["engineer"]
    await world.catalog_roles.revoke(world.by, "engineer", "lake", "reader")
    assert await world.number() == before + 2
    with pytest.raises(NoSuchPrincipal, match="does not have this catalog role"):
        await world.catalog_roles.revoke(world.by, "engineer", "lake", "reader")
    assert await world.catalog_roles.of_principal_role(world.by, "engineer", "lake") == []


async def test_deleted_role_goes_with_its_grants(world: World) -> None:
    await world.principal_roles.create(world.by, "engineer", properties={})
    await world.catalog_roles.create(world.by, "lake", "reader", properties={})
    await world.catalog_roles.assign(world.by, "engineer", "lake", "reader")
    target = GrantTarget(GrantKind.TABLE, ("a", "b"), "t")
    await world.catalog_grants.add(world.by, "lake", "reader", target, Privilege.TABLE_READ_DATA)
    await world.catalog_roles.delete(world.by, "lake", "reader")
    assert [kind for kind, _ in await world.told()][-3:] == ["GrantRevoked", "CatalogRoleRevoked", "CatalogRoleDeleted"]
    await world.catalog_roles.create(world.by, "lake", "reader", properties={})
    assert await world.catalog_grants.list(world.by, "lake", "reader") == []
    assert await world.catalog_roles.holders(world.by, "lake", "reader") == []


async def test_roles_go_with_their_catalog(world: World) -> None:
    lake = (await find_catalog(world.store, "lake")).id
    await world.catalog_roles.create(world.by, "lake", "reader", properties={})
    await world.catalog_grants.add(world.by, "lake", "reader", GrantTarget(GrantKind.CATALOG), Privilege.TABLE_LIST)
    for table in ("policies", "entries", "namespaces"):
        await world.run(f"DELETE FROM {table} WHERE warehouse = ?", lake)
    await world.run("DELETE FROM warehouses WHERE id = ?", lake)
    assert await world.store.rows("SELECT name FROM catalog_roles WHERE catalog = ?", lake) == []
    assert await world.store.rows("SELECT role FROM grants WHERE securable = ?", f"catalog {lake}") == []
    with pytest.raises(NoSuchCatalog):
        await world.catalog_roles.list(world.by, "lake")


async def test_what_is_not_there_is_said_not_to_be(light_world: World) -> None:
    world, roles = light_world, light_world.catalog_roles
    for asked in (
        roles.get(world.by, "lake", "ghost"),
        roles.update(world.by, "lake", "ghost", properties={}, version=1),
        roles.delete(world.by, "lake", "ghost"),
        roles.assign(world.by, "service_admin", "lake", "ghost"),
        roles.assign(world.by, "ghost", "lake", "catalog_admin"),
        roles.revoke(world.by, "ghost", "lake", "catalog_admin"),
        roles.revoke(world.by, "service_admin", "lake", "ghost"),
        roles.of_principal_role(world.by, "ghost", "lake"),
        roles.holders(world.by, "lake", "ghost"),
        world.catalog_grants.list(world.by, "lake", "ghost"),
    ):
        with pytest.raises(NoSuchPrincipal):
            await asked
    for of_catalog in (
        roles.create(world.by, "ghost", "reader", properties={}),
        roles.of_principal_role(world.by, "service_admin", "ghost"),
        world.catalog_grants.list(world.by, "ghost", "reader"),
        world.catalogs.get(world.by, "ghost"),
    ):
        with pytest.raises(NoSuchCatalog):
            await of_catalog


async def test_every_use_case_asks_first_and_of_the_catalog(light_world: World) -> None:
    world, roles = light_world, light_world.catalog_roles
    catalog = await find_catalog(world.store, "lake")
    world.questions.refuses = lambda action: True
    for action, asked in {
        "CreateCatalogRole": roles.create(world.by, "lake", "a/b", properties={}),
        "ListCatalogRoles": roles.list(world.by, "lake"),
        "GetCatalogRole": roles.get(world.by, "lake", "ghost"),
        "UpdateCatalogRole": roles.update(world.by, "lake", "ghost", properties={"": ""}, version=1),
        "DeleteCatalogRole": roles.delete(world.by, "lake", "catalog_admin"),
        "AssignCatalogRoleToPrincipalRole": roles.assign(world.by, "ghost", "lake", "ghost"),
        "RevokeCatalogRoleFromPrincipalRole": roles.revoke(world.by, "ghost", "lake", "ghost"),
        "ListAssigneePrincipalRolesForCatalogRole": roles.holders(world.by, "lake", "ghost"),
        "ListGrantsForCatalogRole": world.catalog_grants.list(world.by, "lake", "ghost"),
        "GetCatalog": world.catalogs.get(world.by, "lake"),
    }.items():
        with pytest.raises(AccessDenied):
            await asked
        named, resource, securable, privileges = world.questions.asked[-1]
        assert (named, resource) == (f"lakebed:{action}", catalog.arn)
        assert securable == catalog_securable(catalog.id)
        assert privileges
    with pytest.raises(AccessDenied):
        await roles.of_principal_role(world.by, "ghost", "ghost")
    with pytest.raises(AccessDenied):
        await world.catalogs.list(world.by)


async def test_catalogs_are_the_table_buckets(world: World) -> None:
    found = await world.catalogs.list(world.by)
    assert [catalog.name for catalog in found] == ["lake", "pond"]
    lake = await world.catalogs.get(world.by, "lake")
    assert lake == found[0]
    assert (lake.created_ms, lake.properties) == (5, {})
    assert lake.arn == f"arn:aws:s3tables:us-east-1:{lake.owner}:bucket/lake"


async def test_establishing_again_changes_nothing(world: World) -> None:
    catalog = await world.catalog("sea")
    before, told = await world.number(), len(await world.told())

    async def again(tx: Transaction) -> None:
        await create_catalog_admin(tx, world.outbox, catalog, "sea", ROOT, 9)

    await world.store.transact(again)
    assert (await world.number(), len(await world.told())) == (before, told)


async def test_what_a_catalog_begins_with_is_told(world: World) -> None:
    before = len(await world.told())
    await world.catalog("sea")
    told = [(kind, event.catalog, event.role) for kind, event in (await world.told())[before:]]
    assert told == [
        ("CatalogRoleCreated", "sea", CATALOG_ADMIN),
        ("GrantAdded", "sea", CATALOG_ADMIN),
        ("GrantAdded", "sea", CATALOG_ADMIN),
        ("CatalogRoleAssigned", "sea", CATALOG_ADMIN),
    ]


async def test_without_a_service_to_administer_nothing_is_established(light_world: World) -> None:
    await light_world.run("DELETE FROM principal_roles")
    with pytest.raises(Corrupted):
        await light_world.catalog("sea")


async def test_store_of_an_earlier_release_gets_what_a_new_one_has(address: str, clock: ManualClock) -> None:
    steps = product_migrations()
    store = await open_store(address)
    try:
        await migrate(store, [step for step in steps if step.version < 12])
        world = World(store, clock, Outbox(store))
        await world.run(
            "INSERT INTO buckets (id, name, owner, region, created_ms, versioning, settings)"
            " VALUES (8, 'old', '000000000000', 'us-east-1', 1, '', '')"
        )
        await world.run("INSERT INTO warehouses (bucket, enabled_ms, properties) VALUES (8, 5, ?)", b"\x80")
        await world.run(
            "INSERT INTO principals (name, user_id, account, enabled, created_ms)"
            " VALUES ('ann', 'U', '000000000000', 1, 77)"
        )
        await migrate(store, steps)
        ann = await world.principals.get(world.by, "ann")
        assert (ann.properties, ann.version, ann.created_ms, ann.updated_ms) == ({}, 1, 77, 77)
        service_admin = await world.principal_roles.get(world.by, "service_admin")
        assert service_admin.created_ms > 1_700_000_000_000
        assert [principal.name for principal in await world.principals.holders(world.by, "service_admin")] == ["root"]
        admin = await world.catalog_roles.get(world.by, "old", CATALOG_ADMIN)
        assert (admin.created_ms, admin.version) == (5, 1)
        assert await world.catalog_grants.list(world.by, "old", CATALOG_ADMIN) == [
            (GrantTarget(GrantKind.CATALOG), privilege) for privilege in ADMIN_PRIVILEGES
        ]
        assert await world.catalog_roles.holders(world.by, "old", CATALOG_ADMIN) == [service_admin]
        rows = await store.rows("SELECT role, privilege FROM service_grants")
        assert rows == [(service_admin.id, Privilege.SERVICE_MANAGE_ACCESS)]
        assert await world.number() == 1
    finally:
        await store.close()
