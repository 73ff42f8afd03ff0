"""What of a table's files a caller may be handed: its directories, to read or to write."""

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
    """The files of a table, as far as a caller may have them."""

    table: str
    """Its id."""
    home: FileAddress
    """Its location."""
    directories: tuple[str, ...]
    """All its directories, as keys that end in a slash; none lies inside another of them, or of another table."""
    writes: bool
    """Whether the caller may change what is in them, or only read."""

    @property
    def bucket(self) -> str:
        """The bucket that they are in."""
        return self.home.bucket

    def holds(self, key: str) -> bool:
        """Whether a key is that of a file of the table."""
        return any(key.startswith(directory) and key != directory for directory in self.directories)

    def holds_directory(self, prefix: str) -> bool:
        """Whether a prefix of keys names one of the directories or one inside them. `t` does not name `t/`."""
        return prefix.endswith("/") and any(prefix.startswith(directory) for directory in self.directories)


class DataAccess:
    """Decides what may be handed out."""

    def __init__(self, meta: MetaStore, authorizer: CatalogAuthorizer, claims: LocationClaims) -> None:
        self._meta = meta
        self._authorizer = authorizer
        self._claims = claims
        self._restrictions = Restrictions(meta)

    async def of_entry(self, caller: Caller, catalog: Catalog, namespace: Levels, entry: Entry) -> TableData:
        """The files of a table that is there. Raises AccessDenied, also to whom a policy shows only a part of it.

        The directories are those on record, and looked at again each time: what a rule forbids today is not handed
        out because it was allowed when the table was made.
        """
        writes = await self._may_write(caller, catalog, namespace, entry.name, entry=entry)
        await self._restrictions.refuse(
            caller.principal,
            catalog,
            namespace,
            entry,
            "its scans are planned by the server, and its files are not handed out",
        )
        recorded = [str(row[0]) for row in await self._meta.rows(rows.LOCATIONS_OF, entry.id)]
        if not recorded:
            raise Corrupted(f"the table has no directory on record. table={entry.id}")
        for prefix in recorded:
            check_location(catalog, str(FileAddress(catalog.bucket.name, prefix)))
        return TableData(entry.id, parse_location(entry.location), tuple(recorded), writes)

    @staticmethod
    def of_copy(copy: Entry) -> TableData:
        """The files of a copy, to be read by whom it was made for: whoever planned over it has asked who that is."""
        home = parse_location(copy.location)
        return TableData(copy.id, home, (home.directory,), writes=False)

    async def of_staged(
        self,
        caller: Caller,
        catalog: Catalog,
        identifier: Identifier,
        entry_id: str,
        location: str,
        properties: Mapping[str, str],
    ) -> TableData:
        """The files of a table that is promised. Raises AccessDenied, InvalidInput, LocationConflict.

        The caller chose the directories, and credentials for them open all files in them. So they are promised to the
        caller first, or the promise is extended.
        """
        writes = await self._may_write(caller, catalog, identifier.namespace, identifier.name, entry_id=entry_id)
        locations = await self._locations(catalog, identifier, entry_id, location, properties)
        await self._claims.promise(caller, identifier, locations)
        return _data_at(locations, writes=writes)

    async def of_unrecorded(
        self,
        caller: Caller,
        catalog: Catalog,
        identifier: Identifier,
        entry_id: str,
        location: str,
        properties: Mapping[str, str],
    ) -> TableData:
        """The files of a table that is not on record, as the caller describes it: it was staged, or dropped.

        Nothing vouches for the description, so it gives no more than staging a table there would give: to who may
        create a table of this name, and in directories that it may claim. The principal that dropped the very table
        still gets its files, to delete them. Raises AccessDenied, InvalidInput, LocationConflict.
        """
        await self._authorizer.check(
            caller, catalog, Action.CREATE_TABLE, namespace=identifier.namespace, name=identifier.name
        )
        if await self._meta.rows(rows.LOCATIONS_OF, entry_id):
            # Keys made out for it would pass for keys of who may have the table by its own name.
            raise AccessDenied(f"the table is on record, and not by this name: {identifier}")
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
        """Whether the caller may write; AccessDenied if not even read.

        In an external catalog nobody may: the files are for who commits them, with keys of their own.
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
    """The files of a table that is not on record."""
    directories = tuple(address.directory for address in locations.addresses)
    return TableData(locations.entry_id, parse_location(locations.location), directories, writes)
