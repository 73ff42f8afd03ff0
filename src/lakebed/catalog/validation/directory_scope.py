"""Where a table's files may be: in its own directories, and nowhere else.

The rule is as wide as clients need, and no wider: the table's location and the directories that its properties name,
with any folders, hashes and names below them. Directories of tables do not overlap, so a file in one is no other's.
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
"""What `parse_location` refuses in a path; without it, a path that begins like a directory lies in it."""


def normalized(path: str) -> str:
    """A location as we write it: clients name one file by several schemes."""
    return _SCHEME + path[len(_SCHEME) + 1 :] if path.startswith(_OTHER_SCHEMES) else path


class DirectoryScope:
    """Some directories."""

    def __init__(self, directories: Iterable[str]) -> None:
        self._prefixes = tuple(sorted(set(directories)))

    def holds(self, location: str) -> bool:
        """Whether a location, as we spell it, is in the directories."""
        return location.startswith(self._prefixes) and _UNUSUAL.search(location, len(_SCHEME)) is None

    def locate(self, path: str, what: str) -> str:
        """A file's location, spelled one way. Raises InvalidInput for one outside the directories."""
        location = normalized(path)
        if not self.holds(location):
            raise InvalidInput(
                f"{what} lies outside the table's directories. location={path[:1024]}", argument="location"
            )
        return location


def scope_of(tables: Iterable[TableMetadata]) -> DirectoryScope:
    """The directories of a table, in all of its states given: a table that moves keeps what it wrote before."""
    directories: set[str] = set()
    for table in tables:
        for path in (table.location, *(table.properties.get(name) for name in PATH_PROPERTIES)):
            if path:
                address = parse_location(path)
                directories.add(f"{_SCHEME}{address.bucket}/{address.directory}")
    return DirectoryScope(directories)
