from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec
import pytest

from lakebed.catalog.access.authorization import Action
from lakebed.catalog.commits.service import CommitOptions
from lakebed.catalog.idempotency import Mutation
from lakebed.catalog.identifiers import Levels
from lakebed.catalog.model import Catalog, EntryKind
from lakebed.core.access import ANONYMOUS, root_of
from lakebed.core.errors import AccessDenied, NoSuchNamespace, NoSuchTable, NoSuchView, NotFound
from lakebed.governance.policy_language.resource_actions import TABLE_ACTIONS, TABLE_BUCKET_ACTIONS
from lakebed.iceberg.commits import parse_view_updates
from lakebed.meta.seam import Transaction
from lakebed.objects.buckets.bucket import encode_settings
from lakebed.objects.model import Caller
from lakebed.objects.rows import UPDATE_BUCKET_SETTINGS
from tests.catalog.extension_catalog import extended
from tests.catalog.harness import (
    ASSERT_CREATE,
    UNPRIVILEGED,
    CatalogHarness,
    a_change,
    a_table,
    name,
    set_properties,
    user_with,
)
from tests.governance.documents import policy, statement
from tests.governance.documents import user as principal
from tests.objects.stores import ROOT, user

BUCKET = "arn:aws:s3tables:us-east-1:000000000000:bucket/lake"
TABLE, VIEW = EntryKind.TABLE, EntryKind.VIEW
AWAY = name("t", "none")
"""A table in a missing namespace."""
OTHER_ACCOUNT = Caller(principal("carol", "999999999999", policy(statement(action="s3tables:*", resource="*"))))
"""A user of another account with all permissions there."""


async def the_warehouse(catalog: CatalogHarness) -> Catalog:
    return await catalog.catalogs.find(catalog.store.meta, "lake")


async def passes(
    catalog: CatalogHarness, caller: Caller, warehouse: Catalog, action: Action, namespace: Levels = ("ns",)
) -> bool:
    try:
        await catalog.authorizer.check(caller, warehouse, action, namespace=namespace, name="t")
    except AccessDenied:
        return False
    return True


# -- the question ----------------------------------------------------------------------------------------------------


async def test_only_root_has_permissions_by_default(light_catalog: CatalogHarness) -> None:
    warehouse = await the_warehouse(light_catalog)
    for action in Action:
        assert await passes(light_catalog, ROOT, warehouse, action)
        for caller in (UNPRIVILEGED, Caller(ANONYMOUS), OTHER_ACCOUNT, Caller(root_of("999999999999"))):
            assert not await passes(light_catalog, caller, warehouse, action)


@pytest.mark.parametrize("action", Action)
async def test_allow_applies_to_one_action(light_catalog: CatalogHarness, action: Action) -> None:
    warehouse = await the_warehouse(light_catalog)
    allowed = [other for other in Action if await passes(light_catalog, user_with(action), warehouse, other)]
    assert allowed == [action]


async def test_deny_overrides_allow(light_catalog: CatalogHarness) -> None:
    warehouse = await the_warehouse(light_catalog)
    caller = user(
        "bob",
        policy(
            statement(action="s3tables:*", resource="*"),
            statement("Deny", "s3tables:DeleteTable", "*"),
        ),
    )
    assert await passes(light_catalog, caller, warehouse, Action.GET_TABLE)
    assert not await passes(light_catalog, caller, warehouse, Action.DELETE_TABLE)


async def test_table_resource_is_named_by_its_id(light_catalog: CatalogHarness) -> None:
    warehouse = await the_warehouse(light_catalog)
    mine = (await light_catalog.create("t")).entry
    other = (await light_catalog.create("u")).entry
    caller = user_with(Action.GET_TABLE, resource=f"{BUCKET}/table/{mine.id}")
    authorizer = light_catalog.authorizer
    assert await authorizer.allows(caller, warehouse, Action.GET_TABLE, namespace=("ns",), entry=mine)
    assert not await authorizer.allows(caller, warehouse, Action.GET_TABLE, namespace=("ns",), entry=other)
    assert not await authorizer.allows(caller, warehouse, Action.PUT_TABLE_DATA, namespace=("ns",), entry=mine)
    await authorizer.check(caller, warehouse, Action.GET_TABLE, entry_id=mine.id)
    with pytest.raises(AccessDenied):
        await authorizer.check(caller, warehouse, Action.GET_TABLE)
    all_tables = user_with(Action.GET_TABLE, resource=f"{BUCKET}/table/*")
    assert await authorizer.allows(all_tables, warehouse, Action.GET_TABLE, entry=other)


@pytest.mark.parametrize(
    ("condition", "namespace", "allowed"),
    [
        ({"StringEquals": {"s3tables:namespace": "ns"}}, ("ns",), True),
        ({"StringEquals": {"s3tables:namespace": "ns"}}, ("other",), False),
        ({"StringEquals": {"s3tables:namespace": "a.b"}}, ("a", "b"), True),
        ({"StringLike": {"s3tables:namespace": "a.*"}}, ("a", "b"), True),
        ({"StringLike": {"s3tables:namespace": "a.*"}}, ("a",), False),
        ({"StringEquals": {"s3tables:namespace": "a.b"}}, ("a.b",), False),
        ({"StringEquals": {"s3tables:namespace": "a%2Eb"}}, ("a.b",), True),
        ({"StringEquals": {"s3tables:namespace": "a%2Eb"}}, ("a", "b"), False),
        ({"StringEquals": {"s3tables:namespace": "a%2Eb"}}, ("a%2Eb",), False),
        ({"StringEquals": {"s3tables:namespace": "a%252Eb"}}, ("a%2Eb",), True),
        ({"StringLike": {"s3tables:namespace": "a.*"}}, ("a.b",), False),
        ({"StringLike": {"s3tables:namespace": "*.b"}}, ("a.b",), False),
        ({"StringLike": {"s3tables:namespace": "a?b"}}, ("a.b",), False),
        ({"StringLike": {"s3tables:namespace": "*.b"}}, ("a", "b"), True),
        ({"StringEquals": {"s3tables:tableName": "t"}}, ("ns",), True),
        ({"StringEquals": {"s3tables:tableName": "u"}}, ("ns",), False),
        ({"StringNotEquals": {"s3tables:tableName": "t"}}, ("ns",), False),
        ({"StringEquals": {"s3tables:tableName": "t", "s3tables:namespace": "other"}}, ("ns",), False),
        ({"StringEquals": {"aws:username": "alice"}}, ("ns",), True),
        ({"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}}, ("ns",), False),
    ],
)
async def test_conditions_match_namespace_and_table_name(
    light_catalog: CatalogHarness, condition: object, namespace: Levels, allowed: bool
) -> None:
    warehouse = await the_warehouse(light_catalog)
    caller = user_with(Action.GET_TABLE, condition=condition)
    assert await passes(light_catalog, caller, warehouse, Action.GET_TABLE, namespace) is allowed


def test_policies_can_name_every_authorized_resource() -> None:
    actions = {action.value for action in Action if action.value.startswith("s3tables:")}
    # Authorized on the account, so not by a bucket policy.
    assert actions - {Action.LIST_TABLE_BUCKETS} == TABLE_ACTIONS | TABLE_BUCKET_ACTIONS


async def test_bucket_policy_allows_other_accounts_and_denies_own_users(light_catalog: CatalogHarness) -> None:
    warehouse = await the_warehouse(light_catalog)
    document = policy(
        statement(action="s3tables:GetTable", resource=f"{BUCKET}/*", principal={"AWS": "999999999999"}),
        statement("Deny", "s3tables:DeleteTable", "*", principal="*"),
    )
    settings = msgspec.structs.replace(warehouse.bucket.settings, policy=document)

    async def work(tx: Transaction) -> None:
        await tx.run(UPDATE_BUCKET_SETTINGS, encode_settings(settings), warehouse.bucket.id)

    await light_catalog.store.meta.transact(work)
    entry = (await light_catalog.create()).entry
    warehouse = await the_warehouse(light_catalog)
    authorizer = light_catalog.authorizer
    assert await authorizer.allows(OTHER_ACCOUNT, warehouse, Action.GET_TABLE, entry=entry)
    assert not await authorizer.allows(OTHER_ACCOUNT, warehouse, Action.PUT_TABLE_DATA, entry=entry)
    assert not await authorizer.allows(user_with("s3tables:*"), warehouse, Action.DELETE_TABLE, entry=entry)


# -- each use case ---------------------------------------------------------------------------------------------------

UseCase = Callable[[CatalogHarness, Caller], Awaitable[object]]

USE_CASES: dict[str, tuple[UseCase, tuple[str, ...]]] = {
    "enable": (lambda c, caller: c.catalogs.enable(caller, "lake"), (Action.CREATE_TABLE_BUCKET,)),
    "get warehouse": (lambda c, caller: c.catalogs.get(caller, "lake"), (Action.GET_TABLE_BUCKET,)),
    "list warehouses": (lambda c, caller: c.catalogs.list(caller, after="", limit=1), (Action.LIST_TABLE_BUCKETS,)),
    "configure warehouse": (
        lambda c, caller: c.catalogs.set_properties(caller, "lake", updates={"a": "1"}, removals=[]),
        (Action.CREATE_TABLE_BUCKET,),
    ),
    "create namespace": (lambda c, caller: c.namespace("new", caller=caller), (Action.CREATE_NAMESPACE,)),
    "get namespace": (lambda c, caller: c.namespaces.get(caller, "lake", ["ns"]), (Action.GET_NAMESPACE,)),
    "list namespaces": (
        lambda c, caller: c.namespaces.list(caller, "lake", [], after="", limit=1),
        (Action.LIST_NAMESPACES,),
    ),
    "configure namespace": (
        lambda c, caller: c.namespaces.set_properties(
            Mutation(caller), "lake", ["ns"], updates={"a": "1"}, removals=[]
        ),
        (Action.UPDATE_NAMESPACE,),
    ),
    "drop namespace": (
        lambda c, caller: c.namespaces.drop(Mutation(caller), "lake", ["empty"]),
        (Action.DELETE_NAMESPACE,),
    ),
    "list tables": (
        lambda c, caller: c.entries.list(caller, "lake", ["ns"], TABLE, after="", limit=1),
        (Action.LIST_TABLES,),
    ),
    "load table": (
        lambda c, caller: c.entries.load(caller, "lake", name(), TABLE, Action.GET_METADATA_LOCATION),
        (Action.GET_METADATA_LOCATION,),
    ),
    "create table": (lambda c, caller: c.create("new", caller=caller), (Action.CREATE_TABLE,)),
    "stage table": (
        lambda c, caller: c.creation.stage(Mutation(caller), "lake", ("ns",), a_table("new")),
        (Action.CREATE_TABLE,),
    ),
    "commit": (
        lambda c, caller: c.commit(name(), set_properties(a="1"), caller=caller),
        (Action.UPDATE_METADATA_LOCATION, Action.PUT_TABLE_DATA),
    ),
    "commit several": (
        lambda c, caller: c.commit_all(a_change(name(), set_properties(a="1")), caller=caller),
        (Action.UPDATE_METADATA_LOCATION, Action.PUT_TABLE_DATA),
    ),
    "register table": (
        lambda c, caller: c.registration.register_table(Mutation(caller), "lake", name("new"), "s3://lake/loose.json"),
        (
            Action.CREATE_TABLE,
            "s3:GetObject",
            "s3:GetObjectVersion",
            "s3:PutObject",
            "s3:DeleteObject",
            "s3:AbortMultipartUpload",
            "s3:ListMultipartUploadParts",
            "s3:ListBucket",
            "s3:ListBucketMultipartUploads",
            "s3:GetBucketLocation",
        ),
    ),
    "create view": (lambda c, caller: c.create_view("new", caller=caller), (Action.CREATE_TABLE,)),
    "replace view": (
        lambda c, caller: c.views.replace(
            Mutation(caller),
            "lake",
            name("v"),
            (),
            parse_view_updates(b'[{"action":"set-properties","updates":{"a":"1"}}]'),
        ),
        (Action.UPDATE_METADATA_LOCATION,),
    ),
    "drop table": (lambda c, caller: c.drop("t", caller=caller), (Action.DELETE_TABLE,)),
    "drop view": (lambda c, caller: c.drop("v", kind=VIEW, caller=caller), (Action.DELETE_TABLE,)),
    "protect": (
        lambda c, caller: c.dropping.protect(Mutation(caller), "lake", name(), TABLE, protected=True),
        (Action.DELETE_TABLE,),
    ),
    "list dropped": (lambda c, caller: c.dropping.dropped(caller, "lake", after="", limit=1), (Action.LIST_TABLES,)),
    "restore": (
        lambda c, caller: c.dropping.restore(Mutation(caller), "lake", name("dropped")),
        (Action.CREATE_TABLE,),
    ),
    "give up": (
        lambda c, caller: c.dropping.purge_now(Mutation(caller), "lake", name("dropped"), files=True),
        (Action.DELETE_TABLE,),
    ),
    "rename": (
        lambda c, caller: c.renaming.rename(Mutation(caller), "lake", name(), name("new"), TABLE),
        (Action.RENAME_TABLE, Action.CREATE_TABLE),
    ),
    "report": (lambda c, caller: c.reports.keep(caller, "lake", name(), "scan-report", b"{}"), (Action.GET_TABLE,)),
    "list reports": (
        lambda c, caller: c.reports.list(caller, "lake", name(), before=2**62, limit=1),
        (Action.GET_TABLE,),
    ),
}


async def _with_entries(catalog: CatalogHarness) -> None:
    await catalog.set_undrop_window(60)
    await catalog.namespace("empty")
    for table in ("t", "dropped"):
        await catalog.create(table)
    await catalog.create_view("v")
    await catalog.drop("dropped")
    loose = await catalog.create("loose", location="s3://lake/loose")
    await catalog.store.put("lake", "loose.json", loose.metadata.document)
    await catalog.drop("loose")
    await catalog.dropping.purge_now(Mutation(ROOT), "lake", name("loose"), files=False)


@pytest.mark.parametrize("what", USE_CASES)
async def test_operation_requires_exactly_its_actions(light_catalog: CatalogHarness, what: str) -> None:
    await _with_entries(light_catalog)
    use, rights = USE_CASES[what]
    all_others = [action for action in Action if action not in rights]
    async with light_catalog.unchanged():
        for caller in (
            UNPRIVILEGED,
            user_with(*all_others),
            Caller(ANONYMOUS),
            *(user_with(*all_others, *_without(rights, one)) for one in rights),
        ):
            with pytest.raises(AccessDenied):
                await use(light_catalog, caller)
    await use(light_catalog, user_with(*rights))


def _without(rights: tuple[str, ...], one: str) -> list[str]:
    return [right for right in rights if right != one]


NOWHERE: dict[str, tuple[UseCase, type[NotFound]]] = {
    "get namespace": (lambda c, caller: c.namespaces.get(caller, "lake", ["none"]), NoSuchNamespace),
    "list namespaces": (
        lambda c, caller: c.namespaces.list(caller, "lake", ["none"], after="", limit=1),
        NoSuchNamespace,
    ),
    "configure namespace": (
        lambda c, caller: c.namespaces.set_properties(
            Mutation(caller), "lake", ["none"], updates={"a": "1"}, removals=[]
        ),
        NoSuchNamespace,
    ),
    "drop namespace": (lambda c, caller: c.namespaces.drop(Mutation(caller), "lake", ["none"]), NoSuchNamespace),
    "list tables": (
        lambda c, caller: c.entries.list(caller, "lake", ["none"], TABLE, after="", limit=1),
        NoSuchNamespace,
    ),
    "find table": (lambda c, caller: c.entries.get(caller, "lake", AWAY, TABLE, Action.GET_TABLE), NoSuchTable),
    "load table": (
        lambda c, caller: c.entries.load(caller, "lake", AWAY, TABLE, Action.GET_METADATA_LOCATION),
        NoSuchTable,
    ),
    "find view": (lambda c, caller: c.entries.get(caller, "lake", AWAY, VIEW, Action.GET_TABLE), NoSuchView),
    "create table": (lambda c, caller: c.create("t", namespace="none", caller=caller), NoSuchNamespace),
    "stage table": (
        lambda c, caller: c.creation.stage(Mutation(caller), "lake", ("none",), a_table("t")),
        NoSuchNamespace,
    ),
    "commit": (lambda c, caller: c.commit(AWAY, set_properties(a="1"), caller=caller), NoSuchNamespace),
    "commit by id": (
        lambda c, caller: c.commit(AWAY, set_properties(a="1"), caller=caller, options=CommitOptions("c1")),
        NoSuchNamespace,
    ),
    "commit what was staged": (
        lambda c, caller: c.commit(AWAY, set_properties(a="1"), requirements=[ASSERT_CREATE], caller=caller),
        NoSuchNamespace,
    ),
    "commit several": (
        lambda c, caller: c.commit_all(a_change(AWAY, set_properties(a="1")), caller=caller),
        NoSuchNamespace,
    ),
    "register table": (
        lambda c, caller: c.registration.register_table(Mutation(caller), "lake", AWAY, "s3://lake/loose.json"),
        NoSuchNamespace,
    ),
    "register view": (
        lambda c, caller: c.registration.register_view(Mutation(caller), "lake", AWAY, "s3://lake/loose.json"),
        NoSuchNamespace,
    ),
    "create view": (lambda c, caller: c.create_view("v", namespace="none", caller=caller), NoSuchNamespace),
    "replace view": (
        lambda c, caller: c.views.replace(Mutation(caller), "lake", AWAY, (), ()),
        NoSuchView,
    ),
    "drop table": (lambda c, caller: c.dropping.drop(Mutation(caller), "lake", AWAY, TABLE), NoSuchTable),
    "protect": (
        lambda c, caller: c.dropping.protect(Mutation(caller), "lake", AWAY, TABLE, protected=True),
        NoSuchTable,
    ),
    "restore": (lambda c, caller: c.dropping.restore(Mutation(caller), "lake", AWAY), NoSuchNamespace),
    "give up": (lambda c, caller: c.dropping.purge_now(Mutation(caller), "lake", AWAY, files=True), NoSuchNamespace),
    "rename from there": (
        lambda c, caller: c.renaming.rename(Mutation(caller), "lake", AWAY, name("u"), TABLE),
        NoSuchTable,
    ),
    "rename to there": (
        lambda c, caller: c.renaming.rename(Mutation(caller), "lake", name(), AWAY, TABLE),
        NoSuchNamespace,
    ),
    "report": (lambda c, caller: c.reports.keep(caller, "lake", AWAY, "scan-report", b"{}"), NoSuchTable),
    "import": (
        lambda c, caller: extended(c).tables.imports.import_table(
            Mutation(caller), "lake", AWAY, "s3://lake/loose.json", properties={}
        ),
        NoSuchNamespace,
    ),
    "diagnose": (lambda c, caller: extended(c).tables.diagnostics.diagnose(caller, "lake", AWAY), NoSuchNamespace),
    "see a bridge": (lambda c, caller: extended(c).tables.bridges.get(caller, "lake", AWAY), NoSuchNamespace),
    "remove a bridge": (lambda c, caller: extended(c).tables.bridges.remove(caller, "lake", AWAY), NoSuchNamespace),
    "follow a bridge": (
        lambda c, caller: extended(c).tables.bridges.authorize_sync(caller, "lake", AWAY),
        NoSuchNamespace,
    ),
}
"""The actions on a missing namespace, and the error that authorized callers get."""


@pytest.mark.parametrize("what", NOWHERE)
async def test_missing_namespace_is_reported_to_authorized_callers_only(
    light_catalog: CatalogHarness, what: str
) -> None:
    await _with_entries(light_catalog)
    use, expected = NOWHERE[what]
    elsewhere = {"StringEquals": {"s3tables:namespace": "ns"}}
    async with light_catalog.unchanged():
        for caller in (
            UNPRIVILEGED,
            Caller(ANONYMOUS),
            OTHER_ACCOUNT,
            user_with("s3tables:*", "s3:*", condition=elsewhere),
        ):
            with pytest.raises(AccessDenied):
                await use(light_catalog, caller)
        for caller in (ROOT, user_with("s3tables:*", "s3:*")):
            with pytest.raises(expected):
                await use(light_catalog, caller)


@pytest.mark.parametrize("what", [what for what in USE_CASES if what != "list warehouses"])
async def test_operation_is_denied_to_other_accounts(light_catalog: CatalogHarness, what: str) -> None:
    await _with_entries(light_catalog)
    async with light_catalog.unchanged():
        with pytest.raises(AccessDenied):
            await USE_CASES[what][0](light_catalog, OTHER_ACCOUNT)
