from __future__ import annotations

import pytest

from lakebed.catalog.access.authorization import Action
from lakebed.catalog.idempotency import Mutation
from lakebed.catalog.model import EntryKind
from lakebed.catalog.policies.attachments import TargetName
from lakebed.core.errors import (
    AccessDenied,
    AttachmentConflict,
    InvalidInput,
    NoSuchAttachment,
    NoSuchNamespace,
    NoSuchPolicy,
    NoSuchTable,
    NoSuchTarget,
    NotAttachable,
)
from lakebed.governance.policies import PolicyTargetKind
from tests.catalog.harness import UNPRIVILEGED, CatalogHarness, name, user_with
from tests.objects.stores import ROOT

from .policy_catalog import CATALOG, COMPACTION, EXPIRY, NS, OFF, TABLE, VIEW, PolicyHarness, wire_policies

BUCKET = "arn:aws:s3tables:us-east-1:000000000000:bucket/lake"


async def with_policies(catalog: CatalogHarness) -> PolicyHarness:
    """A table, a view, and two policies of a type."""
    policing = wire_policies(catalog)
    await catalog.create()
    await catalog.create_view()
    await policing.create()
    await policing.create("q", content=OFF)
    return policing


@pytest.mark.parametrize(
    ("target", "place"),
    [(CATALOG, "catalog"), (NS, "namespace ns"), (TABLE, "table ns.t"), (VIEW, "view ns.v")],
)
async def test_policy_is_attached_to_every_target_kind_and_detached(
    catalog: CatalogHarness, target: TargetName, place: str
) -> None:
    policing = await with_policies(catalog)
    before = await catalog.last_event()
    await policing.attach(target=target, parameters={"b": "2", "a": "1"})
    assert await policing.targets() == [place]
    [found] = await policing.attachments.applicable(ROOT, "lake", target)
    assert (found.policy.name, str(found.target), found.inherited) == ("p", place, False)
    assert found.parameters == {"a": "1", "b": "2"}
    await policing.detach(target=target)
    assert await policing.applicable(target) == []
    async with catalog.unchanged():
        with pytest.raises(NoSuchAttachment):
            await policing.detach(target=target)
    events = await policing.events(before)
    assert [kind for kind, _ in events] == ["CatalogPolicyAttached", "CatalogPolicyDetached"]
    for _, event in events:
        assert event.namespace == target.namespace
        assert (event.facts["target"], event.facts["policy"], event.facts["policy-namespace"]) == (place, "p", "ns")
        assert event.facts.get("name", "") == target.name


async def test_detaching_uses_stable_ids(catalog: CatalogHarness) -> None:
    """By ids: name, version and parameters may have changed. A detached policy no longer applies."""
    policing = await with_policies(catalog)
    await policing.attach(parameters={"a": "1"})
    await policing.update(version=0)
    await catalog.renaming.rename(Mutation(ROOT), "lake", name("t"), name("renamed"), EntryKind.TABLE)
    moved = TargetName.of(["ns"], "renamed")
    await policing.attach(target=moved, parameters={"b": "2"})
    assert await policing.targets() == ["table ns.renamed"]
    await policing.detach(target=moved)
    assert await policing.targets() == []
    assert await policing.applicable(moved) == []
    assert await catalog.store.meta.rows("SELECT * FROM policy_attachments") == []


async def test_attaching_again_replaces_the_parameters(catalog: CatalogHarness) -> None:
    policing = await with_policies(catalog)
    await policing.attach(parameters={"a": "1"})
    async with catalog.unchanged():
        await policing.attach(parameters={"a": "1"})
    before = await catalog.last_event()
    await policing.attach(parameters={"b": "2"})
    assert [kind for kind, _ in await policing.events(before)] == ["CatalogPolicyAttached"]
    [found] = await policing.attachments.applicable(ROOT, "lake", TABLE)
    assert found.parameters == {"b": "2"}


async def test_target_has_one_policy_per_inheritable_type(catalog: CatalogHarness) -> None:
    policing = await with_policies(catalog)
    await policing.create("other", EXPIRY)
    await policing.attach(target=NS)
    await policing.attach("q", TABLE)
    await policing.attach("other", NS)
    async with catalog.unchanged():
        with pytest.raises(AttachmentConflict) as refused:
            await policing.attach("q", NS)
    assert "ns.p" in str(refused.value)
    await policing.detach(target=NS)
    await policing.attach("q", NS)


async def test_target_has_any_number_of_noninheritable_policies(light_catalog: CatalogHarness) -> None:
    policing = await with_policies(light_catalog)
    await policing.define(inheritable=False)
    for policy in ("y", "x"):
        await policing.create(policy, "user.note")
        await policing.attach(policy, NS)
    assert [name for name, _, _ in await policing.applicable(NS)] == ["x", "y"]
    assert await policing.applicable(TABLE) == []


async def test_policy_type_limits_target_kinds(light_catalog: CatalogHarness) -> None:
    policing = await with_policies(light_catalog)
    await policing.define(targets=(PolicyTargetKind.VIEW, PolicyTargetKind.NAMESPACE))
    await policing.create("n", "user.note")
    await policing.attach("n", NS)
    await policing.attach("n", VIEW)
    async with light_catalog.unchanged():
        for target in (CATALOG, TABLE):
            with pytest.raises(NotAttachable):
                await policing.attach("n", target)


async def test_missing_policy_or_target_is_rejected(light_catalog: CatalogHarness) -> None:
    policing = await with_policies(light_catalog)
    async with light_catalog.unchanged():
        for target in (TargetName.of(["none"]), TargetName.of(["ns"], "none"), TargetName.of(["none"], "t")):
            with pytest.raises(NoSuchTarget):
                await policing.attach(target=target)
            with pytest.raises(NoSuchTarget):
                await policing.detach(target=target)
        with pytest.raises(NoSuchPolicy):
            await policing.attach("none")
        with pytest.raises(NoSuchPolicy):
            await policing.detach("none")
        with pytest.raises(InvalidInput):
            await policing.attach(parameters={"": "empty"})


async def test_policies_are_inherited_and_the_nearest_wins(catalog: CatalogHarness) -> None:
    policing = await with_policies(catalog)
    await catalog.namespace("ns", "deep", "er")
    deep = ("ns", "deep", "er")
    await policing.create("expire", EXPIRY)
    await policing.attach("expire", CATALOG)
    await policing.attach("p", NS)
    below = TargetName.of(deep)
    assert await policing.applicable(CATALOG) == [("expire", "catalog", False)]
    assert await policing.applicable(NS) == [("p", "namespace ns", False), ("expire", "catalog", True)]
    for target in (TABLE, VIEW, below):
        assert await policing.applicable(target) == [("p", "namespace ns", True), ("expire", "catalog", True)]
    await policing.attach("q", TargetName.of(deep[:2]))
    assert (await policing.applicable(below))[0] == ("q", "namespace ns.deep", True)
    await policing.attach("q", TABLE)
    found = (await policing.attachments.applicable(ROOT, "lake", TABLE))[0]
    assert (found.policy.name, found.inherited) == ("q", False)
    assert [(one.policy.name, str(one.target)) for one in found.overrides] == [("p", "namespace ns")]
    assert await policing.applicable(TABLE, kind=EXPIRY) == [("expire", "catalog", True)]
    assert await policing.applicable(VIEW, kind=COMPACTION) == [("p", "namespace ns", True)]


async def test_policies_are_inherited_through_nested_namespaces(light_catalog: CatalogHarness) -> None:
    policing = await with_policies(light_catalog)
    levels = [f"level{number}" for number in range(40)]
    await light_catalog.namespace(*levels)
    await policing.attach(target=TargetName.of(levels[:30]))
    await policing.attach("q", TargetName.of(levels[:5]))
    [found] = await policing.attachments.applicable(ROOT, "lake", TargetName.of(levels))
    assert found.target.path == tuple(levels[:30])
    assert [one.target.path for one in found.overrides] == [tuple(levels[:5])]


async def test_names_with_a_common_prefix_do_not_inherit(light_catalog: CatalogHarness) -> None:
    policing = await with_policies(light_catalog)
    await light_catalog.namespace("nsx")
    await policing.attach(target=NS)
    assert await policing.applicable(TargetName.of(["nsx"])) == []


async def test_applicable_policies_require_an_existing_target(light_catalog: CatalogHarness) -> None:
    policing = await with_policies(light_catalog)
    for target, kind, error in (
        (TargetName.of(["none"]), "", NoSuchNamespace),
        (TargetName.of(["none"], "t"), "", NoSuchNamespace),
        (TargetName.of(["ns"], "none"), "", NoSuchTable),
        (NS, "system.nothing", InvalidInput),
    ):
        with pytest.raises(error):
            await policing.applicable(target, kind)


# -- what becomes of attachments -------------------------------------------------------------------------------------


async def test_renamed_table_keeps_its_policies_and_inherits_from_its_new_namespace(catalog: CatalogHarness) -> None:
    policing = await with_policies(catalog)
    await catalog.namespace("other")
    await policing.create("expire", EXPIRY)
    await policing.attach("p", TABLE)
    await policing.attach("q", NS)
    await policing.attach("expire", TargetName.of(["other"]))
    await catalog.renaming.rename(Mutation(ROOT), "lake", name(), name("u", "other"), EntryKind.TABLE)
    assert await policing.applicable(TargetName.of(["other"], "u")) == [
        ("p", "table other.u", False),
        ("expire", "namespace other", True),
    ]
    assert await policing.targets() == ["table other.u"]


async def test_dropping_a_table_removes_its_attachments(catalog: CatalogHarness) -> None:
    policing = await with_policies(catalog)
    await policing.attach()
    await policing.attach("q", VIEW)
    await catalog.drop()
    await catalog.drop("v", kind=EntryKind.VIEW)
    assert await policing.targets() == []
    await catalog.create()
    assert await policing.applicable() == []
    await policing.drop()


async def test_dropping_a_namespace_removes_its_attachments(catalog: CatalogHarness) -> None:
    policing = await with_policies(catalog)
    await catalog.namespace("gone")
    await policing.attach(target=TargetName.of(["gone"]))
    await catalog.namespaces.drop(Mutation(ROOT), "lake", ["gone"])
    assert await policing.targets() == []
    await catalog.namespace("gone")
    assert await policing.applicable(TargetName.of(["gone"])) == []


async def test_restorable_table_keeps_its_attachments(catalog: CatalogHarness) -> None:
    policing = await with_policies(catalog)
    await catalog.set_undrop_window(60)
    await policing.attach(parameters={"a": "1"})
    await catalog.drop()
    with pytest.raises(NoSuchTable):
        await policing.applicable()
    with pytest.raises(NoSuchTarget):
        await policing.detach()
    assert await policing.targets() == ["table ns.t"]
    await catalog.dropping.restore(Mutation(ROOT), "lake", name())
    [found] = await policing.attachments.applicable(ROOT, "lake", TABLE)
    assert (found.policy.name, found.parameters) == ("p", {"a": "1"})
    await catalog.drop()
    catalog.store.clock.advance(61)
    await catalog.dropping.expire_dropped()
    assert await policing.targets() == []


async def test_targets_of_a_policy_are_listed_in_pages(catalog: CatalogHarness) -> None:
    policing = await with_policies(catalog)
    for target in (CATALOG, NS, TABLE, VIEW):
        await policing.attach(target=target)
    seen: list[str] = []
    truncated, after = True, ""
    while truncated:
        page = await policing.attachments.targets(ROOT, "lake", ["ns"], "p", after=after, limit=3)
        seen += [str(target.target) for target in page.items]
        truncated, after = page.truncated, page.items[-1].key
    assert sorted(seen) == ["catalog", "namespace ns", "table ns.t", "view ns.v"]


# -- who may ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("action", [Action.ATTACH_POLICY, Action.DETACH_POLICY])
async def test_attaching_requires_permission_on_policy_and_target(
    light_catalog: CatalogHarness, action: Action
) -> None:
    policing = await with_policies(light_catalog)
    await light_catalog.namespace("home")
    await policing.create("far", EXPIRY, namespace=["home"])
    entry = await light_catalog.entry(name())
    table = f"{BUCKET}/table/{entry.id}"
    attaches = action is Action.ATTACH_POLICY
    if not attaches:
        await policing.attachments.attach(Mutation(ROOT), "lake", ["home"], "far", TABLE, {})
    use = policing.attachments.attach if attaches else policing.attachments.detach
    arguments = ("lake", ["home"], "far", TABLE, *([{}] if attaches else []))
    async with light_catalog.unchanged():
        for caller in (
            UNPRIVILEGED,
            user_with(*(other for other in Action if other is not action)),
            user_with(action, resource=BUCKET),
            user_with(action, resource=table),
            user_with(action, condition={"StringEquals": {"s3tables:namespace": "ns"}}),
            user_with(action, condition={"StringEquals": {"s3tables:namespace": "home"}}),
        ):
            with pytest.raises(AccessDenied):
                await use(Mutation(caller), *arguments)  # type: ignore[arg-type]
    await use(Mutation(user_with(action, resource=[BUCKET, table])), *arguments)  # type: ignore[arg-type]


async def test_denial_does_not_reveal_existence(light_catalog: CatalogHarness) -> None:
    policing = await with_policies(light_catalog)
    for target in (TABLE, TargetName.of(["none"], "t"), TargetName.of(["none"])):
        with pytest.raises(AccessDenied):
            await policing.attach(target=target, caller=UNPRIVILEGED)
        with pytest.raises(AccessDenied):
            await policing.attachments.applicable(UNPRIVILEGED, "lake", target)


@pytest.mark.parametrize(
    ("target", "action"),
    [
        (CATALOG, Action.GET_TABLE_BUCKET),
        (NS, Action.GET_NAMESPACE),
        (TABLE, Action.GET_TABLE),
        (VIEW, Action.GET_TABLE),
    ],
)
async def test_applicable_policies_require_permission_on_the_target(
    light_catalog: CatalogHarness, target: TargetName, action: Action
) -> None:
    policing = await with_policies(light_catalog)
    others = [other for other in Action if other is not action]
    with pytest.raises(AccessDenied):
        await policing.attachments.applicable(user_with(*others), "lake", target)
    assert await policing.attachments.applicable(user_with(action), "lake", target) == []
    maintainer = user_with(Action.GET_MAINTENANCE)
    assert await policing.attachments.applicable(maintainer, "lake", target, action=Action.GET_MAINTENANCE) == []
