from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.catalog.events import CatalogEvent, append_catalog_event, decode_event
from lakebed.catalog.idempotency import Mutation
from lakebed.catalog.identifiers import Levels
from lakebed.catalog.model import EntryKind
from lakebed.core.errors import AlreadyExists
from lakebed.iceberg.commits import parse_view_updates
from lakebed.meta.seam import Transaction
from tests.objects.stores import ROOT

from .appends import appended
from .harness import ASSERT_CREATE, CatalogHarness, a_change, a_table, name, set_property, staged

AS_ROOT = Mutation(ROOT)
TABLE, VIEW = EntryKind.TABLE, EntryKind.VIEW


async def _configure(catalog: CatalogHarness) -> None:
    await catalog.namespaces.set_properties(AS_ROOT, "lake", ["ns"], updates={"a": "1"}, removals=[])


async def _rename(catalog: CatalogHarness) -> None:
    await catalog.renaming.rename(AS_ROOT, "lake", name("t"), name("u"), TABLE)


async def _rename_view(catalog: CatalogHarness) -> None:
    await catalog.renaming.rename(AS_ROOT, "lake", name("v"), name("w"), VIEW)


async def _replace_view(catalog: CatalogHarness) -> None:
    updates = parse_view_updates(b'[{"action":"set-properties","updates":{"a":"1"}}]')
    await catalog.views.replace(AS_ROOT, "lake", name("v"), (), updates)


async def _restore(catalog: CatalogHarness) -> None:
    await catalog.dropping.restore(AS_ROOT, "lake", name("dropped"))


async def _purge_dropped(catalog: CatalogHarness) -> None:
    await catalog.dropping.purge_now(AS_ROOT, "lake", name("dropped"), files=True)


async def _expire(catalog: CatalogHarness) -> None:
    catalog.store.clock.advance(60)
    assert await catalog.dropping.expire_dropped() == 1


async def _protect(catalog: CatalogHarness) -> None:
    await catalog.dropping.protect(AS_ROOT, "lake", name("t"), TABLE, protected=True)


async def _unprotect(catalog: CatalogHarness) -> None:
    await catalog.dropping.protect(AS_ROOT, "lake", name("v"), VIEW, protected=False)


async def _register(catalog: CatalogHarness) -> None:
    entry = await catalog.entry(name("loose"))
    await catalog.dropping.drop(AS_ROOT, "lake", name("loose"), TABLE)
    await catalog.dropping.purge_now(AS_ROOT, "lake", name("loose"), files=False)
    await catalog.registration.register_table(AS_ROOT, "lake", name("loose"), entry.metadata_at)


CHANGES: dict[str, Callable[[CatalogHarness], Awaitable[object]]] = {
    "NamespaceCreated": lambda catalog: catalog.namespace("x", "y"),
    "NamespaceConfigured": _configure,
    "NamespaceDropped": lambda catalog: catalog.namespaces.drop(AS_ROOT, "lake", ["empty"]),
    "TableCreated": lambda catalog: catalog.create("new"),
    "TableCommitted": lambda catalog: catalog.commit(name("t"), set_property("a", "1")),
    "TableDropped": lambda catalog: catalog.drop("t"),
    "TableRenamed": _rename,
    "TableRestored": _restore,
    "TableExpired": _purge_dropped,
    "TableProtected": _protect,
    "ViewCreated": lambda catalog: catalog.create_view("new"),
    "ViewCommitted": _replace_view,
    "ViewDropped": lambda catalog: catalog.drop("v", kind=VIEW),
    "ViewRenamed": _rename_view,
    "ViewUnprotected": _unprotect,
}


async def _with_entries(catalog: CatalogHarness) -> None:
    """One entry of each kind to change."""
    await catalog.set_undrop_window(60)
    await catalog.namespace("empty")
    for table in ("t", "dropped"):
        await catalog.create(table)
    await catalog.create_view("v")
    await catalog.drop("dropped")


@pytest.mark.parametrize("kind", CHANGES)
async def test_each_change_emits_one_event(catalog: CatalogHarness, kind: str) -> None:
    await _with_entries(catalog)
    before = await catalog.last_event()
    await CHANGES[kind](catalog)
    [(emitted, event)] = await catalog.events(before)
    assert emitted == kind
    assert (event.catalog, event.principal, event.request_id) == ("lake", "root", "R1")


async def test_expired_table_has_an_event_of_the_server(catalog: CatalogHarness) -> None:
    await _with_entries(catalog)
    before = await catalog.last_event()
    await _expire(catalog)
    [(emitted, event)] = await catalog.events(before)
    assert (emitted, event.name, event.principal, event.request_id) == ("TableExpired", "dropped", "root", "")


async def test_registered_table_has_its_own_event_kind(catalog: CatalogHarness) -> None:
    await catalog.set_undrop_window(60)
    await catalog.create("loose")
    await _register(catalog)
    kind, event = (await catalog.events())[-1]
    assert (kind, event.name, event.operation, event.generation) == ("TableRegistered", "loose", "register", 1)


async def test_commit_event_describes_the_change(catalog: CatalogHarness) -> None:
    made = await catalog.create("t")
    before = await catalog.last_event()
    updates = await appended(catalog, name("t"))
    await catalog.commit(name("t"), *updates)
    await catalog.commit(name("t"), set_property("a", "1"))
    entry = await catalog.entry(name("t"))
    [(_, data), (_, properties)] = await catalog.events(before)
    assert data == CatalogEvent(
        catalog="lake",
        namespace=("ns",),
        name="t",
        id=made.entry.id,
        uuid=made.entry.uuid,
        metadata_at=(await catalog.metadata(name("t"))).metadata_log[-1].metadata_file,
        generation=2,
        operation="append",
        snapshot=updates[0]["snapshot"]["snapshot-id"],
        principal="root",
        account=ROOT.principal.account,
        request_id="R1",
        source_ip="127.0.0.1",
    )
    assert (properties.operation, properties.generation, properties.metadata_at) == ("commit", 3, entry.metadata_at)


async def test_transaction_emits_events_in_order_of_tables(catalog: CatalogHarness) -> None:
    for table in ("a", "b"):
        await catalog.create(table)
    promised = await catalog.creation.stage(AS_ROOT, "lake", ("ns",), a_table("c"))
    before = await catalog.last_event()
    await catalog.commit_all(
        a_change(name("b"), set_property("x", "1")),
        a_change(name("c"), *staged(promised.document), requirements=[ASSERT_CREATE]),
        a_change(name("a"), set_property("x", "1")),
    )
    assert [(kind, event.name) for kind, event in await catalog.events(before)] == [
        ("TableCommitted", "b"),
        ("TableCreated", "c"),
        ("TableCommitted", "a"),
    ]


async def test_event_subject_is_the_dotted_name(catalog: CatalogHarness) -> None:
    await catalog.namespace("a", "b")
    await catalog.create("t")
    others = ("Object", "CatalogRole", "Grant")
    events = [entry.event for entry in await catalog.store.events()]
    subjects = [event.subject for event in events if not event.kind.startswith(others)]
    assert subjects == ["lake", "lake", "lake/ns", "lake/a.b", "lake/ns/t"]


async def test_file_and_commit_events_are_ordered(catalog: CatalogHarness) -> None:
    await catalog.create("t")
    before = await catalog.last_event()
    await asyncio.gather(*(catalog.commit(name("t"), set_property(str(number), "")) for number in range(4)))
    kinds = [entry.event.kind for entry in await catalog.store.events(before)]
    assert kinds == ["ObjectCreated:Put", "TableCommitted"] * 4
    assert [event.generation for _, event in await catalog.events(before)] == [2, 3, 4, 5]


async def test_rolled_back_change_emits_no_event(catalog: CatalogHarness) -> None:
    async with catalog.unchanged():

        async def work(tx: Transaction) -> None:
            await append_catalog_event(catalog.store.object_context.outbox, tx, "TableCommitted", ROOT, 1, "lake")
            raise AlreadyExists("no")

        with pytest.raises(AlreadyExists):
            await catalog.store.meta.transact(work)


levels: st.SearchStrategy[Levels] = st.lists(st.text(), max_size=3).map(tuple)


@given(
    st.builds(
        CatalogEvent,
        catalog=st.text(),
        namespace=levels,
        name=st.text(),
        generation=st.integers(0, 2**63 - 1),
        snapshot=st.integers(-(2**63), 2**63 - 1),
        facts=st.dictionaries(st.text(), st.text()),
        principal=st.text(),
    )
)
def test_event_round_trips_through_the_outbox(event: CatalogEvent) -> None:
    assert decode_event(msgspec.msgpack.encode(event)) == event
