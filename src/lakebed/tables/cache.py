"""Metadata files that were read or written lately. They never change, so what is here is never stale."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from .metadata.table import TableMetadata

MAX_BYTES: Final = 64 * 1024 * 1024
"""How much of metadata files a worker keeps; what is parsed of them comes on top, some three times as much."""


class CachedMetadata:
    """One file: its JSON, and what was parsed of it."""

    __slots__ = ("document", "referenced", "table")

    def __init__(self, document: bytes, table: TableMetadata | None = None) -> None:
        self.document = document
        self.table = table
        self.referenced: bytes | None = None
        """The JSON without the snapshots that no branch or tag names, once somebody asked for it."""


class MetadataCache:
    """Files by where they are, the least recently used ones leave first."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._kept: OrderedDict[str, CachedMetadata] = OrderedDict()

    def get(self, location: str) -> CachedMetadata | None:
        """The file at a location, if it is here."""
        found = self._kept.get(location)
        if found is not None:
            self._kept.move_to_end(location)
        return found

    def keep(self, location: str, document: bytes, table: TableMetadata | None = None) -> CachedMetadata:
        """Keep a file."""
        kept = CachedMetadata(document, table)
        old = self._kept.pop(location, None)
        if old is not None:
            self._bytes -= len(old.document)
        if len(document) > self._max_bytes // 2:
            return kept
        self._kept[location] = kept
        self._bytes += len(document)
        while self._bytes > self._max_bytes:
            _, left = self._kept.popitem(last=False)
            self._bytes -= len(left.document)
        return kept
