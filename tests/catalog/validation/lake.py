"""A lake in memory: tables with real manifests and manifest lists, built snapshot by snapshot."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from lakebed.catalog.model import Catalog
from lakebed.catalog.tables.files import DirectoryFile, FileAddress, FileStat, parse_location
from lakebed.core.errors import NotFound, TooLarge
from lakebed.iceberg.manifests import DataFile, EntryStatus, FileContent, ManifestEntry, ManifestFile
from lakebed.iceberg.metadata import TableMetadata, parse_table
from tests.iceberg.manifests.avro_files import UNPARTITIONED, a_file, a_manifest, an_entry, list_bytes, manifest_bytes

LOCATION = "s3://lake/t"
COMMITTED_MS = 1_700_000_000_000
"""When every state of a table was committed; files of commits are stored an hour later."""
STORED_MS = COMMITTED_MS + 3_600_000

FIELDS: list[dict[str, Any]] = [
    {"id": 1, "name": "id", "type": "long", "required": True},
    {"id": 2, "name": "region", "type": "string", "required": False},
]


class MemoryFiles:
    """Files by location. Counts requests."""

    def __init__(self) -> None:
        self.contents: dict[str, bytes] = {}
        self.facts: dict[str, FileStat] = {}
        self.reads: list[str] = []
        self.stats: list[str] = []

    def put(self, location: str, content: bytes | int, modified_ms: int = STORED_MS) -> None:
        """Store a file; a file that is never read may be just a size."""
        if isinstance(content, bytes):
            self.contents[location] = content
            content = len(content)
        self.facts[location] = FileStat(content, f"etag-{len(self.facts)}", modified_ms)

    def remove(self, location: str) -> None:
        self.contents.pop(location, None)
        del self.facts[location]

    def of(self, catalog: Catalog) -> MemoryFiles:
        return self

    async def list(self, directory: FileAddress, after: str = "") -> AsyncIterator[DirectoryFile]:
        for location, facts in sorted(self.facts.items()):
            address = parse_location(location)
            is_within = address.bucket == directory.bucket and address.key.startswith(directory.directory)
            if is_within and address.key > after:
                yield DirectoryFile(address.key, *facts)

    async def read(self, location: str, limit: int) -> bytes:
        self.reads.append(location)
        if location not in self.contents:
            raise NotFound(f"no such file. location={location}")
        if len(self.contents[location]) > limit:
            raise TooLarge("too large")
        return self.contents[location]

    async def fetch(self, location: str, limit: int) -> tuple[bytes, FileStat]:
        return await self.read(location, limit), self.facts[location]

    async def stat(self, locations: Sequence[str]) -> dict[str, FileStat | None]:
        self.stats += locations
        return {location: self.facts.get(location) for location in locations}


@dataclass
class Lake:
    """One table and its files."""

    version: int = 2
    files: MemoryFiles = field(default_factory=MemoryFiles)
    document: dict[str, Any] = field(default_factory=dict)
    lists: dict[int, list[ManifestFile]] = field(default_factory=dict)
    names: Any = field(default_factory=lambda: count(1))

    def __post_init__(self) -> None:
        self.document = {
            "format-version": self.version,
            "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
            "location": LOCATION,
            "last-updated-ms": COMMITTED_MS,
            "last-sequence-number": 0,
            "last-column-id": 2,
            "schemas": [{"type": "struct", "schema-id": 0, "fields": FIELDS}],
            "current-schema-id": 0,
            "partition-specs": [{"spec-id": 0, "fields": []}],
            "default-spec-id": 0,
            "last-partition-id": 999,
            "sort-orders": [{"order-id": 0, "fields": []}],
            "default-sort-order-id": 0,
            "properties": {},
            "snapshots": [],
            "next-row-id": 0,
        }

    @property
    def table(self) -> TableMetadata:
        document = dict(self.document)
        if self.version < 3:
            del document["next-row-id"]
        return parse_table(json.dumps(document).encode())

    @property
    def current(self) -> int | None:
        return self.document.get("current-snapshot-id")

    @property
    def next_id(self) -> int:
        return 100 + len(self.document["snapshots"])

    @property
    def next_sequence_number(self) -> int:
        return int(self.document["last-sequence-number"]) + 1 if self.version > 1 else 0

    def data_file(self, name: str = "", **facts: Any) -> DataFile:
        """An existing data file."""
        path = name if "://" in name else f"{LOCATION}/data/{name or f'{next(self.names)}.parquet'}"
        file = a_file(path, **facts)
        self.files.put(path, file.file_size_in_bytes)
        return file

    def vector(self, about: str, offset: int = 4, name: str = "v.puffin", **facts: Any) -> DataFile:
        """An existing deletion vector in a Puffin file."""
        return self.data_file(
            name,
            **{
                "content": FileContent.POSITION_DELETES.value,
                "file_format": "PUFFIN",
                "referenced_data_file": about,
                "content_offset": offset,
                "content_size_in_bytes": 40,
                **facts,
            },
        )

    def manifest(
        self,
        entries: Iterable[ManifestEntry],
        *,
        name: str = "",
        content: int = 0,
        partition: Iterable[tuple[str, Any, int]] = UNPARTITIONED,
        header_content: str | None = None,
        header_spec: int | None = None,
        **line: Any,
    ) -> ManifestFile:
        """Write a manifest of the next snapshot; its line has the actual counts unless given otherwise."""
        entries = list(entries)
        path = name if "://" in name else f"{LOCATION}/metadata/{name or f'm{next(self.names)}.avro'}"
        data = manifest_bytes(
            [
                entry._replace(snapshot_id=self.next_id) if self.version == 1 and entry.snapshot_id is None else entry
                for entry in entries
            ],
            version=self.version,
            partition=partition,
            content=header_content or ("deletes" if content else "data"),
            spec_id=line.get("partition_spec_id", 0) if header_spec is None else header_spec,
        )
        self.files.put(path, data)
        counts: dict[str, int] = {}
        for status, which in ((0, "existing"), (1, "added"), (2, "deleted")):
            files = [entry.data_file for entry in entries if entry.status == status]
            counts[f"{which}_files_count"] = len(files)
            counts[f"{which}_rows_count"] = sum(file.record_count for file in files)
        numbers = [entry.sequence_number for entry in entries if entry.sequence_number is not None]
        facts: dict[str, Any] = {
            "length": len(data),
            "content": content,
            "sequence_number": self.next_sequence_number,
            "min_sequence_number": min([*numbers, self.next_sequence_number]),
            "added_snapshot_id": self.next_id,
            "first_row_id": self.document["next-row-id"] if self.version > 2 and not content else None,
            **counts,
        }
        return a_manifest(path, **{**facts, **line})

    def snapshot(self, manifests: Sequence[ManifestFile], operation: str = "append", **facts: Any) -> TableMetadata:
        """Add a snapshot with these manifests and make it current; returns the state before it."""
        before = self.table
        snapshot_id = self.next_id
        name = f"{LOCATION}/metadata/snap-{snapshot_id}.avro"
        self.files.put(name, list_bytes(manifests, version=self.version))
        rows = sum(
            (line.added_rows_count or 0) + (line.existing_rows_count or 0)
            for line in manifests
            if line.added_snapshot_id == snapshot_id and not line.content
        )
        snapshot: dict[str, Any] = {
            "snapshot-id": snapshot_id,
            "parent-snapshot-id": self.current,
            "sequence-number": self.next_sequence_number,
            "timestamp-ms": COMMITTED_MS,
            "manifest-list": name,
            "summary": {"operation": operation},
            "schema-id": 0,
        }
        if self.version > 2:
            snapshot |= {"first-row-id": self.document["next-row-id"], "added-rows": rows}
            self.document["next-row-id"] += rows
        snapshot |= {key.replace("_", "-"): value for key, value in facts.items()}
        self.document["snapshots"] = [
            *self.document["snapshots"],
            {key: value for key, value in snapshot.items() if value is not None},
        ]
        self.document["last-sequence-number"] = self.next_sequence_number
        self.document["current-snapshot-id"] = snapshot_id
        self.lists[snapshot_id] = list(manifests)
        return before

    @property
    def lines(self) -> list[ManifestFile]:
        """The manifests of the current snapshot."""
        return [] if self.current is None else self.lists[self.current]

    def append(self, *files: DataFile) -> TableMetadata:
        """A fast append."""
        return self.snapshot([self.manifest([an_entry(file) for file in files]), *self.lines])


def existing(file: DataFile, number: int = 1, snapshot_id: int = 100, **facts: Any) -> ManifestEntry:
    """An entry for a file of an earlier snapshot."""
    return an_entry(
        file,
        EntryStatus.EXISTING,
        snapshot_id=snapshot_id,
        sequence_number=number,
        file_sequence_number=facts.get("file_sequence_number", number),
    )


def deleted(file: DataFile, snapshot_id: int, number: int = 1) -> ManifestEntry:
    """An entry that deletes a file of an earlier snapshot."""
    return an_entry(
        file, EntryStatus.DELETED, snapshot_id=snapshot_id, sequence_number=number, file_sequence_number=number
    )
