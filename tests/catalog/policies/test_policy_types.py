from __future__ import annotations

import pytest

from lakebed.catalog.access.authorization import Action
from lakebed.catalog.idempotency import Mutation
from lakebed.core.errors import AccessDenied, AlreadyExists, InvalidPolicy, NoSuchPolicyType, PolicyInUse
from lakebed.governance.policies import SYSTEM_TYPES, PolicyTargetKind, define_type
from lakebed.objects.model import Caller
from tests.catalog.harness import UNPRIVILEGED, CatalogHarness, user_with
from tests.objects.stores import ROOT

from .policy_catalog import UseCase, wire_policies

RETENTION = {"type": "object", "required": ["days"], "properties": {"days": {"type": "integer"}}}


async def test_user_defined_type_validates_content_by_its_schema(catalog: CatalogHarness) -> None:
    policing = wire_policies(catalog)
    before = await catalog.last_event()
    made = await policing.define("user.retention", RETENTION, inheritable=False, targets=(PolicyTargetKind.TABLE,))
    assert await policing.types.get(ROOT, "lake", "user.retention") == made
    [(kind, event)] = await policing.events(before)
    assert (kind, event.facts) == ("CatalogPolicyTypeCreated", {"type": "user.retention"})
    policy = await policing.create(kind="user.retention", content='{"days": 5}')
    assert policy.inheritable is False
    async with catalog.unchanged():
        with pytest.raises(InvalidPolicy) as refused:
            await policing.create("q", "user.retention", '{"days": "5"}')
        assert refused.value.argument == "$.days"
        with pytest.raises(InvalidPolicy):
            await policing.update(content="{}")
    assert (await policing.update(content='{"days": 6}')).version == 1


async def test_type_is_defined_once(light_catalog: CatalogHarness) -> None:
    policing = wire_policies(light_catalog)
    await policing.define()
    async with light_catalog.unchanged():
        with pytest.raises(AlreadyExists):
            await policing.define(schema={"type": "object"})


async def test_type_with_policies_cannot_be_dropped(light_catalog: CatalogHarness) -> None:
    policing = wire_policies(light_catalog)
    await policing.define()
    await policing.create(kind="user.note")
    async with light_catalog.unchanged():
        for name, error in (
            ("user.note", PolicyInUse),
            ("system.data-compaction", PolicyInUse),
            ("user.none", NoSuchPolicyType),
        ):
            with pytest.raises(error):
                await policing.types.drop(Mutation(ROOT), "lake", name)
    await policing.drop()
    before = await light_catalog.last_event()
    await policing.types.drop(Mutation(ROOT), "lake", "user.note")
    assert [kind for kind, _ in await policing.events(before)] == ["CatalogPolicyTypeDropped"]
    with pytest.raises(NoSuchPolicyType):
        await policing.types.get(ROOT, "lake", "user.note")
    await policing.define(schema={"type": "object"})


async def test_types_are_scoped_to_a_table_bucket(light_catalog: CatalogHarness) -> None:
    policing = wire_policies(light_catalog)
    await light_catalog.create_table_bucket("pond")
    await policing.define()
    with pytest.raises(NoSuchPolicyType):
        await policing.types.get(ROOT, "pond", "user.note")
    assert (await policing.types.get(ROOT, "pond", "system.snapshot-expiry")).is_system


async def test_user_defined_and_system_types_are_listed_in_pages(catalog: CatalogHarness) -> None:
    policing = wire_policies(catalog)
    for name in ("zeta", "alpha", "systematic"):
        await policing.define(name)
    seen: list[str] = []
    truncated, after = True, ""
    while truncated:
        page = await policing.types.list(ROOT, "lake", after=after, limit=2)
        names = [one.name for one in page.items]
        assert len(names) <= 2
        seen, truncated, after = seen + names, page.truncated, names[-1]
    assert seen == ["alpha", *SYSTEM_TYPES, "systematic", "zeta"]


async def test_operations_require_permission(light_catalog: CatalogHarness) -> None:
    policing = wire_policies(light_catalog)
    await policing.define("there")

    async def define(caller: Caller) -> object:
        return await policing.types.create(Mutation(caller), "lake", define_type("new", {}), lambda _: b"")

    uses: list[tuple[Action, UseCase]] = [
        (Action.CREATE_POLICY_TYPE, define),
        (Action.LIST_POLICIES, lambda caller: policing.types.list(caller, "lake", after="", limit=1)),
        (Action.LIST_POLICIES, lambda caller: policing.types.get(caller, "lake", "there")),
        (Action.DROP_POLICY_TYPE, lambda caller: policing.types.drop(Mutation(caller), "lake", "there")),
    ]
    for action, use in uses:
        others = [other for other in Action if other is not action]
        async with light_catalog.unchanged():
            for caller in (UNPRIVILEGED, user_with(*others), user_with("s3tables:*")):
                with pytest.raises(AccessDenied):
                    await use(caller)
        await use(user_with(action))
