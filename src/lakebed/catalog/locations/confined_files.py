"""Reads the files of one table for the catalog, only from the table's recorded directories.

A manifest list names manifests, and a writer of the table may overwrite a list that was validated with its commit. The
content of these manifests is returned to readers of the table, so they must be the table's own.
"""

from __future__ import annotations

from collections.abc import Sequence

from lakebed.core.errors import AccessDenied, NotFound
from lakebed.meta.seam import Reader

from .. import rows
from ..tables.files import FileSource, FileSources, FileStat, parse_location


class ConfinedFiles:
    """Reads the files of one table. Implements `FileSource`."""

    def __init__(self, files: FileSources, meta: Reader, entry_id: str) -> None:
        self._files = files
        self._meta = meta
        self._entry_id = entry_id
        self._confined: FileSource | None = None
        self._directories: frozenset[tuple[str, str]] = frozenset()

    async def read(self, location: str, limit: int) -> bytes:
        """The whole file. Raises AccessDenied, NotFound, TooLarge."""
        return await (await self._allowed([location])).read(location, limit)

    async def stat(self, locations: Sequence[str]) -> dict[str, FileStat | None]:
        """Size, ETag and time of each file; None for a missing one. Raises AccessDenied."""
        return await (await self._allowed(locations)).stat(locations)

    async def _allowed(self, locations: Sequence[str]) -> FileSource:
        """The files of the table's catalog, if all locations are in the table's directories."""
        if self._confined is None:
            found = await self._meta.rows(rows.DIRECTORIES_OF, self._entry_id)
            if not found:
                raise NotFound(f"the table no longer exists. id={self._entry_id}")
            catalog = rows.catalog_from(found[0])
            self._directories = frozenset((catalog.bucket_name, str(row[rows.CATALOG_COLUMNS])) for row in found)
            self._confined = self._files.of(catalog)
        for location in locations:
            address = parse_location(location)
            if not any(address.bucket == bucket and address.key.startswith(at) for bucket, at in self._directories):
                raise AccessDenied(f"file is outside the table's directories. location={location}")
        return self._confined
