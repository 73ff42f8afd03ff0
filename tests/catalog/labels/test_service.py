from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from lakebed.catalog.idempotency import Mutation
from lakebed.catalog.labels import service
from lakebed.catalog.model import EntryKind
from lakebed.core.errors import (
    AccessDenied,
    InvalidInput,
    InvalidName,
    LakebedError,
    NoSuchCatalog,
    NoSuchNamespace,
    NoSuchPolicy,
    NoSuchPrincipal,
    NoSuchTable,
    NoSuchView,
)
from lakebed.governance.labels import LabelChange, LabelKind, LabelQuery, Labels, LabelSubject
from lakebed.governance.rbac import INCLUDES, Privilege
from lakebed.governance.rbac.operations import LABEL_OPERATIONS
from lakebed.governance.rbac.securables import SERVICE_KEY, catalog_key, entry_key, namespace_key, policy_key
from tests.catalog.harness import UNPRIVILEGED, name, user_with
from tests.catalog.test_catalog_grants import holding
from tests.objects.stores import ROOT

from .labelled_catalog import ANN, ROOT_OWNER, SUBJECTS, TABLE, TEAM, K, LabelHarness

KINDS = list(SUBJECTS)

Step = Callable[[LabelHarness], Awaitable[object]]


@pytest.mark.parametrize("kind", KINDS)
async def test_all_kinds_support_tags_and_owner(harness: LabelHarness, kind: LabelKind) -> None:
    subject = SUBJECTS[kind]
    assert await harness.labels(subject) == Labels()
    before = await harness.catalog.last_event()
    labels = await harness.label(subject, owner=TEAM, tier="gold", domain="sales")
    assert labels == Labels({"domain": "sales", "tier": "gold"}, TEAM)
    assert await harness.labels(subject) == labels
    [event] = await harness.events(before)
    assert (event.kind, event.catalog, event.namespace, event.name) == subject
    assert (event.tags, event.removed) == ({"domain": "sales", "tier": "gold"}, ())
    assert (event.owner, event.owner_changed, event.principal) == ("principal-role:team", True, "root")
    [found] = await harness.find("tier:gold")
    assert (found.subject, found.labels) == (subject, labels)


async def test_event_has_the_difference_and_no_change_has_no_event(harness: LabelHarness) -> None:
    await harness.label(tier="gold", domain="sales", old="1", owner=ANN)
    before = await harness.catalog.last_event()
    labels = await harness.label(remove=["old"], tier="silver", domain="sales")
    assert labels == Labels({"domain": "sales", "tier": "silver"}, ANN)
    [event] = await harness.events(before)
    assert (event.tags, event.removed, event.owner_changed) == ({"tier": "silver"}, ("old",), False)
    async with harness.catalog.unchanged():
        assert await harness.label(remove=["none"], tier="silver", owner=ANN) == labels
    before = await harness.catalog.last_event()
    assert (await harness.label(owner=None)).owner is None
    [event] = await harness.events(before)
    assert (event.owner, event.owner_changed, event.tags) == ("", True, {})


async def test_removing_the_last_label_removes_the_row(harness: LabelHarness) -> None:
    await harness.label(tier="gold")
    assert await harness.label(remove=["tier"]) == Labels()
    assert await harness.catalog.store.meta.rows("SELECT * FROM labelled") == []
    assert await harness.catalog.store.meta.rows("SELECT * FROM tags") == []


async def test_owner_is_a_user_a_role_or_root(harness: LabelHarness) -> None:
    for owner in (ANN, TEAM, ROOT_OWNER):
        assert (await harness.label(owner=owner)).owner == owner
        assert (await harness.labels()).owner == owner
        assert await harness.found(owner=owner) == {"table lake/ns/t"}
    async with harness.catalog.unchanged():
        for missing in (ANN._replace(name="none"), TEAM._replace(name="none")):
            with pytest.raises(NoSuchPrincipal):
                await harness.label(owner=missing)
        # A role is not a user of the same name.
        with pytest.raises(NoSuchPrincipal):
            await harness.label(owner=TEAM._replace(name="ann"))


async def test_deleted_owner_leaves_the_tags(harness: LabelHarness) -> None:
    await harness.label(tier="gold", owner=ANN)
    await harness.label(SUBJECTS[K.VIEW], owner=TEAM)
    await harness.principals.delete_user("ann")
    await harness.principal_roles.delete(harness.by, "team")
    assert await harness.labels() == Labels({"tier": "gold"})
    assert await harness.labels(SUBJECTS[K.VIEW]) == Labels()
    # A recreated user of the same name is another user.
    await harness.principals.create_user("ann")
    assert (await harness.labels()).owner is None
    assert await harness.found(owner=ANN) == set()


GOING: dict[LabelKind, Step] = {
    K.CATALOG: lambda harness: harness.catalog.store.buckets.delete(ROOT, "lake"),
    K.NAMESPACE: lambda harness: harness.catalog.namespaces.drop(Mutation(ROOT), "lake", ["ns"]),
    K.TABLE: lambda harness: harness.catalog.drop("t"),
    K.VIEW: lambda harness: harness.catalog.drop("v", kind=EntryKind.VIEW),
    K.GENERIC_TABLE: lambda harness: harness.catalog.drop("g", kind=EntryKind.GENERIC_TABLE),
    K.POLICY: lambda harness: harness.policing.drop("p"),
    K.CATALOG_ROLE: lambda harness: harness.catalog_roles.delete(harness.by, "lake", "reader"),
    K.PRINCIPAL: lambda harness: harness.principals.delete_user("ann"),
    K.PRINCIPAL_ROLE: lambda harness: harness.principal_roles.delete(harness.by, "team"),
}


@pytest.mark.parametrize("kind", KINDS)
async def test_labels_are_deleted_with_their_target(harness: LabelHarness, kind: LabelKind) -> None:
    await harness.label(SUBJECTS[kind], tier="gold", owner=ROOT_OWNER)
    if kind in (K.CATALOG, K.NAMESPACE):
        for inner in (K.TABLE, K.VIEW, K.GENERIC_TABLE, K.POLICY):
            await GOING[inner](harness)
    if kind is K.CATALOG:
        for key in await harness.catalog.keys_in():
            await harness.catalog.store.delete("lake", key)
    await GOING[kind](harness)
    assert await harness.catalog.store.meta.rows("SELECT * FROM labelled") == []
    assert await harness.catalog.store.meta.rows("SELECT * FROM tags") == []
    assert await harness.found("tier:gold") == set()


async def test_principal_that_owns_itself_can_be_deleted(harness: LabelHarness) -> None:
    await harness.label(SUBJECTS[K.PRINCIPAL], tier="gold", owner=ANN)
    await harness.label(SUBJECTS[K.PRINCIPAL_ROLE], tier="gold", owner=TEAM)
    await harness.principals.delete_user("ann")
    await harness.principal_roles.delete(harness.by, "team")
    assert await harness.catalog.store.meta.rows("SELECT * FROM labelled") == []


async def test_recreated_target_has_no_labels(harness: LabelHarness) -> None:
    await harness.label(tier="gold")
    await harness.catalog.drop("t")
    await harness.catalog.create("t")
    assert await harness.labels() == Labels()


async def test_renamed_table_keeps_its_labels(harness: LabelHarness) -> None:
    labels = await harness.label(tier="gold", owner=ANN)
    await harness.catalog.namespace("other")
    await harness.catalog.renaming.rename(Mutation(ROOT), "lake", name("t"), name("u", "other"), EntryKind.TABLE)
    renamed = LabelSubject(K.TABLE, "lake", ("other",), "u")
    assert await harness.labels(renamed) == labels
    [found] = await harness.find("tier:gold")
    assert (found.subject, found.labels) == (renamed, labels)
    with pytest.raises(NoSuchTable):
        await harness.labels()


async def test_dropped_table_is_found_again_when_it_is_restored(harness: LabelHarness) -> None:
    await harness.catalog.set_undrop_window(60)
    await harness.label(tier="gold")
    await harness.catalog.drop("t")
    assert await harness.found("tier:gold") == set()
    with pytest.raises(NoSuchTable):
        await harness.labels()
    await harness.catalog.dropping.restore(Mutation(ROOT), "lake", name("t"))
    assert await harness.found("tier:gold") == {"table lake/ns/t"}


async def test_search_filters_by_tags_owner_kind_and_catalog(harness: LabelHarness) -> None:
    await harness.label(tier="gold", domain="sales", owner=ANN)
    await harness.label(SUBJECTS[K.VIEW], tier="gold", owner=TEAM)
    await harness.label(SUBJECTS[K.POLICY], tier="silver", owner=ANN)
    await harness.label(SUBJECTS[K.PRINCIPAL], tier="gold")
    await harness.label(SUBJECTS[K.CATALOG_ROLE], domain="")
    table, view, policy, ann, role = (
        "table lake/ns/t",
        "view lake/ns/v",
        "policy lake/ns/p",
        "principal ann",
        "catalog-role lake/reader",
    )
    assert await harness.found("tier:gold") == {table, view, ann}
    assert await harness.found("tier") == {table, view, policy, ann}
    assert await harness.found("domain:") == {role}
    assert await harness.found("tier:gold", "domain:sales") == {table}
    assert await harness.found("tier", "domain") == {table}
    assert await harness.found("tier:bronze") == await harness.found("TIER:gold") == set()
    assert await harness.found(owner=ANN) == {table, policy}
    assert await harness.found("tier:gold", owner=ANN) == {table}
    assert await harness.found("tier", owner=TEAM) == {view}
    assert await harness.found("tier:gold", kind=K.VIEW) == {view}
    assert await harness.found("tier:gold", catalog="lake") == {table, view}
    assert await harness.found(catalog="pond") == set()
    assert await harness.found() == {table, view, policy, ann, role}


@pytest.mark.parametrize(("limit", "most"), [(1, 10_000), (2, 3), (100, 1)])
async def test_pages_of_any_size_list_all_results(
    harness: LabelHarness, monkeypatch: pytest.MonkeyPatch, limit: int, most: int
) -> None:
    monkeypatch.setattr(service, "_MAX_EXAMINED", most)
    for subject in SUBJECTS.values():
        await harness.label(subject, tier="gold")
    found = await harness.find("tier:gold", limit=limit)
    assert len(found) == len(SUBJECTS)
    assert {one.subject for one in found} == set(SUBJECTS.values())


async def test_pagination_continues_despite_concurrent_changes(harness: LabelHarness) -> None:
    for table in ("a", "b", "c", "d"):
        await harness.catalog.create(table)
        await harness.label(TABLE._replace(name=table), tier="gold")
    everything = await harness.find("tier:gold")
    query = LabelQuery()
    page = await harness.labelling.find(ROOT, query, limit=2)
    assert page.found == everything[:2]
    await harness.catalog.drop(everything[0].subject.name)
    await harness.catalog.drop(everything[2].subject.name)
    rest = await harness.labelling.find(ROOT, query, after=page.last_key, limit=10)
    assert rest.found == everything[3:]


@pytest.mark.parametrize(
    ("subject", "error"),
    [
        (LabelSubject(K.CATALOG, "none"), NoSuchCatalog),
        (LabelSubject(K.NAMESPACE, "lake", ("none",)), NoSuchNamespace),
        (LabelSubject(K.NAMESPACE, "lake"), InvalidName),
        (LabelSubject(K.TABLE, "lake", ("ns",), "none"), NoSuchTable),
        (LabelSubject(K.TABLE, "lake", ("ns",), "v"), NoSuchTable),
        (LabelSubject(K.TABLE, "lake", ("ns",), "g"), NoSuchTable),
        (LabelSubject(K.TABLE, "none", ("ns",), "t"), NoSuchCatalog),
        (LabelSubject(K.VIEW, "lake", ("ns",), "t"), NoSuchView),
        (LabelSubject(K.GENERIC_TABLE, "lake", ("ns",), "t"), NoSuchTable),
        (LabelSubject(K.TABLE, "lake", ("ns",), ""), InvalidName),
        (LabelSubject(K.POLICY, "lake", ("ns",), "none"), NoSuchPolicy),
        (LabelSubject(K.POLICY, "lake", ("ns",), "a b"), InvalidName),
        (LabelSubject(K.CATALOG_ROLE, "lake", name="none"), NoSuchPrincipal),
        (LabelSubject(K.PRINCIPAL, name="none"), NoSuchPrincipal),
        (LabelSubject(K.PRINCIPAL, name="root"), InvalidInput),
        (LabelSubject(K.PRINCIPAL_ROLE, name="none"), NoSuchPrincipal),
    ],
)
async def test_missing_target_has_no_labels(
    light_labels: LabelHarness, subject: LabelSubject, error: type[LakebedError]
) -> None:
    async with light_labels.catalog.unchanged():
        for refused in (light_labels.labels(subject), light_labels.label(subject, tier="gold")):
            with pytest.raises(error):
                await refused


async def test_invalid_tags_change_nothing(light_labels: LabelHarness) -> None:
    async with light_labels.catalog.unchanged():
        with pytest.raises(InvalidInput):
            await light_labels.labelling.change(ROOT, TABLE, LabelChange({"tier": "gold", "a:b": "1"}))


@pytest.mark.parametrize("kind", KINDS)
async def test_operations_require_permission(light_labels: LabelHarness, kind: LabelKind) -> None:
    subject = SUBJECTS[kind]
    await light_labels.label(subject, tier="gold")
    missing = subject._replace(name="ghost") if subject.name else subject._replace(namespace=("ghost",))
    for caller in (UNPRIVILEGED, user_with("s3tables:*", "s3:*", "lakebed:*Polic*")):
        async with light_labels.catalog.unchanged():
            for refused in (
                light_labels.labels(subject, caller),
                light_labels.label(subject, tier="iron", caller=caller),
                *(() if kind is K.CATALOG else (light_labels.labels(missing, caller),)),
            ):
                with pytest.raises(AccessDenied):
                    await refused
            assert await light_labels.found("tier", caller=caller) == set()
    reader = user_with("lakebed:GetLabels")
    assert (await light_labels.labels(subject, reader)).tags == {"tier": "gold"}
    assert len(await light_labels.find("tier", caller=reader)) == 1
    with pytest.raises(AccessDenied):
        await light_labels.label(subject, tier="iron", caller=reader)
    assert (await light_labels.label(subject, tier="iron", caller=user_with("lakebed:SetLabels"))).tags == {
        "tier": "iron"
    }


@pytest.mark.parametrize("kind", KINDS)
async def test_grants_follow_the_property_privileges_of_each_kind(light_labels: LabelHarness, kind: LabelKind) -> None:
    subject = SUBJECTS[kind]
    await light_labels.label(subject, tier="gold")
    word = K.TABLE if kind is K.GENERIC_TABLE else kind
    [reads] = LABEL_OPERATIONS[f"getLabels {word}"].target
    [writes] = LABEL_OPERATIONS[f"setLabels {word}"].target
    key = await key_to(light_labels, subject)

    def without(privilege: Privilege) -> list[tuple[str, Privilege]]:
        return [(key, each) for each in Privilege if privilege not in INCLUDES[each]]

    stranger = holding(*without(reads))
    with pytest.raises(AccessDenied):
        await light_labels.labels(subject, stranger)
    assert await light_labels.found("tier", caller=stranger) == set()
    reader = holding((key, reads))
    assert (await light_labels.labels(subject, reader)).tags == {"tier": "gold"}
    assert len(await light_labels.find("tier", caller=reader)) == 1
    with pytest.raises(AccessDenied):
        await light_labels.label(subject, tier="iron", caller=holding(*without(writes)))
    await light_labels.label(subject, tier="iron", caller=holding((key, writes)))


async def key_to(harness: LabelHarness, subject: LabelSubject) -> str:
    """The securable of grants on a target; its parent's for targets without grants."""
    meta = harness.catalog.store.meta
    if subject.kind in (K.PRINCIPAL, K.PRINCIPAL_ROLE):
        return SERVICE_KEY
    lake = (await harness.catalog.catalogs.find(meta, "lake")).bucket.id
    if subject.kind in (K.CATALOG, K.CATALOG_ROLE):
        return catalog_key(lake)
    if subject.kind is K.NAMESPACE:
        return namespace_key(lake, subject.namespace)
    if subject.kind is K.POLICY:
        return policy_key((await harness.policing.get()).id)
    return entry_key((await harness.catalog.entry(name(subject.name))).id)
