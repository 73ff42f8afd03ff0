"""Catalogs whose tables are another catalog's: told of here by a bridge, and read-only to clients."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from uuid import uuid4

import msgspec
import pytest

from lakebed.catalog.access.data_access import DataAccess
from lakebed.catalog.idempotency import Mutation
from lakebed.catalog.model import CatalogKind, EntryKind
from lakebed.core.errors import InvalidInput, NoSuchTable
from lakebed.iceberg.commits import new_table, parse_create_view
from lakebed.iceberg.metadata import serialize_table
from tests.catalog.harness import (
    ASSERT_CREATE,
    SCHEMA,
    VIEW_VERSION,
    CatalogHarness,
    a_change,
    a_table,
    name,
    set_properties,
    staged,
)
from tests.objects.stores import ROOT

AS_ROOT = Mutation(ROOT)
VIEW = {"name": "v", "schema": SCHEMA, "view-version": VIEW_VERSION}


@pytest.fixture
async def mirror(catalog: CatalogHarness) -> CatalogHarness:
    """With an external catalog `mirror`, which was told of a table `ns.t` whose files are in `s3://sea/files/t`."""
    await catalog.make("source", "s3://sea/source")
    await catalog.namespaces.create(AS_ROOT, "source", ("ns",), {})
    await catalog.make("mirror", "s3://sea/mirror", kind=CatalogKind.EXTERNAL)
    await catalog.namespaces.create(AS_ROOT, "mirror", ("ns",), {})
    return catalog


async def told_of(catalog: CatalogHarness, table: str = "t") -> None:
    """Tell the mirror of a table, as who moves its pointer does."""
    draft = await catalog.creation.stage(AS_ROOT, "source", ("ns",), a_table(table))
    document = draft.document.replace(draft.metadata.location.encode(), f"s3://sea/mirror/files/{table}".encode())
    key = f"mirror/files/{table}/metadata/1.metadata.json"
    await catalog.store.put("sea", key, document)
    await catalog.registration.register_table(AS_ROOT, "mirror", name(table), f"s3://sea/{key}", follows=True)


Attempt = Callable[[CatalogHarness], Awaitable[object]]


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
    "attempt",
    [create, stage, commit_staged, commit, transact, register, overwrite, rename, purge, create_view],
)
async def test_clients_move_no_pointer(mirror: CatalogHarness, attempt: Attempt) -> None:
    await told_of(mirror)
    async with mirror.unchanged():
        with pytest.raises(InvalidInput, match="external catalog"):
            await attempt(mirror)


async def test_who_tells_of_a_table_moves_its_pointer_and_names_are_this_server_s(mirror: CatalogHarness) -> None:
    await told_of(mirror)
    found = await mirror.entries.find(mirror.store.meta, "mirror", name("t"))
    assert found.live is not None
    assert found.live.location == "s3://sea/mirror/files/t"
    await mirror.dropping.drop(AS_ROOT, "mirror", name("t"), EntryKind.TABLE)
    with pytest.raises(NoSuchTable):
        await mirror.dropping.drop(AS_ROOT, "mirror", name("t"), EntryKind.TABLE)
    assert "mirror/files/t/metadata/1.metadata.json" in await mirror.keys_in("sea")
    await mirror.namespaces.set_properties(AS_ROOT, "mirror", ("ns",), updates={"a": "b"}, removals=[])
    await mirror.namespaces.drop(AS_ROOT, "mirror", ("ns",))


async def test_files_are_handed_out_to_be_read(mirror: CatalogHarness) -> None:
    await told_of(mirror)
    found = await mirror.entries.find(mirror.store.meta, "mirror", name("t"))
    assert found.live is not None
    data = await DataAccess(mirror.store.meta, mirror.authorizer, mirror.claims).of_entry(
        ROOT, found.catalog, ("ns",), found.live
    )
    assert (data.directories, data.writes) == (("mirror/files/t/",), False)
