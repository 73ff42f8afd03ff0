"""Reads the manifests and lists of a commit: stats in batches, bounded concurrency, parsing off the event loop.

Cached contents of unchanged objects are not read again (`manifest_cache`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Protocol, TypeVar

from lakebed.core.errors import InvalidInput, NotFound
from lakebed.iceberg.manifests import ManifestFile, ManifestList, read_list

from ..tables.files import FileSource, FileStat
from .manifest_cache import ManifestCache
from .manifest_entries import ManifestContents
from .model import CommitBudget

__all__ = ["CommitFiles", "CommitObjects"]

T = TypeVar("T")

_STAT_BATCH: Final = 1000
_READS_AT_ONCE: Final = 8
_SMALL_BYTES: Final = 32 * 1024
"""Parsing less than this is faster than a thread switch."""
_ENCRYPTED: Final = b"AGS1"
"""The magic of files that a client encrypted (Iceberg's AES GCM stream)."""


class CommitFiles(FileSource, Protocol):
    """Reads files for commit validation."""

    async def fetch(self, location: str, limit: int) -> tuple[bytes, FileStat]:
        """The whole file, and the state of the file that was read. Raises NotFound, TooLarge."""
        ...


class CommitObjects:
    """The objects of one commit, within its limits."""

    def __init__(self, files: CommitFiles, allowance: CommitBudget, memory: ManifestCache) -> None:
        self._files = files
        self._allowance = allowance
        self._memory = memory
        self._seen: dict[str, FileStat | None] = {}
        self.observed: dict[str, FileStat] = {}
        """The objects that the result depends on."""

    async def look(self, locations: Iterable[str]) -> None:
        """Stat objects in batches, before they are read."""
        wanted = [location for location in dict.fromkeys(locations) if location not in self._seen]
        for start in range(0, len(wanted), _STAT_BATCH):
            self._seen.update(await self._files.stat(wanted[start : start + _STAT_BATCH]))

    async def find(self, locations: Iterable[str], what: str) -> Mapping[str, FileStat]:
        """The state of objects that must exist. Raises InvalidInput for the first missing one."""
        wanted = list(dict.fromkeys(locations))
        await self.look(wanted)
        for location in wanted:
            facts = self._seen[location]
            if facts is None:
                raise InvalidInput(f"{what} does not exist. location={location}", argument="location")
            self.observed[location] = facts
        return {location: self.observed[location] for location in wanted}

    async def manifest_list(self, location: str, ancestors: Iterable[str] = ()) -> ManifestList | None:
        """A list; None if it is encrypted. Raises NotFound, InvalidInput, TooLarge.

        `ancestors` are lists that may share lines with it, the nearest first: it is decoded against a cached one.
        """
        await self.look([location])
        facts = self._seen[location]
        known = None if facts is None else self._memory.manifest_list(location, facts)
        if known is not None:
            return known
        data, facts = await self._fetch(location)
        if data.startswith(_ENCRYPTED):
            return None
        limits = self._allowance.limits.read
        beside = next((one for each in ancestors if (one := self._memory.any_list(each)) is not None), None)

        def parse() -> ManifestList:
            return read_list(data, beside, limits=limits)

        try:
            found = await _parsed(parse, len(data))
        except InvalidInput as error:
            raise type(error)(f"{error} manifest-list={location}") from error
        self._memory.keep_list(location, facts, found)
        return found

    async def manifests(
        self, lines: Mapping[str, ManifestFile], parse: Callable[[bytes, str, ManifestFile], ManifestContents]
    ) -> dict[str, ManifestContents | None]:
        """The contents of manifests by location; None for a missing one. Raises InvalidInput, TooLarge."""
        found: dict[str, ManifestContents | None] = {}
        wanted = list(lines.items())
        for start in range(0, len(wanted), _READS_AT_ONCE):
            batch = wanted[start : start + _READS_AT_ONCE]
            # All reads of a batch finish, even if one fails: none is left running.
            results = await asyncio.gather(
                *(self._manifest(location, line, parse) for location, line in batch), return_exceptions=True
            )
            for (location, _), result in zip(batch, results, strict=True):
                if isinstance(result, BaseException):
                    raise result
                found[location] = result
        return found

    async def remembered(self, lines: Mapping[str, ManifestFile]) -> dict[str, ManifestContents | None]:
        """The contents of manifests that are cached; None for a missing one."""
        await self.look(lines)
        found: dict[str, ManifestContents | None] = {}
        for location, line in lines.items():
            facts = self._seen[location]
            known = None if facts is None else self._memory.survey(location, facts, line)
            if facts is None or known is not None:
                found[location] = known
        return found

    async def _manifest(
        self, location: str, line: ManifestFile, parse: Callable[[bytes, str, ManifestFile], ManifestContents]
    ) -> ManifestContents | None:
        self._allowance.take_manifest()
        try:
            data, facts = await self._fetch(location)
        except NotFound:
            return None
        if data.startswith(_ENCRYPTED):
            return ManifestContents(is_opaque=True)
        survey = await _parsed(lambda: parse(data, location, line), len(data))
        self._allowance.take_decoded(survey.decoded_bytes, survey.entries)
        self._memory.keep_survey(location, facts, line, survey)
        return survey

    async def _fetch(self, location: str) -> tuple[bytes, FileStat]:
        data, facts = await self._files.fetch(location, self._allowance.limits.read.encoded_bytes)
        self._allowance.take_stored(len(data))
        self._seen[location] = facts
        if location in self.observed:
            # It may have been overwritten since the stat: the result depends on the file that was read.
            self.observed[location] = facts
        return data, facts


async def _parsed(parse: Callable[[], T], size: int) -> T:
    return parse() if size <= _SMALL_BYTES else await asyncio.to_thread(parse)
