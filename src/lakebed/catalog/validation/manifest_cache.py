"""Caches contents of manifest lists and manifests between commits.

Most of what a commit is compared with was added by recent commits. A file with unchanged length and ETag has unchanged
content, so its state is enough. The entries of a manifest also depend on its line in the list, from which they inherit:
a retried commit may list the same manifest with another line.
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
"""Cached list lines per worker, at most about 40 MB: successive lists share most values."""
MANIFEST_ENTRIES: Final = 50_000
"""Cached manifest entries per worker, about 30 MB."""
_LARGEST: Final = 10
"""One file may use at most a tenth of the cache."""


class _Kept(NamedTuple, Generic[T]):
    identity: tuple[object, ...]
    value: T
    weight: int


class _Recent(Generic[T]):
    """An LRU cache of values by location, valid as long as the file is unchanged."""

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
    """Recently read manifest lists and manifests."""

    def __init__(self, *, list_lines: int = LIST_LINES, manifest_entries: int = MANIFEST_ENTRIES) -> None:
        self._lists: _Recent[ManifestList] = _Recent(list_lines)
        self._surveys: _Recent[ManifestContents] = _Recent(manifest_entries)

    def manifest_list(self, location: str, facts: FileStat) -> ManifestList | None:
        """The lines of an unchanged list."""
        return self._lists.get(location, _identity(facts))

    def any_list(self, location: str) -> ManifestList | None:
        """A cached list, changed or not, to decode another one against: that compares bytes."""
        return self._lists.get(location)

    def keep_list(self, location: str, facts: FileStat, found: ManifestList) -> None:
        """Cache a list."""
        self._lists.keep(location, _identity(facts), found, len(found.lines))

    def survey(self, location: str, facts: FileStat, line: ManifestFile) -> ManifestContents | None:
        """The contents of an unchanged manifest with this line."""
        return self._surveys.get(location, _listed(facts, line))

    def keep_survey(self, location: str, facts: FileStat, line: ManifestFile, found: ManifestContents) -> None:
        """Cache the contents of a manifest."""
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
