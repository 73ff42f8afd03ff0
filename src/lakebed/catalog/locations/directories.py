"""Directories of tables: default locations, validation and lookup by key. `claims` assigns them.

Invariant: no directory of a table or view on this server is inside another entry's. So permission to read one table's
directory gives no access to another's, and a file belongs to at most one table. The same holds for the directories of
catalogs (see `base_locations`), which contain those of their tables.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from lakebed.core.errors import InvalidInput, LocationConflict
from lakebed.iceberg.metadata import TableMetadata, ViewMetadata
from lakebed.meta.seam import Reader
from lakebed.objects.buckets.bucket import Bucket
from lakebed.objects.listing import successor

from .. import rows
from ..identifiers import Levels, levels_of
from ..model import RESERVED_FOLDER, Catalog, Entry, EntryKind, Namespace
from ..tables.files import FileAddress, parse_location

QUARANTINE_FOLDER: Final = "quarantine/"
"""The folder in the reserved directory for files that maintenance removed from tables' directories.

Their keys can be listed, not read.
"""

PATH_PROPERTIES: Final = (
    "write.data.path",
    "write.metadata.path",
    "write.object-storage.path",
    "write.folder-storage.path",
)
"""Table properties that redirect writers: each is checked like the location, whenever it changes."""


def default_location(catalog: Catalog, kind: EntryKind, entry_id: str) -> str:
    """The default location of a table or view: short, and independent of its name, which may change."""
    return f"{catalog.base_location}{kind}s/{entry_id}"


def namespace_location(catalog: Catalog, namespace: Namespace) -> str:
    """The default location of a namespace, for engines that choose the locations of tables themselves.

    Trino creates no tables in a namespace without a location. Independent of the namespace's name: tables of different
    namespaces never share a directory, and a nested namespace is not inside its parent's.
    """
    return f"{catalog.base_location}namespaces/{namespace.id}"


def check_location(catalog: Catalog, location: str) -> FileAddress:
    """The directory of a location that is allowed in this catalog. Raises InvalidInput."""
    address = parse_location(location)
    if address.bucket != catalog.bucket_name:
        raise InvalidInput(
            f"location is outside the catalog's bucket. location={location} expected={catalog.bucket_name}",
            argument="location",
        )
    if not address.key.strip("/"):
        raise InvalidInput("location is the whole bucket; expected a directory in it", argument="location")
    directory = address.directory
    if not catalog.holds(address.bucket, directory):
        raise InvalidInput(
            f"location is outside the catalog's allowed locations. location={location} catalog={catalog.name}",
            argument="location",
        )
    if catalog.base_prefix.startswith(directory):
        raise InvalidInput("location is the catalog's base location; expected a directory in it", argument="location")
    if directory.startswith((catalog.reserved_prefix, RESERVED_FOLDER)):
        raise InvalidInput(f"location is in the reserved directory {catalog.reserved_prefix}", argument="location")
    if any(character in address.key for character in "*?"):
        # Policies that name the directory would read it as a pattern.
        raise InvalidInput(f"location contains a wildcard: {location!r}", argument="location")
    return address


def check_path_properties(catalog: Catalog, location: str, properties: Mapping[str, str]) -> list[FileAddress]:
    """The additional directories that properties redirect writers to. Raises InvalidInput."""
    base = parse_location(location).directory
    further: dict[str, FileAddress] = {}
    for name in PATH_PROPERTIES:
        path = properties.get(name)
        if path:
            address = check_location(catalog, path)
            if not address.directory.startswith(base):
                further.setdefault(address.directory, address)
    return list(further.values())


def stated_paths(metadata: TableMetadata | ViewMetadata) -> tuple[str, ...]:
    """The paths in the metadata that determine the directories: equal paths mean equal directories."""
    return metadata.location, *(metadata.properties.get(name, "") for name in PATH_PROPERTIES)


def outermost(directories: Collection[str]) -> list[str]:
    """The directories that are inside no other."""
    return [one for one in directories if not any(one != other and one.startswith(other) for other in directories)]


def table_directories(catalog: Catalog, location: str, properties: Mapping[str, str]) -> list[FileAddress]:
    """All directories of a table with this location and these properties; none is inside another.

    Raises InvalidInput for a directory that is not allowed.
    """
    wanted = [check_location(catalog, location), *check_path_properties(catalog, location, properties)]
    kept = outermost({address.directory for address in wanted})
    return [address for address in wanted if address.directory in kept]


async def check_unclaimed(reader: Reader, catalog: Catalog, address: FileAddress, entry_id: str) -> None:
    """Raise LocationTaken if another entry has the directory, one around it or one inside it."""
    directory = address.directory
    if await entry_id_at(reader, catalog.bucket.id, directory) not in (None, entry_id):
        raise location_taken(address)
    end = successor(directory)
    if await reader.row(rows.OTHERS_WITHIN, catalog.bucket.id, directory, end, entry_id) is not None:
        raise location_taken(address)


class LocatedEntry(NamedTuple):
    """The table or view that a key belongs to. It may be a dropped one that can be restored."""

    catalog: Catalog
    namespace: Levels
    entry: Entry


async def locate_entry(reader: Reader, bucket: Bucket, key: str) -> LocatedEntry | None:
    """The entry that a key belongs to; None if it belongs to none. One statement."""
    row = await reader.row(rows.ENTRY_OF_KEY, bucket.id, key)
    if row is None or not key.startswith(row[0]):
        return None
    catalog = rows.catalog_in(bucket, row, 2)
    return LocatedEntry(catalog, levels_of(row[1]), rows.entry_from(row, 2 + rows.OWN_COLUMNS))


async def entry_id_at(reader: Reader, bucket_id: int, key: str) -> str | None:
    """The id of the table or view that a key belongs to.

    Directories do not overlap, so only the last one at or before the key can contain it: one index lookup.
    """
    row = await reader.row(rows.LOCATION_AT_OR_BEFORE, bucket_id, key)
    return str(row[1]) if row is not None and key.startswith(row[0]) else None


def location_taken(address: FileAddress) -> LocationConflict:
    """The error for a location of another entry or principal."""
    return LocationConflict(f"location overlaps that of another table or view. location={address}", argument="location")
