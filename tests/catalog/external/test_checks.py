"""Internal operations never touch a federated catalog, whenever it was connected, nor change an external one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from uuid import uuid4

import msgspec
import pytest

from lakebed.catalog import rows
from lakebed.catalog.access.authorization import Action
from lakebed.catalog.access.data_access import DataAccess
from lakebed.catalog.external.federation import rows as connections
from lakebed.catalog.external.federation.model import ConnectionConfig, encode_config
from lakebed.catalog.idempotency import Mutation
from lakebed.catalog.model import CatalogKind, EntryKind
from lakebed.core.errors import InvalidInput, NoSuchTable, NotSupported
from lakebed.iceberg.commits import new_table, parse_create_view
from lakebed.iceberg.metadata import serialize_table
from lakebed.meta.seam import Transaction
from tests.catalog.harness import (
    ASSERT_CREATE,
    SCHEMA,
    VIEW_VERSION,
    CatalogHarness,
    FaultyStore,
    a_change,
    a_table,
    name,
    set_properties,
    staged,
    user_with,
    wire_catalog,
)
from tests.objects.stores import ROOT

FEDERATED = "not supported for federated catalogs"


async def connect(catalog: CatalogHarness, warehouse: str = "lake") -> None:
    """Federate the catalog, even if it has namespaces."""
    found = await catalog.catalogs.find_any(catalog.store.meta, warehouse)
    config = encode_config(ConnectionConfig(uri="https://catalog.example"))

    async def work(tx: Transaction) -> None:
        await tx.run(connections.PUT, found.id, warehouse, "1", config, None, 0, 0)

    await catalog.store.meta.transact(work)


UseCase = Callable[[CatalogHarness], Awaitable[object]]
CHANGES: dict[str, UseCase] = {
    "create a namespace": lambda c: c.namespace("more"),
    "drop a namespace": lambda c: c.namespaces.drop(Mutation(ROOT), "lake", ["empty"]),
    "create a table": lambda c: c.create("new"),
    "commit to a table": lambda c: c.commit(name(), set_properties(a="b")),
    "drop a table": lambda c: c.drop(),
    "rename a table": lambda c: c.renaming.rename(Mutation(ROOT), "lake", name(), name("u"), EntryKind.TABLE),
}
READS: dict[str, UseCase] = {
    "list namespaces": lambda c: c.namespaces.list(ROOT, "lake", (), after="", limit=10),
    "load a namespace": lambda c: c.namespaces.get(ROOT, "lake", ["ns"]),
    "list tables": lambda c: c.entries.list(ROOT, "lake", ["ns"], EntryKind.TABLE, after="", limit=10),
    "list dropped tables": lambda c: c.dropping.dropped(ROOT, "lake", after="", limit=10),
}


@pytest.mark.parametrize("what", CHANGES | READS)
async def test_internal_operations_are_rejected_in_a_federated_catalog(
    light_catalog: CatalogHarness, what: str
) -> None:
    await light_catalog.create()
    await light_catalog.namespace("empty")
    await connect(light_catalog)
    async with light_catalog.unchanged():
        with pytest.raises(NotSupported, match=FEDERATED):
            await (CHANGES | READS)[what](light_catalog)


@pytest.mark.parametrize("what", sorted(CHANGES.keys() - {"commit to a table"}))
async def test_catalog_connected_during_an_operation_stays_unchanged(light_catalog: CatalogHarness, what: str) -> None:
    """The transaction resolves the name again, after the lookup and the authorization before it.

    Commits move pointers by ids, of which there are none: a catalog with namespaces cannot be connected.
    """
    await light_catalog.create()
    await light_catalog.namespace("empty")
    meta = FaultyStore(light_catalog.store.meta)
    late = wire_catalog(light_catalog.store, meta)
    meta.meanwhile = partial(connect, light_catalog)
    namespaces = await light_catalog.store.meta.rows("SELECT * FROM namespaces ORDER BY id")
    entries = await light_catalog.store.meta.rows("SELECT * FROM entries ORDER BY id")
    with pytest.raises(NotSupported, match=FEDERATED):
        await CHANGES[what](late)
    assert await light_catalog.store.meta.rows("SELECT * FROM namespaces ORDER BY id") == namespaces
    assert await light_catalog.store.meta.rows("SELECT * FROM entries ORDER BY id") == entries


async def test_operations_on_the_catalog_itself_are_served(catalog: CatalogHarness) -> None:
    await connect(catalog)
    assert (await catalog.catalogs.get(ROOT, "lake")).is_federated
    assert (await catalog.catalogs.enter(ROOT, "lake")).is_federated
    listed = await catalog.catalogs.list(ROOT, after="", limit=10)
    assert [one.is_federated for one in listed.items] == [True]


async def test_other_catalogs_stay_internal(catalog: CatalogHarness) -> None:
    await catalog.create_table_bucket("pond")
    await connect(catalog, "pond")
    assert not (await catalog.catalogs.find(catalog.store.meta, "lake")).is_federated
    page = await catalog.namespaces.list(ROOT, "lake", (), after="", limit=10)
    assert [one.path for one in page.items] == ["ns"]


async def test_checks_and_restrictions_cost_no_statement(
    light_catalog: CatalogHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await light_catalog.create()
    statements: list[str] = []
    reader = light_catalog.store.meta
    read = reader.row

    async def counted(sql: str, *args: object) -> object:
        statements.append(sql)
        return await read(sql, *args)  # type: ignore[arg-type]  # as it was given

    monkeypatch.setattr(reader, "row", counted)
    ann = user_with("s3:*", "s3tables:*", principal="ann")
    found = await light_catalog.entries.get(ann, "lake", name(), EntryKind.TABLE, Action.GET_TABLE)
    seen = await light_catalog.entries.restrictions.of(ann.principal, found.catalog, ("ns",), found.entry)
    assert seen is None
    assert statements == [rows.FIND_ENTRY]


# -- external catalogs ----------------------------------------------------------------------------------------------

AS_ROOT = Mutation(ROOT)
VIEW = {"name": "v", "schema": SCHEMA, "view-version": VIEW_VERSION}


@pytest.fixture
async def mirror(catalog: CatalogHarness) -> CatalogHarness:
    """With an external catalog `mirror` and a catalog `source` to stage tables in."""
    await catalog.make("source", "s3://sea/source")
    await catalog.namespaces.create(AS_ROOT, "source", ("ns",), {})
    await catalog.make("mirror", "s3://sea/mirror", kind=CatalogKind.EXTERNAL)
    await catalog.namespaces.create(AS_ROOT, "mirror", ("ns",), {})
    return catalog


async def register_external(catalog: CatalogHarness, table: str = "t") -> None:
    """Register a table in the mirror, as a notification or a bridge does."""
    draft = await catalog.creation.stage(AS_ROOT, "source", ("ns",), a_table(table))
    document = draft.document.replace(draft.metadata.location.encode(), f"s3://sea/mirror/files/{table}".encode())
    key = f"mirror/files/{table}/metadata/1.metadata.json"
    await catalog.store.put("sea", key, document)
    await catalog.registration.register_table(AS_ROOT, "mirror", name(table), f"s3://sea/{key}", follows=True)


async def create(catalog: CatalogHarness) -> object:
    return await catalog.creation.create(AS_ROOT, "mirror", ("ns",), a_table("u"))


async def stage(catalog: CatalogHarness) -> object:
    return await catalog.creation.stage(AS_ROOT, "mirror", ("ns",), a_table("u"))


async def commit_staged(catalog: CatalogHarness) -> object:
    draft = new_table(a_table("u"), location="s3://lake/u", uuid=str(uuid4()), now_ms=0)
    change = a_change(name("u"), *staged(serialize_table(draft)), requirements=[ASSERT_CREATE])
    return await catalog.commits.commit(AS_ROOT, "mirror", change)


async def commit(catalog: CatalogHarness) -> object:
    return await catalog.commits.commit(AS_ROOT, "mirror", a_change(name("t"), set_properties(a="b")))


async def transact(catalog: CatalogHarness) -> None:
    await catalog.commits.commit_all(AS_ROOT, "mirror", [a_change(name("t"), set_properties(a="b"))])


async def register(catalog: CatalogHarness) -> object:
    return await catalog.registration.register_table(
        AS_ROOT, "mirror", name("u"), "s3://sea/mirror/files/t/metadata/1.metadata.json"
    )


async def overwrite(catalog: CatalogHarness) -> object:
    return await catalog.registration.register_table(
        AS_ROOT, "mirror", name("t"), "s3://sea/mirror/files/t/metadata/1.metadata.json", overwrite=True
    )


async def rename(catalog: CatalogHarness) -> None:
    await catalog.renaming.rename(AS_ROOT, "mirror", name("t"), name("u"), EntryKind.TABLE)


async def purge(catalog: CatalogHarness) -> object:
    return await catalog.dropping.drop(AS_ROOT, "mirror", name("t"), EntryKind.TABLE, purge=True)


async def create_view(catalog: CatalogHarness) -> object:
    return await catalog.views.create(AS_ROOT, "mirror", ("ns",), parse_create_view(msgspec.json.encode(VIEW)))


@pytest.mark.parametrize(
    "use_case",
    [create, stage, commit_staged, commit, transact, register, overwrite, rename, purge, create_view],
)
async def test_clients_cannot_move_pointers_in_an_external_catalog(mirror: CatalogHarness, use_case: UseCase) -> None:
    await register_external(mirror)
    async with mirror.unchanged():
        with pytest.raises(InvalidInput, match="external catalog"):
            await use_case(mirror)


async def test_names_in_an_external_catalog_are_managed_here(mirror: CatalogHarness) -> None:
    await register_external(mirror)
    found = await mirror.entries.find(mirror.store.meta, "mirror", name("t"))
    assert found.live is not None
    assert found.live.location == "s3://sea/mirror/files/t"
    await mirror.dropping.drop(AS_ROOT, "mirror", name("t"), EntryKind.TABLE)
    with pytest.raises(NoSuchTable):
        await mirror.dropping.drop(AS_ROOT, "mirror", name("t"), EntryKind.TABLE)
    assert "mirror/files/t/metadata/1.metadata.json" in await mirror.keys_in("sea")
    await mirror.namespaces.set_properties(AS_ROOT, "mirror", ("ns",), updates={"a": "b"}, removals=[])
    await mirror.namespaces.drop(AS_ROOT, "mirror", ("ns",))


async def test_access_to_files_in_an_external_catalog_is_read_only(mirror: CatalogHarness) -> None:
    await register_external(mirror)
    found = await mirror.entries.find(mirror.store.meta, "mirror", name("t"))
    assert found.live is not None
    data = await DataAccess(mirror.store.meta, mirror.authorizer, mirror.claims).of_entry(
        ROOT, found.catalog, ("ns",), found.live
    )
    assert (data.directories, data.writes) == (("mirror/files/t/",), False)
