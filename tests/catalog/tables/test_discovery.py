from __future__ import annotations

from collections.abc import Sequence

import pytest

from lakebed.catalog.tables.discovery import FoundTable, find_tables
from lakebed.catalog.tables.files import FileAddress
from tests.catalog.validation.lake import MemoryFiles

ROOT = FileAddress("lake", "wh/")
UUID = "9c12d441-03fe-4693-9a96-a0705ddf69c1"


class CountedFiles(MemoryFiles):
    """Counts listings and listed files."""

    listings = 0


def lake(*keys: str) -> CountedFiles:
    files = CountedFiles()
    for key in keys:
        files.put(f"s3://lake/{key}", b"1" if key.endswith("version-hint.text") else 1)
    return files


def names(tables: Sequence[FoundTable]) -> list[tuple[str, str]]:
    return [(table.location.partition("wh/")[2], table.metadata_at.rpartition("/")[2]) for table in tables]


async def test_newest_metadata_file_of_each_table_is_found() -> None:
    files = lake(
        f"wh/ns.db/a/metadata/00000-{UUID}.metadata.json",
        f"wh/ns.db/a/metadata/00010-{UUID}.metadata.json",
        f"wh/ns.db/a/metadata/00009-{UUID}.metadata.json",
        "wh/ns.db/a/metadata/snap-1.avro",
        "wh/ns.db/a/data/x.parquet",
        "wh/ns.db/b/metadata/v1.metadata.json",
        "wh/ns.db/b/metadata/v2.metadata.json.gz",
        "wh/other/file.txt",
        "elsewhere/t/metadata/v1.metadata.json",
    )
    found = await find_tables(files, ROOT, "", 100)
    assert names(found.tables) == [("ns.db/a", f"00010-{UUID}.metadata.json"), ("ns.db/b", "v2.metadata.json.gz")]
    assert found.after is None


async def test_version_hint_names_the_current_file() -> None:
    files = lake("wh/t/metadata/v1.metadata.json", "wh/t/metadata/version-hint.text")
    found = await find_tables(files, ROOT, "", 100)
    assert names(found.tables) == [("t", "v1.metadata.json")]


async def test_ambiguous_table_is_reported_with_the_reason() -> None:
    files = lake(f"wh/t/metadata/00001-{UUID}.metadata.json", "wh/t/metadata/00001-other.metadata.json")
    ((table),) = (await find_tables(files, ROOT, "", 100)).tables
    assert table.metadata_at == ""
    assert "ambiguous" in table.problem


async def test_data_files_are_skipped() -> None:
    files = lake(
        *(f"wh/t/data/{number:05d}.parquet" for number in range(1000)),
        "wh/t/metadata/v1.metadata.json",
        *(f"wh/u/data/part={number}/x.parquet" for number in range(1000)),
        "wh/u/metadata/v1.metadata.json",
    )
    listed = 0
    plain = files.list

    async def counting(directory: FileAddress, after: str = "") -> object:
        nonlocal listed
        async for file in plain(directory, after):
            listed += 1
            yield file

    files.list = counting  # type: ignore[assignment, method-assign]  # counts what is listed
    found = await find_tables(files, ROOT, "", 100)
    assert names(found.tables) == [("t", "v1.metadata.json"), ("u", "v1.metadata.json")]
    assert listed < 10


async def test_namespace_named_data_is_not_skipped() -> None:
    files = lake(
        "wh/data/t/data/x.parquet", "wh/data/t/metadata/v1.metadata.json", "wh/data/u/metadata/v1.metadata.json"
    )
    assert names((await find_tables(files, ROOT, "", 100)).tables) == [
        ("data/t", "v1.metadata.json"),
        ("data/u", "v1.metadata.json"),
    ]


@pytest.mark.parametrize("limit", [1, 2, 3, 7])
async def test_pages_continue_between_tables(limit: int) -> None:
    keys = [f"wh/t{number:02d}/metadata/v{version}.metadata.json" for number in range(7) for version in (1, 2)]
    files, found, after = lake(*keys, *(f"wh/t{number:02d}/data/x" for number in range(7))), [], ""
    while True:
        page = await find_tables(files, ROOT, after, limit)
        assert len(page.tables) <= limit
        found += page.tables
        if page.after is None:
            break
        after = page.after
    assert names(found) == [(f"t{number:02d}", "v2.metadata.json") for number in range(7)]
