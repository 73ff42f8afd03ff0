"""Random histories of a table in memory: real metadata files, manifest lists and manifests, with their references.

The references of each snapshot are recorded when it is created and never parsed from the files, so they can verify a
reader.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from hypothesis import strategies as st

from lakebed.catalog import rows as catalog_rows
from lakebed.catalog.catalogs.service import placeholder_catalog
from lakebed.catalog.entries import LiveEntry
from lakebed.catalog.maintenance.reachability.survey import REPLACED_SINCE
from lakebed.catalog.model import Entry, EntryKind, Namespace
from lakebed.core.ids import BucketId
from lakebed.iceberg.manifests import DataFile, EntryStatus, ManifestFile
from lakebed.iceberg.metadata import TableMetadata, parse_table
from lakebed.meta.seam import Row, Value
from lakebed.objects.buckets.bucket import Bucket
from tests.catalog.validation.lake import Lake, MemoryFiles
from tests.iceberg.manifests.avro_files import a_file, a_manifest, an_entry, list_bytes, manifest_bytes

HOME = "s3://lake/t"
START_MS = 1_700_000_000_000


@dataclass(frozen=True)
class Version:
    """A metadata file and its references."""

    location: str
    number: int
    snapshots: frozenset[int]
    statistics: frozenset[str]


@dataclass
class History:
    """A table, all files ever written for it, and their references."""

    files: MemoryFiles = field(default_factory=MemoryFiles)
    document: dict[str, Any] = field(default_factory=lambda: {**Lake().document, "refs": {}, "metadata-log": []})
    now_ms: int = START_MS
    log_size: int = 2
    numbers: Any = field(default_factory=lambda: count(1))
    lines: dict[int, list[tuple[ManifestFile, list[DataFile]]]] = field(default_factory=dict)
    """The manifests of each snapshot, with their live files."""
    refers: dict[int, set[str]] = field(default_factory=dict)
    """The files that each snapshot refers to."""
    versions: list[Version] = field(default_factory=list)
    committed: set[str] = field(default_factory=set)
    """The metadata files that the catalog itself committed."""
    replaced: dict[str, int] = field(default_factory=dict)
    """When each metadata file was replaced."""

    def __post_init__(self) -> None:
        self.document.pop("next-row-id", None)
        self.commit()

    # -- writing --------------------------------------------------------------------------------------------------

    def put(self, path: str, content: bytes | int = 100) -> str:
        location = f"{HOME}/{path}"
        self.files.put(location, content, self.now_ms)
        return location

    def commit(self) -> None:
        """Write the current metadata."""
        number = len(self.versions)
        if self.versions:
            before = self.versions[-1].location
            self.replaced[before] = self.now_ms
            log = [*self.document["metadata-log"], {"metadata-file": before, "timestamp-ms": self.now_ms}]
            self.document["metadata-log"] = log[-self.log_size :]
        self.document["last-updated-ms"] = self.now_ms
        location = self.put(f"metadata/{number:05d}-{number}.metadata.json", json.dumps(self.document).encode())
        snapshots = frozenset(one["snapshot-id"] for one in self.document["snapshots"])
        statistics = frozenset(one["statistics-path"] for one in self.document.get("partition-statistics", []))
        self.versions.append(Version(location, number, snapshots, statistics))
        self.committed.add(location)

    def manifest(self, snapshot_id: int, files: Sequence[DataFile], status: int, content: int) -> ManifestFile:
        number = self.document["last-sequence-number"] + 1
        entries = [
            an_entry(file, status, snapshot_id=snapshot_id, sequence_number=number, file_sequence_number=number)
            for file in files
        ]
        data = manifest_bytes(entries, content="deletes" if content else "data")
        path = self.put(f"metadata/{next(self.numbers)}-m.avro", data)
        return a_manifest(
            path, length=len(data), content=content, sequence_number=number, added_snapshot_id=snapshot_id
        )

    def snapshot(self, ref: str, lines: list[tuple[ManifestFile, list[DataFile]]], snapshot_id: int) -> None:
        """Add a snapshot to a branch."""
        self.document["last-sequence-number"] += 1
        location = self.put(f"metadata/snap-{snapshot_id}.avro", list_bytes([line for line, _ in lines]))
        head = self.document["refs"].get(ref, {}).get("snapshot-id")
        one = {
            "snapshot-id": snapshot_id,
            "sequence-number": self.document["last-sequence-number"],
            "timestamp-ms": self.now_ms,
            "manifest-list": location,
            "summary": {"operation": "append"},
            **({} if head is None else {"parent-snapshot-id": head}),
        }
        self.document["snapshots"] = [*self.document["snapshots"], one]
        self._set(ref, "branch", snapshot_id)
        self.lines[snapshot_id] = lines
        self.refers[snapshot_id] = {location} | {
            path for line, files in lines for path in (line.path, *(file.file_path for file in files))
        }
        self.commit()

    def head(self, ref: str) -> list[tuple[ManifestFile, list[DataFile]]]:
        found = self.document["refs"].get(ref)
        return [] if found is None else self.lines[found["snapshot-id"]]

    def append(self, ref: str, content: int) -> None:
        snapshot_id = next(self.numbers)
        path = self.put(f"data/{snapshot_id}{'-deletes' if content else ''}.parquet")
        file = a_file(path, content=content, file_size_in_bytes=100)
        line = self.manifest(snapshot_id, [file], EntryStatus.ADDED, content)
        self.snapshot(ref, [(line, [file]), *self.head(ref)], snapshot_id)

    def merge(self, ref: str, leave_out: int) -> None:
        """Merge all data manifests of a branch, deleting one file."""
        data = [file for line, files in self.head(ref) if not line.content for file in files]
        others = [one for one in self.head(ref) if one[0].content]
        if not data:
            return
        snapshot_id = next(self.numbers)
        deleted = data[leave_out % len(data)]
        kept = [file for file in data if file is not deleted]
        new: list[tuple[ManifestFile, list[DataFile]]] = [
            (self.manifest(snapshot_id, [deleted], EntryStatus.DELETED, 0), [])
        ]
        if kept:
            new.append((self.manifest(snapshot_id, kept, EntryStatus.EXISTING, 0), kept))
        self.snapshot(ref, [*new, *others], snapshot_id)

    def name(self, ref: str, kind: str, which: int) -> None:
        snapshots = self.document["snapshots"]
        if snapshots and ref != "main":
            self._set(ref, kind, snapshots[which % len(snapshots)]["snapshot-id"])
            self.commit()

    def drop(self, ref: str) -> None:
        if ref in self.document["refs"] and ref != "main":
            self.document["refs"] = {key: one for key, one in self.document["refs"].items() if key != ref}
            self.commit()

    def expire(self, which: int) -> None:
        named = {one["snapshot-id"] for one in self.document["refs"].values()}
        free = [one["snapshot-id"] for one in self.document["snapshots"] if one["snapshot-id"] not in named]
        if free:
            gone = free[which % len(free)]
            self.document["snapshots"] = [one for one in self.document["snapshots"] if one["snapshot-id"] != gone]
            described = self.document.get("partition-statistics", [])
            self.document["partition-statistics"] = [one for one in described if one["snapshot-id"] != gone]
            self.commit()

    def expire_all(self) -> None:
        """Expire all snapshots without a branch or tag."""
        for _ in self.document["snapshots"]:
            self.expire(0)

    def describe(self, which: int) -> None:
        """Add a statistics file to a snapshot."""
        snapshots = self.document["snapshots"]
        if not snapshots:
            return
        snapshot_id = snapshots[which % len(snapshots)]["snapshot-id"]
        path = self.put(f"metadata/{next(self.numbers)}.stats")
        others = [one for one in self.document.get("partition-statistics", []) if one["snapshot-id"] != snapshot_id]
        file = {"snapshot-id": snapshot_id, "statistics-path": path, "file-size-in-bytes": 100}
        self.document["partition-statistics"] = [*others, file]
        self.commit()

    def stray(self, kind: str) -> None:
        """Leave an unreferenced file behind."""
        number = next(self.numbers)
        names = {
            "data": f"data/o{number}.parquet",
            "manifest": f"metadata/o{number}.avro",
            "list": f"metadata/snap-o{number}.avro",
        }
        self.put(names[kind])

    def wait(self, milliseconds: int) -> None:
        self.now_ms += milliseconds

    def _set(self, ref: str, kind: str, snapshot_id: int) -> None:
        self.document["refs"] = {**self.document["refs"], ref: {"snapshot-id": snapshot_id, "type": kind}}
        if ref == "main":
            self.document["current-snapshot-id"] = snapshot_id

    # -- what it is now -------------------------------------------------------------------------------------------

    @property
    def table(self) -> TableMetadata:
        return parse_table(self.files.contents[self.versions[-1].location])

    @property
    def known(self) -> LiveEntry:
        bucket = Bucket(BucketId(1), "lake", "0", "r", 0, "", b"\x80")
        current = self.versions[-1]
        entry = Entry(
            "e",
            EntryKind.TABLE,
            1,
            1,
            "t",
            "u",
            2,
            HOME,
            current.location,
            "token",
            current.number,
            0,
            0,
            protected=False,
        )
        return LiveEntry(placeholder_catalog(bucket, bucket.name), Namespace(1, "ns", b""), entry)

    @property
    def reader(self) -> HistoryReader:
        return HistoryReader(self)

    def counting(self, *, retain_recent: int, watermark_ms: int) -> set[str]:
        """All references of retained snapshots."""
        current = self.versions[-1]
        recent = {version.location for version in self.versions[::-1][:retain_recent]}
        counts = [
            version
            for version in self.versions
            if version is current
            or version.location in recent
            or self.files.facts[version.location].modified_ms > watermark_ms
            or self.replaced.get(version.location, 0) > watermark_ms
        ]
        found: set[str] = set()
        for version in counts:
            found |= version.statistics
            for snapshot_id in version.snapshots:
                found |= self.refers[snapshot_id]
        return found


class HistoryReader:
    """The rows that a survey reads."""

    def __init__(self, history: History) -> None:
        self._history = history

    async def row(self, sql: str, *args: Value) -> Row | None:
        found = await self.rows(sql, *args)
        return found[0] if found else None

    async def rows(self, sql: str, *args: Value) -> list[Row]:
        history = self._history
        if sql == catalog_rows.LOCATIONS_OF:
            return [("t/",)]
        if sql == catalog_rows.DIRECTORIES_OF:
            catalog = history.known.catalog
            return [(*catalog.bucket, *catalog[1:], "t/")]
        if sql == catalog_rows.COMMITTED_METADATA:
            return [(1,)] if str(args[1]) in history.committed else []
        if sql == REPLACED_SINCE:
            return [(location,) for location, at_ms in history.replaced.items() if at_ms > int(str(args[1]))]
        raise AssertionError(sql)


_refs = st.sampled_from(["main", "main", "b"])
_names = st.sampled_from(["b", "t1", "t2"])
_which = st.integers(0, 20)

STEPS = st.one_of(
    st.tuples(st.just("append"), _refs, st.sampled_from([0, 0, 1])),
    st.tuples(st.just("merge"), _refs, _which),
    st.tuples(st.just("name"), _names.filter(lambda name: name != "b"), st.just("tag"), _which),
    st.tuples(st.just("name"), st.just("b"), st.just("branch"), _which),
    st.tuples(st.just("drop"), _names),
    st.tuples(st.just("expire"), _which),
    st.tuples(st.just("expire_all")),
    st.tuples(st.just("describe"), _which),
    st.tuples(st.just("stray"), st.sampled_from(["data", "manifest", "list"])),
    st.tuples(st.just("wait"), st.integers(1, 2000)),
)


@st.composite
def histories(draw: st.DrawFn) -> History:
    """A table with a random history."""
    history = History(log_size=draw(st.integers(1, 4)))
    for step, *arguments in draw(st.lists(STEPS, max_size=25)):
        getattr(history, step)(*arguments)
    return history
