from __future__ import annotations

import asyncio

import pytest

from lakebed.catalog.access.authorization import Action
from lakebed.catalog.idempotency import Mutation, RequestKey, StoredResponse
from lakebed.catalog.policies.policies import NewPolicy
from lakebed.core.errors import (
    AccessDenied,
    AlreadyExists,
    InvalidInput,
    InvalidName,
    InvalidPolicy,
    LakebedError,
    NamespaceNotEmpty,
    NoSuchCatalog,
    NoSuchNamespace,
    NoSuchPolicy,
    PolicyInUse,
    PolicyVersionMismatch,
)
from tests.catalog.harness import UNPRIVILEGED, CatalogHarness, user_with
from tests.objects.stores import ROOT

from .policy_catalog import CATALOG, COMPACTION, EXPIRY, NS, OFF, ON, TABLE, UseCase, shown, wire_policies


async def test_policy_is_created_with_an_event(catalog: CatalogHarness) -> None:
    policing = wire_policies(catalog)
    before = await catalog.last_event()
    made = await policing.create("compact-daily", content=' {"enable":  true}', description="every day")
    assert made == await policing.get("compact-daily")
    assert (made.namespace, made.type, made.inheritable, made.version) == (("ns",), COMPACTION, True, 0)
    assert (made.content, made.description) == (' {"enable":  true}', "every day")
    assert made.created_ms == made.updated_ms == catalog.store.clock.now_ms()
    [(kind, event)] = await policing.events(before)
    assert (kind, event.catalog, event.namespace) == ("CatalogPolicyCreated", "lake", ("ns",))
    assert event.facts == {"policy": "compact-daily", "type": COMPACTION, "version": "0"}
    assert event.principal == "root"


@pytest.mark.parametrize(
    ("policy", "error"),
    [
        (NewPolicy("p", "system.nothing", ON), InvalidInput),
        (NewPolicy("p", "", ON), InvalidInput),
        (NewPolicy("p", COMPACTION, None), InvalidPolicy),
        (NewPolicy("p", COMPACTION, '{"enable": 1}'), InvalidPolicy),
        (NewPolicy("p q", COMPACTION, ON), InvalidName),
        (NewPolicy("p", COMPACTION, ON, "a\0b"), InvalidInput),
        (NewPolicy("there", EXPIRY, ON), AlreadyExists),
    ],
)
async def test_rejected_policy_leaves_nothing(
    light_catalog: CatalogHarness, policy: NewPolicy, error: type[LakebedError]
) -> None:
    policing = wire_policies(light_catalog)
    await policing.create("there")
    async with light_catalog.unchanged():
        with pytest.raises(error) as refused:
            await policing.policies.create(Mutation(ROOT), "lake", ["ns"], policy, shown)
    assert type(refused.value) is error


async def test_policy_requires_an_existing_namespace(light_catalog: CatalogHarness) -> None:
    policing = wire_policies(light_catalog)
    async with light_catalog.unchanged():
        with pytest.raises(NoSuchNamespace):
            await policing.create(namespace=["none"])
        with pytest.raises(NoSuchCatalog):
            await policing.policies.get(ROOT, "none", ["ns"], "p")
        for namespace in ("ns", "none"):
            with pytest.raises(NoSuchPolicy):
                await policing.policies.get(ROOT, "lake", [namespace], "p")
        with pytest.raises(NoSuchNamespace):
            await policing.policies.list(ROOT, "lake", ["none"], after="", limit=1)
        with pytest.raises(InvalidName):
            await policing.get("p q")
    await light_catalog.namespace("a", "b")
    made = await policing.create(namespace=["a", "b"])
    assert made.namespace == ("a", "b")
    await policing.create()


async def test_policies_are_listed_in_pages_and_by_type(catalog: CatalogHarness) -> None:
    policing = wire_policies(catalog)
    await catalog.namespace("other")
    await policing.create("elsewhere", namespace=["other"])
    for name in ("c", "a", "d", "b"):
        await policing.create(name, EXPIRY if name == "d" else COMPACTION)

    async def listed(kind: str = "", after: str = "", limit: int = 10) -> tuple[list[str], bool]:
        page = await policing.policies.list(ROOT, "lake", ["ns"], kind=kind, after=after, limit=limit)
        return page.names, page.truncated

    assert await listed() == (["a", "b", "c", "d"], False)
    assert await listed(limit=3) == (["a", "b", "c"], True)
    assert await listed(after="c") == (["d"], False)
    assert await listed(kind=EXPIRY) == (["d"], False)
    assert await listed(kind=COMPACTION, after="a", limit=1) == (["b"], True)
    with pytest.raises(InvalidInput):
        await listed(kind="system.nothing")


async def test_update_replaces_content_and_increments_the_version(catalog: CatalogHarness) -> None:
    policing = wire_policies(catalog)
    made = await policing.create(description="first")
    catalog.store.clock.advance(5)
    before = await catalog.last_event()
    changed = await policing.update(content=OFF, version=0)
    assert (changed.content, changed.description, changed.version) == (OFF, None, 1)
    assert (changed.id, changed.created_ms) == (made.id, made.created_ms)
    assert changed.updated_ms == catalog.store.clock.now_ms()
    assert await policing.get() == changed
    [(kind, event)] = await policing.events(before)
    assert (kind, event.facts["version"]) == ("CatalogPolicyUpdated", "1")


async def test_equal_update_changes_nothing(light_catalog: CatalogHarness) -> None:
    policing = wire_policies(light_catalog)
    made = await policing.create(description="first")
    async with light_catalog.unchanged():
        assert await policing.update(content=ON, description="first") == made


async def test_update_of_an_outdated_version_is_rejected(light_catalog: CatalogHarness) -> None:
    policing = wire_policies(light_catalog)
    await policing.create()
    await policing.update()
    async with light_catalog.unchanged():
        for version in (0, 2, -1):
            for content in (ON, OFF):
                with pytest.raises(PolicyVersionMismatch):
                    await policing.update(content=content, version=version)
        with pytest.raises(InvalidPolicy):
            await policing.update(content='{"enable": 5}', version=1)
        with pytest.raises(InvalidPolicy):
            await policing.update(content=None, version=1)
        with pytest.raises(NoSuchPolicy):
            await policing.update("none")


async def test_one_of_concurrent_updates_succeeds(catalog: CatalogHarness) -> None:
    policing = wire_policies(catalog)
    await policing.create()
    contents = [f'{{"enable": true, "config": {{"x": {number}}}}}' for number in range(6)]
    outcomes = await asyncio.gather(*(policing.update(content=one) for one in contents), return_exceptions=True)
    made = [one for one in outcomes if not isinstance(one, BaseException)]
    assert len(made) == 1
    assert all(isinstance(one, PolicyVersionMismatch) for one in outcomes if isinstance(one, BaseException))
    assert await policing.get() == made[0]
    assert made[0].version == 1


async def test_attached_policy_is_dropped_only_with_detach_all(catalog: CatalogHarness) -> None:
    policing = wire_policies(catalog)
    entry = (await catalog.create()).entry
    await policing.create()
    await policing.attach(target=TABLE)
    await policing.attach(target=CATALOG)
    async with catalog.unchanged():
        with pytest.raises(PolicyInUse) as refused:
            await policing.drop()
    assert "catalog" in str(refused.value)
    assert "table ns.t" in str(refused.value)
    before = await catalog.last_event()
    await policing.drop(detach_all=True)
    with pytest.raises(NoSuchPolicy):
        await policing.get()
    assert await catalog.store.meta.rows("SELECT * FROM policy_attachments") == []
    events = await policing.events(before)
    assert [kind for kind, _ in events] == ["CatalogPolicyDetached", "CatalogPolicyDetached", "CatalogPolicyDropped"]
    assert {event.facts.get("id") for _, event in events} == {entry.id, None}
    with pytest.raises(NoSuchPolicy):
        await policing.drop(detach_all=True)


async def test_unattached_policy_is_dropped(light_catalog: CatalogHarness) -> None:
    policing = wire_policies(light_catalog)
    await policing.create()
    await policing.attach(target=NS)
    await policing.detach(target=NS)
    await policing.drop()
    await policing.create(kind=EXPIRY)


async def test_namespace_with_policies_cannot_be_dropped(catalog: CatalogHarness) -> None:
    policing = wire_policies(catalog)
    await policing.create()
    await policing.attach(target=CATALOG)
    async with catalog.unchanged():
        with pytest.raises(NamespaceNotEmpty):
            await catalog.namespaces.drop(Mutation(ROOT), "lake", ["ns"])
    await policing.drop(detach_all=True)
    await catalog.namespaces.drop(Mutation(ROOT), "lake", ["ns"])


async def test_deleting_a_table_bucket_deletes_its_policies(catalog: CatalogHarness) -> None:
    policing = wire_policies(catalog)
    await policing.define()
    await policing.create()
    await policing.create("q", "user.note")
    await policing.attach(target=CATALOG)
    await policing.attach("q", NS)
    await catalog.store.buckets.delete(ROOT, "lake")
    for table in ("policies", "policy_types", "policy_attachments"):
        assert await catalog.store.meta.rows(f"SELECT * FROM {table}") == []


async def test_idempotent_responses_commit_with_the_change(light_catalog: CatalogHarness) -> None:
    policing = wire_policies(light_catalog)
    key = RequestKey("k1", "digest")
    await policing.create(key=key)
    assert await light_catalog.keys.find(key) == StoredResponse(200, body=b"ns.p v0")
    key = RequestKey("k2", "digest")
    await policing.update(key=key)
    assert await light_catalog.keys.find(key) == StoredResponse(200, body=b"ns.p v1")
    key = RequestKey("k3", "digest")
    await policing.attach(target=CATALOG, key=key)
    assert await light_catalog.keys.find(key) == StoredResponse(204)


async def test_operations_require_permission(light_catalog: CatalogHarness) -> None:
    policing = wire_policies(light_catalog)
    await policing.create()
    uses: dict[Action, UseCase] = {
        Action.CREATE_POLICY: lambda caller: policing.create("new", caller=caller),
        Action.READ_POLICY: lambda caller: policing.get(caller=caller),
        Action.LIST_POLICIES: lambda caller: policing.policies.list(caller, "lake", ["ns"], after="", limit=1),
        Action.UPDATE_POLICY: lambda caller: policing.update(caller=caller),
        Action.DROP_POLICY: lambda caller: policing.drop(caller=caller),
    }
    for action, use in uses.items():
        others = [other for other in Action if other is not action]
        elsewhere = {"StringEquals": {"s3tables:namespace": "elsewhere"}}
        async with light_catalog.unchanged():
            for caller in (
                UNPRIVILEGED,
                user_with(*others),
                user_with("s3tables:*"),
                user_with(action, condition=elsewhere),
            ):
                with pytest.raises(AccessDenied):
                    await use(caller)
        await use(user_with(action, condition={"StringEquals": {"s3tables:namespace": "ns"}}))
