"""Where tables keep their files: chosen, checked, and kept apart. Claims are decided in `claims`.

Invariant: of the directories of all tables and views on this server, none lies inside another. Whoever may read one
table's directory therefore reads nothing of its neighbours, and a file belongs to one table at most. Of the directories
of warehouses the same is true (see `base_locations`), and those of a table lie in its warehouse's.
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
"""Where, in the reserved directory, maintenance holds what it took out of tables' directories.

Their keys can be listed, not read.
"""

PATH_PROPERTIES: Final = (
    "write.data.path",
    "write.metadata.path",
    "write.object-storage.path",
    "write.folder-storage.path",
)
"""Table properties that move where engines write: each is checked as the location is, whenever it changes."""


def default_location(catalog: Catalog, kind: EntryKind, entry_id: str) -> str:
    """Where a table or view goes that was given no place: short, and not derived from its name, which may change."""
    return f"{catalog.base_location}{kind}s/{entry_id}"


def namespace_location(catalog: Catalog, namespace: Namespace) -> str:
    """Where engines go that choose the places of tables themselves, if nobody has said where the namespace's are.

    Trino makes no tables in a namespace without a place. One of its own, and not derived from its name: tables of
    different namespaces never meet, and a namespace inside another lies beside it.
    """
    return f"{catalog.base_location}namespaces/{namespace.id}"


def check_location(catalog: Catalog, location: str) -> FileAddress:
    """The directory that a location names, if tables of this warehouse may be there. Raises InvalidInput."""
    address = parse_location(location)
    if address.bucket != catalog.bucket.name:
        raise InvalidInput(
            f"the location is outside the table bucket. location={location} table-bucket={catalog.bucket.name}",
            argument="location",
        )
    if not address.key.strip("/"):
        raise InvalidInput("the location is the whole table bucket; name a directory in it", argument="location")
    directory = address.directory
    if not catalog.holds(address.bucket, directory):
        raise InvalidInput(
            f"the location is outside the catalog's allowed locations. location={location} catalog={catalog.name}",
            argument="location",
        )
    if catalog.base_prefix.startswith(directory):
        raise InvalidInput("the location is the whole catalog's; name a directory in it", argument="location")
    if directory.startswith((catalog.reserved_prefix, RESERVED_FOLDER)):
        raise InvalidInput(
            f"the location lies in the reserved directory {catalog.reserved_prefix}", argument="location"
        )
    if any(character in address.key for character in "*?"):
        # Policies that name the directory would read them as patterns.
        raise InvalidInput(f"the location holds a wildcard: {location!r}", argument="location")
    return address


def check_path_properties(catalog: Catalog, location: str, properties: Mapping[str, str]) -> list[FileAddress]:
    """The further directories that properties send writers to, if they may be there. Raises InvalidInput."""
    home = parse_location(location).directory
    further: dict[str, FileAddress] = {}
    for name in PATH_PROPERTIES:
        path = properties.get(name)
        if path:
            address = check_location(catalog, path)
            if not address.directory.startswith(home):
                further.setdefault(address.directory, address)
    return list(further.values())


def stated_paths(metadata: TableMetadata | ViewMetadata) -> tuple[str, ...]:
    """Where metadata says that files go: as long as it says the same, the directories are the same."""
    return metadata.location, *(metadata.properties.get(name, "") for name in PATH_PROPERTIES)


def outermost(directories: Collection[str]) -> list[str]:
    """Those that lie inside no other."""
    return [one for one in directories if not any(one != other and one.startswith(other) for other in directories)]


def table_directories(catalog: Catalog, location: str, properties: Mapping[str, str]) -> list[FileAddress]:
    """Every directory that a table of this location and these properties has; none lies inside another of them.

    Raises InvalidInput when one may not be there.
    """
    wanted = [check_location(catalog, location), *check_path_properties(catalog, location, properties)]
    kept = outermost({address.directory for address in wanted})
    return [address for address in wanted if address.directory in kept]


async def check_unclaimed(reader: Reader, catalog: Catalog, address: FileAddress, entry_id: str) -> None:
    """Return if no other entry has the directory, one around it or one inside it. Raises LocationConflict."""
    directory = address.directory
    if await entry_id_at(reader, catalog.bucket.id, directory) not in (None, entry_id):
        raise location_taken(address)
    end = successor(directory)
    if await reader.row(rows.OTHERS_WITHIN, catalog.bucket.id, directory, end, entry_id) is not None:
        raise location_taken(address)


class LocatedEntry(NamedTuple):
    """The table or view to whose directory a key belongs. It may be a dropped one that can be restored."""

    catalog: Catalog
    namespace: Levels
    entry: Entry


async def locate_entry(reader: Reader, bucket: Bucket, key: str) -> LocatedEntry | None:
    """What a key belongs to, with its row; None if to nothing. One statement."""
    row = await reader.row(rows.ENTRY_OF_KEY, bucket.id, key)
    if row is None or not key.startswith(row[0]):
        return None
    catalog = rows.catalog_in(bucket, row, 2)
    return LocatedEntry(catalog, levels_of(row[1]), rows.entry_from(row, 2 + rows.OWN_COLUMNS))


async def entry_id_at(reader: Reader, bucket_id: int, key: str) -> str | None:
    """The id of the table or view to whose directory a key belongs.

    Directories do not overlap, so only the last one at or before the key can hold it: one step down an index.
    """
    row = await reader.row(rows.LOCATION_AT_OR_BEFORE, bucket_id, key)
    return str(row[1]) if row is not None and key.startswith(row[0]) else None


def location_taken(address: FileAddress) -> LocationConflict:
    """The error for a location that another entry or principal has."""
    return LocationConflict(
        f"the location overlaps that of another table or view. location={address}", argument="location"
    )
