"""Validates a commit before it becomes visible: its metadata transition and its new snapshots.

The cost depends on the commit's changes. A snapshot's manifest list is read with its parent's; manifests in both are
not read. The snapshot's own manifests are read and their added files looked up; manifests that it drops are read to
find the files that were live in them (`file_changes`).

One rule would cost more: that no added file is already live in an inherited manifest. A file stored after the base was
committed cannot be, unless it was overwritten. Where a file is older, as in a retried commit whose response was lost,
the standard level reads a bounded number of the parent's newest manifests, where such a file would be; the strict level
reads all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from lakebed.core.errors import Corrupted, InvalidInput, NotFound, NotSupported, TooLarge
from lakebed.iceberg.manifests import ManifestContent, ManifestFile
from lakebed.iceberg.metadata.snapshots import ROW_LINEAGE_SINCE_VERSION, Snapshot
from lakebed.iceberg.metadata.statistics import PartitionStatisticsFile
from lakebed.iceberg.metadata.table import TableMetadata

from .commit_files import CommitFiles, CommitObjects
from .directory_scope import DirectoryScope, normalized, scope_of
from .file_changes import (
    FileChanges,
    already_live,
    check_operation,
    check_other_vectors,
    check_row_ids,
    check_vectors,
    compare_files,
    merge_manifests,
)
from .manifest_cache import ManifestCache
from .manifest_entries import EntryRules, ManifestContents, read_added_manifest, read_live_files
from .manifest_lists import by_location, compare_manifest_lists
from .model import (
    DEFAULT_COMMIT_LIMITS,
    CommitBudget,
    CommitLimits,
    CommitReport,
    FileKey,
    SnapshotChanges,
    TrackedFile,
    ValidationLevel,
)
from .transition import check_transition

__all__ = ["CommitValidator"]

_CLOCKS_APART_MS: Final = 2_000
"""Maximum clock skew between two servers."""
_GENERATIONS: Final = 16
"""Number of ancestors whose cached manifest list may share lines: other workers may have committed in between."""


class CommitValidator:
    """Validates commits."""

    def __init__(
        self,
        *,
        level: ValidationLevel = ValidationLevel.STANDARD,
        limits: CommitLimits = DEFAULT_COMMIT_LIMITS,
        memory: ManifestCache | None = None,
    ) -> None:
        self._level = level
        self._limits = limits
        self._memory = memory or ManifestCache()

    async def check(
        self, files: CommitFiles, base: TableMetadata | None, new: TableMetadata, *, adopted: bool = False
    ) -> CommitReport:
        """Check that `new` is a valid successor of `base`; their files are read through `files`.

        Raises InvalidInput, TooLarge, CommitConflict.

        `adopted` is for metadata from elsewhere, as of a registered table: its history may be long and partly expired,
        so only the snapshots of branches and tags are checked, each alone: its manifest list, the existence of its
        manifests, and its own additions. The strict level looks up all their live files.
        """
        if base is not None:
            check_transition(base, new, strict=self._level is ValidationLevel.STRICT)
        objects = CommitObjects(files, CommitBudget(self._limits), self._memory)
        return await _Validation(objects, self._level, self._limits, base, new, adopted=adopted).run()


class _Validation:
    """The validation of one commit."""

    def __init__(
        self,
        objects: CommitObjects,
        level: ValidationLevel,
        limits: CommitLimits,
        base: TableMetadata | None,
        new: TableMetadata,
        *,
        adopted: bool,
    ) -> None:
        self._base = base
        self._new = new
        self._adopted = adopted
        self._strict = level is ValidationLevel.STRICT
        self._limits = limits
        self._objects = objects
        self._scope = scope_of([new] if base is None else [new, base])
        self._lines: dict[int, Mapping[str, ManifestFile] | None] = {}
        self._surveys: dict[str, ManifestContents] = {}
        """The contents of the commit's own manifests, for its later snapshots."""

    async def run(self) -> CommitReport:
        added = self._new.snapshots_since(self._base)
        if self._adopted:
            heads = {reference.snapshot_id for reference in self._new.refs.values()}
            added = [snapshot for snapshot in added if snapshot.snapshot_id in heads]
        reports = [await self._check_snapshot(snapshot) for snapshot in _parents_first(added)]
        await self._check_removed_specs()
        await _check_statistics(self._base, self._new, self._scope, self._objects, self._limits)
        return CommitReport(tuple(reports), self._objects.observed)

    def _known(self, snapshot_id: int | None) -> Snapshot | None:
        """A snapshot in the new or the current metadata."""
        if snapshot_id is None:
            return None
        found = self._new.snapshots.get(snapshot_id)
        return self._base.snapshots.get(snapshot_id) if found is None and self._base is not None else found

    # -- one snapshot ---------------------------------------------------------------------------------------------

    async def _check_snapshot(self, snapshot: Snapshot) -> SnapshotChanges:
        if snapshot.manifest_list is None:
            raise InvalidInput(
                f"a new snapshot requires a manifest-list. snapshot={snapshot.snapshot_id}", argument="manifest-list"
            )
        where = self._scope.locate(snapshot.manifest_list, "manifest list")
        await self._objects.look([where, *self._lists_before(snapshot, 1)])
        await self._objects.find([where], "manifest list")
        lines = await self._lines_of(snapshot)
        if lines is None:
            self._allow_opaque(where)
            return SnapshotChanges(snapshot.snapshot_id, snapshot.operation, is_opaque=True)
        parent = await self._parent_lines(snapshot)
        version, specs = self._new.format_version, self._new.specs
        compared = compare_manifest_lists(snapshot, lines, parent, format_version=version, spec_ids=specs)
        await self._find_manifests(compared.added if parent is not None else lines)
        found = await self._read_own(snapshot, compared.added)
        live, lost = await self._read_dropped(compared.removed)
        is_opaque = found.is_opaque or live is None
        if parent is None or live is None or is_opaque:
            changes = FileChanges(found.added, found.existing, found.deleted)
        else:
            has_parent = snapshot.parent_snapshot_id is not None
            changes = compare_files(found, live, has_parent=has_parent, strict=self._strict)
        check_operation(snapshot.operation, changes)
        check_vectors(changes)
        if version >= ROW_LINEAGE_SINCE_VERSION:
            check_row_ids(changes)
        await self._find_files(changes.added.values())
        await self._check_inherited(compared.inherited, changes, knows_parent=parent is not None)
        return SnapshotChanges(
            snapshot.snapshot_id,
            snapshot.operation,
            manifests_inherited=len(compared.inherited),
            manifests_added=len(compared.added),
            manifests_removed=len(compared.removed),
            data_files_added=_count(changes.added, data=True),
            delete_files_added=_count(changes.added, data=False),
            data_files_removed=_count(changes.removed, data=True),
            delete_files_removed=_count(changes.removed, data=False),
            manifests_lost=lost,
            is_opaque=is_opaque,
        )

    # -- manifest lists -------------------------------------------------------------------------------------------

    async def _lines_of(self, snapshot: Snapshot) -> Mapping[str, ManifestFile] | None:
        """A snapshot's manifests by location; None if the list is encrypted, or missing as in the first tables."""
        key, where = snapshot.snapshot_id, snapshot.manifest_list
        if key not in self._lines:
            is_old = self._base is not None and key in self._base.snapshots
            if where is None:
                self._lines[key] = None
            elif is_old:
                self._lines[key] = await self._old_lines(normalized(where), snapshot)
            else:
                self._lines[key] = await self._new_lines(normalized(where), snapshot)
        return self._lines[key]

    async def _new_lines(self, where: str, snapshot: Snapshot) -> Mapping[str, ManifestFile] | None:
        known = await self._parent_lines(snapshot) or {}
        found = await self._objects.manifest_list(where, self._lists_before(snapshot))
        return None if found is None else by_location(found.lines, self._scope, known)

    async def _old_lines(self, where: str, snapshot: Snapshot) -> Mapping[str, ManifestFile] | None:
        try:
            found = await self._objects.manifest_list(where, self._lists_before(snapshot))
        except TooLarge:
            raise
        except (NotFound, InvalidInput) as error:
            # The inherited manifests are unknown without it. A branch can be reset to an earlier snapshot.
            raise Corrupted(f"manifest list of the parent snapshot cannot be read. location={where}") from error
        return None if found is None else {normalized(line.path): line for line in found.lines}

    def _lists_before(self, snapshot: Snapshot, generations: int = _GENERATIONS) -> Iterator[str]:
        """The lists of the nearest ancestors, the parent's first; only those in the table's directories."""
        for _ in range(0 if self._adopted else generations):
            parent = self._known(snapshot.parent_snapshot_id)
            if parent is None:
                return
            if parent.manifest_list is not None and self._scope.holds(location := normalized(parent.manifest_list)):
                yield location
            snapshot = parent

    async def _parent_lines(self, snapshot: Snapshot) -> Mapping[str, ManifestFile] | None:
        """The manifests of the parent: none without a parent, None if it is unknown."""
        if self._adopted:
            return None
        if snapshot.parent_snapshot_id is None:
            return {}
        parent = self._known(snapshot.parent_snapshot_id)
        return None if parent is None else await self._lines_of(parent)

    async def _check_removed_specs(self) -> None:
        """Reject the removal of a partition spec that manifests of branches and tags use."""
        removed = set() if self._base is None else self._base.specs.keys() - self._new.specs.keys()
        if not removed:
            return
        seen = {reference.snapshot_id for reference in self._new.refs.values()}
        for snapshot in self._new.snapshots.values():
            if self._strict or snapshot.snapshot_id in seen:
                for location, line in (await self._lines_of(snapshot) or {}).items():
                    if line.partition_spec_id in removed:
                        raise InvalidInput(
                            f"partition spec cannot be removed while a manifest uses it."
                            f" spec={line.partition_spec_id} manifest={location}",
                            argument="spec-ids",
                        )

    # -- manifests ------------------------------------------------------------------------------------------------

    async def _find_manifests(self, lines: Mapping[str, ManifestFile]) -> None:
        found = await self._objects.find(lines, "manifest")
        for location, line in lines.items():
            # The stated length of an encrypted manifest depends on the client's encryption.
            if line.key_metadata is None and found[location].size != line.length:
                raise InvalidInput(
                    f"length of the manifest differs from its manifest list."
                    f" manifest={location} listed={line.length} found={found[location].size}"
                )

    async def _read_own(self, snapshot: Snapshot, lines: Mapping[str, ManifestFile]) -> ManifestContents:
        first_row_id = snapshot.first_row_id or 0
        rules = EntryRules(
            snapshot_id=snapshot.snapshot_id,
            format_version=self._new.format_version,
            first_row_id=first_row_id,
            end_row_id=first_row_id + (snapshot.added_rows or 0),
            partition_sizes={spec_id: len(spec.fields) for spec_id, spec in self._new.specs.items()},
            column_ids={column_id for schema in self._new.schemas.values() for column_id in schema.columns},
            scope=self._scope,
            strict=self._strict,
        )

        def parse(data: bytes, location: str, line: ManifestFile) -> ManifestContents:
            return read_added_manifest(data, location, line, rules, self._limits)

        surveys = await self._objects.manifests(lines, parse)
        for location, found in surveys.items():
            if found is None:
                raise InvalidInput(f"manifest does not exist. location={location}", argument="location")
            if found.is_opaque:
                self._allow_opaque(location)
            self._surveys[location] = found
        return merge_manifests(found for found in surveys.values() if found is not None)

    async def _read_dropped(self, lines: Mapping[str, ManifestFile]) -> tuple[dict[FileKey, TrackedFile] | None, int]:
        """The live files of dropped manifests, unless encrypted; and the number of missing manifests.

        A table that lost a manifest can only be repaired by dropping it: its files count as removed.
        """
        live: dict[FileKey, TrackedFile] = {}
        surveys = await self._read_old(lines)
        for found in surveys.values():
            if found is not None:
                live.update(found.existing)
                live.update(found.added)
        lost = sum(found is None for found in surveys.values())
        is_opaque = any(found is not None and found.is_opaque for found in surveys.values())
        return None if is_opaque else live, lost

    def _allow_opaque(self, location: str) -> None:
        if self._strict:
            raise NotSupported(f"encrypted manifests cannot be validated strictly. location={location}")

    async def _read_old(self, lines: Mapping[str, ManifestFile]) -> dict[str, ManifestContents | None]:
        def parse(data: bytes, location: str, line: ManifestFile) -> ManifestContents:
            try:
                return read_live_files(data, line, self._limits)
            except TooLarge:
                raise
            except InvalidInput as error:
                raise Corrupted(f"manifest of the parent snapshot cannot be read. location={location}") from error

        found: dict[str, ManifestContents | None] = {
            location: self._surveys[location] for location in lines if location in self._surveys
        }
        found |= await self._objects.remembered({key: line for key, line in lines.items() if key not in found})
        unread = {location: line for location, line in lines.items() if location not in found}
        return {**found, **await self._objects.manifests(unread, parse)}

    # -- files ----------------------------------------------------------------------------------------------------

    async def _find_files(self, files: Collection[TrackedFile]) -> None:
        found = await self._objects.find((file.location for file in files), "file")
        for file in files:
            if not file.is_encrypted and found[file.location].size != file.size:
                raise InvalidInput(
                    f"size of the file differs from its manifest."
                    f" file={file.location} listed={file.size} found={found[file.location].size}"
                )

    async def _check_inherited(
        self, inherited: Mapping[str, ManifestFile], changes: FileChanges, *, knows_parent: bool
    ) -> None:
        """Reject files and deletion vectors that inherited manifests already have, as far as these are read."""
        if self._strict:
            await self._check_all(inherited, changes, knows_parent=knows_parent)
            return
        if not knows_parent and not self._adopted:
            # These may not be the parent's, which were validated with it.
            for found in (await self._read_old(inherited)).values():
                self._check_places(found)
        vectors = {file.referenced for file in changes.added.values() if file.referenced is not None}
        wanted = {location: line for location, line in inherited.items() if location in self._surveys}
        if self._could_be_live(changes.added.values()):
            wanted |= self._newest(inherited)
        if vectors:
            wanted |= self._newest(
                {key: line for key, line in inherited.items() if line.content == ManifestContent.DELETES}
            )
        for found in (await self._read_old(wanted)).values():
            if found is not None:
                _check_stays(found, changes, vectors)

    def _could_be_live(self, files: Iterable[TrackedFile]) -> bool:
        """Whether a file existed when the base was committed. Both times are from servers' clocks."""
        if self._base is None:
            return False
        committed_ms = self._base.last_updated_ms + _CLOCKS_APART_MS
        return any(self._objects.observed[file.location].modified_ms <= committed_ms for file in files)

    def _newest(self, lines: Mapping[str, ManifestFile]) -> dict[str, ManifestFile]:
        def age(item: tuple[str, ManifestFile]) -> tuple[int, int]:
            snapshot = self._known(item[1].added_snapshot_id)
            return item[1].sequence_number, 0 if snapshot is None else snapshot.timestamp_ms

        chosen: dict[str, ManifestFile] = {}
        size = 0
        for location, line in sorted(lines.items(), key=age, reverse=True):
            size += line.length
            if len(chosen) == self._limits.recent_manifests or size > self._limits.recent_bytes:
                break
            chosen[location] = line
        return chosen

    def _check_places(self, found: ManifestContents | None) -> None:
        for file in () if found is None else (*found.existing.values(), *found.added.values()):
            self._scope.locate(file.location, "file")

    async def _check_all(
        self, inherited: Mapping[str, ManifestFile], changes: FileChanges, *, knows_parent: bool
    ) -> None:
        """The strict level: every live file exists, once; deletion vectors are for live data files."""
        vectors = {file.referenced for file in changes.added.values() if file.referenced is not None}
        live = {**changes.kept, **changes.added}
        for location, found in (await self._read_old(inherited)).items():
            if found is None:
                raise InvalidInput(f"manifest does not exist. location={location}", argument="location")
            if found.is_opaque:
                self._allow_opaque(location)
            if not knows_parent:
                self._check_places(found)
            _check_stays(found, changes, vectors)
            for files in (found.existing, found.added):
                if not live.keys().isdisjoint(files):
                    key = next(iter(live.keys() & files.keys()))
                    raise InvalidInput(f"file is listed twice. file={files[key].location}")
                live.update(files)
        await self._find_files(live.values())
        data = {file.location for file in live.values() if file.is_data}
        for file in live.values():
            if file.referenced is not None and file.referenced not in data:
                raise InvalidInput(f"deletion vector refers to a file that is not live. file={file.referenced}")


def _check_stays(found: ManifestContents, changes: FileChanges, vectors: Collection[str]) -> None:
    for files in (found.existing, found.added):
        if not changes.added.keys().isdisjoint(files):
            raise already_live(files[next(iter(changes.added.keys() & files.keys()))])
        if vectors:
            check_other_vectors(vectors, files.values())


def _count(files: Mapping[FileKey, TrackedFile], *, data: bool) -> int:
    return sum(file.is_data is data for file in files.values())


def _parents_first(snapshots: Sequence[Snapshot]) -> list[Snapshot]:
    """The snapshots, each after its parent. Raises InvalidInput for a cycle."""
    waiting = {snapshot.snapshot_id: snapshot for snapshot in snapshots}
    ordered: list[Snapshot] = []
    for snapshot in snapshots:
        line: dict[int, Snapshot] = {}
        following: Snapshot | None = waiting.pop(snapshot.snapshot_id, None)
        while following is not None:
            line[following.snapshot_id] = following
            parent_id = following.parent_snapshot_id
            if parent_id in line:
                raise InvalidInput(f"snapshot is its own ancestor. snapshot={parent_id}", argument="parent-snapshot-id")
            following = None if parent_id is None else waiting.pop(parent_id, None)
        ordered += reversed(line.values())
    return ordered


async def _check_statistics(
    base: TableMetadata | None, new: TableMetadata, scope: DirectoryScope, objects: CommitObjects, limits: CommitLimits
) -> None:
    """Check the statistics files that the commit adds. Raises InvalidInput, TooLarge."""
    known = set() if base is None else {_statistics_identity(file) for file in _statistics_files(base)}
    added = [file for file in _statistics_files(new) if _statistics_identity(file) not in known]
    if len(added) > limits.statistics_files:
        raise TooLarge(f"commit has too many statistics files. maximum={limits.statistics_files}")
    if sum(file.file_size_in_bytes for file in added) > limits.statistics_bytes:
        raise TooLarge(f"commit has too many bytes of statistics. maximum={limits.statistics_bytes}")
    located = [(scope.locate(file.statistics_path, "statistics file"), file.file_size_in_bytes) for file in added]
    found = await objects.find((location for location, _ in located), "statistics file")
    for location, size in located:
        if size > limits.statistics_file_bytes:
            raise TooLarge(f"statistics file is too large. location={location} maximum={limits.statistics_file_bytes}")
        if found[location].size != size:
            raise InvalidInput(
                f"size of the statistics file differs from the commit."
                f" location={location} stated={size} found={found[location].size}"
            )


def _statistics_files(table: TableMetadata) -> list[PartitionStatisticsFile]:
    return [*table.statistics, *table.partition_statistics]


def _statistics_identity(file: PartitionStatisticsFile) -> tuple[int, str, int]:
    return file.snapshot_id, file.statistics_path, file.file_size_in_bytes
