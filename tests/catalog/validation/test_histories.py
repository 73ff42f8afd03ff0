"""Any history of valid commits passes on both levels; the strict level detects any lost file."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakebed.catalog.validation import CommitValidator, ValidationLevel
from lakebed.core.errors import CommitConflict, InvalidInput
from lakebed.iceberg.manifests import DataFile, ManifestEntry, ManifestFile
from lakebed.iceberg.metadata import TableMetadata
from tests.iceberg.manifests.avro_files import an_entry

from .lake import Lake, deleted, existing


@dataclass
class Live:
    """A live file, with the values that its entries must keep."""

    file: DataFile
    number: int
    snapshot_id: int

    def kept(self) -> ManifestEntry:
        return existing(self.file, self.number, self.snapshot_id)

    def deleted(self, by: int) -> ManifestEntry:
        return deleted(self.file, by, self.number)


@dataclass
class Writer:
    """A correct writer: it tracks the live files of each manifest."""

    lake: Lake
    listed: dict[str, list[Live]] = field(default_factory=dict)

    def commit(
        self, rewritten: Iterable[ManifestFile], removed: set[str], new_files: int, operation: str
    ) -> TableMetadata:
        """Replace some manifests by one that keeps all but the deleted files, and add others."""
        lake, snapshot_id, number = self.lake, self.lake.next_id, self.lake.next_sequence_number
        dropped = [line.path for line in rewritten]
        old = [live for path in dropped for live in self.listed.pop(path)]
        kept = [live for live in old if live.file.file_path not in removed]
        gone = [live for live in old if live.file.file_path in removed]
        added = [Live(lake.data_file(), number, snapshot_id) for _ in range(new_files)]
        next_row_id = lake.document["next-row-id"]
        entries = [an_entry(live.file) for live in added]
        for live in added:
            if lake.version > 2:
                live.file = live.file._replace(first_row_id=next_row_id)
            next_row_id += live.file.record_count
        entries += [live.kept() for live in kept] + [live.deleted(snapshot_id) for live in gone]
        lines = [line for line in lake.lines if line.path not in dropped]
        if entries:
            lines.insert(0, lake.manifest(entries))
            self.listed[lines[0].path] = added + kept
        return lake.snapshot(lines, operation)


@pytest.mark.slow
@given(st.data(), st.sampled_from([1, 2, 3]))
@settings(max_examples=60)
def test_valid_histories_pass(data: st.DataObject, version: int) -> None:
    lake = Lake(version)
    writer = Writer(lake)
    for _ in range(data.draw(st.integers(1, 6))):
        lines = data.draw(st.lists(st.sampled_from(lake.lines), unique=True)) if lake.lines else []
        at_hand = [live.file.file_path for line in lines for live in writer.listed[line.path]]
        removed = data.draw(st.sets(st.sampled_from(at_hand))) if at_hand else set()
        new_files = data.draw(st.integers(0, 3))
        operation = "append"
        if removed:
            operation = data.draw(st.sampled_from(["overwrite", "replace"] if new_files else ["delete", "overwrite"]))
        base = writer.commit(lines, removed, new_files, operation)
        for level in ValidationLevel:
            asyncio.run(CommitValidator(level=level).check(lake.files, base, lake.table))

    live = [one for files in writer.listed.values() for one in files]
    if live:
        lost = data.draw(st.sampled_from(live))
        base = writer.commit([], set(), 1, "append")
        lake.files.remove(lost.file.file_path)
        asyncio.run(CommitValidator().check(lake.files, base, lake.table))
        with pytest.raises(InvalidInput, match="file does not exist"):
            asyncio.run(CommitValidator(level=ValidationLevel.STRICT).check(lake.files, base, lake.table))


@given(st.data(), st.sampled_from([1, 2, 3]))
@settings(max_examples=40)
def test_second_delete_of_a_file_is_a_conflict(data: st.DataObject, version: int) -> None:
    """The second delete was prepared on the first's parent, and rebased on the first."""
    lake = Lake(version)
    writer = Writer(lake)
    for _ in range(data.draw(st.integers(1, 4))):
        writer.commit([], set(), data.draw(st.integers(1, 3)), "append")
    line = data.draw(st.sampled_from(lake.lines))
    victim = data.draw(st.sampled_from(writer.listed[line.path]))
    others = [live for live in writer.listed[line.path] if live is not victim]
    writer.commit([line], {victim.file.file_path}, 0, "delete")
    stale = lake.manifest([*(live.kept() for live in others), victim.deleted(lake.next_id)])
    base = lake.snapshot([stale, *lake.lines[1:]], "delete")
    for level in ValidationLevel:
        with pytest.raises(CommitConflict, match="not live in the parent"):
            asyncio.run(CommitValidator(level=level).check(lake.files, base, lake.table))
