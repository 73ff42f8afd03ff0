"""What manifest lists and manifests hold, remembered from one commit to the next.

What a commit is compared with is mostly what the commits before it brought. A file whose length and entity tag are
those of the one that was read holds what that one held, so a look at it is enough. What a manifest holds is also up to
its line in the list, from which its entries inherit: a commit that is sent again lists the same manifest otherwise.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, Generic, NamedTuple, TypeVar

from lakebed.iceberg.manifests import ManifestFile, ManifestList

from ..tables.files import FileStat
from .manifest_entries import ManifestContents

__all__ = ["ManifestCache"]

T = TypeVar("T")

LIST_LINES: Final = 50_000
"""Lines of lists that a worker remembers, some 40 MB at most: those of successive lists are mostly the same values."""
MANIFEST_ENTRIES: Final = 50_000
"""Entries of manifests that a worker remembers, some 30 MB."""
_LARGEST: Final = 10
"""The share of that which one file may take: a tenth."""


class _Kept(NamedTuple, Generic[T]):
    identity: tuple[object, ...]
    value: T
    weight: int


class _Recent(Generic[T]):
    """Values by location, as long as what they were read from is there; the least recently used leave first."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._weight = 0
        self._kept: OrderedDict[str, _Kept[T]] = OrderedDict()

    def get(self, location: str, identity: tuple[object, ...] | None = None) -> T | None:
        kept = self._kept.get(location)
        if kept is None or (identity is not None and kept.identity != identity):
            return None
        self._kept.move_to_end(location)
        return kept.value

    def keep(self, location: str, identity: tuple[object, ...], value: T, weight: int) -> None:
        old = self._kept.pop(location, None)
        if old is not None:
            self._weight -= old.weight
        weight += 1
        if weight > self._capacity // _LARGEST:
            return
        self._kept[location] = _Kept(identity, value, weight)
        self._weight += weight
        while self._weight > self._capacity:
            _, left = self._kept.popitem(last=False)
            self._weight -= left.weight


class ManifestCache:
    """What was read lately, of files that are as they were."""

    def __init__(self, *, list_lines: int = LIST_LINES, manifest_entries: int = MANIFEST_ENTRIES) -> None:
        self._lists: _Recent[ManifestList] = _Recent(list_lines)
        self._surveys: _Recent[ManifestContents] = _Recent(manifest_entries)

    def manifest_list(self, location: str, facts: FileStat) -> ManifestList | None:
        """The lines of a list."""
        return self._lists.get(location, _identity(facts))

    def any_list(self, location: str) -> ManifestList | None:
        """A list that was there, to read another beside it: that compares bytes, whatever has become of the file."""
        return self._lists.get(location)

    def keep_list(self, location: str, facts: FileStat, found: ManifestList) -> None:
        """Remember a list."""
        self._lists.keep(location, _identity(facts), found, len(found.lines))

    def survey(self, location: str, facts: FileStat, line: ManifestFile) -> ManifestContents | None:
        """What a manifest holds, listed by this line."""
        return self._surveys.get(location, _listed(facts, line))

    def keep_survey(self, location: str, facts: FileStat, line: ManifestFile, found: ManifestContents) -> None:
        """Remember what a manifest holds."""
        self._surveys.keep(location, _listed(facts, line), found, found.entries)


def _identity(facts: FileStat) -> tuple[object, ...]:
    return facts.size, facts.etag


def _listed(facts: FileStat, line: ManifestFile) -> tuple[object, ...]:
    return (
        facts.size,
        facts.etag,
        line.added_snapshot_id,
        line.sequence_number,
        line.first_row_id,
        line.partition_spec_id,
    )
