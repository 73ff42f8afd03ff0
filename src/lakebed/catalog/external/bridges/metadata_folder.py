"""Finds the current metadata file in a folder, as readers without a catalog do.

Writers name their files in two ways. `v7.metadata.json` is the seventh version; `version-hint.text` names a version,
and readers continue from it while a next version exists, because the hint may be stale. `00007-UUID.metadata.json` is
the seventh too; after a failed commit there may be two of them, and only a catalog knows which one is current.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from lakebed.catalog.tables.files import (
    MAX_METADATA_BYTES,
    FileAddress,
    FileSource,
    ListingSource,
    parse_location,
    unpack_metadata,
)
from lakebed.core.errors import InvalidInput, NotFound
from lakebed.iceberg.metadata.parsing import parse_table

from .model import ExternalTable

VERSION_HINT: Final = "version-hint.text"

_NAME: Final = re.compile(r"(?:v(?P<version>\d{1,10})|(?P<number>\d{1,10})-[^/]+?)(?:\.gz)?\.metadata\.json(?:\.gz)?")
_MAX_HINT_BYTES: Final = 64
_MAX_KEYS: Final = 100_000


class MetadataFolder:
    """One folder of metadata files."""

    def __init__(self, files: ListingSource, folder: str) -> None:
        self._files = files
        self._folder = parse_location(folder)

    async def current(self) -> ExternalTable:
        """The current state. Raises NotFound; InvalidInput if it is ambiguous or unreadable."""
        names = await self._names()
        hint = await read_hint(self._files, self._folder) if VERSION_HINT in names else None
        chosen = current_name(names, hint)
        location = str(FileAddress(self._folder.bucket, self._folder.directory + chosen))
        metadata = parse_table(unpack_metadata(await self._files.read(location, MAX_METADATA_BYTES)))
        return ExternalTable(location, metadata.uuid, frozenset(one.metadata_file for one in metadata.metadata_log))

    async def _names(self) -> set[str]:
        """The names of the metadata files and the hint directly in the folder."""
        directory = self._folder.directory
        names: set[str] = set()
        seen = 0
        async for file in self._files.list(self._folder):
            seen += 1
            if seen > _MAX_KEYS:
                raise InvalidInput(f"the folder contains too many files to list. limit={_MAX_KEYS}")
            name = file.key[len(directory) :]
            if name == VERSION_HINT or _NAME.fullmatch(name):
                names.add(name)
        return names


async def read_hint(files: FileSource, folder: FileAddress) -> int:
    """The version that the hint in a folder names. Raises InvalidInput, NotFound."""
    location = str(FileAddress(folder.bucket, folder.directory + VERSION_HINT))
    text = (await files.read(location, _MAX_HINT_BYTES)).decode("ascii", "replace").strip()
    if not (text.isascii() and text.isdigit()):
        raise InvalidInput(f"{VERSION_HINT} must contain a number")
    return int(text)


def current_name(names: Iterable[str], hint: int | None) -> str:
    """The name of the current file. Raises NotFound without one; InvalidInput if it is ambiguous."""
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
            raise NotFound(f"the version that {VERSION_HINT} names does not exist. version={hint}")
        while hint + 1 in versions:
            hint += 1
        return _only(versions[hint])
    if versions and numbers:
        raise InvalidInput(
            "the folder mixes two naming schemes without a version hint: the current metadata file is ambiguous"
        )
    found = versions or numbers
    if not found:
        raise NotFound("the folder contains no metadata file")
    return _only(found[max(found)])


def _only(names: list[str]) -> str:
    if len(names) > 1:
        raise InvalidInput(
            f"several metadata files have the highest number: the current file is ambiguous."
            f" files={', '.join(sorted(names))}"
        )
    return names[0]
