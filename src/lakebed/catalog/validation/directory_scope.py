"""Restricts a table's files to its own directories: its location, and the directories in its properties.

Any folders, hashes and names below them are allowed. Directories of tables do not overlap, so a file in one belongs to
no other table.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from lakebed.core.errors import InvalidInput
from lakebed.iceberg.metadata.table import TableMetadata

from ..locations.directories import PATH_PROPERTIES
from ..tables.files import parse_location

__all__ = ["DirectoryScope", "normalized", "scope_of"]

_SCHEME: Final = "s3://"
_OTHER_SCHEMES: Final = ("s3a://", "s3n://")
_UNUSUAL: Final = re.compile(r"//|/\.{1,2}(?:/|$)|[\\\x00-\x1f]")
"""What `parse_location` rejects in a path; without it, a path with a directory's prefix is inside it."""


def normalized(path: str) -> str:
    """A location with the scheme s3: clients use several schemes for one file."""
    return _SCHEME + path[len(_SCHEME) + 1 :] if path.startswith(_OTHER_SCHEMES) else path


class DirectoryScope:
    """A set of directories."""

    def __init__(self, directories: Iterable[str]) -> None:
        self._prefixes = tuple(sorted(set(directories)))

    def holds(self, location: str) -> bool:
        """Whether a normalized location is in the directories."""
        return location.startswith(self._prefixes) and _UNUSUAL.search(location, len(_SCHEME)) is None

    def locate(self, path: str, what: str) -> str:
        """A file's normalized location. Raises InvalidInput for one outside the directories."""
        location = normalized(path)
        if not self.holds(location):
            raise InvalidInput(
                f"{what} is outside the table's directories. location={path[:1024]}", argument="location"
            )
        return location


def scope_of(tables: Iterable[TableMetadata]) -> DirectoryScope:
    """The directories of a table, in all given states: a table that moves keeps its earlier files."""
    directories: set[str] = set()
    for table in tables:
        for path in (table.location, *(table.properties.get(name) for name in PATH_PROPERTIES)):
            if path:
                address = parse_location(path)
                directories.add(f"{_SCHEME}{address.bucket}/{address.directory}")
    return DirectoryScope(directories)
