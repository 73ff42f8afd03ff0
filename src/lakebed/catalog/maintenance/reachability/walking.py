"""Follows snapshots to their files: manifest lists, manifests of both kinds, data, delete and statistics files.

Each list and manifest is read once, however many snapshots share it. Missing and unreadable files are reported as
problems, and the caller decides what follows. So are manifests outside the table's directories: a writer may overwrite
a manifest list, and reports show what is read here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Container, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeVar

from lakebed.catalog.locations.confined_files import ConfinedFiles
from lakebed.catalog.tables.files import FileSource, FileSources
from lakebed.catalog.validation.directory_scope import normalized
from lakebed.core.errors import AccessDenied, InvalidInput, NotFound, TooLarge
from lakebed.iceberg.manifests import (
    DEFAULT_LIMITS,
    DataFile,
    EntryStatus,
    FileContent,
    ManifestContent,
    ManifestFile,
    open_manifest,
    read_manifest_list,
)
from lakebed.iceberg.metadata.snapshots import Snapshot
from lakebed.iceberg.metadata.table import TableMetadata
from lakebed.meta.seam import Reader

from .files import ObjectKind, Reason

__all__ = [
    "DEFAULT_WALK_LIMITS",
    "LiveFiles",
    "ReachabilityProblem",
    "ReachableFiles",
    "WalkLimits",
    "WalkRoot",
    "Walker",
    "walk_root",
    "walker_of",
]

T = TypeVar("T")

_READS_AT_ONCE: Final = 8
_SMALL_BYTES: Final = 32 * 1024
"""Parsing less than this takes no longer than a thread switch."""
_NO_STATISTICS: Final[frozenset[int]] = frozenset()


@dataclass(frozen=True, slots=True)
class WalkLimits:
    """How much is read for one job. Larger tables are left to the pipeline."""

    manifests: int = 20_000
    files: int = 2_000_000


DEFAULT_WALK_LIMITS: Final = WalkLimits()


class WalkRoot(NamedTuple):
    """The references of a metadata file."""

    snapshots: tuple[Snapshot, ...]
    statistics: tuple[str, ...]


def walk_root(table: TableMetadata, *, known: Container[int] = ()) -> WalkRoot:
    """The references of a metadata file, without snapshots that are known already."""
    return WalkRoot(
        tuple(snapshot for key, snapshot in table.snapshots.items() if key not in known),
        tuple(file.statistics_path for file in (*table.statistics, *table.partition_statistics)),
    )


class ReachabilityProblem(NamedTuple):
    """A reason why not all references are known."""

    location: str
    kind: ObjectKind
    reason: Reason


@dataclass(slots=True)
class ReachableFiles:
    """Files that the roots refer to, by location."""

    snapshots: set[int] = field(default_factory=set)
    manifest_lists: set[str] = field(default_factory=set)
    manifests: set[str] = field(default_factory=set)
    data_files: set[str] = field(default_factory=set)
    delete_files: set[str] = field(default_factory=set)
    statistics: set[str] = field(default_factory=set)
    problems: list[ReachabilityProblem] = field(default_factory=list)

    def kinds(self) -> Sequence[tuple[ObjectKind, set[str]]]:
        """The files by kind."""
        return (
            (ObjectKind.MANIFEST_LIST, self.manifest_lists),
            (ObjectKind.MANIFEST_FILE, self.manifests),
            (ObjectKind.DATA_FILE, self.data_files),
            (ObjectKind.DELETE_FILE, self.delete_files),
            (ObjectKind.STATISTICS_FILE, self.statistics),
        )


class LiveFiles(NamedTuple):
    """The live files of a snapshot."""

    data: list[DataFile]
    deletes: list[DataFile]
    problems: list[ReachabilityProblem]
    manifests: tuple[ManifestFile, ...] = ()


class Walker:
    """Reads the references of snapshots."""

    def __init__(self, files: FileSource, limits: WalkLimits = DEFAULT_WALK_LIMITS) -> None:
        self._files = files
        self._limits = limits

    async def walk(self, roots: Iterable[WalkRoot]) -> ReachableFiles:
        """All files that the roots refer to. Beyond the limits the walk ends with a problem."""
        reached = ReachableFiles()
        lists: dict[str, Snapshot] = {}
        lines: dict[str, ManifestFile] = {}
        for root in roots:
            reached.statistics.update(map(normalized, root.statistics))
            for snapshot in root.snapshots:
                reached.snapshots.add(snapshot.snapshot_id)
                if snapshot.manifest_list is not None:
                    lists.setdefault(normalized(snapshot.manifest_list), snapshot)
                for path in snapshot.manifests or ():
                    lines.setdefault(normalized(path), _unlisted(path))
        reached.manifest_lists.update(lists)
        for lines_of, problem in await _each(lists.items(), lambda item: self._list(*item)):
            _note(reached.problems, problem)
            for line in lines_of:
                lines.setdefault(normalized(line.path), line)
        reached.manifests.update(lines)
        if len(lines) > self._limits.manifests:
            reached.problems.append(ReachabilityProblem("", ObjectKind.MANIFEST_FILE, Reason.TOO_MANY_FILES))
            return reached
        await self._follow(lines, reached)
        return reached

    async def manifests(self, snapshot: Snapshot) -> tuple[tuple[ManifestFile, ...], list[ReachabilityProblem]]:
        """The manifests of one snapshot, as its manifest list describes them. Reads one small file."""
        problems: list[ReachabilityProblem] = []
        lines: dict[str, ManifestFile] = {normalized(path): _unlisted(path) for path in snapshot.manifests or ()}
        if snapshot.manifest_list is not None:
            lines_of, problem = await self._list(normalized(snapshot.manifest_list), snapshot)
            _note(problems, problem)
            lines.update((normalized(line.path), line) for line in lines_of)
        return tuple(lines.values()), problems

    async def live_files(self, snapshot: Snapshot) -> LiveFiles:
        """The live files of one snapshot, without column statistics.

        Beyond the limits no manifest is read, and a problem is returned.
        """
        lines, problems = await self.manifests(snapshot)
        found = LiveFiles([], [], problems, lines)
        files = sum((line.added_files_count or 0) + (line.existing_files_count or 0) for line in lines)
        if len(lines) > self._limits.manifests or files > self._limits.files:
            kind = ObjectKind.MANIFEST_FILE if len(lines) > self._limits.manifests else ObjectKind.DATA_FILE
            problems.append(ReachabilityProblem("", kind, Reason.TOO_MANY_FILES))
            return found
        for entries, problem in await _each(lines, lambda line: self._manifest(normalized(line.path), line)):
            _note(problems, problem)
            for file in entries:
                (found.data if file.content == FileContent.DATA else found.deletes).append(file)
        return found

    async def _follow(self, lines: dict[str, ManifestFile], reached: ReachableFiles) -> None:
        pending = list(lines.items())
        # A few at a time, so that the entries of a large table are not all in memory.
        for start in range(0, len(pending), _READS_AT_ONCE):
            batch = pending[start : start + _READS_AT_ONCE]
            for entries, problem in await _each(batch, lambda item: self._manifest(*item)):
                _note(reached.problems, problem)
                for file in entries:
                    is_data = file.content == FileContent.DATA
                    (reached.data_files if is_data else reached.delete_files).add(normalized(file.file_path))
            if len(reached.data_files) + len(reached.delete_files) > self._limits.files:
                reached.problems.append(ReachabilityProblem("", ObjectKind.DATA_FILE, Reason.TOO_MANY_FILES))
                return

    async def _list(self, location: str, snapshot: Snapshot) -> tuple[list[ManifestFile], ReachabilityProblem | None]:
        kind = ObjectKind.MANIFEST_LIST
        if snapshot.key_id is not None:
            # Encrypted by the client: its content is unknown here.
            return [], ReachabilityProblem(location, kind, Reason.UNSUPPORTED_MANIFEST_AVRO)
        return await self._read(location, kind, read_manifest_list)

    async def _manifest(self, location: str, line: ManifestFile) -> tuple[list[DataFile], ReachabilityProblem | None]:
        kind = ObjectKind.MANIFEST_FILE
        if line.key_metadata is not None:
            return [], ReachabilityProblem(location, kind, Reason.UNSUPPORTED_MANIFEST_AVRO)

        def parse(data: bytes) -> list[DataFile]:
            # A deleted entry is no live file; snapshots that still have the file name it themselves.
            entries = open_manifest(data).entries(line, columns=_NO_STATISTICS)
            return [entry.data_file for entry in entries if entry.status != EntryStatus.DELETED]

        return await self._read(location, kind, parse)

    async def _read(
        self, location: str, kind: ObjectKind, parse: Callable[[bytes], list[T]]
    ) -> tuple[list[T], ReachabilityProblem | None]:
        try:
            data = await self._files.read(location, DEFAULT_LIMITS.encoded_bytes)
            if len(data) <= _SMALL_BYTES:
                return parse(data), None
            return await asyncio.to_thread(parse, data), None
        except NotFound:
            return [], ReachabilityProblem(location, kind, Reason.MISSING_OBJECT)
        except AccessDenied:
            return [], ReachabilityProblem(location, kind, Reason.OUTSIDE_TABLE)
        except TooLarge:
            return [], ReachabilityProblem(location, kind, Reason.TOO_MANY_FILES)
        except InvalidInput:
            return [], ReachabilityProblem(location, kind, Reason.UNSUPPORTED_MANIFEST_AVRO)


def walker_of(files: FileSources, meta: Reader, entry_id: str, limits: WalkLimits = DEFAULT_WALK_LIMITS) -> Walker:
    """A walker confined to the files of one table, for one walk: it caches the table's directories."""
    return Walker(ConfinedFiles(files, meta, entry_id), limits)


Item = TypeVar("Item")


async def _each(
    items: Iterable[Item], read: Callable[[Item], Awaitable[tuple[list[T], ReachabilityProblem | None]]]
) -> list[tuple[list[T], ReachabilityProblem | None]]:
    """Read all of them, a few at a time, in order."""
    wanted = list(items)
    found: list[tuple[list[T], ReachabilityProblem | None]] = []
    for start in range(0, len(wanted), _READS_AT_ONCE):
        batch = wanted[start : start + _READS_AT_ONCE]
        # The whole batch ends before an error is raised: no read is left running.
        results = await asyncio.gather(*(read(item) for item in batch), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
            found.append(result)
    return found


def _note(problems: list[ReachabilityProblem], problem: ReachabilityProblem | None) -> None:
    if problem is not None:
        problems.append(problem)


def _unlisted(path: str) -> ManifestFile:
    """The entry of a manifest that a snapshot names without a manifest list, as in early tables."""
    return ManifestFile(
        path=path,
        length=0,
        partition_spec_id=0,
        content=ManifestContent.DATA,
        sequence_number=0,
        min_sequence_number=0,
        added_snapshot_id=None,
        added_files_count=None,
        existing_files_count=None,
        deleted_files_count=None,
        added_rows_count=None,
        existing_rows_count=None,
        deleted_rows_count=None,
        partitions=None,
        key_metadata=None,
        first_row_id=None,
    )
