"""Lists a table's files and plans a removal. Reads rows, metadata files and manifests, and no data files.

The version of the table is read first: the plan is valid for that version, and a removal checks that the table still
has it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from lakebed.catalog import rows as catalog_rows
from lakebed.catalog.entries import LiveEntry
from lakebed.catalog.tables.files import (
    FileAddress,
    FileSource,
    FileSources,
    ListingSource,
    parse_location,
    unpack_metadata,
)
from lakebed.core.errors import InvalidInput, NotFound
from lakebed.iceberg.metadata import TableMetadata, parse_table
from lakebed.meta.seam import Reader

from .files import MAX_LISTED, ObjectKind, ObjectReport, ObjectState, Reason, kind_of
from .removal_plan import (
    MetadataHistory,
    RemovalPlan,
    StoredFile,
    decide_metadata_file,
    decide_object,
    graph_report,
    history_of,
    report_file,
    split_metadata_files,
)
from .walking import (
    DEFAULT_WALK_LIMITS,
    ReachabilityProblem,
    ReachableFiles,
    WalkLimits,
    WalkRoot,
    walk_root,
    walker_of,
)

__all__ = ["MAX_METADATA_READ", "Surveyor"]

MAX_METADATA_READ: Final = 2000
"""The number of metadata files that one plan reads."""
MAX_UNLISTED: Final = 500
"""The number of metadata files that one plan decides on, oldest first. The next plan continues."""

REPLACED_SINCE: Final = (
    "SELECT previous_at FROM entry_commits WHERE entry = ? AND committed_ms > ? AND previous_at IS NOT NULL"
    " AND previous_at <> metadata_at ORDER BY generation DESC LIMIT ?"
)
_STAT_BATCH: Final = 1000
_METADATA_LIMIT: Final = 50 * 1024 * 1024
_SMALL_BYTES: Final = 32 * 1024


class _Named(NamedTuple):
    """The content of a metadata file, as far as the plan needs it."""

    root: WalkRoot
    """What it names beyond the current metadata."""
    snapshot_ids: frozenset[int]
    is_ahead: bool
    """Whether it is of the same table and newer than the current one."""


class Surveyor:
    """Plans removals."""

    def __init__(self, reader: Reader, files: FileSources, limits: WalkLimits = DEFAULT_WALK_LIMITS) -> None:
        self._reader = reader
        self._files = files
        self._limits = limits

    async def plan(
        self, known: LiveEntry, table: TableMetadata, *, retain_recent: int, watermark_ms: int
    ) -> RemovalPlan:
        """The removal plan of a table, whose metadata at the version known is `table`."""
        entry, files = known.entry, self._files.of(known.catalog)
        replaced = await self._reader.rows(REPLACED_SINCE, entry.id, watermark_ms, MAX_METADATA_READ + 1)
        history = history_of(table, entry.metadata_at, (row[0] for row in replaced))
        listed, unrecognized = await self._list(files, known, table)
        metadata_files = [file for kind, file in listed if kind is ObjectKind.METADATA_FILE]
        split = split_metadata_files(metadata_files, history, retain_recent=retain_recent, watermark_ms=watermark_ms)
        unlisted = split.unlisted[:MAX_UNLISTED]
        # A registered table may have had its metadata outside its directories.
        elsewhere = history.recently_current - {file.location for file in metadata_files} - {history.current_at}
        roots = [*split.roots, *sorted(filter(_is_ours, elsewhere))]
        wanted = list(dict.fromkeys([*roots, *(file.location for file in unlisted)]))
        named = await _read_metadata(files, wanted[:MAX_METADATA_READ], table)
        suspects = await self._suspects(entry.id, named, unlisted)
        problems = [
            ReachabilityProblem(location, ObjectKind.METADATA_FILE, reason) for location, reason in suspects.items()
        ]
        if max(len(roots), len(replaced)) > MAX_METADATA_READ:
            problems.append(ReachabilityProblem("", ObjectKind.METADATA_FILE, Reason.TOO_MANY_FILES))
        if not history.collects:
            problems.append(ReachabilityProblem("", ObjectKind.METADATA_FILE, Reason.GC_DISABLED))
        if Reason.NEWER_THAN_CURRENT in suspects.values():
            # Which metadata files the other writer needs is unknown.
            history = history._replace(collects=False)
        followed = [found.root for location in roots if (found := named.get(location)) is not None]
        walker = walker_of(self._files, self._reader, entry.id, self._limits)
        reached = await walker.walk([walk_root(table), *followed])
        problems += reached.problems
        problems += await _missing(files, reached, {file.location for _, file in listed})
        return _assembled(
            known=known,
            history=history,
            retain_recent=retain_recent,
            watermark_ms=watermark_ms,
            listed=listed,
            retained=split.retained,
            # A file deleted since then needs no decision.
            unlisted=[file for file in unlisted if file.location in named],
            named=named,
            suspects=suspects,
            reached=reached,
            problems=problems,
            unrecognized=unrecognized,
            is_partial=len(split.unlisted) > MAX_UNLISTED or len(wanted) > MAX_METADATA_READ,
            has_young_roots=split.has_young_roots or bool(elsewhere),
        )

    async def _list(
        self, files: ListingSource, known: LiveEntry, table: TableMetadata
    ) -> tuple[list[tuple[ObjectKind, StoredFile]], int]:
        """The files in the table's directories with their kind, and the number of other files."""
        bucket, folders = known.catalog.bucket_name, _metadata_folders(table)
        listed: list[tuple[ObjectKind, StoredFile]] = []
        unrecognized = 0
        for (prefix,) in await self._reader.rows(catalog_rows.LOCATIONS_OF, known.entry.id):
            async for file in files.list(FileAddress(bucket, prefix)):
                kind = kind_of(file.key, folders)
                if kind is None:
                    unrecognized += 1
                else:
                    listed.append((kind, StoredFile(str(FileAddress(bucket, file.key)), *file)))
        return listed, unrecognized

    async def _suspects(
        self, entry_id: str, named: Mapping[str, _Named | None], unlisted: Sequence[StoredFile]
    ) -> dict[str, Reason]:
        """Metadata files that make references unknown, and why."""
        suspects = {location: Reason.UNREADABLE_METADATA for location, found in named.items() if found is None}
        for file in unlisted:
            found = named.get(file.location)
            if found is not None and found.is_ahead:
                # A commit of this catalog that the table was rolled back from is not another writer's.
                ours = await self._reader.row(catalog_rows.COMMITTED_METADATA, entry_id, file.location)
                if ours is None:
                    suspects[file.location] = Reason.NEWER_THAN_CURRENT
        return suspects


async def _read_metadata(files: FileSource, locations: Iterable[str], table: TableMetadata) -> dict[str, _Named | None]:
    """The contents of metadata files; None if unreadable. Missing ones are omitted."""
    found: dict[str, _Named | None] = {}
    for location in locations:
        try:
            data = await files.read(location, _METADATA_LIMIT)
            found[location] = await _parsed(data, table)
        except NotFound:
            continue
        except InvalidInput:
            found[location] = None
    return found


async def _missing(files: FileSource, reached: ReachableFiles, there: set[str]) -> list[ReachabilityProblem]:
    """References to missing files. Files outside the table's directories are checked one by one."""
    missing: list[ReachabilityProblem] = []
    known = {problem.location for problem in reached.problems}
    for kind, locations in reached.kinds():
        unseen = sorted(locations - there - known)
        for start in range(0, len(unseen), _STAT_BATCH):
            batch = [location for location in unseen[start : start + _STAT_BATCH] if _is_ours(location)]
            for location, facts in (await files.stat(batch)).items():
                if facts is None:
                    missing.append(ReachabilityProblem(location, kind, Reason.MISSING_OBJECT))
    return missing


def _assembled(
    *,
    known: LiveEntry,
    history: MetadataHistory,
    retain_recent: int,
    watermark_ms: int,
    listed: Sequence[tuple[ObjectKind, StoredFile]],
    retained: Mapping[str, tuple[Reason, ...]],
    unlisted: Sequence[StoredFile],
    named: Mapping[str, _Named | None],
    suspects: Mapping[str, Reason],
    reached: ReachableFiles,
    problems: Sequence[ReachabilityProblem],
    unrecognized: int,
    is_partial: bool,
    has_young_roots: bool,
) -> RemovalPlan:
    referred: dict[str, ObjectKind] = {}
    for kind, locations in reached.kinds():
        referred.update(dict.fromkeys(locations, kind))
    stays: list[ObjectReport] = []
    candidates: list[ObjectReport] = []
    files: dict[str, StoredFile] = {}
    for file in unlisted:
        if file.location in referred:
            continue
        found = named[file.location]
        names = frozenset[int]() if found is None else found.snapshot_ids
        report = decide_metadata_file(file, names, history, watermark_ms, suspects.get(file.location))
        (stays if report.state is ObjectState.RETAINED else candidates).append(report)
        if report.state is ObjectState.DELETABLE:
            files[file.location] = file
    referenced: list[ObjectReport] = []
    objects: list[ObjectReport] = []
    for kind, file in listed:
        if file.location in retained:
            reasons = retained[file.location]
            stays.append(report_file(file, ObjectKind.METADATA_FILE, ObjectState.RETAINED, reasons))
        elif kind is not ObjectKind.METADATA_FILE or file.location in referred:
            report = decide_object(
                file, kind, referred.get(file.location), is_complete=not problems, watermark_ms=watermark_ms
            )
            (referenced if report.state is ObjectState.RETAINED else objects).append(report)
            if report.state is ObjectState.DELETABLE:
                files[file.location] = file
    return RemovalPlan(
        metadata_at=known.entry.metadata_at,
        generation=known.entry.generation,
        version_token=known.entry.version_token,
        retain_recent=retain_recent,
        watermark_ms=watermark_ms,
        retained=tuple(stays),
        metadata=tuple(candidates),
        referenced=tuple(referenced),
        objects=tuple(objects),
        graph=graph_report(reached, problems, len(stays), most=MAX_LISTED),
        files=files,
        unrecognized=unrecognized,
        is_partial=is_partial,
        has_young_roots=has_young_roots,
    )


async def _parsed(data: bytes, table: TableMetadata) -> _Named:
    def parse() -> _Named:
        other = parse_table(unpack_metadata(data))
        is_ahead = other.uuid == table.uuid and other.last_updated_ms > table.last_updated_ms
        return _Named(walk_root(other, known=table.snapshots), frozenset(other.snapshots), is_ahead)

    return parse() if len(data) <= _SMALL_BYTES else await asyncio.to_thread(parse)


def _metadata_folders(table: TableMetadata) -> list[str]:
    folders = [f"{parse_location(table.location).directory}metadata/"]
    elsewhere = table.properties.get("write.metadata.path")
    if elsewhere:
        folders.append(parse_location(elsewhere).directory)
    return folders


def _is_ours(location: str) -> bool:
    """Whether a location is in this store. Others can be neither checked nor removed."""
    try:
        parse_location(location)
    except InvalidInput:
        return False
    return True
