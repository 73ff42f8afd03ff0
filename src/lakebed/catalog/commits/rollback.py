"""Rolls a table back to an earlier metadata file.

If the earlier file keeps every counter of the current one, the pointer moves to it. If columns, partitions or snapshots
were added since, that would assign their ids a second time; then the earlier state is committed forward: schema, spec,
order, properties, location, branches and tags are restored, and later additions stay unused. A rollback that needs
something removed since is rejected.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import NamedTuple

import msgspec

from lakebed.core.errors import CommitConflict, InvalidInput
from lakebed.iceberg.commits.updates import parse_table_updates
from lakebed.iceberg.documents import DocumentElement, split
from lakebed.iceberg.metadata.parsing import parse_table
from lakebed.iceberg.metadata.references import SnapshotReference
from lakebed.iceberg.metadata.table import TableMetadata
from lakebed.meta.seam import MetaStore

from .. import rows
from ..access.authorization import Action
from ..entries import Entries, LoadedEntry
from ..idempotency import Mutation
from ..identifiers import Identifier
from ..model import Entry, EntryKind
from ..tables.files import CatalogFiles, parse_location
from ..validation.transition import check_transition, is_equivalent
from .commit_log import CommitRecord
from .metadata_pointers import PointerMoves, same_file
from .service import CommitOptions, Commits, TableChange

OPERATION = "rollback"
"""The operation in the commit log."""


class RollbackMode(StrEnum):
    """How a table was rolled back."""

    POINTER = "pointer"
    """By a pointer move to the file itself."""
    FORWARD = "forward"
    """By a new file with the earlier state."""
    NONE = "none"
    """Not at all: the file was current already."""


class RolledBack(NamedTuple):
    """A table after a rollback."""

    committed: LoadedEntry
    mode: RollbackMode


class Rollback:
    """Rolls tables back."""

    def __init__(
        self, meta: MetaStore, entries: Entries, files: CatalogFiles, commits: Commits, pointers: PointerMoves
    ) -> None:
        self._meta = meta
        self._entries = entries
        self._files = files
        self._commits = commits
        self._pointers = pointers

    async def roll_back(
        self,
        mutation: Mutation,
        catalog_name: str,
        identifier: Identifier,
        target_at: str,
        *,
        expected_token: str,
        commit_id: str = "",
        writer: str = "",
    ) -> RolledBack:
        """Restore the state of an earlier metadata file of the table.

        Raises NoSuchTable; CommitConflict if the table is not at the expected version; InvalidInput if the file is not
        one of the table's, or its state cannot be restored.
        """
        known = await self._entries.get(
            mutation.caller, catalog_name, identifier, EntryKind.TABLE, Action.UPDATE_METADATA_LOCATION
        )
        entry = known.entry
        written = b"[]\n" + msgspec.json.encode({OPERATION: target_at})
        repeated = await self._pointers.repeated(known, commit_id, _same_as(target_at, written, expected_token))
        if repeated is not None:
            to_file = repeated.record.metadata_at == target_at
            return RolledBack(repeated.committed, RollbackMode.POINTER if to_file else RollbackMode.FORWARD)
        if entry.version_token != expected_token:
            raise CommitConflict(f"table is not at the version that the rollback expects. table={identifier}")
        base = await self._commits.parsed(known.catalog, entry)
        await self._check_own(entry, base, target_at)
        if same_file(target_at, entry.metadata_at):
            return RolledBack(await self._entries.with_metadata(known), RollbackMode.NONE)
        target = parse_table(await self._files.of(known.catalog).read_metadata_for(mutation.caller, target_at))
        if keeps_watermarks(base, target):
            moved = await self._pointers.move(
                mutation,
                catalog_name,
                identifier,
                target_at,
                expected_token=expected_token,
                operation=OPERATION,
                commit_id=commit_id,
            )
            return RolledBack(moved, RollbackMode.POINTER)
        updates = parse_table_updates(msgspec.json.encode(rollback_updates(base, target)))
        committed = await self._commits.commit(
            mutation,
            catalog_name,
            TableChange(identifier, (), updates, written),
            CommitOptions(commit_id, OPERATION, writer, expected_token),
        )
        return RolledBack(committed, RollbackMode.FORWARD)

    async def _check_own(self, entry: Entry, base: TableMetadata, target_at: str) -> None:
        """Reject a file that is not in the table's commit log, metadata log or directories."""
        if any(same_file(target_at, one.metadata_file) for one in base.metadata_log):
            return
        if await self._meta.row(rows.COMMITTED_METADATA, entry.id, target_at) is not None:
            return
        address = parse_location(target_at)
        for (prefix,) in await self._meta.rows(rows.LOCATIONS_OF, entry.id):
            if address.bucket == parse_location(entry.location).bucket and address.key.startswith(prefix):
                return
        raise InvalidInput(
            f"metadata file is not one of this table: neither its logs nor its directories contain it."
            f" metadata-location={target_at}",
            argument="metadata-location",
        )


def keeps_watermarks(base: TableMetadata, target: TableMetadata) -> bool:
    """Whether the target is a valid successor of the base. Raises InvalidInput if it is another table."""
    if base.uuid is not None and (target.uuid or "").lower() != base.uuid.lower():
        raise InvalidInput(
            f"metadata file is of another table. uuid={target.uuid} expected={base.uuid}",
            argument="metadata-location",
        )
    try:
        check_transition(base, target, strict=False)
    except InvalidInput:
        return False
    return True


def rollback_updates(base: TableMetadata, target: TableMetadata) -> list[dict[str, object]]:
    """The updates of a commit that restores an earlier state. Raises InvalidInput if something it needs was removed.

    The base must still have what the target names, under the same id and with the same meaning.
    """
    updates: list[dict[str, object]] = []
    kept = base.schemas.get(target.current_schema_id)
    if kept is None or not kept.is_equivalent(target.schema):
        raise _removed("schema", target.current_schema_id)
    _check_kept("partition spec", target.default_spec_id, base.specs, target.specs)
    _check_kept("sort order", target.default_sort_order_id, base.sort_orders, target.sort_orders)
    if target.location != base.location:
        updates.append({"action": "set-location", "location": target.location})
    if target.current_schema_id != base.current_schema_id:
        updates.append({"action": "set-current-schema", "schema-id": target.current_schema_id})
    if target.default_spec_id != base.default_spec_id:
        updates.append({"action": "set-default-spec", "spec-id": target.default_spec_id})
    if target.default_sort_order_id != base.default_sort_order_id:
        updates.append({"action": "set-default-sort-order", "sort-order-id": target.default_sort_order_id})
    updates += _properties(base.properties, target.properties)
    updates += [{"action": "remove-snapshot-ref", "ref-name": name} for name in base.refs if name not in target.refs]
    for name, reference in target.refs.items():
        updates.append(_reference(base, name, reference))
    return updates


def _properties(base: Mapping[str, str], target: Mapping[str, str]) -> list[dict[str, object]]:
    changed = {name: value for name, value in target.items() if base.get(name) != value}
    removed = [name for name in base if name not in target]
    updates: list[dict[str, object]] = []
    if removed:
        updates.append({"action": "remove-properties", "removals": removed})
    if changed:
        updates.append({"action": "set-properties", "updates": changed})
    return updates


def _reference(base: TableMetadata, name: str, reference: SnapshotReference) -> dict[str, object]:
    if reference.snapshot_id not in base.snapshots:
        raise _removed("snapshot", reference.snapshot_id)
    return {"action": "set-snapshot-ref", "ref-name": name, **split(reference.written, "refs")}


def _check_kept(
    what: str, wanted: int, base: Mapping[int, DocumentElement], target: Mapping[int, DocumentElement]
) -> None:
    kept = base.get(wanted)
    if kept is None or not is_equivalent(kept, target[wanted]):
        raise _removed(what, wanted)


def _removed(what: str, wanted: int) -> InvalidInput:
    return InvalidInput(
        f"rollback is not possible: the {what} was removed since. id={wanted}", argument="metadata-location"
    )


def _same_as(target_at: str, written: bytes, expected_token: str) -> Callable[[CommitRecord], bool]:
    """Matches the record of a rollback: by its metadata file, or by its digest if it was committed forward."""

    def is_this(record: CommitRecord) -> bool:
        to_same = record.metadata_at == target_at or record.request_digest == hashlib.sha256(written).hexdigest()
        return record.operation == OPERATION and to_same and record.expected_token == expected_token

    return is_this
