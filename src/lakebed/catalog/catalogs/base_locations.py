"""Locations of a catalog: parsed into directories of one bucket, and kept apart from those of other catalogs.

Invariant: no directory of a catalog on this server is inside a directory of another catalog. So credentials for the
files of one catalog give no access to another's, and every directory belongs to at most one catalog.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from lakebed.core.errors import InvalidInput, LocationConflict
from lakebed.meta.seam import Reader, Transaction
from lakebed.objects.buckets.bucket import Bucket

from .. import rows
from ..locations.directories import outermost
from ..model import RESERVED_FOLDER, Catalog
from ..tables.files import FileAddress, parse_location

MAX_ALLOWED: Final = 64
"""Maximum number of allowed locations of a catalog."""

MAX_PREFIX_BYTES: Final = 512
"""Maximum length of a directory: table directories and quarantined files extend it."""

BASE_LOCATION: Final = "default-base-location"
"""The property of the management API with the catalog's base location."""

ALLOWED_LOCATIONS: Final = "allowedLocations"


@dataclass(frozen=True, slots=True)
class CatalogLocations:
    """The directories of a catalog."""

    bucket: str
    base_prefix: str
    """A directory of the bucket, ending in a slash; empty for the whole bucket."""
    allowed: tuple[str, ...] = ()
    """Additional directories, none inside the base; the base may be inside one of them."""

    @property
    def claimed(self) -> list[str]:
        """All directories of the catalog, none inside another."""
        return sorted(outermost({self.base_prefix, *self.allowed}))


def parse_locations(base: str, allowed: Sequence[str]) -> CatalogLocations:
    """The directories of locations, all in one bucket. Raises InvalidInput."""
    base_directory = _directory(base, BASE_LOCATION)
    if len(allowed) > MAX_ALLOWED:
        raise InvalidInput(f"too many allowed locations. maximum={MAX_ALLOWED}", argument=ALLOWED_LOCATIONS)
    further: dict[str, None] = {}
    for location in allowed:
        one = _directory(location, ALLOWED_LOCATIONS)
        if one.bucket != base_directory.bucket:
            raise InvalidInput(
                f"locations of a catalog must be in one bucket. location={location} expected={base_directory.bucket}",
                argument=ALLOWED_LOCATIONS,
            )
        if not one.key.startswith(base_directory.key):
            further[one.key] = None
    return CatalogLocations(base_directory.bucket, base_directory.key, tuple(further))


def _directory(location: str, argument: str) -> FileAddress:
    try:
        address = parse_location(location)
    except InvalidInput as error:
        raise InvalidInput(str(error), argument=argument) from error
    key = address.directory if address.key else ""
    if len(key.encode()) > MAX_PREFIX_BYTES:
        raise InvalidInput(f"location is too long. maximum={MAX_PREFIX_BYTES} bytes", argument=argument)
    if any(character in key for character in "*?"):
        # Policies that name the directory would read it as a pattern.
        raise InvalidInput(f"location contains a wildcard: {location!r}", argument=argument)
    if RESERVED_FOLDER in (f"{segment}/" for segment in key.split("/")):
        raise InvalidInput(f"location is in a reserved directory {RESERVED_FOLDER}: {location!r}", argument=argument)
    return FileAddress(address.bucket, key)


async def claim_locations(tx: Transaction, bucket: Bucket, places: CatalogLocations, catalog_id: int) -> None:
    """Replace the directories of a catalog. Raises LocationTaken."""
    await tx.run(rows.RELEASE_DIRECTORIES, catalog_id)
    for directory in places.claimed:
        around = await tx.row(rows.DIRECTORY_AT_OR_BEFORE, bucket.id, directory)
        inside = await tx.row(rows.OTHER_DIRECTORY_FROM, bucket.id, directory, catalog_id)
        if (around is not None and around[1] != catalog_id and directory.startswith(around[0])) or (
            inside is not None and inside[0].startswith(directory)
        ):
            raise LocationConflict(
                f"location overlaps the location of another catalog."
                f" location={FileAddress(bucket.location_name, directory)}",
                argument=BASE_LOCATION if directory == places.base_prefix else ALLOWED_LOCATIONS,
            )
        await tx.run(rows.CLAIM_DIRECTORY, bucket.id, directory, catalog_id)


async def catalog_at(reader: Reader, bucket: Bucket, key: str) -> Catalog | None:
    """The catalog whose directories contain a key, if any. One statement."""
    row = await reader.row(rows.CATALOG_AT, bucket.id, key)
    return rows.catalog_in(bucket, row, 1) if row is not None and key.startswith(row[0]) else None
