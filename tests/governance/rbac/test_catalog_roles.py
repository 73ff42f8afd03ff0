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


async def test_role_belongs_to_its_catalog(world: World) -> None:
    created = await world.catalog_roles.create(world.by, "lake", "reader", properties={"a": "b"})
    assert (created.name, created.properties, created.version) == ("reader", {"a": "b"}, 1)
    assert await world.catalog_roles.get(world.by, "lake", "reader") == created
    assert [role.name for role in await world.catalog_roles.list(world.by, "lake")] == ["catalog_admin", "reader"]
    assert [role.name for role in await world.catalog_roles.list(world.by, "pond")] == ["catalog_admin"]
    other = await world.catalog_roles.create(world.by, "pond", "reader", properties={})
    assert other.id != created.id
    with pytest.raises(AlreadyExists):
        await world.catalog_roles.create(world.by, "lake", "reader", properties={})
    with pytest.raises(InvalidName):
        await world.catalog_roles.create(world.by, "lake", "system$reader", properties={})


async def test_properties_are_replaced_if_the_version_matches(world: World) -> None:
    await world.catalog_roles.create(world.by, "lake", "reader", properties={"a": "1"})
    changed = await world.catalog_roles.update(world.by, "lake", "reader", properties={}, version=1)
    assert (changed.properties, changed.version) == ({}, 2)
    assert await world.catalog_roles.get(world.by, "lake", "reader") == changed
    with pytest.raises(PreconditionFailed):
        await world.catalog_roles.update(world.by, "lake", "reader", properties={}, version=1)


async def test_new_catalog_has_catalog_admin(world: World) -> None:
    admin = await world.catalog_roles.get(world.by, "lake", "catalog_admin")
    grants = await world.catalog_grants.list(world.by, "lake", "catalog_admin")
    assert grants == [
        (GrantTarget(GrantKind.CATALOG), Privilege.CATALOG_MANAGE_ACCESS),
        (GrantTarget(GrantKind.CATALOG), Privilege.CATALOG_MANAGE_METADATA),
    ]
    assert [role.name for role in await world.catalog_roles.assignees(world.by, "lake", "catalog_admin")] == [
        "service_admin"
    ]
    assert await world.catalog_roles.of_principal_role(world.by, "service_admin", "lake") == [admin]
    with pytest.raises(InvalidInput, match="cannot be deleted"):
        await world.catalog_roles.delete(world.by, "lake", "catalog_admin")


async def test_role_can_be_assigned_to_principal_roles_and_revoked(world: World) -> None:
    await world.principal_roles.create(world.by, "engineer", properties={})
    created = await world.catalog_roles.create(world.by, "lake", "reader", properties={})
    before = await world.number()
    await world.catalog_roles.assign(world.by, "engineer", "lake", "reader")
    await world.catalog_roles.assign(world.by, "engineer", "lake", "reader")
    assert await world.number() == before + 1
    assert await world.catalog_roles.of_principal_role(world.by, "engineer", "lake") == [created]
    assert await world.catalog_roles.of_principal_role(world.by, "engineer", "pond") == []
    assert [role.name for role in await world.catalog_roles.assignees(world.by, "lake", "reader")] == ["engineer"]
    await world.catalog_roles.revoke(world.by, "engineer", "lake", "reader")
    assert await world.number() == before + 2
    with pytest.raises(NoSuchPrincipal, match="does not have this catalog role"):
        await world.catalog_roles.revoke(world.by, "engineer", "lake", "reader")
    assert await world.catalog_roles.of_principal_role(world.by, "engineer", "lake") == []


async def test_deleting_a_role_deletes_its_grants(world: World) -> None:
    await world.principal_roles.create(world.by, "engineer", properties={})
    await world.catalog_roles.create(world.by, "lake", "reader", properties={})
    await world.catalog_roles.assign(world.by, "engineer", "lake", "reader")
    target = GrantTarget(GrantKind.TABLE, ("a", "b"), "t")
    await world.catalog_grants.add(world.by, "lake", "reader", target, Privilege.TABLE_READ_DATA)
    await world.catalog_roles.delete(world.by, "lake", "reader")
    assert [kind for kind, _ in await world.events()][-3:] == [
        "GrantRevoked",
        "CatalogRoleRevoked",
        "CatalogRoleDeleted",
    ]
    await world.catalog_roles.create(world.by, "lake", "reader", properties={})
    assert await world.catalog_grants.list(world.by, "lake", "reader") == []
    assert await world.catalog_roles.assignees(world.by, "lake", "reader") == []


async def test_dropping_a_catalog_deletes_its_roles(world: World) -> None:
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


async def test_unknown_roles_and_catalogs_are_refused(sqlite_world: World) -> None:
    world, roles = sqlite_world, sqlite_world.catalog_roles
    for call in (
        roles.get(world.by, "lake", "ghost"),
        roles.update(world.by, "lake", "ghost", properties={}, version=1),
        roles.delete(world.by, "lake", "ghost"),
        roles.assign(world.by, "service_admin", "lake", "ghost"),
        roles.assign(world.by, "ghost", "lake", "catalog_admin"),
        roles.revoke(world.by, "ghost", "lake", "catalog_admin"),
        roles.revoke(world.by, "service_admin", "lake", "ghost"),
        roles.of_principal_role(world.by, "ghost", "lake"),
        roles.assignees(world.by, "lake", "ghost"),
        world.catalog_grants.list(world.by, "lake", "ghost"),
    ):
        with pytest.raises(NoSuchPrincipal):
            await call
    for of_catalog in (
        roles.create(world.by, "ghost", "reader", properties={}),
        roles.of_principal_role(world.by, "service_admin", "ghost"),
        world.catalog_grants.list(world.by, "ghost", "reader"),
        world.catalogs.get(world.by, "ghost"),
    ):
        with pytest.raises(NoSuchCatalog):
            await of_catalog


async def test_every_operation_is_authorized_first_on_the_catalog(sqlite_world: World) -> None:
    world, roles = sqlite_world, sqlite_world.catalog_roles
    catalog = await find_catalog(world.store, "lake")
    world.authorizer.refuses = lambda action: True
    for action, call in {
        "CreateCatalogRole": roles.create(world.by, "lake", "a/b", properties={}),
        "ListCatalogRoles": roles.list(world.by, "lake"),
        "GetCatalogRole": roles.get(world.by, "lake", "ghost"),
        "UpdateCatalogRole": roles.update(world.by, "lake", "ghost", properties={"": ""}, version=1),
        "DeleteCatalogRole": roles.delete(world.by, "lake", "catalog_admin"),
        "AssignCatalogRoleToPrincipalRole": roles.assign(world.by, "ghost", "lake", "ghost"),
        "RevokeCatalogRoleFromPrincipalRole": roles.revoke(world.by, "ghost", "lake", "ghost"),
        "ListAssigneePrincipalRolesForCatalogRole": roles.assignees(world.by, "lake", "ghost"),
        "ListGrantsForCatalogRole": world.catalog_grants.list(world.by, "lake", "ghost"),
        "GetCatalog": world.catalogs.get(world.by, "lake"),
    }.items():
        with pytest.raises(AccessDenied):
            await call
        named, resource, securable, privileges = world.authorizer.requests[-1]
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


async def test_creating_catalog_admin_again_changes_nothing(world: World) -> None:
    catalog = await world.catalog("sea")
    before, events = await world.number(), len(await world.events())

    async def again(tx: Transaction) -> None:
        await create_catalog_admin(tx, world.outbox, catalog, "sea", ROOT, 9)

    await world.store.transact(again)
    assert (await world.number(), len(await world.events())) == (before, events)


async def test_new_catalog_emits_events_for_its_role_and_grants(world: World) -> None:
    before = len(await world.events())
    await world.catalog("sea")
    events = [(kind, event.catalog, event.role) for kind, event in (await world.events())[before:]]
    assert events == [
        ("CatalogRoleCreated", "sea", CATALOG_ADMIN),
        ("GrantAdded", "sea", CATALOG_ADMIN),
        ("GrantAdded", "sea", CATALOG_ADMIN),
        ("CatalogRoleAssigned", "sea", CATALOG_ADMIN),
    ]


async def test_catalog_admin_requires_service_admin(sqlite_world: World) -> None:
    await sqlite_world.run("DELETE FROM principal_roles")
    with pytest.raises(Corrupted):
        await sqlite_world.catalog("sea")


async def test_migrated_store_has_the_roles_of_a_new_one(address: str, clock: ManualClock) -> None:
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
        assert [principal.name for principal in await world.principals.assignees(world.by, "service_admin")] == ["root"]
        admin = await world.catalog_roles.get(world.by, "old", CATALOG_ADMIN)
        assert (admin.created_ms, admin.version) == (5, 1)
        assert await world.catalog_grants.list(world.by, "old", CATALOG_ADMIN) == [
            (GrantTarget(GrantKind.CATALOG), privilege) for privilege in ADMIN_PRIVILEGES
        ]
        assert await world.catalog_roles.assignees(world.by, "old", CATALOG_ADMIN) == [service_admin]
        rows = await store.rows("SELECT role, privilege FROM service_grants")
        assert rows == [(service_admin.id, Privilege.SERVICE_MANAGE_ACCESS)]
        assert await world.number() == 1
    finally:
        await store.close()
