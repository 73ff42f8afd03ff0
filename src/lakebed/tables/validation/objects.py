"""Reading a commit's objects: looked for in batches, read a few at a time, parsed off the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

from lakebed.core.errors import InvalidInput, NotFound
from lakebed.tables.files import FileFacts, FileSource
from lakebed.tables.manifests import ManifestFile, read_manifest_list

from .entries import Survey
from .model import Allowance

__all__ = ["CommitObjects"]

T = TypeVar("T")

_STAT_BATCH: Final = 1000
_READS_AT_ONCE: Final = 8
_SMALL_BYTES: Final = 32 * 1024
"""Parsing less than this takes no longer than handing it to a thread."""
_ENCRYPTED: Final = b"AGS1"
"""How files begin that a client encrypted (Iceberg's AES GCM stream). What merely claims to be so is read."""


class CommitObjects:
    """The objects of one commit, within its limits."""

    def __init__(self, files: FileSource, allowance: Allowance) -> None:
        self._files = files
        self._allowance = allowance
        self.observed: dict[str, FileFacts] = {}

    async def find(self, locations: Iterable[str], what: str) -> Mapping[str, FileFacts]:
        """What is known of objects that must be there. Raises InvalidInput for the first that is not."""
        wanted = list(dict.fromkeys(locations))
        for start in range(0, len(wanted), _STAT_BATCH):
            batch = wanted[start : start + _STAT_BATCH]
            for location, facts in (await self._files.stat(batch)).items():
                if facts is None:
                    raise InvalidInput(f"{what} is not there. location={location}", argument="location")
                self.observed[location] = facts
        return {location: self.observed[location] for location in wanted}

    async def manifest_list(self, location: str) -> list[ManifestFile] | None:
        """The lines of a list; None if it is encrypted. Raises NotFound, InvalidInput, TooLarge."""
        limits = self._allowance.limits.read
        data = await self._files.read(location, limits.encoded_bytes)
        self._allowance.take_stored(len(data))
        if data.startswith(_ENCRYPTED):
            return None

        def parse() -> list[ManifestFile]:
            return read_manifest_list(data, limits=limits)

        try:
            return await _parsed(parse, len(data))
        except InvalidInput as error:
            raise type(error)(f"{error} manifest-list={location}") from error

    async def manifests(
        self, lines: Mapping[str, ManifestFile], parse: Callable[[bytes, str, ManifestFile], Survey]
    ) -> dict[str, Survey | None]:
        """What manifests hold, by location; None for one that is not there. Raises InvalidInput, TooLarge."""
        found: dict[str, Survey | None] = {}
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

    async def _manifest(
        self, location: str, line: ManifestFile, parse: Callable[[bytes, str, ManifestFile], Survey]
    ) -> Survey | None:
        self._allowance.take_manifest()
        try:
            data = await self._files.read(location, self._allowance.limits.read.encoded_bytes)
        except NotFound:
            return None
        self._allowance.take_stored(len(data))
        if data.startswith(_ENCRYPTED):
            return Survey(is_opaque=True)
        survey = await _parsed(lambda: parse(data, location, line), len(data))
        self._allowance.take_decoded(survey.decoded_bytes, survey.entries)
        return survey


async def _parsed(parse: Callable[[], T], size: int) -> T:
    return parse() if size <= _SMALL_BYTES else await asyncio.to_thread(parse)
