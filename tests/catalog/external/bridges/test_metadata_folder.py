from __future__ import annotations

import gzip
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.catalog.external.bridges.metadata_folder import MetadataFolder, current_name
from lakebed.core.errors import InvalidInput, NotFound
from tests.catalog.harness import CatalogHarness, name, set_properties

versions = st.integers(0, 500)


@given(st.sets(versions, min_size=1), st.data())
def test_last_version_without_a_gap_after_the_hint_is_current(found: set[int], data: st.DataObject) -> None:
    hint = data.draw(st.sampled_from(sorted(found)))
    wanted = hint
    while wanted + 1 in found:
        wanted += 1
    assert current_name((f"v{one}.metadata.json" for one in found), hint) == f"v{wanted}.metadata.json"


@given(st.sets(versions, min_size=1))
def test_without_a_hint_the_highest_number_is_current(found: set[int]) -> None:
    assert current_name((f"v{one}.metadata.json" for one in found), None) == f"v{max(found)}.metadata.json"
    numbered = [f"{one:05d}-some-uuid.metadata.json" for one in found]
    assert current_name(numbered, None) == f"{max(found):05d}-some-uuid.metadata.json"


@given(st.lists(st.text(max_size=30)), st.none() | versions)
def test_arbitrary_names_never_crash(names: list[str], hint: int | None) -> None:
    with suppress(NotFound, InvalidInput):
        assert current_name(names, hint) in names


def test_compressed_files_count_too() -> None:
    assert current_name(["v1.metadata.json", "v2.gz.metadata.json"], None) == "v2.gz.metadata.json"
    assert current_name(["00002-a.metadata.json.gz", "00001-b.metadata.json"], None) == "00002-a.metadata.json.gz"


def test_ambiguous_folders_are_rejected() -> None:
    with pytest.raises(InvalidInput, match="several metadata files"):
        current_name(["00002-a.metadata.json", "00002-b.metadata.json", "00001-c.metadata.json"], None)
    with pytest.raises(InvalidInput, match="two naming schemes"):
        current_name(["00002-a.metadata.json", "v3.metadata.json"], None)
    with pytest.raises(NotFound, match="version=4"):
        current_name(["v3.metadata.json"], 4)
    with pytest.raises(NotFound, match="the folder contains no metadata file"):
        current_name(["snap-1.avro", "v1.metadata.json.tmp", "x/v1.metadata.json"], None)


async def hadoop_table(catalog: CatalogHarness, *, packed: bool = False) -> None:
    """A table in a folder `warehouse/t` with versions 1 and 2, as a writer without a catalog leaves it."""
    await catalog.create("src", location="s3://lake/warehouse/t")
    first = (await catalog.entry(name("src"))).metadata_at
    second = (await catalog.commit(name("src"), set_properties(a="1"))).entry.metadata_at
    await catalog.drop("src")
    for number, location in ((1, first), (2, second)):
        document = await catalog.files.read(location)
        ending = ".gz.metadata.json" if packed else ".metadata.json"
        body = gzip.compress(document) if packed else document
        await catalog.store.put("lake", f"warehouse/t/hadoop/v{number}{ending}", body)


@pytest.mark.parametrize("packed", [False, True])
async def test_current_file_of_a_folder_is_found(light_catalog: CatalogHarness, packed: bool) -> None:
    await hadoop_table(light_catalog, packed=packed)
    folder = MetadataFolder(light_catalog.files, "s3://lake/warehouse/t/hadoop/")
    ending = ".gz.metadata.json" if packed else ".metadata.json"
    found = await folder.current()
    assert found.metadata_at == f"s3://lake/warehouse/t/hadoop/v2{ending}"
    assert found.uuid is not None
    assert len(found.log) == 1
    await light_catalog.store.put("lake", "warehouse/t/hadoop/version-hint.text", b"1\n")
    assert (await folder.current()).metadata_at == found.metadata_at
    await light_catalog.store.put("lake", f"warehouse/t/hadoop/v4{ending}", b"{}")
    assert (await folder.current()).metadata_at == found.metadata_at


async def test_incomplete_folders_are_rejected(light_catalog: CatalogHarness) -> None:
    catalog = light_catalog

    async def current(folder: str) -> None:
        await MetadataFolder(catalog.files, folder).current()

    with pytest.raises(NotFound, match="no such bucket"):
        await current("s3://nowhere/f")
    with pytest.raises(NotFound):
        await current("s3://lake/empty")
    await hadoop_table(catalog)
    for hint in (b"two", b"", "²".encode(), b"9"):
        await catalog.store.put("lake", "warehouse/t/hadoop/version-hint.text", hint)
        with pytest.raises((InvalidInput, NotFound)):
            await current("s3://lake/warehouse/t/hadoop")
    await catalog.store.put("lake", "warehouse/t/hadoop/version-hint.text", b"2" * 100)
    with pytest.raises(InvalidInput):
        await current("s3://lake/warehouse/t/hadoop")


async def test_large_folder_is_listed_in_pages(light_catalog: CatalogHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    await hadoop_table(light_catalog)
    monkeypatch.setattr("lakebed.catalog.tables.served_files._PAGE_KEYS", 2)
    for number in range(5):
        await light_catalog.store.put("lake", f"warehouse/t/hadoop/snap-{number}.avro", b"")
    folder = MetadataFolder(light_catalog.files, "s3://lake/warehouse/t/hadoop")
    assert (await folder.current()).metadata_at.endswith("v2.metadata.json")
    monkeypatch.setattr("lakebed.catalog.external.bridges.metadata_folder._MAX_KEYS", 3)
    with pytest.raises(InvalidInput, match="too many files"):
        await folder.current()
