"""Rules of commit validation, on real manifests."""

from __future__ import annotations

from typing import Any

import pytest

from lakebed.catalog.validation import CommitLimits, CommitReport, CommitValidator, SnapshotChanges, ValidationLevel
from lakebed.core.errors import CommitConflict, Corrupted, InvalidInput, LakebedError, NotSupported, TooLarge
from lakebed.iceberg.manifests import DataFile, EntryStatus, FileContent
from lakebed.iceberg.metadata import TableMetadata
from tests.iceberg.manifests.avro_files import a_file, an_entry, optional

from .lake import COMMITTED_MS, LOCATION, Lake, deleted, existing


async def check(
    lake: Lake, base: TableMetadata | None, level: ValidationLevel = ValidationLevel.STANDARD, **options: Any
) -> CommitReport:
    limits = options.pop("limits", CommitLimits())
    return await CommitValidator(level=level, limits=limits).check(lake.files, base, lake.table, **options)


async def refused(
    lake: Lake,
    base: TableMetadata | None,
    reason: str,
    error: type[LakebedError] = InvalidInput,
    level: ValidationLevel = ValidationLevel.STANDARD,
    **options: Any,
) -> None:
    with pytest.raises(error, match=reason):
        await check(lake, base, level, **options)


@pytest.fixture(params=[1, 2, 3])
def lake(request: pytest.FixtureRequest) -> Lake:
    return Lake(request.param)


@pytest.fixture(params=list(ValidationLevel))
def level(request: pytest.FixtureRequest) -> ValidationLevel:
    level: ValidationLevel = request.param
    return level


class TestGoodCommits:
    async def test_first_append_is_valid(self, lake: Lake, level: ValidationLevel) -> None:
        base = lake.append(lake.data_file(), lake.data_file())
        report = await check(lake, base, level)
        assert report.snapshots == (SnapshotChanges(100, "append", manifests_added=1, data_files_added=2),)
        assert set(report.observed) == set(lake.files.facts)

    async def test_created_table_with_data(self, lake: Lake, level: ValidationLevel) -> None:
        lake.append(lake.data_file())
        assert (await check(lake, None, level)).snapshots[0].data_files_added == 1

    async def test_later_append_is_valid(self, lake: Lake, level: ValidationLevel) -> None:
        lake.append(lake.data_file())
        base = lake.append(lake.data_file())
        report = await check(lake, base, level)
        assert report.snapshots == (
            SnapshotChanges(101, "append", manifests_inherited=1, manifests_added=1, data_files_added=1),
        )

    async def test_several_snapshots_in_one_commit_are_valid(self, lake: Lake, level: ValidationLevel) -> None:
        base = lake.append(lake.data_file())
        lake.append(lake.data_file())
        lake.append(lake.data_file())
        assert [one.snapshot_id for one in (await check(lake, base, level)).snapshots] == [100, 101, 102]

    async def test_merging_append_is_valid(self, lake: Lake, level: ValidationLevel) -> None:
        old, new = lake.data_file(), lake.data_file()
        lake.append(old)
        row_id = 0 if lake.version > 2 else None
        number = 1 if lake.version > 1 else 0
        kept = existing(old._replace(first_row_id=row_id), number)
        base = lake.snapshot([lake.manifest([an_entry(new), kept])])
        report = await check(lake, base, level)
        assert report.snapshots == (
            SnapshotChanges(101, "append", manifests_added=1, manifests_removed=1, data_files_added=1),
        )

    async def test_manifest_rewrite_is_valid(self, level: ValidationLevel) -> None:
        lake = Lake()
        one, two = lake.data_file(), lake.data_file()
        lake.append(one)
        lake.append(two)
        base = lake.snapshot([lake.manifest([existing(one, 1), existing(two, 2, 101)])], "replace")
        report = await check(lake, base, level)
        assert report.snapshots[0].manifests_removed == 2
        assert report.snapshots[0].data_files_removed == 0

    async def test_compaction_is_valid(self, level: ValidationLevel) -> None:
        lake = Lake()
        one, two = lake.data_file(), lake.data_file()
        lake.append(one, two)
        big = lake.data_file()
        # The new file's rows keep the row ids of the replaced ones.
        own = [lake.manifest([an_entry(big, sequence_number=1)]), lake.manifest([deleted(one, 101), deleted(two, 101)])]
        base = lake.snapshot(own, "replace")
        report = await check(lake, base, level)
        assert (report.snapshots[0].data_files_added, report.snapshots[0].data_files_removed) == (1, 2)

    async def test_overwrite_of_an_empty_table_is_valid(self, lake: Lake, level: ValidationLevel) -> None:
        base = lake.snapshot([lake.manifest([an_entry(lake.data_file())])], "overwrite")
        await check(lake, base, level)

    @pytest.mark.parametrize("operation", ["overwrite", "delete", "replace", "append"])
    async def test_snapshot_without_changes_is_valid(self, lake: Lake, level: ValidationLevel, operation: str) -> None:
        lake.append(lake.data_file())
        base = lake.snapshot(lake.lines, operation)
        await check(lake, base, level)

    async def test_files_of_deleted_entries_need_not_exist(self, level: ValidationLevel) -> None:
        lake = Lake()
        one, two = lake.data_file(), lake.data_file()
        lake.append(one, two)
        base = lake.snapshot([lake.manifest([existing(one), deleted(two, 101)])], "delete")
        lake.files.remove(two.file_path)
        await check(lake, base, level)
        # … nor later, when its manifest is carried along.
        later = lake.append(lake.data_file())
        await check(lake, later, level)

    async def test_delete_can_drop_a_manifest_without_entries(self) -> None:
        lake = Lake()
        lake.append(lake.data_file())
        base = lake.snapshot([], "delete")
        assert (await check(lake, base)).snapshots[0].data_files_removed == 1

    async def test_delete_files_are_valid(self, level: ValidationLevel) -> None:
        lake = Lake()
        lake.append(lake.data_file())
        positions = lake.data_file(content=FileContent.POSITION_DELETES.value)
        equality = lake.data_file(content=FileContent.EQUALITY_DELETES.value, equality_ids=(1,))
        own = lake.manifest([an_entry(positions), an_entry(equality)], content=1)
        base = lake.snapshot([own, *lake.lines], "delete")
        assert (await check(lake, base, level)).snapshots[0].delete_files_added == 2

    async def test_partitioned_files_are_valid(self, level: ValidationLevel) -> None:
        lake = Lake()
        field = {"name": "region", "transform": "identity", "source-id": 2, "field-id": 1000}
        lake.document["partition-specs"].append({"spec-id": 1, "fields": [field]})
        lake.document["last-partition-id"] = 1000
        file = lake.data_file("region=eu/1.parquet", partition=("eu",))
        own = lake.manifest([an_entry(file)], partition=[("region", optional("string"), 1000)], partition_spec_id=1)
        base = lake.snapshot([own])
        await check(lake, base, level)

    async def test_replaced_table_starts_without_a_parent(self, level: ValidationLevel) -> None:
        lake = Lake()
        lake.append(lake.data_file())
        base = lake.snapshot([lake.manifest([an_entry(lake.data_file())])], "overwrite", parent_snapshot_id=None)
        await check(lake, base, level)

    async def test_commit_without_snapshots_is_valid(self, lake: Lake, level: ValidationLevel) -> None:
        base = lake.table
        lake.document["properties"] = {"owner": "me"}
        assert await check(lake, base, level) == CommitReport()

    async def test_encrypted_lists_are_not_read(self) -> None:
        lake = Lake(3)
        base = lake.append(lake.data_file())
        lake.document["snapshots"][-1]["key-id"] = "k1"
        lake.files.put(f"{LOCATION}/metadata/snap-100.avro", b"AGS1....")
        assert (await check(lake, base)).snapshots == (SnapshotChanges(100, "append", is_opaque=True),)
        await refused(lake, base, "encrypted", NotSupported, ValidationLevel.STRICT)

    async def test_encrypted_manifests_are_not_read(self) -> None:
        lake = Lake(3)
        own = lake.manifest([an_entry(lake.data_file())], key_metadata=b"key", length=9)
        lake.files.put(own.path, b"AGS1....")
        base = lake.snapshot([own])
        assert (await check(lake, base)).snapshots[0].is_opaque
        await refused(lake, base, "encrypted", NotSupported, ValidationLevel.STRICT)
        # … nor later, when they are dropped or kept.
        dropping = lake.snapshot([], "delete")
        assert (await check(lake, dropping)).snapshots[0].is_opaque
        lake.snapshot([own._replace(path=f"{LOCATION}/metadata/m8.avro", added_snapshot_id=102, sequence_number=3)])
        lake.files.put(f"{LOCATION}/metadata/m8.avro", b"AGS1....")
        keeping = lake.append(lake.data_file())
        await check(lake, keeping)
        await refused(lake, keeping, "encrypted", NotSupported, ValidationLevel.STRICT)

    async def test_falsely_declared_encrypted_files_are_read(self) -> None:
        lake = Lake(3)
        own = lake.manifest([an_entry(lake.data_file("s3://lake/u/a.parquet"))], key_metadata=b"key")
        base = lake.snapshot([own], key_id="k1")
        await refused(lake, base, "file is outside")

    async def test_snapshots_after_an_encrypted_list_are_read(self, level: ValidationLevel) -> None:
        """An encrypted snapshot does not hide entries of later snapshots."""
        lake = Lake(3)
        lake.append(lake.data_file("s3://lake/u/a.parquet"))
        lake.files.put(f"{LOCATION}/metadata/snap-100.avro", b"AGS1....")
        base = lake.append(lake.data_file())
        await refused(lake, base, "file is outside", level=level)

    async def test_snapshots_can_be_listed_in_any_order(self, lake: Lake, level: ValidationLevel) -> None:
        base = lake.append(lake.data_file())
        for _ in range(3):
            lake.append(lake.data_file())
        lake.document["snapshots"].reverse()
        report = await check(lake, base, level)
        assert [one.snapshot_id for one in report.snapshots] == [100, 101, 102, 103]

    async def test_snapshot_cycle_is_rejected(self, lake: Lake) -> None:
        base = lake.append(lake.data_file())
        lake.append(lake.data_file())
        lake.document["snapshots"][0]["parent-snapshot-id"] = 101
        await refused(lake, base, "its own ancestor")


class TestCost:
    async def test_append_reads_only_its_own_files(self) -> None:
        """A thousand manifests of the parent are compared by their lines."""
        lake = Lake()
        lake.snapshot([lake.manifest([an_entry(lake.data_file())]) for _ in range(1_000)])
        base = lake.append(lake.data_file("new.parquet"))
        lake.files.reads.clear()
        await check(lake, base)
        own = lake.lines[0].path
        assert sorted(lake.files.reads) == sorted(
            [f"{LOCATION}/metadata/snap-100.avro", f"{LOCATION}/metadata/snap-101.avro", own]
        )
        assert sorted(lake.files.stats) == sorted({*lake.files.reads, f"{LOCATION}/data/new.parquet"})

    async def test_delete_also_reads_dropped_manifests(self) -> None:
        lake = Lake()
        removed = lake.data_file()
        lake.snapshot(
            [lake.manifest([an_entry(lake.data_file())]) for _ in range(100)] + [lake.manifest([an_entry(removed)])]
        )
        dropped = lake.lines[-1].path
        base = lake.snapshot([lake.manifest([deleted(removed, 101)]), *lake.lines[:-1]], "delete")
        lake.files.reads.clear()
        await check(lake, base)
        assert len(lake.files.reads) == 4
        assert dropped in lake.files.reads

    async def test_files_are_looked_up_in_batches(self) -> None:
        lake = Lake()
        base = lake.append(*(lake.data_file() for _ in range(2_500)))
        calls: list[int] = []
        stat = lake.files.stat

        async def counted(locations: Any) -> Any:
            calls.append(len(locations))
            return await stat(locations)

        lake.files.stat = counted  # type: ignore[method-assign]  # it counts what passes through
        await check(lake, base)
        assert calls == [1, 1, 1_000, 1_000, 500]

    async def test_older_file_is_searched_in_the_newest_manifests_only(self) -> None:
        lake = Lake()
        lake.snapshot([lake.manifest([an_entry(lake.data_file())]) for _ in range(100)])
        file = lake.data_file()
        lake.files.put(file.file_path, file.file_size_in_bytes, COMMITTED_MS - 1)
        base = lake.append(file)
        lake.files.reads.clear()
        await check(lake, base, limits=CommitLimits(recent_manifests=5))
        assert len(lake.files.reads) == 3 + 5


class TestWhatIsRemembered:
    """One validator caches files between commits."""

    async def test_later_append_reads_its_own_list_and_manifest_only(self, lake: Lake, level: ValidationLevel) -> None:
        validator = CommitValidator(level=level)
        await append_old(lake, validator)
        await append_old(lake, validator)
        lake.files.reads.clear()
        await append_old(lake, validator)
        assert lake.files.reads == [f"{LOCATION}/metadata/snap-102.avro", lake.lines[0].path]

    async def test_live_file_is_found_in_a_cached_manifest(self, lake: Lake, level: ValidationLevel) -> None:
        validator = CommitValidator(level=level)
        file = await append_old(lake, validator)
        base = lake.append(file)
        lake.files.reads.clear()
        with pytest.raises(CommitConflict, match="is live in the parent"):
            await validator.check(lake.files, base, lake.table)
        assert len(lake.files.reads) == 2

    async def test_deleted_file_can_be_added_again(self, lake: Lake, level: ValidationLevel) -> None:
        validator = CommitValidator(level=level)
        file = await append_old(lake, validator)
        number = 1 if lake.version > 1 else 0
        row_id = 0 if lake.version > 2 else None
        gone = deleted(file._replace(first_row_id=row_id), lake.next_id, number)
        await validator.check(lake.files, lake.snapshot([lake.manifest([gone])], "delete"), lake.table)
        base = lake.append(file)
        assert (await validator.check(lake.files, base, lake.table)).snapshots[0].data_files_added == 1

    async def test_overwritten_list_is_read_again(self, lake: Lake, level: ValidationLevel) -> None:
        validator = CommitValidator(level=level)
        await append_old(lake, validator)
        lake.files.put(f"{LOCATION}/metadata/snap-100.avro", b"no list")
        base = lake.append(lake.data_file())
        with pytest.raises(Corrupted, match="cannot be read"):
            await validator.check(lake.files, base, lake.table)

    async def test_deleted_cached_list_is_detected(self, lake: Lake, level: ValidationLevel) -> None:
        validator = CommitValidator(level=level)
        await append_old(lake, validator)
        lake.files.remove(f"{LOCATION}/metadata/snap-100.avro")
        base = lake.append(lake.data_file())
        with pytest.raises(Corrupted, match="cannot be read"):
            await validator.check(lake.files, base, lake.table)

    async def test_deleted_cached_manifest_is_detected(self, lake: Lake) -> None:
        validator = CommitValidator(level=ValidationLevel.STRICT)
        await append_old(lake, validator)
        lake.files.remove(lake.lines[0].path)
        base = lake.append(lake.data_file())
        with pytest.raises(InvalidInput, match="manifest does not exist"):
            await validator.check(lake.files, base, lake.table)

    async def test_cached_manifest_inherits_from_its_own_line(self) -> None:
        """A retried commit: the same manifest with another sequence number."""
        lake = Lake()
        validator = CommitValidator()
        first = lake.data_file()
        lost = lake.manifest([an_entry(first)])
        document = {**lake.document, "snapshots": []}
        await validator.check(lake.files, lake.snapshot([lost]), lake.table)
        lake.document = document
        lake.append(lake.data_file())
        line = lost._replace(sequence_number=2, min_sequence_number=2, added_snapshot_id=lake.next_id)
        await validator.check(lake.files, lake.snapshot([line, *lake.lines]), lake.table)
        kept = existing(first, 2, 101)
        base = lake.snapshot([lake.manifest([kept]), *lake.lines[1:]], "replace")
        assert (await validator.check(lake.files, base, lake.table)).snapshots[0].manifests_removed == 1

    async def test_result_applies_to_the_list_that_was_read(self, lake: Lake) -> None:
        """The list is overwritten between the check and the read."""
        base = lake.append(lake.data_file())
        where = f"{LOCATION}/metadata/snap-100.avro"
        stat = lake.files.stat

        async def outrun(locations: Any) -> Any:
            seen = await stat(locations)
            if where in locations:
                lake.files.put(where, lake.files.contents[where])
            return seen

        lake.files.stat = outrun  # type: ignore[method-assign]  # it writes where others look
        report = await check(lake, base)
        assert report.observed[where] == lake.files.facts[where]


async def append_old(lake: Lake, validator: CommitValidator) -> DataFile:
    """Append a file again, so that the parent's newest manifests are searched; returns the file."""
    file = lake.data_file()
    lake.files.put(file.file_path, file.file_size_in_bytes, COMMITTED_MS - 1)
    await validator.check(lake.files, lake.append(file), lake.table)
    return file


class TestScope:
    @pytest.mark.parametrize(
        "path",
        [
            "s3://lake/t2/data/a.parquet",
            "s3://lake/t-other/a.parquet",
            "s3://other/t/data/a.parquet",
            "s3://lake/a.parquet",
            "s3://lake/t",
            "s3://lake/t/../u/a.parquet",
            "s3://lake/t/data/../../u/a.parquet",
            "s3://lake/t/./a.parquet",
            "s3://lake/t//a.parquet",
            "s3://lake/t/data\\a.parquet",
            "file:///lake/t/data/a.parquet",
            "https://lake/t/data/a.parquet",
            "lake/t/data/a.parquet",
            "",
        ],
    )
    async def test_files_outside_are_rejected(self, path: str, level: ValidationLevel) -> None:
        lake = Lake()
        file = a_file(path)
        lake.files.put(path, file.file_size_in_bytes)
        base = lake.append(file)
        await refused(lake, base, "file is outside", level=level)

    @pytest.mark.parametrize(
        "path",
        [
            f"{LOCATION}/data/a.parquet",
            f"{LOCATION}/data/region=eu/day=2024-01-01/00000-0-x.parquet",
            f"{LOCATION}/data/0101/1010/0011/10111010/region=eu/a.parquet",
            f"{LOCATION}/a.parquet",
            f"{LOCATION}/delete/a b%20c+größer.parquet",
            f"{LOCATION}/data/..a/a..parquet",
        ],
    )
    async def test_files_in_any_folder_of_the_table_are_valid(self, path: str) -> None:
        lake = Lake()
        await check(lake, lake.append(lake.data_file(path)))

    async def test_locations_with_other_schemes_name_the_same_files(self, level: ValidationLevel) -> None:
        lake = Lake()
        file = lake.data_file()
        base = lake.append(file._replace(file_path=file.file_path.replace("s3://", "s3a://")))
        await check(lake, base, level)
        again = lake.append(file._replace(file_path=file.file_path.replace("s3://", "s3n://")))
        lake.files.put(file.file_path, file.file_size_in_bytes, COMMITTED_MS)
        await refused(lake, again, "is live in the parent", CommitConflict, level)

    @pytest.mark.parametrize("name", ["write.data.path", "write.metadata.path", "write.object-storage.path"])
    async def test_properties_add_directories(self, name: str) -> None:
        lake = Lake()
        lake.document["properties"] = {name: "s3://lake/elsewhere/"}
        await check(lake, lake.append(lake.data_file("s3://lake/elsewhere/a.parquet")))
        await refused(lake, lake.append(lake.data_file("s3://lake/elsewhere2/a.parquet")), "outside")

    async def test_moved_table_keeps_its_earlier_files(self) -> None:
        lake = Lake()
        base = lake.append(lake.data_file())
        lake.document["location"] = "s3://lake/new-home"
        await check(lake, base)

    async def test_manifests_outside_are_rejected(self) -> None:
        lake = Lake()
        base = lake.snapshot([lake.manifest([an_entry(lake.data_file())], name="s3://lake/u/metadata/m.avro")])
        await refused(lake, base, "manifest is outside")

    async def test_list_outside_is_rejected(self) -> None:
        lake = Lake()
        base = lake.append(lake.data_file())
        lake.document["snapshots"][-1]["manifest-list"] = "s3://lake/u/metadata/snap.avro"
        await refused(lake, base, "manifest list is outside")

    async def test_earlier_files_outside_can_stay(self, level: ValidationLevel) -> None:
        """As after a table moved: manifests at the former location name files there."""
        lake = Lake()
        far = lake.data_file("s3://lake/old/data/a.parquet")
        near = lake.data_file("s3://lake/old/data/b.parquet")
        lake.snapshot([lake.manifest([an_entry(far), an_entry(near)], name="s3://lake/old/metadata/m.avro")])
        base = lake.append(lake.data_file())
        await check(lake, base, level)
        rewritten = lake.manifest([existing(far), deleted(near, 102)])
        again = lake.snapshot([rewritten, lake.lines[0]], "delete")
        await check(lake, again, level)


class TestObjects:
    async def test_missing_file(self, lake: Lake, level: ValidationLevel) -> None:
        file = lake.data_file()
        base = lake.append(file)
        lake.files.remove(file.file_path)
        await refused(lake, base, "file does not exist", level=level)

    async def test_file_of_another_size(self, lake: Lake, level: ValidationLevel) -> None:
        file = lake.data_file()
        base = lake.append(file)
        lake.files.put(file.file_path, file.file_size_in_bytes + 1)
        await refused(lake, base, "size of the file differs", level=level)

    async def test_missing_manifest(self, lake: Lake) -> None:
        base = lake.append(lake.data_file())
        lake.files.remove(lake.lines[0].path)
        await refused(lake, base, "manifest does not exist")

    async def test_manifest_deleted_during_validation(self, lake: Lake) -> None:
        base = lake.append(lake.data_file())
        del lake.files.contents[lake.lines[0].path]
        await refused(lake, base, "manifest does not exist")

    async def test_missing_manifest_of_the_parent_when_strict(self, lake: Lake) -> None:
        lake.append(lake.data_file())
        base = lake.append(lake.data_file())
        lake.files.remove(lake.lines[1].path)
        await check(lake, base)
        await refused(lake, base, "manifest does not exist", level=ValidationLevel.STRICT)

    async def test_missing_manifest_list(self, lake: Lake) -> None:
        base = lake.append(lake.data_file())
        lake.files.remove(f"{LOCATION}/metadata/snap-100.avro")
        await refused(lake, base, "manifest list does not exist")

    async def test_invalid_manifest_list(self, lake: Lake) -> None:
        base = lake.append(lake.data_file())
        lake.files.put(f"{LOCATION}/metadata/snap-100.avro", b"junk")
        await refused(lake, base, r"not an avro.*manifest-list=s3://lake/t/metadata/snap-100.avro")

    async def test_invalid_manifest(self, lake: Lake) -> None:
        own = lake.manifest([an_entry(lake.data_file())], length=4)
        lake.files.put(own.path, b"junk")
        await refused(lake, lake.snapshot([own]), r"not an avro.*manifest=s3://lake/t/metadata/m")

    async def test_snapshot_without_a_manifest_list(self) -> None:
        lake = Lake(1)
        base = lake.append(lake.data_file())
        snapshot = lake.document["snapshots"][-1]
        del snapshot["manifest-list"]
        snapshot["manifests"] = [lake.lines[0].path]
        await refused(lake, base, "requires a manifest-list")

    async def test_lost_manifest_list_of_the_parent(self) -> None:
        lake = Lake()
        lake.append(lake.data_file())
        base = lake.append(lake.data_file())
        lake.files.remove(f"{LOCATION}/metadata/snap-100.avro")
        await refused(lake, base, "parent snapshot cannot be read", Corrupted)

    async def test_lost_manifest_can_be_dropped(self) -> None:
        lake = Lake()
        lake.append(lake.data_file())
        lake.append(lake.data_file())
        lake.files.remove(lake.lines[1].path)
        base = lake.snapshot(lake.lines[:1], "delete")
        assert (await check(lake, base)).snapshots[0].manifests_lost == 1

    async def test_corrupt_manifest_of_the_parent_is_reported(self) -> None:
        lake = Lake()
        file = lake.data_file()
        lake.append(file)
        lake.files.put(lake.lines[0].path, b"junk")
        base = lake.snapshot([lake.manifest([deleted(file, 101)])], "delete")
        await refused(lake, base, "cannot be read", Corrupted)


class TestLines:
    """The fields of a manifest list about each manifest."""

    async def test_duplicate_manifest(self, lake: Lake) -> None:
        own = lake.manifest([an_entry(lake.data_file())])
        await refused(lake, lake.snapshot([own, own]), "manifest is listed twice")

    @pytest.mark.parametrize("length", [0, -1])
    async def test_invalid_length(self, lake: Lake, length: int) -> None:
        own = lake.manifest([an_entry(lake.data_file())], length=length)
        await refused(lake, lake.snapshot([own]), "has no length")

    async def test_wrong_length(self, lake: Lake) -> None:
        own = lake.manifest([an_entry(lake.data_file())], length=17)
        await refused(lake, lake.snapshot([own]), "length of the manifest differs")

    async def test_unknown_spec(self, lake: Lake) -> None:
        own = lake.manifest([an_entry(lake.data_file())], partition_spec_id=1)
        await refused(lake, lake.snapshot([own]), "unknown partition spec")

    @pytest.mark.parametrize(("least", "number"), [(0, 2), (2, 1), (-1, 1), (-2, -1)])
    async def test_sequence_numbers_out_of_bounds(self, least: int, number: int) -> None:
        lake = Lake()
        own = lake.manifest([an_entry(lake.data_file())], min_sequence_number=least, sequence_number=number)
        await refused(lake, lake.snapshot([own]), "out of bounds")

    async def test_own_manifest_with_an_older_sequence_number(self) -> None:
        lake = Lake()
        lake.append(lake.data_file())
        own = lake.manifest([an_entry(lake.data_file())], sequence_number=1, min_sequence_number=1)
        await refused(lake, lake.snapshot([own, *lake.lines]), "sequence number of a new manifest differs")

    async def test_manifest_of_neither_snapshot(self, lake: Lake) -> None:
        stray = lake.manifest([an_entry(lake.data_file())], added_snapshot_id=7)
        await refused(lake, lake.snapshot([stray]), "neither the snapshot's own nor its parent's")

    @pytest.mark.parametrize(
        "change",
        [
            {"added_files_count": 0},
            {"sequence_number": 2},
            {"min_sequence_number": 0},
            {"added_snapshot_id": 101},
            {"length": 10},
            {"content": 1},
            {"added_rows_count": 3},
        ],
        ids=str,
    )
    async def test_parent_manifest_line_must_be_unchanged(self, change: dict[str, Any]) -> None:
        lake = Lake()
        lake.append(lake.data_file())
        altered = lake.lines[0]._replace(**change)
        base = lake.snapshot([lake.manifest([an_entry(lake.data_file())]), altered])
        await refused(lake, base, f"with a different {next(iter(change))}")

    async def test_delete_manifests_require_format_2(self) -> None:
        lake = Lake(1)
        own = lake.manifest([an_entry(lake.data_file(content=1))])
        lake.version = 2  # its list has fields that lists of format 1 lack
        base = lake.snapshot([own._replace(content=1)])
        lake.version = lake.document["format-version"] = 1
        lake.document["last-sequence-number"] = 0
        del lake.document["snapshots"][-1]["sequence-number"]
        await refused(lake, base, "later format")

    async def test_row_ids_are_assigned_to_manifests(self) -> None:
        lake = Lake(3)
        own = lake.manifest([an_entry(lake.data_file())], first_row_id=None)
        await refused(lake, lake.snapshot([own]), "no first row id")

    async def test_upgrade_assigns_row_ids_to_earlier_manifests(self, level: ValidationLevel) -> None:
        lake = Lake(2)
        lake.append(lake.data_file())
        lake.version = lake.document["format-version"] = 3
        own = lake.manifest([an_entry(lake.data_file())])
        old = lake.lines[0]._replace(first_row_id=10)
        base = lake.snapshot([own, old], added_rows=20)
        await check(lake, base, level)


class TestEntries:
    """The fields of a manifest about each file."""

    async def test_duplicate_file_in_a_manifest(self, lake: Lake) -> None:
        file = lake.data_file()
        await refused(lake, lake.append(file, file), "file is listed twice")

    async def test_duplicate_file_in_two_manifests(self, lake: Lake) -> None:
        file = lake.data_file()
        base = lake.snapshot([lake.manifest([an_entry(file)]), lake.manifest([an_entry(file)])])
        await refused(lake, base, "file is listed twice")

    async def test_file_both_added_and_deleted(self) -> None:
        lake = Lake()
        file = lake.data_file()
        lake.append(file)
        own = [lake.manifest([an_entry(file)]), lake.manifest([deleted(file, 101)])]
        await refused(lake, lake.snapshot(own, "overwrite"), "file is listed twice")

    async def test_added_entry_of_another_snapshot(self, lake: Lake) -> None:
        base = lake.snapshot([lake.manifest([an_entry(lake.data_file(), snapshot_id=7)])])
        await refused(lake, base, "id of another snapshot")

    async def test_deleted_entry_of_another_snapshot(self) -> None:
        lake = Lake()
        file = lake.data_file()
        lake.append(file)
        base = lake.snapshot([lake.manifest([deleted(file, 100)])], "delete")
        await refused(lake, base, "id of another snapshot")

    @pytest.mark.parametrize("facts", [{"record_count": -1}, {"file_size_in_bytes": -1}], ids=str)
    async def test_negative_sizes(self, facts: dict[str, Any]) -> None:
        lake = Lake()
        await refused(lake, lake.append(lake.data_file(**facts)), "negative size")

    async def test_sequence_number_above_the_snapshots(self) -> None:
        lake = Lake()
        own = lake.manifest([an_entry(lake.data_file(), sequence_number=2)], min_sequence_number=1)
        await refused(lake, lake.snapshot([own]), "sequence number out of bounds")

    async def test_sequence_number_below_the_manifests_minimum_when_strict(self) -> None:
        lake = Lake()
        lake.append(lake.data_file())
        own = lake.manifest([an_entry(lake.data_file(), sequence_number=1)], min_sequence_number=2)
        base = lake.snapshot([own, *lake.lines])
        await check(lake, base)
        await refused(lake, base, "below its manifest's least", level=ValidationLevel.STRICT)

    async def test_added_file_with_an_older_sequence_number(self) -> None:
        lake = Lake()
        lake.append(lake.data_file())
        own = lake.manifest([an_entry(lake.data_file(), sequence_number=1, file_sequence_number=1)])
        await refused(lake, lake.snapshot([own, *lake.lines]), "file sequence number of a new file differs")

    async def test_partition_values_of_another_spec(self) -> None:
        lake = Lake()
        file = lake.data_file(partition=("eu",))
        own = lake.manifest([an_entry(file)], partition=[("region", optional("string"), 1000)])
        await refused(lake, lake.snapshot([own]), "number of partition values differs")

    async def test_header_of_another_content(self) -> None:
        lake = Lake()
        own = lake.manifest([an_entry(lake.data_file())], header_content="deletes")
        await refused(lake, lake.snapshot([own]), "content of the manifest differs")

    async def test_header_of_another_spec(self) -> None:
        lake = Lake()
        own = lake.manifest([an_entry(lake.data_file())], header_spec=4)
        await refused(lake, lake.snapshot([own]), "partition spec of the manifest differs")

    @pytest.mark.parametrize("content", [0, 1])
    async def test_data_and_deletes_in_one_manifest_are_rejected(self, content: int) -> None:
        lake = Lake()
        entries = [an_entry(lake.data_file(content=0)), an_entry(lake.data_file(content=1))]
        await refused(lake, lake.snapshot([lake.manifest(entries, content=content)], "overwrite"), "in one manifest")

    @pytest.mark.parametrize(
        "counts", [{"added_files_count": 0}, {"existing_files_count": 1}, {"deleted_files_count": 1}], ids=str
    )
    async def test_counts_that_hide_files(self, counts: dict[str, Any]) -> None:
        lake = Lake()
        own = lake.manifest([an_entry(lake.data_file())], **counts)
        await refused(lake, lake.snapshot([own]), "files in the manifest differs")

    async def test_row_counts_are_checked_when_strict(self) -> None:
        lake = Lake()
        base = lake.snapshot([lake.manifest([an_entry(lake.data_file())], added_rows_count=7)])
        await check(lake, base)
        await refused(lake, base, "number of added rows in the manifest differs", level=ValidationLevel.STRICT)

    @pytest.mark.parametrize(("ids", "reason"), [(None, "no equality ids"), ((), "no equality ids"), ((1, 9), "id=9")])
    async def test_equality_deletes_require_columns(self, ids: tuple[int, ...] | None, reason: str) -> None:
        lake = Lake()
        file = lake.data_file(content=FileContent.EQUALITY_DELETES.value, equality_ids=ids)
        await refused(lake, lake.snapshot([lake.manifest([an_entry(file)], content=1)], "delete"), reason)


class TestParent:
    """Changes of existing files."""

    @pytest.mark.parametrize("change", [deleted, existing], ids=["deleted", "kept"])
    async def test_deleting_a_nonlive_file_is_a_conflict(self, change: Any) -> None:
        lake = Lake()
        lake.append(lake.data_file())
        stranger = lake.data_file()
        entry = change(stranger, snapshot_id=101)
        base = lake.snapshot([lake.manifest([entry]), *lake.lines], "overwrite")
        await refused(lake, base, "not live in the parent", CommitConflict)

    async def test_deleting_a_concurrently_deleted_file_is_a_conflict(self) -> None:
        lake = Lake()
        one, two = lake.data_file(), lake.data_file()
        lake.append(one, two)
        lake.snapshot([lake.manifest([existing(one), deleted(two, 101)])], "delete")
        base = lake.snapshot([lake.manifest([existing(one), deleted(two, 102)])], "delete")
        await refused(lake, base, "not live in the parent", CommitConflict)

    async def test_delete_requires_a_parent(self) -> None:
        lake = Lake()
        base = lake.snapshot([lake.manifest([deleted(lake.data_file(), 100, 0)])], "delete")
        await refused(lake, base, "without a parent")

    async def test_existing_entry_requires_dropping_its_manifest(self) -> None:
        lake = Lake()
        file = lake.data_file()
        lake.append(file)
        base = lake.snapshot([lake.manifest([existing(file)]), *lake.lines], "replace")
        await refused(lake, base, "still listed", CommitConflict)

    async def test_file_added_again_in_place_of_its_manifest(self) -> None:
        lake = Lake()
        file = lake.data_file()
        lake.append(file)
        base = lake.snapshot([lake.manifest([an_entry(file)])], "overwrite")
        await refused(lake, base, "is live in the parent", CommitConflict)

    @pytest.mark.parametrize("change", [deleted, existing], ids=["deleted", "kept"])
    @pytest.mark.parametrize(
        "facts", [{"file_size_in_bytes": 7}, {"record_count": 7}, {"content": 1}], ids=["size", "rows", "content"]
    )
    async def test_existing_files_must_be_unchanged(self, change: Any, facts: dict[str, Any]) -> None:
        lake = Lake()
        file = lake.data_file()
        lake.append(file)
        own = lake.manifest([change(file._replace(**facts), snapshot_id=101)], content=facts.get("content", 0))
        await refused(lake, lake.snapshot([own], "overwrite"), "listed with a different size")

    @pytest.mark.parametrize("change", [deleted, existing], ids=["deleted", "kept"])
    async def test_files_keep_their_sequence_numbers(self, change: Any) -> None:
        lake = Lake()
        file = lake.data_file()
        lake.append(file)
        own = lake.manifest([change(file, snapshot_id=101, number=2)])
        await refused(lake, lake.snapshot([own], "overwrite"), "sequence number")

    async def test_files_of_older_writers_have_no_file_sequence_number(self, level: ValidationLevel) -> None:
        lake = Lake()
        file = lake.data_file()
        lake.append(file)
        base = lake.snapshot([lake.manifest([existing(file, file_sequence_number=None)])], "replace")
        await check(lake, base, level)

    async def test_snapshot_id_of_existing_files_is_checked_when_strict(self) -> None:
        lake = Lake()
        file = lake.data_file()
        lake.append(file)
        base = lake.snapshot([lake.manifest([existing(file, snapshot_id=55)])], "replace")
        await check(lake, base)
        await refused(lake, base, "added by another snapshot", level=ValidationLevel.STRICT)


class TestFilesThatAreLiveAlready:
    """The expensive rule: whether an added file is in a manifest that stays."""

    async def test_repeated_append_is_a_conflict(self, level: ValidationLevel) -> None:
        """The response to an append was lost, and its writer appends the same files again, on top of it."""
        lake = Lake()
        file = lake.data_file()
        lake.files.put(file.file_path, file.file_size_in_bytes, COMMITTED_MS - 5_000)
        lake.append(file)
        base = lake.append(file)
        await refused(lake, base, "is live in the parent", CommitConflict, level)

    async def test_duplicate_is_found_in_the_newest_manifests(self) -> None:
        lake = Lake()
        lake.snapshot([lake.manifest([an_entry(lake.data_file())]) for _ in range(50)])
        file = lake.data_file()
        lake.files.put(file.file_path, file.file_size_in_bytes, COMMITTED_MS - 5_000)
        lake.append(file)
        for _ in range(3):
            lake.append(lake.data_file())
        base = lake.append(file)
        await refused(lake, base, "is live in the parent", CommitConflict)

    async def test_duplicate_of_an_overwritten_file_is_found_when_strict(self) -> None:
        lake = Lake()
        file = lake.data_file()
        lake.append(file)
        base = lake.append(file)
        await check(lake, base)
        await refused(lake, base, "is live in the parent", CommitConflict, ValidationLevel.STRICT)

    async def test_earlier_duplicate_is_found_when_strict(self) -> None:
        lake = Lake()
        file = lake.data_file()
        lake.append(file)
        lake.append(file)
        base = lake.append(lake.data_file())
        await check(lake, base)
        await refused(lake, base, "file is listed twice", level=ValidationLevel.STRICT)

    async def test_duplicate_in_one_commit(self, level: ValidationLevel) -> None:
        lake = Lake()
        file = lake.data_file()
        base = lake.append(file)
        lake.append(file)
        await refused(lake, base, "is live in the parent", CommitConflict, level)


class TestOperations:
    async def test_append_removes_nothing(self) -> None:
        lake = Lake()
        file = lake.data_file()
        lake.append(file)
        base = lake.snapshot([lake.manifest([deleted(file, 101)])], "append")
        await refused(lake, base, "append cannot remove")

    async def test_append_loses_no_manifest(self) -> None:
        lake = Lake()
        lake.append(lake.data_file())
        base = lake.snapshot([lake.manifest([an_entry(lake.data_file())])], "append")
        await refused(lake, base, "append cannot remove")

    async def test_append_adds_no_deletes(self) -> None:
        lake = Lake()
        base = lake.snapshot([lake.manifest([an_entry(lake.data_file(content=1))], content=1)], "append")
        await refused(lake, base, "append cannot add delete files")

    async def test_delete_adds_no_data(self) -> None:
        lake = Lake()
        base = lake.snapshot([lake.manifest([an_entry(lake.data_file())])], "delete")
        await refused(lake, base, "delete cannot add data")

    async def test_replace_must_remove_data(self) -> None:
        lake = Lake()
        base = lake.snapshot([lake.manifest([an_entry(lake.data_file())])], "replace")
        await refused(lake, base, "must remove what they replace")

    async def test_unknown_operation(self) -> None:
        lake = Lake()
        base = lake.snapshot([lake.manifest([an_entry(lake.data_file())])], "rewrite")
        await refused(lake, base, "unknown snapshot operation")


class TestFormat3:
    async def test_deletion_vectors_of_one_puffin_file(self, level: ValidationLevel) -> None:
        lake = Lake(3)
        one, two = lake.data_file(), lake.data_file()
        lake.append(one, two)
        vectors = [lake.vector(one.file_path, 4), lake.vector(two.file_path, 50)]
        own = lake.manifest([an_entry(vector) for vector in vectors], content=1)
        base = lake.snapshot([own, *lake.lines], "delete")
        report = await check(lake, base, level)
        assert report.snapshots[0].delete_files_added == 2

    async def test_deletion_vector_replaces_another(self, level: ValidationLevel) -> None:
        lake = Lake(3)
        file = lake.data_file()
        lake.append(file)
        old, new = lake.vector(file.file_path), lake.vector(file.file_path, name="v2.puffin")
        lake.snapshot([lake.manifest([an_entry(old)], content=1), *lake.lines], "delete")
        own = lake.manifest([an_entry(new), deleted(old, 102, 2)], content=1)
        base = lake.snapshot([own, lake.lines[1]], "delete")
        await check(lake, base, level)

    async def test_two_deletion_vectors_for_a_file(self) -> None:
        lake = Lake(3)
        file = lake.data_file()
        lake.append(file)
        own = lake.manifest([an_entry(lake.vector(file.file_path, at)) for at in (4, 50)], content=1)
        await refused(lake, lake.snapshot([own, *lake.lines], "delete"), "two deletion vectors")

    async def test_second_deletion_vector_beside_the_first_is_a_conflict(self, level: ValidationLevel) -> None:
        lake = Lake(3)
        file = lake.data_file()
        lake.append(file)
        lake.snapshot([lake.manifest([an_entry(lake.vector(file.file_path))], content=1), *lake.lines], "delete")
        own = lake.manifest([an_entry(lake.vector(file.file_path, name="v2.puffin"))], content=1)
        base = lake.snapshot([own, *lake.lines], "delete")
        await refused(lake, base, "already has a deletion vector", CommitConflict, level)

    async def test_deletion_vector_of_a_nonlive_file_when_strict(self) -> None:
        lake = Lake(3)
        lake.append(lake.data_file())
        own = lake.manifest([an_entry(lake.vector(f"{LOCATION}/data/gone.parquet"))], content=1)
        base = lake.snapshot([own, *lake.lines], "delete")
        await check(lake, base)
        await refused(lake, base, "refers to a file that is not live", level=ValidationLevel.STRICT)

    @pytest.mark.parametrize(
        ("facts", "reason"),
        [
            ({"referenced_data_file": None}, "no offset, size or referenced data file"),
            ({"content_size_in_bytes": None}, "no offset, size or referenced data file"),
            ({"content_offset": None}, "no offset, size or referenced data file"),
            ({"content_offset": 990}, "outside its file"),
            ({"content_offset": -1}, "outside its file"),
            ({"content_size_in_bytes": 0}, "outside its file"),
        ],
        ids=str,
    )
    async def test_deletion_vector_requires_offset_and_size(self, facts: dict[str, Any], reason: str) -> None:
        lake = Lake(3)
        own = lake.manifest([an_entry(lake.vector("s3://lake/t/data/a")._replace(**facts))], content=1)
        await refused(lake, lake.snapshot([own], "delete"), reason)

    async def test_deletion_vectors_require_format_3(self) -> None:
        lake = Lake(2)
        own = lake.manifest([an_entry(lake.vector("s3://lake/t/data/a"))], content=1)
        await refused(lake, lake.snapshot([own], "delete"), "require format version 3")

    async def test_position_delete_files_are_rejected_in_format_3(self) -> None:
        lake = Lake(3)
        own = lake.manifest([an_entry(lake.data_file(content=1))], content=1)
        await refused(lake, lake.snapshot([own], "delete"), "instead of position delete files")

    async def test_earlier_position_delete_files_are_kept(self) -> None:
        lake = Lake(2)
        deletes = lake.data_file(content=1)
        lake.snapshot([lake.manifest([an_entry(deletes)], content=1)], "delete")
        lake.version = lake.document["format-version"] = 3
        base = lake.snapshot([lake.manifest([existing(deletes)], content=1)], "replace")
        await check(lake, base)

    async def test_data_files_are_no_puffin_files(self) -> None:
        lake = Lake(3)
        await refused(lake, lake.append(lake.data_file(file_format="puffin")), "not a deletion vector")

    @pytest.mark.parametrize("first_row_id", [0, 9, 11, 1_000])
    async def test_added_files_have_row_ids_of_their_snapshot(self, first_row_id: int) -> None:
        lake = Lake(3)
        lake.append(lake.data_file())
        own = lake.manifest([an_entry(lake.data_file())], first_row_id=first_row_id)
        await refused(lake, lake.snapshot([own, *lake.lines]), "outside its snapshot's range")

    async def test_added_files_do_not_share_row_ids(self) -> None:
        lake = Lake(3)
        own = [lake.manifest([an_entry(lake.data_file())]) for _ in range(2)]
        await refused(lake, lake.snapshot(own), "row ids of new files overlap")

    async def test_row_ids_of_several_manifests(self, level: ValidationLevel) -> None:
        lake = Lake(3)
        own = [lake.manifest([an_entry(lake.data_file())], first_row_id=first) for first in (10, 0)]
        await check(lake, lake.snapshot(own), level)

    async def test_existing_files_keep_their_row_ids(self) -> None:
        lake = Lake(3)
        file = lake.data_file()
        lake.append(file)
        base = lake.snapshot([lake.manifest([existing(file)])], "replace")
        await refused(lake, base, "different row ids")


class TestLimits:
    async def test_manifests(self) -> None:
        lake = Lake()
        base = lake.snapshot([lake.manifest([an_entry(lake.data_file())]) for _ in range(3)])
        await check(lake, base, limits=CommitLimits(manifests=3))
        await refused(lake, base, "too many manifests", TooLarge, limits=CommitLimits(manifests=2))

    async def test_bytes(self) -> None:
        lake = Lake()
        base = lake.append(*(lake.data_file() for _ in range(200)))
        stored = lake.lines[0].length + len(lake.files.contents[f"{LOCATION}/metadata/snap-100.avro"])
        await refused(lake, base, r"bytes of manifests\.", TooLarge, limits=CommitLimits(avro_bytes=stored - 1))
        await refused(lake, base, "decompressed manifests", TooLarge, limits=CommitLimits(avro_bytes=stored))

    async def test_file_references(self) -> None:
        lake = Lake()
        base = lake.append(*(lake.data_file() for _ in range(11)))
        await check(lake, base, limits=CommitLimits(file_refs=11))
        await refused(lake, base, "too many file references", TooLarge, limits=CommitLimits(file_refs=10))


def statistics(path: str = f"{LOCATION}/metadata/1.stats", size: int = 100) -> dict[str, Any]:
    return {
        "snapshot-id": 100,
        "statistics-path": path,
        "file-size-in-bytes": size,
        "file-footer-size-in-bytes": 10,
        "blob-metadata": [],
    }


class TestStatistics:
    @pytest.fixture
    def lake(self) -> Lake:
        lake = Lake()
        lake.append(lake.data_file())
        lake.files.put(f"{LOCATION}/metadata/1.stats", 100)
        return lake

    async def test_existing_statistics_file(self, lake: Lake) -> None:
        base = lake.table
        lake.document["statistics"] = [statistics()]
        report = await check(lake, base)
        assert list(report.observed) == [f"{LOCATION}/metadata/1.stats"]

    async def test_only_new_statistics_files_are_looked_up(self, lake: Lake) -> None:
        lake.document["statistics"] = [statistics("s3://lake/gone/1.stats")]
        base = lake.table
        lake.document["properties"] = {"a": "b"}
        await check(lake, base)

    @pytest.mark.parametrize(
        ("file", "reason"),
        [
            (statistics("s3://lake/u/1.stats"), "outside"),
            (statistics(f"{LOCATION}/metadata/2.stats"), "does not exist"),
            (statistics(size=99), "size of the statistics file differs"),
        ],
    )
    async def test_invalid_statistics_files(self, lake: Lake, file: dict[str, Any], reason: str) -> None:
        base = lake.table
        lake.document["statistics"] = [file]
        await refused(lake, base, reason)
        del lake.document["statistics"]
        lake.document["partition-statistics"] = [file]
        await refused(lake, base, reason)

    @pytest.mark.parametrize(
        "limits",
        [CommitLimits(statistics_files=0), CommitLimits(statistics_bytes=99), CommitLimits(statistics_file_bytes=99)],
    )
    async def test_limits(self, lake: Lake, limits: CommitLimits) -> None:
        base = lake.table
        lake.document["statistics"] = [statistics()]
        await refused(lake, base, "statistics", TooLarge, limits=limits)


class TestAdoption:
    """Metadata of other catalogs."""

    async def test_history_with_expired_beginning(self, lake: Lake, level: ValidationLevel) -> None:
        for _ in range(3):
            lake.append(lake.data_file())
        lake.document["snapshots"] = lake.document["snapshots"][2:]
        report = await check(lake, None, level, adopted=True)
        assert report.snapshots == (
            SnapshotChanges(102, "append", manifests_inherited=2, manifests_added=1, data_files_added=1),
        )

    async def test_only_referenced_snapshots_are_checked(self) -> None:
        lake = Lake()
        for _ in range(3):
            lake.append(lake.data_file())
        lake.document["refs"] = {
            "main": {"snapshot-id": 102, "type": "branch"},
            "then": {"snapshot-id": 100, "type": "tag"},
        }
        report = await check(lake, None, adopted=True)
        assert [one.snapshot_id for one in report.snapshots] == [100, 102]

    async def test_manifests_must_exist(self, lake: Lake) -> None:
        lake.append(lake.data_file())
        lake.append(lake.data_file())
        lake.files.remove(lake.lines[1].path)
        await refused(lake, None, "manifest does not exist", adopted=True)

    async def test_live_files_must_exist_when_strict(self, lake: Lake) -> None:
        file = lake.data_file()
        lake.append(file)
        lake.append(lake.data_file())
        lake.files.remove(file.file_path)
        await check(lake, None, adopted=True)
        await refused(lake, None, "file does not exist", level=ValidationLevel.STRICT, adopted=True)

    async def test_live_files_must_be_inside_when_strict(self, lake: Lake) -> None:
        lake.append(lake.data_file("s3://lake/u/a.parquet"))
        lake.append(lake.data_file())
        await check(lake, None, adopted=True)
        await refused(lake, None, "file is outside", level=ValidationLevel.STRICT, adopted=True)


class TestRemovedSpecs:
    def evolved(self) -> Lake:
        lake = Lake()
        field = {"name": "region", "transform": "identity", "source-id": 2, "field-id": 1000}
        lake.document["partition-specs"].append({"spec-id": 1, "fields": [field]})
        lake.document["last-partition-id"] = 1000
        lake.document["default-spec-id"] = 1
        return lake

    async def test_unused_spec_can_be_removed(self, level: ValidationLevel) -> None:
        lake = self.evolved()
        base = lake.table
        lake.document["partition-specs"] = lake.document["partition-specs"][1:]
        await check(lake, base, level)

    async def test_used_spec_cannot_be_removed(self, level: ValidationLevel) -> None:
        lake = self.evolved()
        lake.append(lake.data_file())
        base = lake.table
        lake.document["partition-specs"] = lake.document["partition-specs"][1:]
        await refused(lake, base, "spec cannot be removed", level=level)


async def test_status_of_entries_is_not_guessed() -> None:
    lake = Lake()
    own = lake.manifest([an_entry(lake.data_file(), EntryStatus.ADDED)._replace(status=5)])
    await refused(lake, lake.snapshot([own]), "unknown status")
