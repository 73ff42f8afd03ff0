"""Reads the files of one table for the catalog, only from the table's recorded directories.

A manifest list names manifests, and a writer of the table may overwrite a list that was validated with its commit. The
content of these manifests is returned to readers of the table, so they must be the table's own.
"""

from __future__ import annotations

from collections.abc import Sequence

from lakebed.core.errors import AccessDenied
from lakebed.meta.seam import Reader

from .. import rows
from ..tables.files import FileSource, FileStat, parse_location


class ConfinedFiles:
    """Reads the files of one table. Implements `FileSource`."""

    def __init__(self, files: FileSource, meta: Reader, entry_id: str) -> None:
        self._files = files
        self._meta = meta
        self._entry_id = entry_id
        self._directories: frozenset[tuple[str, str]] | None = None

    async def read(self, location: str, limit: int) -> bytes:
        """The whole file. Raises AccessDenied, NotFound, TooLarge."""
        await self._check([location])
        return await self._files.read(location, limit)

    async def stat(self, locations: Sequence[str]) -> dict[str, FileStat | None]:
        """Size, ETag and time of each file; None for a missing one. Raises AccessDenied."""
        await self._check(locations)
        return await self._files.stat(locations)

    async def _check(self, locations: Sequence[str]) -> None:
        if self._directories is None:
            found = await self._meta.rows(rows.DIRECTORIES_OF, self._entry_id)
            self._directories = frozenset((str(row[0]), str(row[1])) for row in found)
        for location in locations:
            address = parse_location(location)
            if not any(address.bucket == bucket and address.key.startswith(at) for bucket, at in self._directories):
                raise AccessDenied(f"file is outside the table's directories. location={location}")
