"""Decides which directories of a table a caller can read or write, for credential vending and remote signing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from lakebed.core.errors import AccessDenied, Corrupted
from lakebed.meta.seam import MetaStore
from lakebed.objects.model import Caller

from .. import rows
from ..identifiers import Identifier, Levels, path_of
from ..locations.claims import EntryLocations, LocationClaims
from ..locations.directories import check_location
from ..model import Catalog, Entry, EntryKind
from ..restrictions import Restrictions
from ..tables.files import FileAddress, parse_location
from .authorization import Action, CatalogAuthorizer


class TableData(NamedTuple):
    """The files of a table that a caller can access."""

    table: str
    """The table's id."""
    location: FileAddress
    """Its base location."""
    directories: tuple[str, ...]
    """Its directories, as keys that end in a slash; none is inside another, or inside another table's."""
    writes: bool
    """Whether the caller can write, or only read."""

    @property
    def bucket(self) -> str:
        """The bucket of the directories."""
        return self.location.bucket

    def contains(self, key: str) -> bool:
        """Whether a key is that of a file of the table."""
        return any(key.startswith(directory) and key != directory for directory in self.directories)

    def contains_directory(self, prefix: str) -> bool:
        """Whether a prefix is one of the directories or inside one. `t` is not the prefix of `t/`."""
        return prefix.endswith("/") and any(prefix.startswith(directory) for directory in self.directories)


class DataAccess:
    """Authorizes access to the files of tables."""

    def __init__(self, meta: MetaStore, authorizer: CatalogAuthorizer, claims: LocationClaims) -> None:
        self._meta = meta
        self._authorizer = authorizer
        self._claims = claims
        self._restrictions = Restrictions(meta)

    async def of_entry(self, caller: Caller, catalog: Catalog, namespace: Levels, entry: Entry) -> TableData:
        """The files of an existing table. Raises AccessDenied, also for restricted principals.

        The recorded directories are checked each time: credentials cover only directories that are allowed now, even if
        the table was created when more were.
        """
        writes = await self._may_write(caller, catalog, namespace, entry.name, entry=entry)
        await self._restrictions.check_unrestricted(
            caller.principal,
            catalog,
            namespace,
            entry,
            "restricted principals have no access to its files; scans are planned by the server",
        )
        recorded = [str(row[0]) for row in await self._meta.rows(rows.LOCATIONS_OF, entry.id)]
        if not recorded:
            raise Corrupted(f"table has no recorded directory. table={entry.id}")
        for prefix in recorded:
            check_location(catalog, str(FileAddress(catalog.bucket_name, prefix)))
        return TableData(entry.id, parse_location(entry.location), tuple(recorded), writes)

    @staticmethod
    def of_copy(copy: Entry) -> TableData:
        """The files of a restricted copy, for its reader: the scan planner has authorized the reader."""
        location = parse_location(copy.location)
        return TableData(copy.id, location, (location.directory,), writes=False)

    async def of_staged(
        self,
        caller: Caller,
        catalog: Catalog,
        identifier: Identifier,
        entry_id: str,
        location: str,
        properties: Mapping[str, str],
    ) -> TableData:
        """The files of a staged table. Raises AccessDenied, InvalidInput, LocationTaken.

        The caller chose the directories, and credentials for them open all files in them. So the directories are
        reserved for the caller first, or the reservation is extended.
        """
        writes = await self._may_write(caller, catalog, identifier.namespace, identifier.name, entry_id=entry_id)
        locations = await self._locations(catalog, identifier, entry_id, location, properties)
        await self._claims.reserve(caller, identifier, locations)
        return _data_at(locations, writes=writes)

    async def of_unregistered(
        self,
        caller: Caller,
        catalog: Catalog,
        identifier: Identifier,
        entry_id: str,
        location: str,
        properties: Mapping[str, str],
    ) -> TableData:
        """The files of a table without an entry, as the caller describes it: it is staged, or was dropped.

        The description is not trusted, so it gives no more access than staging a table there would: the caller needs
        permission to create a table of this name, and to claim the directories. The principal that dropped this very
        table can still access its files, to delete them. Raises AccessDenied, InvalidInput, LocationTaken.
        """
        await self._authorizer.check(
            caller, catalog, Action.CREATE_TABLE, namespace=identifier.namespace, name=identifier.name
        )
        if await self._meta.rows(rows.LOCATIONS_OF, entry_id):
            # Credentials for it would be valid for the table that has this id under its current name.
            raise AccessDenied(f"table exists under another name. name={identifier}")
        locations = await self._locations(catalog, identifier, entry_id, location, properties)
        if await self._claims.was_dropped_by(caller, identifier, locations):
            writes = await self._may_write(caller, catalog, identifier.namespace, identifier.name, entry_id=entry_id)
            return _data_at(locations, writes=writes)
        return await self.of_staged(caller, catalog, identifier, entry_id, location, properties)

    async def _locations(
        self,
        catalog: Catalog,
        identifier: Identifier,
        entry_id: str,
        location: str,
        properties: Mapping[str, str],
    ) -> EntryLocations:
        row = await self._meta.row(rows.NAMESPACE, catalog.id, path_of(identifier.namespace))
        namespace = None if row is None else rows.namespace_from(row)
        return EntryLocations(catalog, namespace, EntryKind.TABLE, entry_id, location, properties)

    async def _may_write(
        self,
        caller: Caller,
        catalog: Catalog,
        namespace: Levels,
        name: str,
        *,
        entry: Entry | None = None,
        entry_id: str = "",
    ) -> bool:
        """Whether the caller can write; AccessDenied if it cannot even read.

        In an external catalog no caller can write: the committing catalog has its own credentials.
        """

        async def check(action: Action) -> None:
            await self._authorizer.check(
                caller, catalog, action, namespace=namespace, name=name, entry=entry, entry_id=entry_id
            )

        try:
            await check(Action.PUT_TABLE_DATA)
        except AccessDenied:
            await check(Action.GET_TABLE_DATA)
            return False
        return not catalog.is_external


def _data_at(locations: EntryLocations, *, writes: bool) -> TableData:
    """The files of a table without an entry."""
    directories = tuple(address.directory for address in locations.addresses)
    return TableData(locations.entry_id, parse_location(locations.location), directories, writes)
