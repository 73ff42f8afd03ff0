"""Pointer moves by clients: from a stated version to an existing metadata file."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from lakebed.core.errors import CommitConflict
from lakebed.meta.seam import MetaStore

from .. import rows
from ..access.authorization import Action
from ..entries import Entries, LiveEntry, LoadedEntry
from ..idempotency import Mutation
from ..identifiers import Identifier
from ..model import EntryKind
from ..tables.files import SCHEMES
from ..tables.registration import TableRegistration
from .commit_log import CommitRecord


class RepeatedMove(NamedTuple):
    """An earlier move with the same commit id, and the table as it is now."""

    record: CommitRecord
    committed: LoadedEntry


class PointerMoves:
    """Moves the pointers of tables."""

    def __init__(self, meta: MetaStore, entries: Entries, registration: TableRegistration) -> None:
        self._meta = meta
        self._entries = entries
        self._registration = registration

    async def move(
        self,
        mutation: Mutation,
        catalog_name: str,
        identifier: Identifier,
        metadata_at: str,
        *,
        expected_token: str,
        expected_at: str | None = None,
        operation: str = "commit",
        commit_id: str = "",
    ) -> LoadedEntry:
        """Make another metadata file of a table the current one.

        Raises NoSuchTable; CommitConflict, before the file is read, if the table is not at the expected version or
        metadata file; InvalidInput if the file is not a valid successor of the current one.
        """
        known = await self._entries.get(
            mutation.caller, catalog_name, identifier, EntryKind.TABLE, Action.UPDATE_METADATA_LOCATION
        )

        def is_this(record: CommitRecord) -> bool:
            return (record.metadata_at, record.expected_token) == (metadata_at, expected_token)

        repeated = await self.repeated(known, commit_id, is_this)
        if repeated is not None:
            return repeated.committed
        if expected_at is not None and not same_file(expected_at, known.entry.metadata_at):
            raise CommitConflict(f"table is not at the expected metadata file. table={identifier}")
        return await self._registration.register_table(
            mutation,
            catalog_name,
            identifier,
            metadata_at,
            overwrite=True,
            expected_token=expected_token,
            operation=operation,
            commit_id=commit_id,
        )

    async def repeated(
        self, known: LiveEntry, commit_id: str, is_this: Callable[[CommitRecord], bool]
    ) -> RepeatedMove | None:
        """The response to an earlier move with this id: the table as it is now. Raises CommitConflict for another."""
        row = await self._meta.row(rows.COMMIT_BY_ID, known.entry.id, commit_id) if commit_id else None
        if row is None:
            return None
        record = CommitRecord(*row)
        if not is_this(record):
            raise CommitConflict(f"commit id was used for a different commit. commit-id={commit_id}")
        return RepeatedMove(record, await self._entries.with_metadata(known))


def same_file(one: str, other: str) -> bool:
    """Whether two locations are of the same file: clients use different schemes."""
    return _unschemed(one) == _unschemed(other)


def _unschemed(location: str) -> str:
    for scheme in SCHEMES:
        if location.startswith(scheme):
            return location[len(scheme) :]
    return location
