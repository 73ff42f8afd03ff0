from __future__ import annotations

import pytest

from lakebed.core.clock import ManualClock
from lakebed.core.errors import Corrupted
from lakebed.governance.rbac.bootstrap import ADMIN_PRIVILEGES, establish_catalog
from lakebed.governance.rbac.model import CATALOG_ADMIN, GrantTarget
from lakebed.governance.rbac.privileges import GrantKind, Privilege
from lakebed.meta.migrations import migrate, product_migrations
from lakebed.meta.outbox import Outbox
from lakebed.meta.seam import Transaction
from tests.meta.stores import open_store

from .world import ROOT, World


async def test_establishing_again_changes_nothing(world: World) -> None:
    catalog = await world.catalog("sea")
    before, told = await world.number(), len(await world.told())

    async def again(tx: Transaction) -> None:
        await establish_catalog(tx, world.outbox, catalog, "sea", ROOT, 9)

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
        assert await world.granting.list(world.by, "old", CATALOG_ADMIN) == [
            (GrantTarget(GrantKind.CATALOG), privilege) for privilege in ADMIN_PRIVILEGES
        ]
        assert await world.catalog_roles.holders(world.by, "old", CATALOG_ADMIN) == [service_admin]
        rows = await store.rows("SELECT role, privilege FROM service_grants")
        assert rows == [(service_admin.id, Privilege.SERVICE_MANAGE_ACCESS)]
        assert await world.number() == 1
    finally:
        await store.close()
