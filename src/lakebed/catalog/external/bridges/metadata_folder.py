"""Looks into a folder of metadata files for the current one, as readers without a catalog do.

Writers name their files in two ways. `v7.metadata.json` is the seventh version, and `version-hint.text` says from which
one on to look, because a hint may be late: readers go on from it while there is a next. `00007-UUID.metadata.json` is
the seventh too, and there may be two of them after a commit that lost; which one won only a catalog knows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from lakebed.catalog.tables.files import FileAddress, TableFiles, parse_location, unpack_metadata
from lakebed.core.errors import InvalidInput, NotFound
from lakebed.iceberg.metadata.parsing import parse_table
from lakebed.meta.seam import MetaStore
from lakebed.objects.listing import successor
from lakebed.objects.rows import BUCKET_BY_NAME, LIST_PAGE_FROM_WITHIN, LIST_PAGE_WITHIN

from .model import ExternalTable

VERSION_HINT: Final = "version-hint.text"

_NAME: Final = re.compile(r"(?:v(?P<version>\d{1,10})|(?P<number>\d{1,10})-[^/]+?)(?:\.gz)?\.metadata\.json(?:\.gz)?")
_MAX_HINT_BYTES: Final = 64
_MAX_KEYS: Final = 100_000
_PAGE_KEYS: Final = 1000


class MetadataFolder:
    """One folder."""

    def __init__(self, meta: MetaStore, files: TableFiles, folder: str) -> None:
        self._meta = meta
        self._files = files
        self._folder = parse_location(folder)

    async def current(self) -> ExternalTable:
        """The current metadata file. Raises NotFound, and InvalidInput when it cannot be told or cannot be read."""
        names = await self._names()
        hint = await self._hint() if VERSION_HINT in names else None
        chosen = current_name(names, hint)
        location = str(FileAddress(self._folder.bucket, self._folder.directory + chosen))
        metadata = parse_table(unpack_metadata(await self._files.read(location)))
        return ExternalTable(location, metadata.uuid, frozenset(one.metadata_file for one in metadata.metadata_log))

    async def _names(self) -> set[str]:
        """The names of all files that are in the folder itself."""
        bucket = await self._meta.row(BUCKET_BY_NAME, self._folder.bucket)
        if bucket is None:
            raise NotFound(f"there is no such bucket. bucket={self._folder.bucket}")
        directory = self._folder.directory
        names: set[str] = set()
        position, end, statement, seen = directory, successor(directory), LIST_PAGE_FROM_WITHIN, 0
        while page := await self._meta.rows(statement, bucket[0], position, end, _PAGE_KEYS):
            seen += len(page)
            if seen > _MAX_KEYS:
                raise InvalidInput(f"the folder holds too many files to look through. limit={_MAX_KEYS}")
            for row in page:
                name = str(row[0])[len(directory) :]
                if name == VERSION_HINT or _NAME.fullmatch(name):
                    names.add(name)
            statement, position = LIST_PAGE_WITHIN, page[-1][0]
        return names

    async def _hint(self) -> int:
        location = str(FileAddress(self._folder.bucket, self._folder.directory + VERSION_HINT))
        text = (await self._files.read(location, _MAX_HINT_BYTES)).decode("ascii", "replace").strip()
        if not (text.isascii() and text.isdigit()):
            raise InvalidInput(f"{VERSION_HINT} does not hold a number")
        return int(text)


def current_name(names: Iterable[str], hint: int | None) -> str:
    """Which of the files is the current one. Raises NotFound when none is, InvalidInput when it cannot be told."""
    versions: dict[int, list[str]] = {}
    numbers: dict[int, list[str]] = {}
    for name in names:
        match = _NAME.fullmatch(name)
        if match is None:
            continue
        kind, text = (versions, match["version"]) if match["version"] is not None else (numbers, match["number"])
        kind.setdefault(int(text), []).append(name)
    if hint is not None:
        if hint not in versions:
            raise NotFound(f"the version that {VERSION_HINT} names is not there. version={hint}")
        while hint + 1 in versions:
            hint += 1
        return _only(versions[hint])
    if versions and numbers:
        raise InvalidInput("the folder holds metadata files of two kinds of names, and no hint which are current")
    found = versions or numbers
    if not found:
        raise NotFound("there is no metadata file in the folder")
    return _only(found[max(found)])


def _only(names: list[str]) -> str:
    if len(names) > 1:
        raise InvalidInput(
            f"two metadata files have the highest number, and only a catalog knows which is current."
            f" files={', '.join(sorted(names))}"
        )
    return names[0]
