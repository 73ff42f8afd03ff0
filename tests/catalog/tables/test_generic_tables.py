from __future__ import annotations

from typing import Any

import pytest

from lakebed.catalog.access.authorization import Action
from lakebed.catalog.access.data_access import DataAccess
from lakebed.catalog.diagnostics.catalog_inventory import CatalogInventories
from lakebed.catalog.idempotency import Mutation, RequestKey, StoredResponse
from lakebed.catalog.model import EntryKind
from lakebed.catalog.policies.attachments import TargetName
from lakebed.catalog.tables.generic_tables import GenericTable, GenericTables, NewGenericTable
from lakebed.core.access import DEFAULT_ACCOUNT
from lakebed.core.errors import (
    AccessDenied,
    AlreadyExists,
    InvalidInput,
    InvalidName,
    LakebedError,
    LocationConflict,
    NamespaceNotEmpty,
    NoSuchNamespace,
    NoSuchTable,
    NotAttachable,
)
from lakebed.governance.rbac import INCLUDES, GrantKind, Privilege
from lakebed.governance.rbac.catalog_grants import CatalogGrants
from lakebed.governance.rbac.catalog_roles import CatalogRoles
from lakebed.governance.rbac.model import GrantTarget, RoleGrant
from lakebed.governance.rbac.securables import entry_key
from lakebed.objects.model import Caller
from tests.catalog.harness import ASSERT_CREATE, UNPRIVILEGED, CatalogHarness, a_table, name, staged, user_with
from tests.catalog.policies.policy_catalog import wire_policies
from tests.catalog.test_catalog_grants import holding, key_of
from tests.objects.stores import ROOT

P = Privilege
GENERIC = EntryKind.GENERIC_TABLE
WHERE = "s3://lake/delta/g"


def generic_on(catalog: CatalogHarness) -> GenericTables:
    """The use cases on a catalog, wired like `server.catalog`."""
    return GenericTables(
        catalog.store.object_context, catalog.authorizer, catalog.entries, catalog.keys, catalog.claims
    )


async def create(
    catalog: CatalogHarness,
    table: str = "g",
    *,
    caller: Caller = ROOT,
    key: RequestKey | None = None,
    with_data: bool = False,
    namespace: str = "ns",
    **request: Any,
) -> GenericTable:
    new = NewGenericTable(table, **{"format": "delta", **request})
    return await generic_on(catalog).create(Mutation(caller, key), "lake", (namespace,), new, with_data=with_data)


async def get(catalog: CatalogHarness, table: str = "g", caller: Caller = ROOT) -> GenericTable:
    return await generic_on(catalog).get(caller, "lake", name(table))


async def names(catalog: CatalogHarness, kind: EntryKind = GENERIC, caller: Caller = ROOT) -> list[str]:
    return (await catalog.entries.list(caller, "lake", ["ns"], kind, after="", limit=100)).names


async def test_generic_table_is_created_loaded_and_has_an_event(catalog: CatalogHarness) -> None:
    before = await catalog.last_event()
    made = await create(catalog, base_location=f"{WHERE}/", doc="sales of others", properties={"a": "1"})
    found = await get(catalog)
    assert found == made
    assert (found.format, found.base_location, found.doc) == ("delta", WHERE, "sales of others")
    assert found.properties == {"a": "1"}
    assert await catalog.claimed() == {made.entry.id: ["delta/g/"]}
    [event] = await catalog.store.events(before)
    assert event.event.kind == "GenericTableCreated"
    plain = await create(catalog, "plain", format="csv")
    assert (plain.base_location, plain.doc, plain.properties) == (None, None, {})
    assert await get(catalog, "plain") == plain
    assert await catalog.claimed() == {made.entry.id: ["delta/g/"]}


async def test_names_are_shared_with_tables_and_views(catalog: CatalogHarness) -> None:
    await create(catalog)
    await catalog.create("t")
    await catalog.create_view("v")
    async with catalog.unchanged():
        for table in ("g", "t", "v"):
            with pytest.raises(AlreadyExists):
                await create(catalog, table)
        with pytest.raises(AlreadyExists, match=r"Generic table with same name already exists: ns\.g"):
            await catalog.create("g")
        with pytest.raises(AlreadyExists):
            await catalog.create_view("g")
        for source, kind in (("t", EntryKind.TABLE), ("v", EntryKind.VIEW)):
            with pytest.raises(AlreadyExists, match=r"Cannot rename ns\.. to ns.g. Generic table already exists"):
                await catalog.renaming.rename(Mutation(ROOT), "lake", name(source), name("g"), kind)
    staging = await catalog.creation.stage(Mutation(ROOT), "lake", ("ns",), a_table("late"))
    await create(catalog, "late")
    with pytest.raises(AlreadyExists):
        await catalog.commit(name("late"), *staged(staging.document), requirements=[ASSERT_CREATE])


async def test_other_listings_and_operations_ignore_generic_tables(catalog: CatalogHarness) -> None:
    await create(catalog)
    await catalog.create("t")
    assert await names(catalog) == ["g"]
    assert await names(catalog, EntryKind.TABLE) == ["t"]
    assert await names(catalog, EntryKind.VIEW) == []
    async with catalog.unchanged():
        for refused in (
            catalog.entries.load(ROOT, "lake", name("g"), EntryKind.TABLE, Action.GET_TABLE),
            catalog.commit(name("g")),
            catalog.drop("g"),
            catalog.renaming.rename(Mutation(ROOT), "lake", name("g"), name("h"), EntryKind.TABLE),
            get(catalog, "t"),
            get(catalog, "none"),
            catalog.drop("t", kind=GENERIC),
        ):
            with pytest.raises(NoSuchTable):
                await refused


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"base_location": "s3://other/g"}, InvalidInput),
        ({"base_location": "s3://lake"}, InvalidInput),
        ({"base_location": "s3://lake/"}, InvalidInput),
        ({"base_location": "s3://lake/.lakebed/g"}, InvalidInput),
        ({"base_location": "s3://lake/a/../.lakebed/g"}, InvalidInput),
        ({"base_location": "s3://lake/g*"}, InvalidInput),
        ({"base_location": "file:///etc"}, InvalidInput),
        ({"base_location": ""}, InvalidInput),
        ({"format": ""}, InvalidInput),
        ({"format": "a\nb"}, InvalidInput),
        ({"format": "x" * 129}, InvalidInput),
        ({"doc": "x" * 5000}, InvalidInput),
        ({"doc": "\ud800"}, InvalidInput),
        ({"properties": {"": "1"}}, InvalidInput),
        ({"table": "a/b"}, InvalidName),
        ({"table": ""}, InvalidName),
        ({"namespace": "none"}, NoSuchNamespace),
        ({"with_data": True}, InvalidInput),
    ],
)
async def test_rejected_generic_table_leaves_nothing(
    light_catalog: CatalogHarness, arguments: dict[str, Any], error: type[LakebedError]
) -> None:
    async with light_catalog.unchanged():
        with pytest.raises(error):
            await create(light_catalog, **arguments)


async def test_generic_table_directories_never_overlap(catalog: CatalogHarness) -> None:
    table = (await catalog.create("t", location="s3://lake/shared/t")).entry
    await create(catalog, base_location=WHERE)
    async with catalog.unchanged():
        for place in ("s3://lake/shared", "s3://lake/shared/t", "s3://lake/shared/t/in", WHERE, f"{WHERE}/in"):
            with pytest.raises(LocationConflict):
                await create(catalog, "other", base_location=place)
        with pytest.raises(LocationConflict):
            await catalog.create("u", location=f"{WHERE}/in")
    # `delta/g10` is not inside `delta/g`.
    beside = await create(catalog, "beside", base_location=f"{WHERE}10")
    assert set(await catalog.claimed()) == {table.id, beside.entry.id, (await get(catalog)).entry.id}


async def test_dropping_frees_name_and_directory(catalog: CatalogHarness) -> None:
    made = await create(catalog, base_location=WHERE)
    before = await catalog.last_event()
    await catalog.drop("g", kind=GENERIC)
    [event] = await catalog.store.events(before)
    assert event.event.kind == "GenericTableDropped"
    with pytest.raises(NoSuchTable):
        await get(catalog)
    assert await catalog.claimed() == {}
    assert await catalog.store.meta.rows("SELECT * FROM generic_tables") == []
    again = await create(catalog, base_location=WHERE)
    assert again.entry.id != made.entry.id
    await catalog.create("t")


async def test_dropped_generic_table_is_restored_unchanged(catalog: CatalogHarness) -> None:
    await catalog.set_undrop_window(60)
    made = await create(catalog, base_location=WHERE, properties={"a": "1"})
    await catalog.drop("g", kind=GENERIC)
    with pytest.raises(AlreadyExists):
        await create(catalog)
    with pytest.raises(LocationConflict):
        await create(catalog, "other", base_location=WHERE)
    before = await catalog.last_event()
    await catalog.dropping.restore(Mutation(ROOT), "lake", name("g"))
    assert [one.event.kind for one in await catalog.store.events(before)] == ["GenericTableRestored"]
    assert (await get(catalog)).properties == made.properties
    await catalog.drop("g", kind=GENERIC)
    await catalog.store.put("lake", "delta/g/part-0", b"x")
    await catalog.dropping.purge_now(Mutation(ROOT), "lake", name("g"), files=True)
    assert await catalog.purges.run_due() == 1
    assert await catalog.keys_in() == []
    assert await catalog.claimed() == {}


async def test_namespace_and_bucket_with_a_generic_table_cannot_be_deleted(catalog: CatalogHarness) -> None:
    await create(catalog)
    with pytest.raises(NamespaceNotEmpty):
        await catalog.namespaces.drop(Mutation(ROOT), "lake", ["ns"])
    with pytest.raises(LakebedError, match="bucket has tables"):
        await catalog.store.buckets.delete(ROOT, "lake")
    await catalog.drop("g", kind=GENERIC)
    await catalog.namespaces.drop(Mutation(ROOT), "lake", ["ns"])


async def test_idempotent_response_commits_with_the_change(light_catalog: CatalogHarness) -> None:
    key = RequestKey("k", "digest")
    made = await create(light_catalog, key=key)
    assert await light_catalog.keys.find(key) == StoredResponse(200, made.entry.id)


async def test_operations_require_permission(light_catalog: CatalogHarness) -> None:
    await create(light_catalog, base_location=WHERE)
    for caller in (UNPRIVILEGED, user_with("s3tables:ListTableBuckets")):
        async with light_catalog.unchanged():
            for refused in (
                create(light_catalog, "h", caller=caller),
                get(light_catalog, caller=caller),
                names(light_catalog, caller=caller),
                light_catalog.drop("g", kind=GENERIC, caller=caller),
            ):
                with pytest.raises(AccessDenied):
                    await refused
    await create(light_catalog, "h", caller=user_with("s3tables:CreateTable"))
    assert (await get(light_catalog, caller=user_with("s3tables:GetTable"))).format == "delta"
    assert await names(light_catalog, caller=user_with("s3tables:ListTables")) == ["g", "h"]
    await light_catalog.drop("h", kind=GENERIC, caller=user_with("s3tables:DeleteTable"))


async def test_grants_use_the_privileges_of_tables(light_catalog: CatalogHarness) -> None:
    made = await create(light_catalog, base_location=WHERE)
    await create(light_catalog, "other")
    ns, own = await key_of(light_catalog, "ns"), entry_key(made.entry.id)
    for privilege, run in (
        (P.TABLE_READ_PROPERTIES, lambda caller: get(light_catalog, caller=caller)),
        (P.TABLE_DROP, lambda caller: light_catalog.drop("g", kind=GENERIC, caller=caller)),
    ):
        others = [each for each in Privilege if privilege not in INCLUDES[each]]
        with pytest.raises(AccessDenied):
            await run(holding(*((own, each) for each in others), *((ns, each) for each in others)))
        await run(holding((own, privilege)))
    with pytest.raises(AccessDenied):
        await create(light_catalog, caller=holding((ns, P.VIEW_CREATE)))
    await create(light_catalog, caller=holding((ns, P.TABLE_CREATE)))
    other = await light_catalog.entry(name("other"))
    # Callers with grants on some entries see only these in listings.
    assert await names(light_catalog, caller=holding((entry_key(other.id), P.TABLE_LIST))) == ["other"]
    assert await names(light_catalog, caller=holding((ns, P.TABLE_LIST))) == ["g", "other"]


async def test_credentials_require_permission_on_data(light_catalog: CatalogHarness) -> None:
    made = await create(light_catalog, base_location=WHERE)
    access = DataAccess(light_catalog.store.meta, light_catalog.authorizer, light_catalog.claims)
    own = entry_key(made.entry.id)

    async def data(privilege: Privilege) -> bool:
        caller = holding((own, privilege))
        return (await access.of_entry(caller, made.catalog, ("ns",), made.entry)).writes

    with pytest.raises(AccessDenied):
        await data(P.TABLE_FULL_METADATA)
    assert await data(P.TABLE_READ_DATA) is False
    assert await data(P.TABLE_WRITE_DATA) is True
    ns = await key_of(light_catalog, "ns")
    async with light_catalog.unchanged():
        with pytest.raises(AccessDenied):
            await create(
                light_catalog, "h", base_location="s3://lake/h", with_data=True, caller=holding((ns, P.TABLE_CREATE))
            )
    both = holding((ns, P.TABLE_CREATE), (ns, P.TABLE_READ_DATA))
    await create(light_catalog, "h", base_location="s3://lake/h", with_data=True, caller=both)


async def test_grants_on_generic_tables_are_listed_and_end_with_the_drop(catalog: CatalogHarness) -> None:
    f = catalog.store.object_context
    by = catalog.administrator()
    catalog_grants, roles = CatalogGrants(f.meta, f.outbox, f.clock), CatalogRoles(f.meta, f.outbox, f.clock)
    await roles.create(by, "lake", "reader", properties={})
    made = await create(catalog)
    target = GrantTarget(GrantKind.TABLE, ("ns",), "g")
    await catalog_grants.add(by, "lake", "reader", target, P.TABLE_READ_DATA)
    assert await catalog_grants.list(by, "lake", "reader") == [RoleGrant(target, P.TABLE_READ_DATA)]
    rows = await f.meta.rows("SELECT securable FROM grants WHERE entry = ?", made.entry.id)
    assert rows == [(entry_key(made.entry.id),)]
    with pytest.raises(LakebedError):
        await catalog_grants.add(by, "lake", "reader", GrantTarget(GrantKind.VIEW, ("ns",), "g"), P.VIEW_LIST)
    await catalog.drop("g", kind=GENERIC)
    assert await catalog_grants.list(by, "lake", "reader") == []


async def test_files_require_permission_on_data(light_catalog: CatalogHarness) -> None:
    made = await create(light_catalog, base_location=WHERE)
    store = light_catalog.store
    await store.put("lake", "delta/g/part-0", b"x")
    arn = f"arn:aws:s3tables:us-east-1:{DEFAULT_ACCOUNT}:bucket/lake/table/{made.entry.id}"
    reader = user_with("s3:GetObject")
    with pytest.raises(AccessDenied):
        await light_catalog.files.read_for(reader, "s3://lake/delta/g/part-0")
    both = user_with("s3:GetObject", "s3tables:GetTableData", resource=["arn:aws:s3:::*", arn])
    assert await light_catalog.files.read_for(both, "s3://lake/delta/g/part-0") == b"x"


async def test_policies_cannot_be_attached_to_generic_tables(light_catalog: CatalogHarness) -> None:
    await create(light_catalog)
    policing = wire_policies(light_catalog)
    await policing.create()
    target = TargetName.of(["ns"], "g")
    async with light_catalog.unchanged():
        with pytest.raises(NotAttachable):
            await policing.attach(target=target)
        with pytest.raises(NoSuchTable):
            await policing.attachments.applicable(ROOT, "lake", target)
    page = await policing.coverage.uncovered(ROOT, "lake")
    assert page.tables == []


async def test_catalog_with_generic_tables_is_healthy(light_catalog: CatalogHarness) -> None:
    await create(light_catalog)
    await light_catalog.create("t")
    f = light_catalog.store.object_context
    survey = await CatalogInventories(f, light_catalog.authorizer, light_catalog.catalogs).survey(ROOT, "lake")
    assert (survey.tables, survey.views, survey.generic_tables) == (1, 0, 1)
    assert survey.blockers == []
