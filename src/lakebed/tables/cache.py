"""Metadata that was read or written lately, by the version of the table: what a version is does not change.

Not by the file: one that was registered may be written over once no table has it, and registered again.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from .metadata.parsing import parse_table
from .metadata.table import TableMetadata

MAX_BYTES: Final = 64 * 1024 * 1024
"""How much of metadata files a worker keeps; what is parsed of them comes on top, some three times as much."""


class CachedMetadata:
    """One file: its JSON, and what was parsed of it."""

    __slots__ = ("_table", "document", "referenced")

    def __init__(self, document: bytes, table: TableMetadata | None = None) -> None:
        self.document = document
        self._table = table
        self.referenced: bytes | None = None
        """The JSON without the snapshots that no branch or tag names, once somebody asked for it."""

    @property
    def table(self) -> TableMetadata:
        """What it says, if it is a table's. Parsed when first asked for: most loads show the JSON as it is."""
        if self._table is None:
            self._table = parse_table(self.document)
        return self._table


class MetadataCache:
    """Metadata by version token, the least recently used leaves first."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._kept: OrderedDict[str, CachedMetadata] = OrderedDict()

    def get(self, version_token: str) -> CachedMetadata | None:
        """The metadata of a version, if it is here."""
        found = self._kept.get(version_token)
        if found is not None:
            self._kept.move_to_end(version_token)
        return found

    def keep(self, version_token: str, document: bytes, table: TableMetadata | None = None) -> CachedMetadata:
        """Keep the metadata of a version."""
        kept = CachedMetadata(document, table)
        old = self._kept.pop(version_token, None)
        if old is not None:
            self._bytes -= len(old.document)
        if len(document) > self._max_bytes // 2:
            return kept
        self._kept[version_token] = kept
        self._bytes += len(document)
        while self._bytes > self._max_bytes:
            _, left = self._kept.popitem(last=False)
            self._bytes -= len(left.document)
        return kept
