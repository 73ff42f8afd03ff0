"""Imports tables by their metadata file, with a record of their origin.

Repeating an import changes nothing; an import that differs from the existing table is rejected.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from lakebed.core.errors import AlreadyExists, CommitConflict
from lakebed.meta.seam import Reader, Transaction
from lakebed.objects.context import ObjectContext

from .. import rows
from ..access.authorization import Action, CatalogAuthorizer
from ..catalogs.properties import check_properties
from ..commits.metadata_pointers import same_file
from ..entries import Entries, LoadedEntry, name_taken
from ..idempotency import Mutation
from ..identifiers import Identifier
from ..model import Entry, EntryKind, Properties, pack_properties, unpack_properties
from .registration import TableRegistration


@dataclass(frozen=True, slots=True)
class ImportOrigin:
    """The origin of an imported table."""

    metadata_at: str
    external_token: str | None
    properties: Properties
    principal: str
    imported_ms: int


class Imported(NamedTuple):
    """A table after an import."""

    committed: LoadedEntry
    is_new: bool
    """Whether this import created the table; otherwise it existed with the same metadata."""


class Imports:
    """Imports tables."""

    def __init__(
        self,
        object_context: ObjectContext,
        authorizer: CatalogAuthorizer,
        entries: Entries,
        registration: TableRegistration,
    ) -> None:
        self._f = object_context
        self._authorizer = authorizer
        self._entries = entries
        self._registration = registration

    async def import_table(
        self,
        mutation: Mutation,
        catalog_name: str,
        identifier: Identifier,
        metadata_at: str,
        *,
        properties: Mapping[str, str],
        external_token: str | None = None,
    ) -> Imported:
        """Register a table's metadata file, unless it is registered under that name already.

        Raises AlreadyExists if the name is in use by another table; CommitConflict if the table was not imported at
        that version of the other catalog; and what registration raises.
        """
        check_properties(properties)
        caller = mutation.caller
        lookup = await self._entries.look_up(self._f.meta, catalog_name, identifier)
        await self._authorizer.check(
            caller,
            lookup.catalog,
            Action.CREATE_TABLE,
            namespace=identifier.namespace,
            name=identifier.name,
            entry=lookup.live,
        )
        found = lookup.found
        if found.entry is not None:
            if found.live is None or found.entry.kind is not EntryKind.TABLE:
                raise name_taken(found.entry, identifier, EntryKind.TABLE)
            known = await self._entries.authorize_entry(caller, lookup, EntryKind.TABLE, Action.GET_METADATA_LOCATION)
            await self._check_same(identifier, known.entry, metadata_at, external_token)
            return Imported(await self._entries.with_metadata(known), is_new=False)

        async def record(tx: Transaction, entry: Entry) -> None:
            await tx.run(
                rows.INSERT_IMPORT,
                entry.id,
                metadata_at,
                external_token,
                pack_properties(dict(properties)),
                caller.principal.name,
                self._f.clock.now_ms(),
            )

        committed = await self._registration.register_table(
            mutation, catalog_name, identifier, metadata_at, operation="import", also=record
        )
        return Imported(committed, is_new=True)

    async def _check_same(
        self, identifier: Identifier, entry: Entry, metadata_at: str, external_token: str | None
    ) -> None:
        if not same_file(metadata_at, entry.metadata_at):
            raise AlreadyExists(f"table exists with another metadata file. table={identifier}")
        if external_token is None:
            return
        origin = await import_origin(self._f.meta, entry.id)
        if origin is None or origin.external_token != external_token:
            raise CommitConflict(
                f"table was not imported at this version of the other catalog. table={identifier}",
                condition="external-version-token",
            )


async def import_origin(reader: Reader, entry_id: str) -> ImportOrigin | None:
    """The origin of an imported table; None if it was not imported."""
    row = await reader.row(rows.IMPORT_OF, entry_id)
    if row is None:
        return None
    return ImportOrigin(row[0], row[1], unpack_properties(row[2]), row[3], row[4])
