"""A catalog that another is behind has nothing of this server's own, whenever it was connected."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from lakebed.catalog import rows
from lakebed.catalog.access.authorization import Action
from lakebed.catalog.external.federation import rows as connections
from lakebed.catalog.external.federation.model import ConnectionConfig, encode_config
from lakebed.catalog.idempotency import Mutation
from lakebed.catalog.model import EntryKind
from lakebed.core.errors import NotSupported
from lakebed.meta.seam import Transaction
from tests.catalog.harness import CatalogHarness, Eventful, may, name, set_properties, wire_catalog
from tests.objects.stores import ROOT

BACKED = "another catalog is behind this one"


async def connect(catalog: CatalogHarness, warehouse: str = "lake") -> None:
    """As the connection's own transaction does, whatever the catalog holds."""
    found = await catalog.catalogs.find_any(catalog.store.meta, warehouse)
    config = encode_config(ConnectionConfig(uri="https://catalog.example"))

    async def work(tx: Transaction) -> None:
        await tx.run(connections.PUT, found.id, warehouse, "1", config, None, 0, 0)

    await catalog.store.meta.transact(work)


UseCase = Callable[[CatalogHarness], Awaitable[object]]
CHANGES: dict[str, UseCase] = {
    "a namespace is made": lambda c: c.namespace("more"),
    "a namespace is dropped": lambda c: c.namespaces.drop(Mutation(ROOT), "lake", ["empty"]),
    "a table is made": lambda c: c.create("new"),
    "a table is committed to": lambda c: c.commit(name(), set_properties(a="b")),
    "a table is dropped": lambda c: c.drop(),
    "a table is renamed": lambda c: c.renaming.rename(Mutation(ROOT), "lake", name(), name("u"), EntryKind.TABLE),
}
READS: dict[str, UseCase] = {
    "namespaces are listed": lambda c: c.namespaces.list(ROOT, "lake", (), after="", limit=10),
    "a namespace is shown": lambda c: c.namespaces.get(ROOT, "lake", ["ns"]),
    "tables are listed": lambda c: c.entries.list(ROOT, "lake", ["ns"], EntryKind.TABLE, after="", limit=10),
    "dropped tables are listed": lambda c: c.dropping.dropped(ROOT, "lake", after="", limit=10),
}


@pytest.mark.parametrize("what", CHANGES | READS)
async def test_nothing_is_done_to_what_is_in_it(light_catalog: CatalogHarness, what: str) -> None:
    await light_catalog.create()
    await light_catalog.namespace("empty")
    await connect(light_catalog)
    async with light_catalog.unchanged():
        with pytest.raises(NotSupported, match=BACKED):
            await (CHANGES | READS)[what](light_catalog)


@pytest.mark.parametrize("what", sorted(CHANGES.keys() - {"a table is committed to"}))
async def test_what_is_connected_in_the_midst_of_a_change_is_not_changed(
    light_catalog: CatalogHarness, what: str
) -> None:
    """The name was looked at, and the gate was asked: the transaction looks again.

    Commits move pointers by ids. There are none to move: a catalog that has namespaces is not connected.
    """
    await light_catalog.create()
    await light_catalog.namespace("empty")
    meta = Eventful(light_catalog.store.meta)
    late = wire_catalog(light_catalog.store, meta)
    meta.meanwhile = partial(connect, light_catalog)
    namespaces = await light_catalog.store.meta.rows("SELECT * FROM namespaces ORDER BY id")
    entries = await light_catalog.store.meta.rows("SELECT * FROM entries ORDER BY id")
    with pytest.raises(NotSupported, match=BACKED):
        await CHANGES[what](late)
    assert await light_catalog.store.meta.rows("SELECT * FROM namespaces ORDER BY id") == namespaces
    assert await light_catalog.store.meta.rows("SELECT * FROM entries ORDER BY id") == entries


async def test_the_catalog_itself_is_there_all_the_same(catalog: CatalogHarness) -> None:
    await connect(catalog)
    assert (await catalog.catalogs.get(ROOT, "lake")).is_backed
    assert (await catalog.catalogs.enter(ROOT, "lake")).is_backed
    listed = await catalog.catalogs.list(ROOT, after="", limit=10)
    assert [one.is_backed for one in listed.catalogs] == [True]


async def test_others_are_not_touched_by_it(catalog: CatalogHarness) -> None:
    await catalog.warehouse("pond")
    await connect(catalog, "pond")
    assert not (await catalog.catalogs.find(catalog.store.meta, "lake")).is_backed
    page = await catalog.namespaces.list(ROOT, "lake", (), after="", limit=10)
    assert [one.path for one in page.namespaces] == ["ns"]


async def test_whether_it_is_costs_no_statement(light_catalog: CatalogHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does whether policies restrict somebody, for whoever may be restricted."""
    await light_catalog.create()
    statements: list[str] = []
    reader = light_catalog.store.meta
    read = reader.row

    async def counted(sql: str, *args: object) -> object:
        statements.append(sql)
        return await read(sql, *args)  # type: ignore[arg-type]  # as it was given

    monkeypatch.setattr(reader, "row", counted)
    ann = may("s3:*", "s3tables:*", who="ann")
    found = await light_catalog.entries.get(ann, "lake", name(), EntryKind.TABLE, Action.GET_TABLE)
    assert found.live is not None
    seen = await light_catalog.entries.restrictions.of(ann.principal, found.catalog, ("ns",), found.live)
    assert seen is None
    assert statements == [rows.FIND_ENTRY]
