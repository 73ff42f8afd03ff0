"""Follows snapshots to their files: manifest lists, manifests of both kinds, data, delete and statistics files.

Each list and manifest is read once, however many snapshots share it. What cannot be read, or is not there, is noted and
passed over: whoever asks decides what may be concluded from the rest. So is a manifest outside the table's directories:
a writer may overwrite a manifest list, and reports show what is read here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Container, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeVar

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
from lakebed.tables.confined_files import ConfinedFiles
from lakebed.tables.files import FileSource
from lakebed.tables.validation.scope import spelled

from .model import ObjectKind, Reason

__all__ = [
    "DEFAULT_WALK_LIMITS",
    "LiveFiles",
    "Problem",
    "Reached",
    "Root",
    "WalkLimits",
    "Walker",
    "root_of",
    "walker_of",
]

T = TypeVar("T")

_READS_AT_ONCE: Final = 8
_SMALL_BYTES: Final = 32 * 1024
"""Parsing less than this takes no longer than handing it to a thread."""
_NO_STATISTICS: Final[frozenset[int]] = frozenset()


@dataclass(frozen=True, slots=True)
class WalkLimits:
    """How much is read for one job. A table beyond them is for the pipeline."""

    manifests: int = 20_000
    files: int = 2_000_000


DEFAULT_WALK_LIMITS: Final = WalkLimits()


class Root(NamedTuple):
    """What a metadata file names, to be followed."""

    snapshots: tuple[Snapshot, ...]
    statistics: tuple[str, ...]


def root_of(table: TableMetadata, *, known: Container[int] = ()) -> Root:
    """All that a metadata file names, but for snapshots that are known already."""
    return Root(
        tuple(snapshot for key, snapshot in table.snapshots.items() if key not in known),
        tuple(file.statistics_path for file in (*table.statistics, *table.partition_statistics)),
    )


class Problem(NamedTuple):
    """What keeps from knowing all that is referred to."""

    location: str
    kind: ObjectKind
    reason: Reason


@dataclass(slots=True)
class Reached:
    """What the roots refer to, by location."""

    snapshots: set[int] = field(default_factory=set)
    manifest_lists: set[str] = field(default_factory=set)
    manifests: set[str] = field(default_factory=set)
    data_files: set[str] = field(default_factory=set)
    delete_files: set[str] = field(default_factory=set)
    statistics: set[str] = field(default_factory=set)
    problems: list[Problem] = field(default_factory=list)

    def kinds(self) -> Sequence[tuple[ObjectKind, set[str]]]:
        """All of it, by kind."""
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
    problems: list[Problem]
    manifests: tuple[ManifestFile, ...] = ()


class Walker:
    """Reads what snapshots refer to."""

    def __init__(self, files: FileSource, limits: WalkLimits = DEFAULT_WALK_LIMITS) -> None:
        self._files = files
        self._limits = limits

    async def walk(self, roots: Iterable[Root]) -> Reached:
        """All that the roots refer to. Beyond the limits the walk ends, which is a problem of its own."""
        reached = Reached()
        lists: dict[str, Snapshot] = {}
        lines: dict[str, ManifestFile] = {}
        for root in roots:
            reached.statistics.update(map(spelled, root.statistics))
            for snapshot in root.snapshots:
                reached.snapshots.add(snapshot.snapshot_id)
                if snapshot.manifest_list is not None:
                    lists.setdefault(spelled(snapshot.manifest_list), snapshot)
                for path in snapshot.manifests or ():
                    lines.setdefault(spelled(path), _unlisted(path))
        reached.manifest_lists.update(lists)
        for lines_of, problem in await _each(lists.items(), lambda item: self._list(*item)):
            _note(reached.problems, problem)
            for line in lines_of:
                lines.setdefault(spelled(line.path), line)
        reached.manifests.update(lines)
        if len(lines) > self._limits.manifests:
            reached.problems.append(Problem("", ObjectKind.MANIFEST_FILE, Reason.TOO_MANY_FILES))
            return reached
        await self._follow(lines, reached)
        return reached

    async def manifests(self, snapshot: Snapshot) -> tuple[tuple[ManifestFile, ...], list[Problem]]:
        """The manifests of one snapshot, as its list describes them; one small file is read for it."""
        problems: list[Problem] = []
        lines: dict[str, ManifestFile] = {spelled(path): _unlisted(path) for path in snapshot.manifests or ()}
        if snapshot.manifest_list is not None:
            lines_of, problem = await self._list(spelled(snapshot.manifest_list), snapshot)
            _note(problems, problem)
            lines.update((spelled(line.path), line) for line in lines_of)
        return tuple(lines.values()), problems

    async def live_files(self, snapshot: Snapshot) -> LiveFiles:
        """The live files of one snapshot, with what manifests say of each but statistics.

        Beyond the limits no manifest is read, which is a problem of its own.
        """
        lines, problems = await self.manifests(snapshot)
        found = LiveFiles([], [], problems, lines)
        files = sum((line.added_files_count or 0) + (line.existing_files_count or 0) for line in lines)
        if len(lines) > self._limits.manifests or files > self._limits.files:
            kind = ObjectKind.MANIFEST_FILE if len(lines) > self._limits.manifests else ObjectKind.DATA_FILE
            problems.append(Problem("", kind, Reason.TOO_MANY_FILES))
            return found
        for entries, problem in await _each(lines, lambda line: self._manifest(spelled(line.path), line)):
            _note(problems, problem)
            for file in entries:
                (found.data if file.content == FileContent.DATA else found.deletes).append(file)
        return found

    async def _follow(self, lines: dict[str, ManifestFile], reached: Reached) -> None:
        pending = list(lines.items())
        # A few at a time: what the manifests of a large table hold is not all in memory at once.
        for start in range(0, len(pending), _READS_AT_ONCE):
            batch = pending[start : start + _READS_AT_ONCE]
            for entries, problem in await _each(batch, lambda item: self._manifest(*item)):
                _note(reached.problems, problem)
                for file in entries:
                    is_data = file.content == FileContent.DATA
                    (reached.data_files if is_data else reached.delete_files).add(spelled(file.file_path))
            if len(reached.data_files) + len(reached.delete_files) > self._limits.files:
                reached.problems.append(Problem("", ObjectKind.DATA_FILE, Reason.TOO_MANY_FILES))
                return

    async def _list(self, location: str, snapshot: Snapshot) -> tuple[list[ManifestFile], Problem | None]:
        kind = ObjectKind.MANIFEST_LIST
        if snapshot.key_id is not None:
            # Encrypted by the client: what it lists cannot be known here.
            return [], Problem(location, kind, Reason.UNSUPPORTED_MANIFEST_AVRO)
        return await self._read(location, kind, read_manifest_list)

    async def _manifest(self, location: str, line: ManifestFile) -> tuple[list[DataFile], Problem | None]:
        kind = ObjectKind.MANIFEST_FILE
        if line.key_metadata is not None:
            return [], Problem(location, kind, Reason.UNSUPPORTED_MANIFEST_AVRO)

        def parse(data: bytes) -> list[DataFile]:
            # A file that an entry deletes is no file of this snapshot; others that still have it name it themselves.
            entries = open_manifest(data).entries(line, columns=_NO_STATISTICS)
            return [entry.data_file for entry in entries if entry.status != EntryStatus.DELETED]

        return await self._read(location, kind, parse)

    async def _read(
        self, location: str, kind: ObjectKind, parse: Callable[[bytes], list[T]]
    ) -> tuple[list[T], Problem | None]:
        try:
            data = await self._files.read(location, DEFAULT_LIMITS.encoded_bytes)
            if len(data) <= _SMALL_BYTES:
                return parse(data), None
            return await asyncio.to_thread(parse, data), None
        except NotFound:
            return [], Problem(location, kind, Reason.MISSING_OBJECT)
        except AccessDenied:
            return [], Problem(location, kind, Reason.OUTSIDE_TABLE)
        except TooLarge:
            return [], Problem(location, kind, Reason.TOO_MANY_FILES)
        except InvalidInput:
            return [], Problem(location, kind, Reason.UNSUPPORTED_MANIFEST_AVRO)


def walker_of(files: FileSource, meta: Reader, entry_id: str, limits: WalkLimits = DEFAULT_WALK_LIMITS) -> Walker:
    """A walker that reads the files of one table only, for one walk: it remembers the table's directories."""
    return Walker(ConfinedFiles(files, meta, entry_id), limits)


Item = TypeVar("Item")


async def _each(
    items: Iterable[Item], read: Callable[[Item], Awaitable[tuple[list[T], Problem | None]]]
) -> list[tuple[list[T], Problem | None]]:
    """Read all of them, a few at a time, in order."""
    wanted = list(items)
    found: list[tuple[list[T], Problem | None]] = []
    for start in range(0, len(wanted), _READS_AT_ONCE):
        batch = wanted[start : start + _READS_AT_ONCE]
        # All of a batch come to their end, also when one of them fails: none is left running.
        results = await asyncio.gather(*(read(item) for item in batch), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
            found.append(result)
    return found


def _note(problems: list[Problem], problem: Problem | None) -> None:
    if problem is not None:
        problems.append(problem)


def _unlisted(path: str) -> ManifestFile:
    """The line of a manifest that a snapshot names itself, as those of the first tables do."""
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
