"""The cache of manifests and manifest lists: valid while a file is unchanged, and bounded."""

from __future__ import annotations

import pytest

from lakebed.catalog.tables.files import FileStat
from lakebed.catalog.validation.manifest_cache import ManifestCache
from lakebed.catalog.validation.manifest_entries import ManifestContents
from lakebed.iceberg.manifests import ManifestFile, ManifestList
from tests.iceberg.manifests.avro_files import a_manifest

FACTS = FileStat(100, "etag", 1)
LINE = a_manifest()


def a_list(lines: int) -> ManifestList:
    return ManifestList([LINE] * lines, b"", b"")


class TestLists:
    def test_list_is_cached_by_length_and_etag(self) -> None:
        memory, found = ManifestCache(), a_list(3)
        memory.keep_list("l", FACTS, found)
        assert memory.manifest_list("l", FACTS._replace(modified_ms=2)) is found
        assert memory.manifest_list("l", FACTS._replace(etag="other")) is None
        assert memory.manifest_list("l", FACTS._replace(size=101)) is None
        assert memory.manifest_list("m", FACTS) is None

    def test_overwritten_list_still_serves_as_a_parent(self) -> None:
        memory, found = ManifestCache(), a_list(3)
        memory.keep_list("l", FACTS, found)
        assert memory.any_list("l") is found
        assert memory.any_list("m") is None

    def test_least_recently_used_entry_is_evicted_first(self) -> None:
        memory = ManifestCache(list_lines=100)
        for name in "abcdefghij":
            memory.keep_list(name, FACTS, a_list(9))
        assert memory.manifest_list("a", FACTS) is not None
        memory.keep_list("k", FACTS, a_list(9))
        assert memory.manifest_list("a", FACTS) is not None
        assert memory.manifest_list("b", FACTS) is None
        assert memory.manifest_list("k", FACTS) is not None

    def test_entry_cached_again_counts_once(self) -> None:
        memory = ManifestCache(list_lines=100)
        memory.keep_list("a", FACTS, a_list(9))
        for _ in range(100):
            memory.keep_list("b", FACTS, a_list(9))
        assert memory.manifest_list("a", FACTS) is not None

    def test_too_large_list_is_not_cached_and_evicts_its_predecessor(self) -> None:
        memory = ManifestCache(list_lines=100)
        memory.keep_list("a", FACTS, a_list(1))
        memory.keep_list("a", FACTS._replace(etag="long"), a_list(10))
        assert memory.any_list("a") is None


class TestManifests:
    def test_manifest_is_cached_by_length_and_etag(self) -> None:
        memory, found = ManifestCache(), ManifestContents(entries=1)
        memory.keep_survey("m", FACTS, LINE, found)
        assert memory.survey("m", FACTS, LINE) is found
        assert memory.survey("m", FACTS._replace(etag="other"), LINE) is None
        assert memory.survey("m", FACTS._replace(size=101), LINE) is None

    @pytest.mark.parametrize(
        "other",
        [
            LINE._replace(added_snapshot_id=77),
            LINE._replace(sequence_number=77),
            LINE._replace(first_row_id=77),
            LINE._replace(partition_spec_id=77),
        ],
    )
    def test_manifest_is_cached_by_inherited_values(self, other: ManifestFile) -> None:
        memory = ManifestCache()
        memory.keep_survey("m", FACTS, LINE, ManifestContents(entries=1))
        assert memory.survey("m", FACTS, other) is None

    def test_entries_count_towards_the_capacity(self) -> None:
        memory = ManifestCache(manifest_entries=100)
        for name in "abcdefghijk":
            memory.keep_survey(name, FACTS, LINE, ManifestContents(entries=9))
        assert memory.survey("a", FACTS, LINE) is None
        assert memory.survey("k", FACTS, LINE) is not None
