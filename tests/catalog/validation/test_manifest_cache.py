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
    def test_a_list_is_known_by_its_length_and_tag(self) -> None:
        memory, found = ManifestCache(), a_list(3)
        memory.keep_list("l", FACTS, found)
        assert memory.manifest_list("l", FACTS._replace(modified_ms=2)) is found
        assert memory.manifest_list("l", FACTS._replace(etag="other")) is None
        assert memory.manifest_list("l", FACTS._replace(size=101)) is None
        assert memory.manifest_list("m", FACTS) is None

    def test_a_list_is_there_to_read_others_beside_whatever_became_of_it(self) -> None:
        memory, found = ManifestCache(), a_list(3)
        memory.keep_list("l", FACTS, found)
        assert memory.any_list("l") is found
        assert memory.any_list("m") is None

    def test_the_least_recently_used_leave_first(self) -> None:
        memory = ManifestCache(list_lines=100)
        for name in "abcdefghij":
            memory.keep_list(name, FACTS, a_list(9))
        assert memory.manifest_list("a", FACTS) is not None
        memory.keep_list("k", FACTS, a_list(9))
        assert memory.manifest_list("a", FACTS) is not None
        assert memory.manifest_list("b", FACTS) is None
        assert memory.manifest_list("k", FACTS) is not None

    def test_what_is_kept_again_counts_once(self) -> None:
        memory = ManifestCache(list_lines=100)
        memory.keep_list("a", FACTS, a_list(9))
        for _ in range(100):
            memory.keep_list("b", FACTS, a_list(9))
        assert memory.manifest_list("a", FACTS) is not None

    def test_a_list_that_would_take_all_room_is_not_kept_nor_what_it_replaces(self) -> None:
        memory = ManifestCache(list_lines=100)
        memory.keep_list("a", FACTS, a_list(1))
        memory.keep_list("a", FACTS._replace(etag="long"), a_list(10))
        assert memory.any_list("a") is None


class TestManifests:
    def test_a_manifest_is_known_by_its_length_and_tag(self) -> None:
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
    def test_a_manifest_under_a_line_that_its_entries_inherit_otherwise_from_is_another(
        self, other: ManifestFile
    ) -> None:
        memory = ManifestCache()
        memory.keep_survey("m", FACTS, LINE, ManifestContents(entries=1))
        assert memory.survey("m", FACTS, other) is None

    def test_entries_take_room(self) -> None:
        memory = ManifestCache(manifest_entries=100)
        for name in "abcdefghijk":
            memory.keep_survey(name, FACTS, LINE, ManifestContents(entries=9))
        assert memory.survey("a", FACTS, LINE) is None
        assert memory.survey("k", FACTS, LINE) is not None
