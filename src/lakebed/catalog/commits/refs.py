"""Branches and tags: each change is an ordinary commit.

Deleting a branch or tag with retention settings requires `force`. The settings are checked in the very state that the
deletion is committed to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from lakebed.core.errors import InvalidInput, PointerMoved
from lakebed.governance.rbac import commit_privileges
from lakebed.iceberg.metadata.references import MAIN, SnapshotReference
from lakebed.iceberg.metadata.table import TableMetadata
from lakebed.objects.model import Caller

from ..access.authorization import Action
from ..entries import Entries, LoadedEntry
from ..idempotency import Mutation
from ..identifiers import Identifier
from ..model import EntryKind
from .service import CommitOptions, Commits, read_change

_ATTEMPTS: Final = 5

Expected = int | None | msgspec.UnsetType
"""The snapshot that a branch or tag must name before a change: None if it must not exist, unset for any."""


@dataclass(frozen=True, slots=True)
class TableReferences:
    """The branches and tags of a table."""

    loaded: LoadedEntry
    metadata: TableMetadata

    @property
    def refs(self) -> Mapping[str, SnapshotReference]:
        """All of them, by name."""
        return self.metadata.refs

    @property
    def protected(self) -> list[str]:
        """Branches and tags with restricted deletion: `main` cannot be deleted, others require `force`."""
        return [name for name, reference in self.refs.items() if name == MAIN or is_retained(reference)]

    @property
    def user_defined(self) -> list[str]:
        """All except `main`."""
        return [name for name in self.refs if name != MAIN]


def is_retained(reference: SnapshotReference) -> bool:
    """Whether a branch or tag has retention settings."""
    return (reference.min_snapshots_to_keep, reference.max_snapshot_age_ms, reference.max_ref_age_ms) != (None,) * 3


class BranchesAndTags:
    """The use cases of branches and tags."""

    def __init__(self, entries: Entries, commits: Commits) -> None:
        self._entries = entries
        self._commits = commits

    async def list(self, caller: Caller, catalog_name: str, identifier: Identifier) -> TableReferences:
        """All branches and tags of a table. Raises NoSuchTable."""
        loaded = await self._entries.load(
            caller, catalog_name, identifier, EntryKind.TABLE, Action.GET_METADATA_LOCATION
        )
        return TableReferences(loaded, await self._commits.parsed(loaded.catalog, loaded.entry))

    async def set(
        self,
        mutation: Mutation,
        catalog_name: str,
        identifier: Identifier,
        name: str,
        reference: Mapping[str, int | str | None],
        expected: Expected,
        options: CommitOptions,
    ) -> LoadedEntry:
        """Create or move a branch or tag; `reference` is as in metadata documents.

        Raises CommitConflict if it does not name the expected snapshot, InvalidInput if it is invalid.
        """
        update = {"action": "set-snapshot-ref", "ref-name": name, **reference}
        return await self._commit(mutation, catalog_name, identifier, name, update, expected, options)

    async def remove(
        self,
        mutation: Mutation,
        catalog_name: str,
        identifier: Identifier,
        name: str,
        expected: Expected,
        options: CommitOptions,
        *,
        force: bool,
    ) -> LoadedEntry:
        """Remove a branch or tag; a missing one is no error. Raises InvalidInput, CommitConflict."""
        if name == MAIN:
            raise InvalidInput(
                f"branch {MAIN} cannot be deleted: it is the branch of the current snapshot", argument="ref"
            )
        update = {"action": "remove-snapshot-ref", "ref-name": name}
        for attempt in range(1, _ATTEMPTS + 1):
            loaded = await self._entries.load(
                mutation.caller,
                catalog_name,
                identifier,
                EntryKind.TABLE,
                Action.UPDATE_METADATA_LOCATION,
                privileges=commit_privileges(["remove-snapshot-ref"]),
            )
            found = (await self._commits.parsed(loaded.catalog, loaded.entry)).refs.get(name)
            if found is not None and is_retained(found) and not force:
                raise InvalidInput(
                    f"force is required to delete a {found.type} with retention settings. ref={name}",
                    argument="force",
                )
            at_this_version = options._replace(expected_token=loaded.entry.version_token)
            try:
                return await self._commit(mutation, catalog_name, identifier, name, update, expected, at_this_version)
            except PointerMoved:
                if attempt == _ATTEMPTS:
                    raise
        raise AssertionError("unreachable")

    async def _commit(
        self,
        mutation: Mutation,
        catalog_name: str,
        identifier: Identifier,
        name: str,
        update: Mapping[str, object],
        expected: Expected,
        options: CommitOptions,
    ) -> LoadedEntry:
        requirements: list[Mapping[str, object]] = []
        if not isinstance(expected, msgspec.UnsetType):
            requirements.append({"type": "assert-ref-snapshot-id", "ref": name, "snapshot-id": expected})
        change = read_change(identifier, msgspec.json.encode(requirements), msgspec.json.encode([update]))
        return await self._commits.commit(mutation, catalog_name, change, options)
