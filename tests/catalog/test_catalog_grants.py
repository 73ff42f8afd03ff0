"""Callers with grants and without policies: the privileges that each operation requires."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.catalog.access.authorization import Action, CatalogAuthorizer
from lakebed.catalog.access.data_access import DataAccess
from lakebed.catalog.catalogs.service import placeholder_catalog
from lakebed.catalog.commits.service import CommitOptions
from lakebed.catalog.idempotency import Mutation
from lakebed.catalog.identifiers import Levels
from lakebed.catalog.model import Catalog, Entry, EntryKind
from lakebed.catalog.tables.metrics_reports import COMMIT_REPORT, SCAN_REPORT
from lakebed.core.access import DEFAULT_ACCOUNT, AccessRequest, Principal, ResourceRules, Session
from lakebed.core.clock import ManualClock
from lakebed.core.errors import AccessDenied, AlreadyExists, NoSuchNamespace, NoSuchTable
from lakebed.core.ids import BucketId
from lakebed.governance.authorizer import PolicyAuthorizer
from lakebed.governance.rbac import INCLUDES, GrantKind, GrantSet, Privilege, action_privileges
from lakebed.governance.rbac.securables import catalog_key, entry_key, namespace_key
from lakebed.iceberg.commits import parse_view_updates
from lakebed.objects.buckets.bucket import Bucket
from lakebed.objects.model import Caller
from tests.governance.documents import policy, statement

from .harness import ASSERT_CREATE, CatalogHarness, a_change, name, set_properties

P = Privilege
TABLE, VIEW = EntryKind.TABLE, EntryKind.VIEW


def holding(*held: tuple[str, Privilege], policies: tuple[bytes, ...] = (), session: Session | None = None) -> Caller:
    """A user with these grants."""
    arn = f"arn:aws:iam::{DEFAULT_ACCOUNT}:user/ann"
    return Caller(
        Principal("ann", DEFAULT_ACCOUNT, arn, policies=policies, session=session, user_id="A", grants=GrantSet(held))
    )


# -- against a naive oracle ------------------------------------------------------------------------------------------

NAMESPACES: list[Levels] = [("ns",), ("ns1",), ("ns10",), ("ns", "1"), ("ns", "1", "in"), ("ns.1",), ("n", "s"), ("*",)]
ENTRIES = [(levels, f"{'-'.join(levels)}+{one}") for levels in NAMESPACES for one in "tu"]
CATALOGS = (3, 30)


class Place(NamedTuple):
    """A securable of a catalog, by its path."""

    catalog: int
    namespace: Levels = ()
    entry: str = ""

    @property
    def key(self) -> str:
        if self.entry:
            return entry_key(f"{self.catalog}{self.entry}")
        return namespace_key(self.catalog, self.namespace) if self.namespace else catalog_key(self.catalog)

    def holds(self, other: Place) -> bool:
        """Whether `other` is this securable or inside it."""
        if self.entry:
            return self == other
        return self.catalog == other.catalog and other.namespace[: len(self.namespace)] == self.namespace


catalogs = st.sampled_from(CATALOGS)
places = st.one_of(
    # All fields are given: Hypothesis would generate the others, and two tables with one id.
    st.builds(Place, catalogs, st.just(()), st.just("")),
    st.builds(Place, catalogs, st.sampled_from(NAMESPACES), st.just("")),
    st.builds(lambda catalog, entry: Place(catalog, *entry), catalogs, st.sampled_from(ENTRIES)),
)
grants = st.lists(st.tuples(places, st.sampled_from(list(Privilege))), max_size=6)


class ResourceAuthorizer:
    """The part of the object context that the authorizer uses."""

    needs_full_context = False

    async def authorize_resource(
        self, caller: Caller, rules: ResourceRules, action: str, resource: str, extra: Any, **words: Any
    ) -> None:
        request = AccessRequest(caller.principal, action, resource, {}, **words)
        PolicyAuthorizer(ManualClock()).decide(request, rules)


def catalog_of(catalog: int) -> Catalog:
    bucket = Bucket(BucketId(catalog + 1000), f"b{catalog}", DEFAULT_ACCOUNT, "us-east-1", 0, "", b"\x80")
    return placeholder_catalog(bucket, f"c{catalog}")._replace(id=catalog)


def entry_of(place: Place, kind: EntryKind) -> Entry:
    return Entry(f"{place.catalog}{place.entry}", kind, place.catalog, 1, "t", "", 2, "", "", "", 1, 0, 0, False)


def is_granted(held: list[tuple[Place, Privilege]], securable: Place, needed: tuple[Privilege, ...]) -> bool:
    """For every privilege, whether a grant on the securable or an ancestor has it or implies it."""
    return bool(needed) and all(
        any(place.holds(securable) and privilege in INCLUDES[granted] for place, granted in held)
        for privilege in needed
    )


@given(grants, places, st.sampled_from(list(Action)), st.sampled_from(list(EntryKind)))
async def test_authorizer_agrees_with_a_naive_search(
    held: list[tuple[Place, Privilege]], target: Place, action: Action, kind: EntryKind
) -> None:
    authorizer = CatalogAuthorizer(ResourceAuthorizer())  # type: ignore[arg-type]  # the authorizer uses only this
    caller = holding(*((place.key, privilege) for place, privilege in held))
    entry = entry_of(target, kind) if target.entry else None
    securable, of_kind = target, GrantKind.CATALOG
    if target.entry:
        of_kind = GrantKind.VIEW if kind is VIEW else GrantKind.TABLE
    elif target.namespace:
        of_kind = GrantKind.NAMESPACE
    if action is Action.CREATE_NAMESPACE:
        securable = Place(target.catalog, target.namespace[:-1])
    elif action is Action.CREATE_TABLE:
        securable = Place(target.catalog, target.namespace)
    try:
        await authorizer.check(caller, catalog_of(target.catalog), action, namespace=target.namespace, entry=entry)
        allowed = True
    except AccessDenied:
        allowed = False
    assert allowed == is_granted(held, securable, action_privileges(action, of_kind))


@given(grants, places, st.sampled_from([Action.PUT_TABLE_DATA, Action.GET_TABLE_DATA]))
async def test_staged_table_is_authorized_on_its_namespace_regardless_of_its_id(
    held: list[tuple[Place, Privilege]], target: Place, action: Action
) -> None:
    authorizer = CatalogAuthorizer(ResourceAuthorizer())  # type: ignore[arg-type]  # as above
    caller = holding(*((place.key, privilege) for place, privilege in held))
    entry_id = f"{target.catalog}{target.entry}" if target.entry else "id"
    try:
        await authorizer.check(
            caller, catalog_of(target.catalog), action, namespace=target.namespace, name="new", entry_id=entry_id
        )
        allowed = True
    except AccessDenied:
        allowed = False
    around = Place(target.catalog, target.namespace)
    assert allowed == is_granted(held, around, action_privileges(action, GrantKind.TABLE))


# -- what each operation takes ---------------------------------------------------------------------------------------


async def key_of(catalog: CatalogHarness, *levels: str) -> str:
    """The key of a namespace of `lake`, or of `lake` itself."""
    number = (await catalog.catalogs.find(catalog.store.meta, "lake")).id
    return namespace_key(number, levels) if levels else catalog_key(number)


Operation = Callable[[CatalogHarness, Caller], Awaitable[object]]

LAKE = "lake"
SET = set_properties(a="b")


async def vend(catalog: CatalogHarness, caller: Caller) -> object:
    found = await catalog.entries.find(catalog.store.meta, LAKE, name("t"))
    assert found.live is not None
    data = DataAccess(catalog.store.meta, catalog.authorizer, catalog.claims)
    return await data.of_entry(caller, found.catalog, ("ns",), found.live)


async def replace_view(catalog: CatalogHarness, caller: Caller) -> object:
    updates = parse_view_updates(b'[{"action": "set-properties", "updates": {"a": "b"}}]')
    return await catalog.views.replace(Mutation(caller), LAKE, name("v"), (), updates)


OPERATIONS: dict[str, tuple[tuple[Privilege, ...], Operation]] = {
    "list tables": (
        (P.TABLE_LIST,),
        lambda c, caller: c.entries.list(caller, LAKE, ("ns",), TABLE, after="", limit=9),
    ),
    "list views": ((P.VIEW_LIST,), lambda c, caller: c.entries.list(caller, LAKE, ("ns",), VIEW, after="", limit=9)),
    "list namespaces": (
        (P.NAMESPACE_LIST,),
        lambda c, caller: c.namespaces.list(caller, LAKE, ("ns",), after="", limit=9),
    ),
    "load namespace": ((P.NAMESPACE_READ_PROPERTIES,), lambda c, caller: c.namespaces.get(caller, LAKE, ("ns",))),
    "configure namespace": (
        (P.NAMESPACE_WRITE_PROPERTIES,),
        lambda c, caller: c.namespaces.set_properties(Mutation(caller), LAKE, ("ns",), updates={"a": "b"}, removals=[]),
    ),
    "create inner namespace": ((P.NAMESPACE_CREATE,), lambda c, caller: c.namespace("ns", "in", caller=caller)),
    "create table": ((P.TABLE_CREATE,), lambda c, caller: c.create("new", caller=caller)),
    "create view": ((P.VIEW_CREATE,), lambda c, caller: c.create_view("new", caller=caller)),
    "load table": (
        (P.TABLE_READ_PROPERTIES,),
        lambda c, caller: c.entries.load(caller, LAKE, name("t"), TABLE, Action.GET_METADATA_LOCATION),
    ),
    "load view": (
        (P.VIEW_READ_PROPERTIES,),
        lambda c, caller: c.entries.load(caller, LAKE, name("v"), VIEW, Action.GET_METADATA_LOCATION),
    ),
    "replace view": ((P.VIEW_WRITE_PROPERTIES,), replace_view),
    "set properties": ((P.TABLE_SET_PROPERTIES,), lambda c, caller: c.commit(name("t"), SET, caller=caller)),
    "set properties and a format": (
        (P.TABLE_SET_PROPERTIES, P.TABLE_UPGRADE_FORMAT_VERSION),
        lambda c, caller: c.commit(
            name("t"), SET, {"action": "upgrade-format-version", "format-version": 3}, caller=caller
        ),
    ),
    "change nothing": ((P.TABLE_WRITE_PROPERTIES,), lambda c, caller: c.commit(name("t"), caller=caller)),
    "transaction": (
        (P.TABLE_WRITE_PROPERTIES, P.TABLE_CREATE),
        lambda c, caller: c.commit_all(a_change(name("t"), SET), caller=caller),
    ),
    "drop table": ((P.TABLE_DROP,), lambda c, caller: c.drop("t", caller=caller)),
    "drop view": ((P.VIEW_DROP,), lambda c, caller: c.drop("v", kind=VIEW, caller=caller)),
    "purge table": ((P.TABLE_DROP, P.TABLE_WRITE_DATA), lambda c, caller: c.drop("t", purge=True, caller=caller)),
    "rename table": (
        (P.TABLE_DROP, P.TABLE_LIST, P.TABLE_CREATE),
        lambda c, caller: c.renaming.rename(Mutation(caller), LAKE, name("t"), name("u"), TABLE),
    ),
    "rename view": (
        (P.VIEW_DROP, P.VIEW_LIST, P.VIEW_CREATE),
        lambda c, caller: c.renaming.rename(Mutation(caller), LAKE, name("v"), name("u"), VIEW),
    ),
    "report a scan": (
        (P.TABLE_READ_DATA,),
        lambda c, caller: c.reports.keep(caller, LAKE, name("t"), SCAN_REPORT, b"{}"),
    ),
    "report a commit": (
        (P.TABLE_WRITE_DATA,),
        lambda c, caller: c.reports.keep(caller, LAKE, name("t"), COMMIT_REPORT, b"{}"),
    ),
    "be given keys": ((P.TABLE_READ_DATA,), vend),
}


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_operation_requires_exactly_its_privileges(light_catalog: CatalogHarness, operation: str) -> None:
    needed, run = OPERATIONS[operation]
    await light_catalog.create("t")
    await light_catalog.create_view("v")
    key = await key_of(light_catalog, "ns")
    for missing in needed:
        # All privileges that do not imply it.
        others = [(key, each) for each in Privilege if missing not in INCLUDES[each]]
        with pytest.raises(AccessDenied):
            await run(light_catalog, holding(*others))
    for place in (await key_of(light_catalog, "ns1"), await key_of(light_catalog, "n")):
        with pytest.raises(AccessDenied):
            await run(light_catalog, holding(*((place, each) for each in Privilege)))
    await run(light_catalog, holding(*((key, each) for each in needed)))


async def test_write_credentials_require_the_write_privilege(light_catalog: CatalogHarness) -> None:
    await light_catalog.create("t")
    key = await key_of(light_catalog, "ns")
    for privilege, writes in ((P.TABLE_READ_DATA, False), (P.TABLE_WRITE_DATA, True)):
        data = await vend(light_catalog, holding((key, privilege)))
        assert data.writes is writes  # type: ignore[attr-defined]  # set by the test


async def test_staged_commit_requires_the_create_privilege(light_catalog: CatalogHarness) -> None:
    key = await key_of(light_catalog, "ns")
    everything_else = [(key, each) for each in Privilege if P.TABLE_CREATE not in INCLUDES[each]]
    with pytest.raises(AccessDenied):
        await light_catalog.commit(name("new"), requirements=[ASSERT_CREATE], caller=holding(*everything_else))
    await light_catalog.create("t")
    # Ownership of a table does not include creating another with its name.
    owner = holding((entry_key((await light_catalog.entry(name("t"))).id), P.TABLE_FULL_METADATA))
    for identifier in (name("t"), name("new")):
        with pytest.raises(AccessDenied):
            await light_catalog.commit(identifier, requirements=[ASSERT_CREATE], caller=owner)
    with pytest.raises(AlreadyExists):
        await light_catalog.commit(name("t"), requirements=[ASSERT_CREATE], caller=holding((key, P.TABLE_CREATE)))


async def test_register_requires_create_and_overwrite_requires_full_metadata(
    light_catalog: CatalogHarness,
) -> None:
    reading = (policy(statement(action="s3:*", resource="*")),)
    key = await key_of(light_catalog, "ns")
    made = (await light_catalog.create("t")).entry
    await light_catalog.create("other")
    register = light_catalog.registration.register_table

    def with_(privilege: Privilege, on: str = key) -> Mutation:
        return Mutation(holding((on, privilege), (key, P.TABLE_WRITE_DATA), policies=reading))

    with pytest.raises(AccessDenied):
        await register(with_(P.TABLE_DROP), LAKE, name("u"), made.metadata_at)
    with pytest.raises(AlreadyExists):
        await register(with_(P.TABLE_CREATE), LAKE, name("other"), made.metadata_at)
    with pytest.raises(AccessDenied):
        await register(with_(P.TABLE_CREATE), LAKE, name("t"), made.metadata_at, overwrite=True)
    owner = with_(P.TABLE_FULL_METADATA, entry_key(made.id))
    with pytest.raises(AccessDenied):
        await register(owner, LAKE, name("other"), made.metadata_at, overwrite=True)
    await register(owner, LAKE, name("t"), made.metadata_at, overwrite=True)
    await light_catalog.drop("t")
    await register(with_(P.TABLE_CREATE), LAKE, name("u"), made.metadata_at)


async def test_restore_and_purge_require_privileges_of_the_entry_kind(light_catalog: CatalogHarness) -> None:
    await light_catalog.set_undrop_window(60)
    await light_catalog.create("t")
    await light_catalog.create_view("v")
    await light_catalog.drop("t")
    await light_catalog.drop("v", kind=VIEW)
    lake, key = await key_of(light_catalog), await key_of(light_catalog, "ns")
    dropping = light_catalog.dropping
    for one, restores, drops in (("t", P.TABLE_CREATE, P.TABLE_DROP), ("v", P.VIEW_CREATE, P.VIEW_DROP)):
        others = holding(*((key, each) for each in Privilege if not {restores, drops} & INCLUDES[each]))
        with pytest.raises(AccessDenied):
            await dropping.restore(Mutation(others), LAKE, name(one))
        await dropping.restore(Mutation(holding((key, restores))), LAKE, name(one))
        await light_catalog.drop(one, kind=TABLE if one == "t" else VIEW)
        with pytest.raises(AccessDenied):
            await dropping.purge_now(Mutation(others), LAKE, name(one), files=False)
    with pytest.raises(AccessDenied):
        await dropping.dropped(holding((lake, P.TABLE_LIST)), LAKE, after="", limit=9)
    both = holding((lake, P.TABLE_LIST), (lake, P.VIEW_LIST))
    assert len((await dropping.dropped(both, LAKE, after="", limit=9)).items) == 2
    with pytest.raises(AccessDenied):
        await dropping.purge_now(Mutation(holding((key, P.TABLE_DROP))), LAKE, name("t"), files=True)
    await dropping.purge_now(Mutation(holding((key, P.TABLE_DROP))), LAKE, name("t"), files=False)
    await dropping.purge_now(Mutation(holding((key, P.VIEW_DROP))), LAKE, name("v"), files=False)


async def test_repeated_commit_requires_the_same_privileges(light_catalog: CatalogHarness) -> None:
    await light_catalog.create("t")
    caller = holding((await key_of(light_catalog, "ns"), P.TABLE_SET_PROPERTIES))
    options = CommitOptions(commit_id="one")
    first = await light_catalog.commit(name("t"), SET, caller=caller, options=options)
    again = await light_catalog.commit(name("t"), SET, caller=caller, options=options)
    assert again.entry.version_token == first.entry.version_token
    with pytest.raises(AccessDenied):
        await light_catalog.commit(name("t"), SET, caller=holding(), options=options)


async def test_namespace_create_requires_privileges_on_its_parent(light_catalog: CatalogHarness) -> None:
    create = P.NAMESPACE_CREATE
    inner = holding((await key_of(light_catalog, "ns"), create))
    for levels in (("other",), ("ns",), ("ns1", "in"), ("n", "s")):
        with pytest.raises(AccessDenied):
            await light_catalog.namespace(*levels, caller=inner)
    await light_catalog.namespace("ns", "a", "b", caller=inner)
    await light_catalog.namespace("other", caller=holding((await key_of(light_catalog), create)))


async def test_rename_requires_privileges_on_source_and_target(light_catalog: CatalogHarness) -> None:
    await light_catalog.create("t")
    await light_catalog.namespace("to")
    here, there = [await key_of(light_catalog, one) for one in ("ns", "to")]
    rename = light_catalog.renaming.rename
    source, target = name("t"), name("t", "to")
    for held in (
        [(here, P.TABLE_FULL_METADATA)],
        [(there, P.TABLE_FULL_METADATA)],
        [(here, P.TABLE_DROP), (there, P.TABLE_LIST)],
    ):
        with pytest.raises(AccessDenied):
            await rename(Mutation(holding(*held)), LAKE, source, target, TABLE)
    await rename(Mutation(holding((here, P.TABLE_DROP), (there, P.TABLE_CREATE))), LAKE, source, target, TABLE)


async def test_name_is_authorized_as_the_requested_kind(light_catalog: CatalogHarness) -> None:
    await light_catalog.create_view("v")
    caller = holding((await key_of(light_catalog, "ns"), P.TABLE_FULL_METADATA))
    for table in ("v", "ghost"):
        with pytest.raises(NoSuchTable):
            await light_catalog.entries.get(caller, LAKE, name(table), TABLE, Action.GET_TABLE)
        with pytest.raises(AccessDenied):
            await light_catalog.entries.get(caller, LAKE, name(table), VIEW, Action.GET_TABLE)


# -- with policies ---------------------------------------------------------------------------------------------------


async def test_deny_and_session_policies_override_grants(light_catalog: CatalogHarness) -> None:
    await light_catalog.create("t")
    entry = await light_catalog.entry(name("t"))
    deny = policy(statement("Deny", "s3tables:ListTables", "*"))
    narrow = Session(None, 0, 1, policies=(policy(statement(action="s3tables:GetTable", resource="*")),))
    place = await key_of(light_catalog, "ns")
    for key in (place, entry_key(entry.id)):
        for caller in (
            holding((key, P.TABLE_LIST), policies=(deny,)),
            holding((key, P.TABLE_LIST), session=narrow),
        ):
            with pytest.raises(AccessDenied):
                await light_catalog.entries.list(caller, LAKE, ("ns",), TABLE, after="", limit=9)


# -- lists -----------------------------------------------------------------------------------------------------------


async def listed(
    catalog: CatalogHarness, caller: Caller, kind: EntryKind = TABLE, *, after: str = "", limit: int = 9
) -> Any:
    page = await catalog.entries.list(caller, LAKE, ("ns",), kind, after=after, limit=limit)
    return page.names, page.truncated


async def test_listing_contains_granted_entries_without_the_namespace_privilege(catalog: CatalogHarness) -> None:
    made = {one: (await catalog.create(one)).entry for one in ("t1", "t2", "t3", "t4")}
    view = (await catalog.create_view("v")).entry
    await catalog.namespace("far")
    far = (await catalog.create("t9", namespace="far")).entry
    held = [(entry_key(made[one].id), P.TABLE_READ_DATA) for one in ("t3", "t1", "t4")]
    caller = holding(*held, (entry_key(far.id), P.TABLE_LIST), (entry_key(view.id), P.VIEW_LIST))
    assert await listed(catalog, caller) == (["t1", "t3", "t4"], False)
    assert await listed(catalog, caller, limit=2) == (["t1", "t3"], True)
    assert await listed(catalog, caller, after="t3", limit=2) == (["t4"], False)
    assert await listed(catalog, caller, after="t4") == ([], False)
    assert await listed(catalog, caller, VIEW) == (["v"], False)
    # The privilege on the namespace shows all of it.
    both = holding(*held, (await key_of(catalog, "ns"), P.TABLE_LIST))
    assert (await listed(catalog, both))[0] == ["t1", "t2", "t3", "t4"]
    for other in (holding(), holding((entry_key(far.id), P.TABLE_LIST)), holding((entry_key("x"), P.TABLE_LIST))):
        with pytest.raises(AccessDenied):
            await listed(catalog, other)
    with pytest.raises(AccessDenied):
        await listed(catalog, holding(*held), VIEW)
    await catalog.drop("t1")
    assert (await listed(catalog, caller))[0] == ["t3", "t4"]


async def test_listing_of_many_granted_entries_is_complete(light_catalog: CatalogHarness) -> None:
    entry = (await light_catalog.create("t")).entry
    for number in (63, 64, 5000):
        others = [(entry_key(f"x{one}"), P.TABLE_LIST) for one in range(number)]
        assert await listed(light_catalog, holding(*others, (entry_key(entry.id), P.TABLE_LIST))) == (["t"], False)


async def test_namespace_listing_contains_granted_namespaces(catalog: CatalogHarness) -> None:
    for levels in (("ns", "a"), ("ns", "b"), ("ns", "b", "in"), ("ns1",), ("ns10",)):
        await catalog.namespace(*levels)

    async def children(caller: Caller, *parent: str, after: str = "", limit: int = 9) -> list[str]:
        page = await catalog.namespaces.list(caller, LAKE, parent, after=after, limit=limit)
        return [".".join(one.levels) for one in page.items]

    held = [
        (await key_of(catalog, *levels), P.NAMESPACE_LIST)
        for levels in (("ns1",), ("ns10",), ("ns", "b", "in"), ("x",))
    ]
    caller = holding(*held)
    assert await children(caller) == ["ns1", "ns10"]
    assert await children(caller, limit=1) == ["ns1"]
    assert await children(caller, after="ns1") == ["ns10"]
    assert await children(caller, "ns", "b") == ["ns.b.in"]
    assert await children(caller, "ns1") == []
    for parent in (("ns",), ("ns", "a"), ("ghost",)):
        with pytest.raises(AccessDenied):
            await children(caller, *parent)
    everything = holding((await key_of(catalog), P.NAMESPACE_LIST))
    assert await children(everything) == ["ns", "ns1", "ns10"]
    with pytest.raises(NoSuchNamespace):
        await children(everything, "ghost")
