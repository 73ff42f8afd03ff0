"""Reading a commit's objects: looked for in batches, read a few at a time, parsed off the event loop.

What is remembered of an object that is as it was is not read again (`memory`).
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
"""Parsing less than this takes no longer than handing it to a thread."""
_ENCRYPTED: Final = b"AGS1"
"""How files begin that a client encrypted (Iceberg's AES GCM stream). What merely claims to be so is read."""


class CommitFiles(FileSource, Protocol):
    """Where commits are checked from."""

    async def fetch(self, location: str, limit: int) -> tuple[bytes, FileStat]:
        """The whole file, and what is known of the very file that was read. Raises NotFound, TooLarge."""
        ...


class CommitObjects:
    """The objects of one commit, within its limits."""

    def __init__(self, files: CommitFiles, allowance: CommitBudget, memory: ManifestCache) -> None:
        self._files = files
        self._allowance = allowance
        self._memory = memory
        self._seen: dict[str, FileStat | None] = {}
        self.observed: dict[str, FileStat] = {}
        """What the verdict rests on."""

    async def look(self, locations: Iterable[str]) -> None:
        """See what is known of objects that will be asked for: one statement for many."""
        wanted = [location for location in dict.fromkeys(locations) if location not in self._seen]
        for start in range(0, len(wanted), _STAT_BATCH):
            self._seen.update(await self._files.stat(wanted[start : start + _STAT_BATCH]))

    async def find(self, locations: Iterable[str], what: str) -> Mapping[str, FileStat]:
        """What is known of objects that must be there. Raises InvalidInput for the first that is not."""
        wanted = list(dict.fromkeys(locations))
        await self.look(wanted)
        for location in wanted:
            facts = self._seen[location]
            if facts is None:
                raise InvalidInput(f"{what} is not there. location={location}", argument="location")
            self.observed[location] = facts
        return {location: self.observed[location] for location in wanted}

    async def manifest_list(self, location: str, ancestors: Iterable[str] = ()) -> ManifestList | None:
        """A list; None if it is encrypted. Raises NotFound, InvalidInput, TooLarge.

        `ancestors` are lists that it may repeat, the nearest first: it is read beside one that is remembered.
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
        """What manifests hold, by location; None for one that is not there. Raises InvalidInput, TooLarge."""
        found: dict[str, ManifestContents | None] = {}
        wanted = list(lines.items())
        for start in range(0, len(wanted), _READS_AT_ONCE):
            batch = wanted[start : start + _READS_AT_ONCE]
            # All of a batch come to their end, also when one of them fails: none is left running.
            results = await asyncio.gather(
                *(self._manifest(location, line, parse) for location, line in batch), return_exceptions=True
            )
            for (location, _), result in zip(batch, results, strict=True):
                if isinstance(result, BaseException):
                    raise result
                found[location] = result
        return found

    async def remembered(self, lines: Mapping[str, ManifestFile]) -> dict[str, ManifestContents | None]:
        """What manifests hold, of those that need not be read for it; None for one that is not there."""
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
            # Somebody may have written over it since it was looked at: the verdict is about what was read.
            self.observed[location] = facts
        return data, facts


async def _parsed(parse: Callable[[], T], size: int) -> T:
    return parse() if size <= _SMALL_BYTES else await asyncio.to_thread(parse)
