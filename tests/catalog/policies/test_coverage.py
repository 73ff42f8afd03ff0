"""Policy coverage: the preview of a change matches its effect."""

from __future__ import annotations

import pytest

from lakebed.catalog.access.authorization import Action
from lakebed.catalog.idempotency import Mutation
from lakebed.catalog.policies import coverage as coverage_module
from lakebed.catalog.policies.attachments import TargetName
from lakebed.catalog.policies.coverage import AttachmentChange
from lakebed.core.errors import (
    AccessDenied,
    AttachmentConflict,
    InvalidInput,
    NoSuchAttachment,
    NoSuchNamespace,
    NoSuchPolicy,
    NoSuchTarget,
    NotAttachable,
)
from lakebed.governance.policies import PolicyTargetKind
from lakebed.governance.rbac import Privilege
from lakebed.governance.rbac.securables import entry_key, policy_key
from lakebed.objects.model import Caller
from tests.catalog.harness import UNPRIVILEGED, CatalogHarness, a_table, name, user_with
from tests.catalog.test_catalog_grants import holding, key_of
from tests.objects.stores import ROOT

from .policy_catalog import CATALOG, COMPACTION, EXPIRY, NS, OFF, TABLE, VIEW, PolicyHarness, wire_policies

DEEP = TargetName.of(["ns", "deep"])
TARGETS = (CATALOG, NS, DEEP, TABLE, VIEW)
LOOKING = (Action.GET_TABLE, Action.GET_TABLE_BUCKET, Action.GET_NAMESPACE, Action.READ_POLICY)


async def with_policies(catalog: CatalogHarness) -> PolicyHarness:
    """`ns.t`, `ns.v` (a view), `ns.deep.u`, `ns10.x` and `other.w`; compaction policies `p` and `q`."""
    policing = wire_policies(catalog)
    for levels in (("ns", "deep"), ("ns10",), ("other",)):
        await catalog.namespace(*levels)
    await catalog.create("t")
    await catalog.create_view("v")
    await catalog.creation.create(Mutation(ROOT), "lake", ("ns", "deep"), a_table("u"))
    await catalog.create("x", namespace="ns10")
    await catalog.create("w", namespace="other")
    await policing.create()
    await policing.create("q", content=OFF)
    return policing


async def effect(
    policing: PolicyHarness,
    target: TargetName,
    policy: str = "p",
    change: AttachmentChange = AttachmentChange.ATTACH,
    *,
    caller: Caller = ROOT,
    limit: int = 100,
) -> dict[str, tuple[str | None, str | None]]:
    """The policy before and after, by table or view; read page by page."""
    found: dict[str, tuple[str | None, str | None]] = {}
    after = ""
    while True:
        page = await policing.coverage.effect(caller, "lake", ["ns"], policy, target, change, after=after, limit=limit)
        assert len(page.affected) <= limit
        for one in page.affected:
            [changed] = one.effects
            before, then = changed.before, changed.after
            found[".".join(one.place.path)] = (
                None if before is None else before.policy.name,
                None if then is None else then.policy.name,
            )
        if not page.progress.truncated:
            return found
        after = page.progress.last_id


async def uncovered(
    policing: PolicyHarness, *levels: str, kind: str = "", caller: Caller = ROOT, limit: int = 100
) -> set[str]:
    found: set[str] = set()
    after = ""
    while True:
        page = await policing.coverage.uncovered(caller, "lake", levels, kind=kind, after=after, limit=limit)
        assert len(page.tables) <= limit
        found |= {str(one.identifier) for one in page.tables}
        if not page.progress.truncated:
            return found
        after = page.progress.last_id


async def held(policing: PolicyHarness) -> dict[str, str | None]:
    """The applicable compaction policy of each table and view."""
    holds: dict[str, str | None] = {}
    for *levels, one in (["ns", "t"], ["ns", "v"], ["ns", "deep", "u"], ["ns10", "x"], ["other", "w"]):
        found = await policing.applicable(TargetName.of(levels, one), COMPACTION)
        holds[".".join((*levels, one))] = found[0][0] if found else None
    return holds


@pytest.mark.parametrize("attached", [(), (("q", CATALOG),), (("q", NS),), (("q", CATALOG), ("p", TABLE))])
async def test_preview_matches_the_actual_change(
    catalog: CatalogHarness, attached: tuple[tuple[str, TargetName], ...]
) -> None:
    policing = await with_policies(catalog)
    for policy, target in attached:
        await policing.attach(policy, target)
    for target in TARGETS:
        before = await held(policing)
        try:
            preview = await effect(policing, target)
        except AttachmentConflict:
            with pytest.raises(AttachmentConflict):
                await policing.attach("p", target)
            continue
        assert await held(policing) == before
        await policing.attach("p", target)
        after = await held(policing)
        assert preview == {one: (before[one], after[one]) for one in before if before[one] != after[one]}
        if ("p", target) in attached:
            continue
        preview = await effect(policing, target, change=AttachmentChange.DETACH)
        assert preview == {one: (after[one], before[one]) for one in before if before[one] != after[one]}
        await policing.detach("p", target)
        assert await held(policing) == before


async def test_reason_names_the_overridden_policy(catalog: CatalogHarness) -> None:
    policing = await with_policies(catalog)
    await policing.attach("q", CATALOG)
    page = await policing.coverage.effect(ROOT, "lake", ["ns"], "p", NS, AttachmentChange.ATTACH)
    assert (page.policy.name, str(page.place)) == ("p", "namespace ns")
    # `ns10` is not inside `ns`.
    assert page.progress.examined == 3
    whys = {".".join(one.place.path): one.effects[0].why for one in page.affected}
    assert whys["ns.deep.u"] == "policy ns.p v0, inherited from namespace ns, over ns.q v0 of catalog"
    assert {one.place.kind for one in page.affected} == {PolicyTargetKind.TABLE, PolicyTargetKind.VIEW}


async def test_noninheritable_policy_affects_its_target_only(light_catalog: CatalogHarness) -> None:
    policing = await with_policies(light_catalog)
    await policing.define(inheritable=False)
    await policing.create("n", "user.note")
    assert await effect(policing, NS, "n") == {}
    assert await effect(policing, TABLE, "n") == {"ns.t": (None, "n")}


async def test_preview_fails_like_the_change_itself(light_catalog: CatalogHarness) -> None:
    policing = await with_policies(light_catalog)
    await policing.define("user.tables", targets=(PolicyTargetKind.TABLE,))
    await policing.create("tables-only", "user.tables")
    await policing.attach("q", NS)
    async with light_catalog.unchanged():
        for policy, target, change, error in (
            ("none", NS, AttachmentChange.ATTACH, NoSuchPolicy),
            ("p", TargetName.of(["none"]), AttachmentChange.ATTACH, NoSuchTarget),
            ("p", TargetName.of(["ns"], "none"), AttachmentChange.ATTACH, NoSuchTarget),
            ("p", NS, AttachmentChange.ATTACH, AttachmentConflict),
            ("tables-only", NS, AttachmentChange.ATTACH, NotAttachable),
            ("p", NS, AttachmentChange.DETACH, NoSuchAttachment),
        ):
            with pytest.raises(error):
                await effect(policing, target, policy, change)


async def test_uncovered_tables_are_listed_by_type_and_namespace(catalog: CatalogHarness) -> None:
    policing = await with_policies(catalog)
    await policing.create("e", EXPIRY)
    everything = {"ns.t", "ns.deep.u", "ns10.x", "other.w"}
    assert await uncovered(policing) == everything
    assert await uncovered(policing, "ns") == {"ns.t", "ns.deep.u"}
    await policing.attach("p", NS)
    await policing.attach("e", TargetName.of(["other"], "w"))
    assert await uncovered(policing) == {"ns10.x"}
    assert await uncovered(policing, kind=COMPACTION) == {"ns10.x", "other.w"}
    assert await uncovered(policing, kind=EXPIRY) == everything - {"other.w"}
    await policing.attach("e", CATALOG)
    assert await uncovered(policing, kind=EXPIRY) == set()
    with pytest.raises(NoSuchNamespace):
        await uncovered(policing, "none")
    with pytest.raises(InvalidInput):
        await uncovered(policing, kind="system.nothing")


async def test_dropped_tables_and_other_catalogs_are_omitted(light_catalog: CatalogHarness) -> None:
    policing = await with_policies(light_catalog)
    await light_catalog.set_undrop_window(60)
    await light_catalog.drop("t")
    await light_catalog.create_table_bucket("pond")
    assert await uncovered(policing, "ns") == {"ns.deep.u"}
    assert set(await effect(policing, CATALOG)) == {"ns.v", "ns.deep.u", "ns10.x", "other.w"}


@pytest.mark.parametrize(("limit", "step", "most"), [(1, 500, 10_000), (2, 2, 10_000), (100, 2, 3), (100, 500, 1)])
async def test_pages_of_any_size_list_all_results(
    light_catalog: CatalogHarness, monkeypatch: pytest.MonkeyPatch, limit: int, step: int, most: int
) -> None:
    monkeypatch.setattr(coverage_module, "_ENTRIES_A_STEP", step)
    monkeypatch.setattr(coverage_module, "_MAX_EXAMINED", most)
    policing = await with_policies(light_catalog)
    assert await uncovered(policing, limit=limit) == {"ns.t", "ns.deep.u", "ns10.x", "other.w"}
    assert set(await effect(policing, CATALOG, limit=limit)) == {"ns.t", "ns.v", "ns.deep.u", "ns10.x", "other.w"}


async def test_results_contain_readable_entries_only(light_catalog: CatalogHarness) -> None:
    policing = await with_policies(light_catalog)
    seen = await light_catalog.entry(name("t"))
    resource = f"arn:aws:s3tables:*:*:bucket/lake/table/{seen.id}"
    for caller in (UNPRIVILEGED, user_with(Action.GET_TABLE, Action.READ_POLICY)):
        with pytest.raises(AccessDenied):
            await effect(policing, CATALOG, caller=caller)
        with pytest.raises(AccessDenied):
            await uncovered(policing, caller=caller)
    assert set(await effect(policing, NS, caller=user_with(*LOOKING))) == {"ns.t", "ns.v", "ns.deep.u"}
    one = user_with(Action.GET_TABLE, Action.LIST_TABLES, resource=[resource, resource.partition("/table/")[0]])
    assert await uncovered(policing, caller=one) == {"ns.t"}


async def test_results_follow_the_callers_grants(light_catalog: CatalogHarness) -> None:
    policing = await with_policies(light_catalog)
    policy = await policing.get()
    seen = await light_catalog.entry(name("t"))
    lake = await key_of(light_catalog)
    caller = holding(
        (policy_key(policy.id), Privilege.POLICY_READ),
        (lake, Privilege.CATALOG_READ_PROPERTIES),
        (lake, Privilege.TABLE_LIST),
        (entry_key(seen.id), Privilege.TABLE_READ_PROPERTIES),
    )
    assert set(await effect(policing, CATALOG, caller=caller)) == {"ns.t"}
    assert await uncovered(policing, caller=caller) == {"ns.t"}
