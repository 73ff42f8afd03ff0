"""Grants are deleted with their securable: a later one of the same name has none, even with a warm cache."""

from __future__ import annotations

from uuid import uuid4

import pytest

from lakebed.catalog.access.authorization import Action
from lakebed.catalog.idempotency import Mutation
from lakebed.catalog.model import EntryKind
from lakebed.core.access import DEFAULT_ACCOUNT, Principal, Securable, root_of
from lakebed.core.errors import AccessDenied, NoSuchPrincipal
from lakebed.governance.rbac import GrantKind, Privilege
from lakebed.governance.rbac.administrator import Administrator
from lakebed.governance.rbac.caller_grants import CallerGrants
from lakebed.governance.rbac.catalog_grants import CatalogGrants
from lakebed.governance.rbac.catalog_roles import CatalogRoles
from lakebed.governance.rbac.model import CATALOG_ADMIN, GrantTarget
from lakebed.governance.rbac.principal_roles import PrincipalRoles
from lakebed.governance.rbac.rows import LATEST_CHANGE
from lakebed.objects.model import Caller
from tests.objects.stores import ROOT

from .harness import ASSERT_CREATE, CatalogHarness, name, staged

P = Privilege
NAMESPACE = GrantTarget(GrantKind.NAMESPACE, ("ns",))
TABLE = GrantTarget(GrantKind.TABLE, ("ns",), "t")
VIEW = GrantTarget(GrantKind.VIEW, ("ns",), "v")


async def allow(action: str, resource: str, securable: Securable, privileges: tuple[int, ...]) -> None:
    """Whether the authorizer allows the action."""


class Roles:
    """Root, as a user with a role of `lake`: a principal without a row needs no access key."""

    def __init__(self, catalog: CatalogHarness) -> None:
        f = catalog.store.object_context
        self.meta = f.meta
        self.by = Administrator(root_of(DEFAULT_ACCOUNT), allow)
        self.catalog_roles = CatalogRoles(f.meta, f.outbox, f.clock)
        self.principal_roles = PrincipalRoles(f.meta, f.outbox, f.clock)
        self.catalog_grants = CatalogGrants(f.meta, f.outbox, f.clock)
        self.grants = CallerGrants(f.meta)

    async def open(self) -> Roles:
        await self.catalog_roles.create(self.by, "lake", "role", properties={})
        await self.catalog_roles.assign(self.by, "service_admin", "lake", "role")
        return self

    async def number(self) -> int:
        row = await self.meta.row(LATEST_CHANGE)
        assert row is not None
        return int(row[0])

    async def caller(self) -> Caller:
        """The caller as authentication resolves it: the grant generation and the compiled grants."""
        held = await self.grants.of("root", await self.number())
        return Caller(Principal("root", DEFAULT_ACCOUNT, "arn", grants=held))

    async def give(self, target: GrantTarget, privilege: Privilege) -> None:
        await self.catalog_grants.add(self.by, "lake", "role", target, privilege)


@pytest.fixture
async def roles(catalog: CatalogHarness) -> Roles:
    return await Roles(catalog).open()


async def is_allowed(catalog: CatalogHarness, caller: Caller, table: str = "t") -> bool:
    try:
        await catalog.entries.get(caller, "lake", name(table), EntryKind.TABLE, Action.PUT_TABLE_DATA)
    except AccessDenied:
        return False
    return True


async def test_recreated_namespace_has_no_earlier_grants(catalog: CatalogHarness, roles: Roles) -> None:
    await roles.give(NAMESPACE, P.TABLE_WRITE_DATA)
    await catalog.create("t")
    assert await is_allowed(catalog, await roles.caller())
    await catalog.drop("t")
    await catalog.namespaces.drop(Mutation(ROOT), "lake", ("ns",))
    await catalog.namespace("ns")
    await catalog.create("t")
    assert not await is_allowed(catalog, await roles.caller())
    await roles.give(NAMESPACE, P.TABLE_WRITE_DATA)
    assert await is_allowed(catalog, await roles.caller())


async def test_recreated_table_with_the_same_id_has_no_earlier_grants(catalog: CatalogHarness, roles: Roles) -> None:
    made = await catalog.create("t")
    await roles.give(TABLE, P.TABLE_WRITE_DATA)
    assert await is_allowed(catalog, await roles.caller())
    await catalog.drop("t")
    await catalog.commit(name("t"), *staged(made.metadata.document), requirements=[ASSERT_CREATE])
    assert (await catalog.entry(name("t"))).id == made.entry.id
    assert not await is_allowed(catalog, await roles.caller())


async def test_renamed_and_restored_table_keeps_its_grants(catalog: CatalogHarness, roles: Roles) -> None:
    await catalog.set_undrop_window(60)
    await catalog.create("t")
    await roles.give(TABLE, P.TABLE_WRITE_DATA)
    before = await roles.number()
    await catalog.renaming.rename(Mutation(ROOT), "lake", name("t"), name("u"), EntryKind.TABLE)
    assert await is_allowed(catalog, await roles.caller(), "u")
    await catalog.drop("u")
    assert not await is_allowed(catalog, await roles.caller(), "u")
    await catalog.dropping.restore(Mutation(ROOT), "lake", name("u"))
    assert await is_allowed(catalog, await roles.caller(), "u")
    assert await roles.number() == before
    await catalog.drop("u")
    await catalog.dropping.purge_now(Mutation(ROOT), "lake", name("u"), files=False)
    assert await roles.number() == before + 1


async def test_grant_generation_changes_only_with_grants(catalog: CatalogHarness, roles: Roles) -> None:
    await catalog.create("t")
    await catalog.create_view("v")
    await catalog.namespace("empty")
    before = await roles.number()
    await catalog.drop("t")
    await catalog.drop("v", kind=EntryKind.VIEW)
    await catalog.namespaces.drop(Mutation(ROOT), "lake", ("empty",))
    assert await roles.number() == before
    await catalog.create_view("v")
    await roles.give(VIEW, P.VIEW_DROP)
    before = await roles.number()
    await catalog.drop("v", kind=EntryKind.VIEW)
    assert await roles.number() == before + 1


async def test_catalog_admin_role_is_created_and_deleted_with_its_catalog(
    catalog: CatalogHarness, roles: Roles
) -> None:
    await catalog.create_table_bucket("pond")
    assert [one.name for one in await roles.catalog_roles.list(roles.by, "pond")] == [CATALOG_ADMIN]
    holders = await roles.catalog_roles.assignees(roles.by, "pond", CATALOG_ADMIN)
    assert [one.name for one in holders] == ["service_admin"]
    before = await roles.number()
    # One change is enough.
    await catalog.catalogs.enable(ROOT, "pond")
    assert await roles.number() == before
    caller = await roles.caller()
    await catalog.catalogs.get(caller, "pond")
    await catalog.store.buckets.delete(ROOT, "pond")
    assert await roles.number() == before + 1
    await catalog.store.bucket("pond")
    await catalog.catalogs.enable(ROOT, "pond")
    with pytest.raises(NoSuchPrincipal):
        await roles.catalog_roles.get(roles.by, "pond", "role")


async def test_any_catalog_role_can_load_the_configuration(catalog: CatalogHarness, roles: Roles) -> None:
    await catalog.create_table_bucket("pond")
    guest_role = f"guest-{uuid4().hex}"
    await roles.principal_roles.create(roles.by, guest_role, properties={})
    await roles.catalog_roles.assign(roles.by, guest_role, "lake", "role")
    held = await roles.grants.of("root", await roles.number(), frozenset({guest_role}))
    assert held is not None
    # Root does not have this role.
    stranger = Caller(Principal("root", DEFAULT_ACCOUNT, "arn", grants=held))
    with pytest.raises(AccessDenied):
        await catalog.catalogs.enter(stranger, "lake")
    await roles.principal_roles.assign(roles.by, "root", guest_role)
    held = await roles.grants.of("root", await roles.number(), frozenset({guest_role}))
    guest = Caller(Principal("root", DEFAULT_ACCOUNT, "arn", grants=held))
    await catalog.catalogs.enter(guest, "lake")
    for refused in (catalog.catalogs.enter(guest, "pond"), catalog.catalogs.get(guest, "lake")):
        with pytest.raises(AccessDenied):
            await refused
