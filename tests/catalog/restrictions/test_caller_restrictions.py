"""Restricted principals, and the operations that are denied to them regardless of other permissions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from lakebed.catalog.access.data_access import DataAccess
from lakebed.catalog.idempotency import Mutation
from lakebed.catalog.model import EntryKind
from lakebed.catalog.restrictions import COPIES_NAMESPACE
from lakebed.core.access import ActivatedRoles
from lakebed.core.errors import AccessDenied
from lakebed.objects.model import Caller
from tests.catalog.harness import CatalogHarness, a_change, name, set_properties, user_with
from tests.catalog.policies.policy_catalog import CATALOG, NS, TABLE, wire_policies
from tests.objects.stores import ROOT

from .subjects import content, delegated, restrict_rows, role

ANN = user_with("s3:*", "s3tables:*", principal="ann")
BO = user_with("s3:*", "s3tables:*", principal="bo")


async def is_restricted(catalog: CatalogHarness, caller: Caller, table: str = "t") -> bool:
    found = await catalog.entries.find(catalog.store.meta, "lake", name(table))
    assert found.live is not None
    seen = await catalog.entries.restrictions.of(caller.principal, found.catalog, ("ns",), found.live)
    return seen is not None


def calling_with(caller: Caller, *roles: str, by_provider: bool = False) -> Caller:
    activated = ActivatedRoles(frozenset(roles), by_provider)
    return caller._replace(principal=replace(caller.principal, activated=activated))


async def test_named_principals_are_restricted_where_the_policy_applies(catalog: CatalogHarness) -> None:
    policing = wire_policies(catalog)
    await catalog.create("t")
    await catalog.create("other")
    assert not await is_restricted(catalog, ANN)
    await restrict_rows(policing)
    assert await is_restricted(catalog, ANN)
    assert not await is_restricted(catalog, BO)
    assert not await is_restricted(catalog, ANN, "other")
    await policing.attach("p", CATALOG)
    assert await is_restricted(catalog, ANN, "other")
    await policing.detach("p", CATALOG)
    await policing.update("p", content({"filter": False}, enable=False))
    assert not await is_restricted(catalog, ANN)


async def test_nearer_policies_do_not_lift_restrictions(light_catalog: CatalogHarness) -> None:
    policing = wire_policies(light_catalog)
    await light_catalog.create("t")
    await restrict_rows(policing, "far", CATALOG)
    await policing.create("near", "lakebed.row-filter", content({"filter": True}, enable=False))
    await policing.attach("near", NS)
    await policing.attach("near", TABLE)
    assert await is_restricted(light_catalog, ANN)
    assert await policing.applicable() == [("far", "catalog", True), ("near", "table ns.t", False)]
    await restrict_rows(policing, "also", TABLE, True)
    assert [one[0] for one in await policing.applicable()] == ["also", "far", "near"]


async def test_roles_restrict_members_and_exempt_callers_with_the_role(catalog: CatalogHarness) -> None:
    policing = wire_policies(catalog)
    await catalog.create("t")
    await role(catalog, "reader", "ann")
    await role(catalog, "chief", "ann")
    await restrict_rows(policing, principal_roles=["reader"])
    assert await is_restricted(catalog, ANN)
    assert await is_restricted(catalog, calling_with(ANN, "chief"))
    assert not await is_restricted(catalog, BO)
    await policing.update("p", content({"filter": False}, principal_roles=["reader"], except_principal_roles=["chief"]))
    assert not await is_restricted(catalog, ANN)
    assert not await is_restricted(catalog, calling_with(ANN, "chief"))
    assert await is_restricted(catalog, calling_with(ANN, "reader"))
    # The role is in the token, but was never granted.
    await role(catalog, "chief")
    assert await is_restricted(catalog, calling_with(ANN, "reader", "chief"))


async def test_federated_roles_apply_as_asserted_by_the_provider(light_catalog: CatalogHarness) -> None:
    policing = wire_policies(light_catalog)
    await light_catalog.create("t")
    await role(light_catalog, "staff", federated=True)
    await role(light_catalog, "boss", federated=True)
    await restrict_rows(policing, principal_roles=["staff"], except_principal_roles=["boss"])
    assert not await is_restricted(light_catalog, ANN)
    assert await is_restricted(light_catalog, calling_with(ANN, "staff", by_provider=True))
    assert not await is_restricted(light_catalog, calling_with(ANN, "staff", "boss", by_provider=True))
    # The server's own tokens cannot assert federated roles.
    assert await is_restricted(light_catalog, calling_with(ANN, "staff", "boss"))
    # Vended credentials have the roles of the caller that requested them.
    keys = delegated(ANN, "t", ActivatedRoles(frozenset({"staff"}), True))
    assert await is_restricted(light_catalog, keys)


async def test_root_is_not_restricted_unless_its_token_has_fewer_roles(light_catalog: CatalogHarness) -> None:
    policing = wire_policies(light_catalog)
    await light_catalog.create("t")
    await restrict_rows(policing, everyone=True)
    assert await is_restricted(light_catalog, ANN)
    assert not await is_restricted(light_catalog, ROOT)
    assert await is_restricted(light_catalog, calling_with(ROOT, "reader"))


async def test_views_are_not_restricted(light_catalog: CatalogHarness) -> None:
    policing = wire_policies(light_catalog)
    view = (await light_catalog.create_view("v")).entry
    await restrict_rows(policing, target=NS, everyone=True)
    warehouse = await light_catalog.catalogs.find(light_catalog.store.meta, "lake")
    assert warehouse.restricts
    assert await light_catalog.entries.restrictions.of(ANN.principal, warehouse, ("ns",), view) is None


UseCase = Callable[[CatalogHarness, Caller], Awaitable[object]]


async def commit(catalog: CatalogHarness, caller: Caller) -> object:
    return await catalog.commit(name(), set_properties(a="b"), caller=caller)


async def commit_all(catalog: CatalogHarness, caller: Caller) -> None:
    await catalog.commit_all(a_change(name(), set_properties(a="b")), caller=caller)


async def drop(catalog: CatalogHarness, caller: Caller) -> object:
    return await catalog.drop(caller=caller)


async def unregister(catalog: CatalogHarness, caller: Caller) -> object:
    return await catalog.dropping.unregister(Mutation(caller), "lake", name(), lambda entry, document: b"")


async def rename(catalog: CatalogHarness, caller: Caller) -> None:
    await catalog.renaming.rename(Mutation(caller), "lake", name(), name("u"), EntryKind.TABLE)


async def move(catalog: CatalogHarness, caller: Caller) -> object:
    at = (await catalog.entry(name())).metadata_at
    return await catalog.registration.register_table(Mutation(caller), "lake", name(), at, overwrite=True)


async def vend(catalog: CatalogHarness, caller: Caller) -> object:
    found = await catalog.entries.find(catalog.store.meta, "lake", name())
    assert found.entry is not None
    access = DataAccess(catalog.store.meta, catalog.authorizer, catalog.claims)
    return await access.of_entry(caller, found.catalog, ("ns",), found.entry)


@pytest.mark.parametrize("use", [commit, commit_all, drop, unregister, rename, move, vend])
async def test_operations_that_require_unrestricted_access(light_catalog: CatalogHarness, use: UseCase) -> None:
    policing = wire_policies(light_catalog)
    await light_catalog.create("t")
    await restrict_rows(policing)
    async with light_catalog.unchanged():
        with pytest.raises(AccessDenied, match="a policy restricts"):
            await use(light_catalog, ANN)
    await use(light_catalog, BO)


async def test_restricted_principal_cannot_purge_a_dropped_table(light_catalog: CatalogHarness) -> None:
    policing = wire_policies(light_catalog)
    await light_catalog.create("t")
    await restrict_rows(policing)
    await light_catalog.set_undrop_window(3600)
    await light_catalog.drop()
    purge = light_catalog.dropping.purge_now
    async with light_catalog.unchanged():
        with pytest.raises(AccessDenied, match="a policy restricts"):
            await purge(Mutation(ANN), "lake", name(), files=False)
    await purge(Mutation(BO), "lake", name(), files=False)


async def test_restricted_principal_cannot_read_files_with_any_credentials(light_catalog: CatalogHarness) -> None:
    policing = wire_policies(light_catalog)
    made = (await light_catalog.create("t")).entry
    key = made.metadata_at.removeprefix("s3://lake/")
    reader, keys = light_catalog.store.reader, delegated(ANN, made.id)
    for caller in (ANN, keys):
        await reader.get(caller, "lake", key)
    await restrict_rows(policing)
    # Credentials vended before the restriction, too.
    for caller in (ANN, keys):
        with pytest.raises(AccessDenied, match="a policy restricts"):
            await reader.get(caller, "lake", key)
        with pytest.raises(AccessDenied, match="a policy restricts"):
            await light_catalog.store.put("lake", f"{key}.new", b"x", caller=caller)
    await reader.get(BO, "lake", key)
    await reader.get(delegated(BO, made.id), "lake", key)


async def test_copies_namespace_is_for_workers_only(light_catalog: CatalogHarness) -> None:
    worker = user_with("s3tables:*", "lakebed:RunTasks", principal="worker")
    await light_catalog.namespace(COPIES_NAMESPACE)
    await light_catalog.create("c", namespace=COPIES_NAMESPACE)
    listed = light_catalog.entries.list
    for caller in (ROOT, worker):
        page = await listed(caller, "lake", (COPIES_NAMESPACE,), EntryKind.TABLE, after="", limit=9)
        assert page.names == ["c"]
    with pytest.raises(AccessDenied):
        await listed(ANN, "lake", (COPIES_NAMESPACE,), EntryKind.TABLE, after="", limit=9)
    with pytest.raises(AccessDenied):
        await light_catalog.create("d", namespace=COPIES_NAMESPACE, caller=ANN)
