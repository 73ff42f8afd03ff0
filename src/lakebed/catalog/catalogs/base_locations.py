"""Where a catalog's files may be: stated as locations, read as directories of one bucket, and kept apart from others'.

Invariant: of the directories of all catalogs on this server, none lies inside another's. Keys to one catalog's files
therefore open nothing of another's, and what is in a directory is one catalog's at most.
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
"""Most allowed locations of a catalog."""

MAX_PREFIX_BYTES: Final = 512
"""Longest directory of a catalog: below it are tables, and what maintenance holds under its former name."""

BASE_LOCATION: Final = "default-base-location"
"""The property of the management API that says where a catalog's files go."""

ALLOWED_LOCATIONS: Final = "allowedLocations"


@dataclass(frozen=True, slots=True)
class CatalogLocations:
    """Where a catalog's files may be."""

    bucket: str
    base_prefix: str
    """A directory of the bucket that ends in a slash; empty for all of it."""
    allowed: tuple[str, ...] = ()
    """Further ones, none of which lies in the base; the base may lie in one of them."""

    @property
    def claimed(self) -> list[str]:
        """The directories that are the catalog's, none inside another."""
        return sorted(outermost({self.base_prefix, *self.allowed}))


def parse_locations(base: str, allowed: Sequence[str]) -> CatalogLocations:
    """The directories that locations name, in one bucket. Raises InvalidInput."""
    home = _directory(base, BASE_LOCATION)
    if len(allowed) > MAX_ALLOWED:
        raise InvalidInput(f"a catalog has at most {MAX_ALLOWED} allowed locations", argument=ALLOWED_LOCATIONS)
    further: dict[str, None] = {}
    for location in allowed:
        one = _directory(location, ALLOWED_LOCATIONS)
        if one.bucket != home.bucket:
            raise InvalidInput(
                f"the files of a catalog are in one bucket. location={location} bucket={home.bucket}",
                argument=ALLOWED_LOCATIONS,
            )
        if not one.key.startswith(home.key):
            further[one.key] = None
    return CatalogLocations(home.bucket, home.key, tuple(further))


def _directory(location: str, argument: str) -> FileAddress:
    try:
        address = parse_location(location)
    except InvalidInput as error:
        raise InvalidInput(str(error), argument=argument) from error
    key = address.directory if address.key else ""
    if len(key.encode()) > MAX_PREFIX_BYTES:
        raise InvalidInput(f"the location is too long. limit={MAX_PREFIX_BYTES}", argument=argument)
    if any(character in key for character in "*?"):
        # Policies that name the directory would read them as patterns.
        raise InvalidInput(f"the location holds a wildcard: {location!r}", argument=argument)
    if RESERVED_FOLDER in (f"{segment}/" for segment in key.split("/")):
        raise InvalidInput(
            f"the location lies in a reserved directory {RESERVED_FOLDER}: {location!r}", argument=argument
        )
    return FileAddress(address.bucket, key)


async def claim_locations(tx: Transaction, bucket: Bucket, places: CatalogLocations, catalog_id: int) -> None:
    """Make these the directories of a catalog, in place of those that it had. Raises LocationConflict."""
    await tx.run(rows.RELEASE_DIRECTORIES, catalog_id)
    for directory in places.claimed:
        around = await tx.row(rows.DIRECTORY_AT_OR_BEFORE, bucket.id, directory)
        inside = await tx.row(rows.OTHER_DIRECTORY_FROM, bucket.id, directory, catalog_id)
        if (around is not None and around[1] != catalog_id and directory.startswith(around[0])) or (
            inside is not None and inside[0].startswith(directory)
        ):
            raise LocationConflict(
                f"the location overlaps that of another catalog. location={FileAddress(bucket.name, directory)}",
                argument=BASE_LOCATION if directory == places.base_prefix else ALLOWED_LOCATIONS,
            )
        await tx.run(rows.CLAIM_DIRECTORY, bucket.id, directory, catalog_id)


async def catalog_at(reader: Reader, bucket: Bucket, key: str) -> Catalog | None:
    """The catalog in whose directories a key lies; None if in no catalog's. One statement."""
    row = await reader.row(rows.CATALOG_AT, bucket.id, key)
    return rows.catalog_in(bucket, row, 1) if row is not None and key.startswith(row[0]) else None
