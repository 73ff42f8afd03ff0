"""Finds Iceberg tables in a directory of a catalog by their metadata files, to register them.

A table's metadata files are together in a listing, after its data files. Data files are skipped: at the first one in a
directory `data/`, the listing continues behind it. So a table costs a few LIST requests, whatever its size. A page ends
between two tables, and the next one continues from its key: discovery keeps no state.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from lakebed.core.errors import InvalidInput, NotFound
from lakebed.governance.rbac import Privilege
from lakebed.meta.seam import MetaStore
from lakebed.objects.model import Caller

from ..access.authorization import Action, CatalogAuthorizer
from ..catalogs.service import CatalogService
from ..external.bridges.metadata_folder import VERSION_HINT, current_name, read_hint
from .files import CatalogFiles, FileAddress, ListingSource, parse_location

MAX_TABLES: Final = 1000
"""Tables of a page at most."""

_MAX_SCANNED: Final = 50_000
"""Keys after which a page ends with the next table."""

_METADATA: Final = re.compile(r"(?P<table>.+)/metadata/(?P<name>[^/]+\.metadata\.json(?:\.gz)?|version-hint\.text)")
_LAST: Final = "\U0010ffff"
"""After every key that continues a prefix."""


class FoundTable(NamedTuple):
    """A directory with metadata files."""

    location: str
    metadata_at: str
    """The current metadata file; empty if it is not known."""
    problem: str
    """Why it is not known."""


class FoundTables(NamedTuple):
    """A page of tables."""

    tables: list[FoundTable]
    after: str | None
    """The key to continue after; None at the end."""


class TableDiscovery:
    """Finds tables in directories of catalogs."""

    def __init__(
        self, meta: MetaStore, authorizer: CatalogAuthorizer, catalogs: CatalogService, files: CatalogFiles
    ) -> None:
        self._meta = meta
        self._authorizer = authorizer
        self._catalogs = catalogs
        self._files = files

    async def discover(
        self, caller: Caller, catalog_name: str, location: str, *, after: str = "", limit: int = MAX_TABLES
    ) -> FoundTables:
        """A page of the tables in a directory of the catalog, by location.

        Requires permission on the data of all tables of the catalog, as registering them does. Raises InvalidInput,
        AccessDenied.
        """
        catalog = await self._catalogs.find(self._meta, catalog_name)
        await self._authorizer.check(
            caller, catalog, Action.PUT_TABLE_DATA, privileges=(Privilege.CATALOG_MANAGE_CONTENT,)
        )
        root = parse_location(location)
        directory = root.directory if root.key.strip("/") else ""
        if not catalog.holds(root.bucket, directory):
            raise InvalidInput(
                f"location is outside the catalog's allowed locations. location={location} catalog={catalog.name}",
                argument="location",
            )
        return await find_tables(self._files.of(catalog), FileAddress(root.bucket, directory), after, limit)


async def find_tables(files: ListingSource, root: FileAddress, after: str, limit: int) -> FoundTables:
    """A page of the tables in a directory, which has metadata files of at most `limit` tables."""
    tables: list[FoundTable] = []
    found: _MetadataFiles | None = None
    position: str | None = after
    scanned = 0
    while position is not None:
        start, position = position, None
        async for file in files.list(root, after=start):
            scanned += 1
            match = _METADATA.fullmatch(file.key)
            table = None if match is None else match["table"]
            if found is not None and found.table != table:
                tables.append(await found.resolve(files, root.bucket))
                done, found = found.end, None
                if len(tables) >= limit or scanned >= _MAX_SCANNED:
                    return FoundTables(tables, done)
            if match is not None:
                found = found or _MetadataFiles(match["table"], set())
                found.names.add(match["name"])
                continue
            folder, is_data, _ = file.key.rpartition("/data/")
            if is_data and folder.startswith(root.key.rstrip("/")):
                position = f"{folder}/data/{_LAST}"
                break
    if found is not None:
        tables.append(await found.resolve(files, root.bucket))
    return FoundTables(tables, None)


class _MetadataFiles(NamedTuple):
    """The metadata files of one table."""

    table: str
    """The key of its directory, without a slash at the end."""
    names: set[str]

    @property
    def end(self) -> str:
        """A key after all of its files."""
        return f"{self.table}/{_LAST}"

    async def resolve(self, files: ListingSource, bucket: str) -> FoundTable:
        """The table with its current metadata file."""
        location = str(FileAddress(bucket, self.table))
        folder = FileAddress(bucket, f"{self.table}/metadata/")
        try:
            hint = await read_hint(files, folder) if VERSION_HINT in self.names else None
            name = current_name(self.names - {VERSION_HINT}, hint)
        except (InvalidInput, NotFound) as error:
            return FoundTable(location, "", str(error))
        return FoundTable(location, f"{folder}{name}", "")
