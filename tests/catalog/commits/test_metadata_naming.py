"""Versions of metadata files: the first is 00000, and each next file has the next version."""

from __future__ import annotations

import re
from uuid import uuid4

import pytest

from lakebed.catalog.commits.metadata_naming import file_version
from lakebed.catalog.idempotency import Mutation
from tests.catalog.appends import appended
from tests.catalog.harness import ASSERT_CREATE, CatalogHarness, a_table, name, set_properties, staged
from tests.objects.stores import ROOT

ID = "7b5c1a52-6e0f-4f6c-9a55-0d4f3f0f6a11"


@pytest.mark.parametrize(
    ("file", "version"),
    [
        (f"00000-{ID}.metadata.json", 0),
        (f"00041-{ID}.gz.metadata.json", 41),
        (f"123456-{ID}.metadata.json", 123456),
        ("v7.metadata.json", 7),
        ("v7.gz.metadata.json", 7),
        ("metadata.json", -1),
        ("version-hint.text", -1),
        (f"{ID.replace('-', '')}.metadata.json", -1),
        (f"{'9' * 40}-{ID}.metadata.json", -1),
        ("١٢-a.metadata.json", -1),
    ],
)
def test_version_is_parsed_from_the_file_name(file: str, version: int) -> None:
    assert file_version(f"s3://lake/00009-t/metadata/{file}") == version


def version_of(metadata_at: str) -> str:
    found = re.fullmatch(r".*/(\d{5,})-[0-9a-f-]{36}\.metadata\.json", metadata_at)
    assert found is not None, metadata_at
    return found[1]


async def test_created_table_starts_at_version_zero(catalog: CatalogHarness) -> None:
    assert version_of((await catalog.create()).entry.metadata_at) == "00000"
    committed = await catalog.commit(name(), *await appended(catalog, name()))
    assert version_of(committed.entry.metadata_at) == "00001"
    replaced = await catalog.commit(name(), set_properties(a="1"))
    assert version_of(replaced.entry.metadata_at) == "00002"


async def test_staged_table_starts_at_version_zero(catalog: CatalogHarness) -> None:
    """As by `CREATE TABLE AS SELECT`: the first file has a snapshot already."""
    promised = await catalog.creation.stage(Mutation(ROOT), "lake", ("ns",), a_table())
    made = await catalog.commit(name(), *staged(promised.document), requirements=[ASSERT_CREATE])
    assert version_of(made.entry.metadata_at) == "00000"


async def test_table_with_first_version_one_continues_its_numbers(catalog: CatalogHarness) -> None:
    """Tables of earlier server versions began at 00001."""
    made = await catalog.create("old", location="s3://lake/old")
    where = f"s3://lake/old/metadata/00001-{uuid4()}.metadata.json"
    await catalog.store.put("lake", where.removeprefix("s3://lake/"), await catalog.files.read(made.entry.metadata_at))
    await catalog.drop("old")
    registered = await catalog.registration.register_table(Mutation(ROOT), "lake", name("old"), where)
    assert registered.entry.metadata_at == where
    committed = await catalog.commit(name("old"), set_properties(a="1"))
    assert version_of(committed.entry.metadata_at) == "00002"


async def test_file_without_a_version_is_followed_by_zero(catalog: CatalogHarness) -> None:
    made = await catalog.create("t", location="s3://lake/t")
    document = await catalog.files.read(made.entry.metadata_at)
    await catalog.store.put("lake", "t/metadata/current.metadata.json", document)
    await catalog.drop("t")
    where = "s3://lake/t/metadata/current.metadata.json"
    await catalog.registration.register_table(Mutation(ROOT), "lake", name(), where)
    committed = await catalog.commit(name(), set_properties(a="1"))
    assert version_of(committed.entry.metadata_at) == "00000"


async def test_view_starts_at_version_zero(catalog: CatalogHarness) -> None:
    assert version_of((await catalog.create_view()).entry.metadata_at) == "00000"
