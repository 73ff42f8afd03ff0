from __future__ import annotations

import asyncio

import pytest

from lakebed.catalog.access.authorization import Action
from lakebed.catalog.catalogs.service import UNDROP_WINDOW
from lakebed.catalog.idempotency import Mutation
from lakebed.catalog.model import EntryKind
from lakebed.catalog.tables import drops as dropping_module
from lakebed.catalog.tables.drops import PURGE_KIND, decode_purge
from lakebed.core.errors import (
    AccessDenied,
    AlreadyExists,
    NoSuchCatalog,
    NoSuchNamespace,
    NoSuchTable,
    NoSuchView,
    TableProtected,
)
from lakebed.meta.tasks import TaskState
from tests.catalog.harness import (
    UNPRIVILEGED,
    CatalogHarness,
    FaultyStore,
    a_table,
    name,
    set_properties,
    user_with,
    wire_catalog,
)
from tests.objects.stores import ROOT

AS_ROOT = Mutation(ROOT)
TABLE, VIEW = EntryKind.TABLE, EntryKind.VIEW
WINDOW = 60


async def dropped_names(catalog: CatalogHarness) -> list[str]:
    page = await catalog.dropping.dropped(ROOT, "lake", after="", limit=100)
    return sorted(one.entry.name for one in page.items)


async def purges_to_come(catalog: CatalogHarness) -> int:
    return len(await catalog.tasks.of_kinds(catalog.store.meta, [PURGE_KIND], states=[TaskState.READY]))


# -- at once ---------------------------------------------------------------------------------------------------------


async def test_drop_without_undrop_window_is_immediate(catalog: CatalogHarness) -> None:
    made = await catalog.create()
    await catalog.commit(name(), set_properties(a="1"))
    before = await catalog.last_event()
    dropped = await catalog.drop()
    assert dropped.id == made.entry.id
    found = await catalog.entries.find(catalog.store.meta, "lake", name())
    assert found.entry is None
    assert await catalog.store.meta.rows("SELECT 1 FROM entry_commits") == []
    assert await dropped_names(catalog) == []
    assert len(await catalog.keys_in()) == 2
    [(kind, event)] = await catalog.events(before)
    assert (kind, event.id, event.facts) == (
        "TableDropped",
        made.entry.id,
        {"purge": "false", "restorable": "false"},
    )
    again = await catalog.create()
    assert again.entry.id != made.entry.id


async def test_purge_task_commits_with_the_drop(catalog: CatalogHarness) -> None:
    made = await catalog.create(location="s3://lake/t", properties={"write.data.path": "s3://lake/d"})
    await catalog.drop(purge=True)
    [task] = await catalog.tasks.of_kinds(catalog.store.meta, [PURGE_KIND], states=[TaskState.READY])
    purge = decode_purge(task.payload)
    assert (purge.catalog, purge.namespace, purge.name, purge.entry) == ("lake", ("ns",), "t", made.entry.id)
    assert (purge.prefixes, purge.metadata_at) == (("d/", "t/"), made.entry.metadata_at)
    _, event = (await catalog.events())[-1]
    assert event.facts == {"purge": "true", "restorable": "false"}


async def test_drop_requires_the_right_entry_kind(catalog: CatalogHarness) -> None:
    await catalog.create("t")
    await catalog.create_view("v")
    async with catalog.unchanged():
        with pytest.raises(NoSuchView):
            await catalog.drop("t", kind=VIEW)
        with pytest.raises(NoSuchTable):
            await catalog.drop("v")
        with pytest.raises(NoSuchTable):
            await catalog.drop("none")
        with pytest.raises(NoSuchTable):
            await catalog.dropping.drop(AS_ROOT, "lake", name("t", "none"), TABLE)
        with pytest.raises(NoSuchCatalog):
            await catalog.dropping.drop(AS_ROOT, "pond", name(), TABLE)
    await catalog.drop("v", kind=VIEW)


async def test_one_of_concurrent_drops_succeeds(catalog: CatalogHarness) -> None:
    await catalog.create()
    before = await catalog.last_event()
    outcomes = await asyncio.gather(*(catalog.drop(purge=True) for _ in range(4)), return_exceptions=True)
    assert sum(isinstance(outcome, NoSuchTable) for outcome in outcomes) == 3
    assert len(await catalog.events(before)) == 1
    assert await purges_to_come(catalog) == 1


# -- with a window ---------------------------------------------------------------------------------------------------


async def test_restorable_table_keeps_its_name(catalog: CatalogHarness) -> None:
    await catalog.set_undrop_window(WINDOW)
    made = await catalog.create(location="s3://lake/t")
    now_ms = catalog.store.clock.now_ms()
    await catalog.drop(purge=True)
    [waiting] = (await catalog.dropping.dropped(ROOT, "lake", after="", limit=9)).items
    assert waiting.namespace == ("ns",)
    assert waiting.entry == made.entry._replace(dropped_ms=now_ms, expires_ms=now_ms + WINDOW * 1000, purge=True)
    assert await purges_to_come(catalog) == 0
    _, event = (await catalog.events())[-1]
    assert event.facts == {"purge": "true", "restorable": "true"}
    async with catalog.unchanged():
        with pytest.raises(NoSuchTable):
            await catalog.drop()
        with pytest.raises(NoSuchTable):
            await catalog.commit(name(), set_properties(a="1"))
        with pytest.raises(AlreadyExists, match="restore or purge it first"):
            await catalog.create()
        with pytest.raises(AlreadyExists):
            await catalog.create_view("t")


async def test_restored_table_is_unchanged(catalog: CatalogHarness) -> None:
    await catalog.set_undrop_window(WINDOW)
    await catalog.create(location="s3://lake/t")
    committed = await catalog.commit(name(), set_properties(a="1"))
    await catalog.drop(purge=True)
    catalog.store.clock.advance(WINDOW - 1)
    before = await catalog.last_event()
    restored = await catalog.dropping.restore(AS_ROOT, "lake", name())
    assert restored == committed.entry._replace(updated_ms=catalog.store.clock.now_ms())
    assert await catalog.entry(name()) == restored
    [(kind, event)] = await catalog.events(before)
    assert (kind, event.id, event.generation) == ("TableRestored", restored.id, 2)
    assert await dropped_names(catalog) == []
    catalog.store.clock.advance(WINDOW)
    assert await catalog.dropping.expire_dropped() == 0
    assert (await catalog.commit(name(), set_properties(b="2"))).entry.generation == 3


async def test_restored_view_is_a_view(catalog: CatalogHarness) -> None:
    await catalog.set_undrop_window(WINDOW)
    await catalog.create_view()
    await catalog.drop("v", kind=VIEW)
    assert (await catalog.dropping.restore(AS_ROOT, "lake", name("v"))).kind is VIEW
    assert (await catalog.events())[-1][0] == "ViewRestored"


async def test_only_dropped_entries_are_restored(catalog: CatalogHarness) -> None:
    await catalog.create()
    async with catalog.unchanged():
        with pytest.raises(AlreadyExists, match="not dropped"):
            await catalog.dropping.restore(AS_ROOT, "lake", name())
        with pytest.raises(NoSuchTable, match="its window has ended"):
            await catalog.dropping.restore(AS_ROOT, "lake", name("none"))
        with pytest.raises(NoSuchNamespace):
            await catalog.dropping.restore(AS_ROOT, "lake", name("t", "none"))


@pytest.mark.parametrize("purge", [True, False])
async def test_dropped_table_is_removed_after_its_window(catalog: CatalogHarness, purge: bool) -> None:
    await catalog.set_undrop_window(WINDOW)
    made = await catalog.create(location="s3://lake/t")
    await catalog.drop(purge=purge)
    catalog.store.clock.advance(WINDOW - 0.001)
    assert await catalog.dropping.expire_dropped() == 0
    catalog.store.clock.advance(0.001)
    before = await catalog.last_event()
    assert await catalog.dropping.expire_dropped() == 1
    assert await catalog.dropping.expire_dropped() == 0
    [(kind, event)] = await catalog.events(before)
    assert (kind, event.id, event.name) == ("TableExpired", made.entry.id, "t")
    with pytest.raises(NoSuchTable):
        await catalog.dropping.restore(AS_ROOT, "lake", name())
    assert await purges_to_come(catalog) == int(purge)
    assert (made.entry.id in await catalog.claimed()) is purge
    await catalog.create("t", location="s3://lake/t2")


async def test_many_dropped_tables_are_removed_in_several_runs(
    catalog: CatalogHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dropping_module, "_EXPIRED_A_RUN", 2)
    await catalog.set_undrop_window(WINDOW)
    for number in range(5):
        await catalog.create(f"t{number}")
        await catalog.drop(f"t{number}")
    catalog.store.clock.advance(WINDOW)
    assert [await catalog.dropping.expire_dropped() for _ in range(4)] == [2, 2, 1, 0]


async def test_dropped_tables_of_all_catalogs_are_removed(catalog: CatalogHarness) -> None:
    await catalog.create_table_bucket("pond")
    await catalog.namespaces.create(AS_ROOT, "pond", ["ns"], {})
    await catalog.catalogs.set_properties(ROOT, "pond", updates={UNDROP_WINDOW: "5"}, removals=[])
    await catalog.set_undrop_window(WINDOW)
    await catalog.create()
    await catalog.creation.create(AS_ROOT, "pond", ("ns",), a_table())
    for warehouse in ("lake", "pond"):
        await catalog.dropping.drop(AS_ROOT, warehouse, name(), TABLE, purge=True)
    catalog.store.clock.advance(5)
    assert await catalog.dropping.expire_dropped() == 1
    assert await dropped_names(catalog) == ["t"]
    assert (await catalog.events())[-1][1].catalog == "pond"
    assert await catalog.purges.run_due() == 1
    assert await catalog.keys_in("pond") == []
    assert len(await catalog.keys_in("lake")) == 1


async def test_undrop_window_is_fixed_at_the_drop(catalog: CatalogHarness) -> None:
    await catalog.set_undrop_window(WINDOW)
    await catalog.create()
    await catalog.drop()
    await catalog.set_undrop_window(0)
    catalog.store.clock.advance(WINDOW - 1)
    assert await catalog.dropping.expire_dropped() == 0
    await catalog.dropping.restore(AS_ROOT, "lake", name())
    await catalog.drop()
    assert await dropped_names(catalog) == []


@pytest.mark.parametrize(("asked_at_the_drop", "asked_now"), [(True, False), (False, True), (False, False)])
async def test_dropped_table_can_be_purged_early(
    catalog: CatalogHarness, asked_at_the_drop: bool, asked_now: bool
) -> None:
    await catalog.set_undrop_window(WINDOW)
    await catalog.create(location="s3://lake/t")
    await catalog.drop(purge=asked_at_the_drop)
    before = await catalog.last_event()
    await catalog.dropping.purge_now(AS_ROOT, "lake", name(), files=asked_now)
    assert [kind for kind, _ in await catalog.events(before)] == ["TableExpired"]
    assert await purges_to_come(catalog) == int(asked_at_the_drop or asked_now)
    assert await dropped_names(catalog) == []
    await catalog.purges.run_due()
    assert len(await catalog.keys_in()) == int(not (asked_at_the_drop or asked_now))
    await catalog.create(location="s3://lake/t")


async def test_only_dropped_entries_are_purged(catalog: CatalogHarness) -> None:
    await catalog.create()
    async with catalog.unchanged():
        for table in ("t", "none"):
            with pytest.raises(NoSuchTable, match="no dropped table or view has this name"):
                await catalog.dropping.purge_now(AS_ROOT, "lake", name(table), files=True)


async def test_concurrent_restore_and_expiry_agree_on_one_outcome(catalog: CatalogHarness) -> None:
    await catalog.set_undrop_window(WINDOW)
    for number in range(3):
        table = f"t{number}"
        await catalog.create(table)
        await catalog.drop(table, purge=True)
        restored, given_up = await asyncio.gather(
            catalog.dropping.restore(AS_ROOT, "lake", name(table)),
            catalog.dropping.purge_now(AS_ROOT, "lake", name(table), files=True),
            return_exceptions=True,
        )
        lives = (await catalog.entries.find(catalog.store.meta, "lake", name(table))).live is not None
        assert lives is not isinstance(restored, BaseException)
        assert lives is isinstance(given_up, NoSuchTable)


async def test_dropped_entries_are_listed_in_pages_by_id(catalog: CatalogHarness) -> None:
    await catalog.set_undrop_window(WINDOW)
    made = []
    for number in range(5):
        made.append((await catalog.create(f"t{number}")).entry.id)
        await catalog.drop(f"t{number}")
    await catalog.create("live")
    listed: list[str] = []
    truncated = True
    while truncated:
        page = await catalog.dropping.dropped(ROOT, "lake", after=listed[-1] if listed else "", limit=2)
        listed += [one.entry.id for one in page.items]
        truncated = page.truncated
    assert listed == sorted(made)


# -- protection ------------------------------------------------------------------------------------------------------


async def test_protected_table_cannot_be_dropped(catalog: CatalogHarness) -> None:
    await catalog.create()
    before = await catalog.last_event()
    protected = await catalog.dropping.protect(AS_ROOT, "lake", name(), TABLE, protected=True)
    assert protected.protected
    assert await catalog.entry(name()) == protected
    async with catalog.unchanged():
        for purge in (True, False):
            with pytest.raises(TableProtected, match="disable the protection first"):
                await catalog.drop(purge=purge)
    await catalog.commit(name(), set_properties(a="1"))
    assert (await catalog.entry(name())).protected
    await catalog.dropping.protect(AS_ROOT, "lake", name(), TABLE, protected=False)
    await catalog.drop()
    assert [kind for kind, _ in await catalog.events(before)] == [
        "TableProtected",
        "TableCommitted",
        "TableUnprotected",
        "TableDropped",
    ]


async def test_concurrent_drop_and_protect_agree_on_one_outcome(catalog: CatalogHarness) -> None:
    await catalog.create()
    eventful = FaultyStore(catalog.store.meta)
    late = wire_catalog(catalog.store, eventful)
    eventful.meanwhile = lambda: catalog.dropping.protect(AS_ROOT, "lake", name(), TABLE, protected=True)
    with pytest.raises(TableProtected):
        await late.drop()
    await catalog.dropping.protect(AS_ROOT, "lake", name(), TABLE, protected=False)
    eventful.meanwhile = catalog.drop
    with pytest.raises(NoSuchTable):
        await late.dropping.protect(AS_ROOT, "lake", name(), TABLE, protected=True)


async def test_protection_requires_an_existing_entry(catalog: CatalogHarness) -> None:
    await catalog.create()
    async with catalog.unchanged():
        with pytest.raises(NoSuchTable):
            await catalog.dropping.protect(AS_ROOT, "lake", name("none"), TABLE, protected=True)
        with pytest.raises(NoSuchView):
            await catalog.dropping.protect(AS_ROOT, "lake", name(), VIEW, protected=True)


# -- who may ---------------------------------------------------------------------------------------------------------


async def test_each_operation_requires_its_action(light_catalog: CatalogHarness) -> None:
    catalog, dropping = light_catalog, light_catalog.dropping
    await catalog.set_undrop_window(WINDOW)
    for table in ("t", "gone"):
        await catalog.create(table)
    await catalog.drop("gone")
    wrong = user_with(Action.GET_TABLE, Action.UPDATE_METADATA_LOCATION, Action.PUT_TABLE_DATA)
    async with catalog.unchanged():
        for caller in (UNPRIVILEGED, wrong):
            with pytest.raises(AccessDenied):
                await catalog.drop(caller=caller)
            with pytest.raises(AccessDenied):
                await dropping.protect(Mutation(caller), "lake", name(), TABLE, protected=True)
            with pytest.raises(AccessDenied):
                await dropping.dropped(caller, "lake", after="", limit=1)
            with pytest.raises(AccessDenied):
                await dropping.restore(Mutation(caller), "lake", name("gone"))
            with pytest.raises(AccessDenied):
                await dropping.purge_now(Mutation(caller), "lake", name("gone"), files=True)
    of_gone = {"StringEquals": {"s3tables:tableName": "gone", "s3tables:namespace": "ns"}}
    await dropping.dropped(user_with(Action.LIST_TABLES), "lake", after="", limit=1)
    await dropping.restore(Mutation(user_with(Action.CREATE_TABLE, condition=of_gone)), "lake", name("gone"))
    await dropping.protect(
        Mutation(user_with(Action.DELETE_TABLE, condition=of_gone)), "lake", name("gone"), TABLE, protected=False
    )
    await catalog.drop("gone", caller=user_with(Action.DELETE_TABLE, condition=of_gone))
    await dropping.purge_now(
        Mutation(user_with(Action.DELETE_TABLE, condition=of_gone)), "lake", name("gone"), files=True
    )
    with pytest.raises(AccessDenied):
        await catalog.drop("t", caller=user_with(Action.DELETE_TABLE, condition=of_gone))
