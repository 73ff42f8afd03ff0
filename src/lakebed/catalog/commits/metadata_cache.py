"""Metadata that was read or written lately, by the version of the table: what a version is does not change.

Not by the file: one that was registered may be written over once no table has it, and registered again.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from lakebed.iceberg.metadata.parsing import parse_table
from lakebed.iceberg.metadata.serialization import TableText
from lakebed.iceberg.metadata.table import TableMetadata

from .shared_history import BaseFile, DocumentSource, recover_base_file

MAX_BYTES: Final = 64 * 1024 * 1024
"""How much of metadata files a worker keeps; what is parsed of them comes on top, some three times as much."""


_MAX_TABLES: Final = 4096


class CachedMetadata:
    """One file: its JSON, and what was parsed of it."""

    __slots__ = ("_like", "_origin", "_table", "base_file", "pieces", "referenced", "size", "text")

    def __init__(
        self,
        document: bytes | TableText,
        table: TableMetadata | None = None,
        base_file: BaseFile | None = None,
        origin: DocumentSource | None = None,
        like: CachedMetadata | None = None,
    ) -> None:
        """`like` is an earlier version: what it has in the same words is not parsed again."""
        self._origin = origin
        self._like: TableMetadata | None = None if like is None else like._table
        self.text: TableText | None = None if isinstance(document, bytes) else document
        """The parts of a document, shared with those before and after. Unknown until `recall` if it was read."""
        self.base_file = base_file
        """The file whose history the next one can share, if there is one."""
        self.pieces: tuple[bytes, ...] = (document,) if isinstance(document, bytes) else document.pieces
        """The JSON, to be read one after the other: long ones are not to be joined without need."""
        self.size = sum(map(len, self.pieces))
        self._table: TableMetadata | None = table
        self.referenced: bytes | None = None
        """The JSON without the snapshots that no branch or tag names, once somebody asked for it."""

    def recall(self) -> None:
        """Find out, of a document that was read, what the next one may share with it and borrow from its file."""
        origin, self._origin = self._origin, None
        recalled = (
            None if origin is None or self.text is not None else recover_base_file(self.document, self.table, origin)
        )
        if recalled is not None:
            self.text, self.base_file = recalled

    @property
    def document(self) -> bytes:
        """The JSON in one piece."""
        return self.pieces[0] if len(self.pieces) == 1 else b"".join(self.pieces)

    @property
    def table(self) -> TableMetadata:
        """What it says, if it is a table's. Parsed when first asked for: most loads show the JSON as it is."""
        if self._table is None:
            self._table = parse_table(self.document, self._like)
            self._like = None
        return self._table


class MetadataCache:
    """Metadata by version token, the least recently used leaves first."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._kept: OrderedDict[str, CachedMetadata] = OrderedDict()
        self._latest: dict[str, str] = {}
        """By the ids of tables, the version of each that was kept last."""

    def get(self, version_token: str) -> CachedMetadata | None:
        """The metadata of a version, if it is here."""
        found = self._kept.get(version_token)
        if found is not None:
            self._kept.move_to_end(version_token)
        return found

    def keep(
        self,
        version_token: str,
        document: bytes | TableText,
        table: TableMetadata | None = None,
        base_file: BaseFile | None = None,
        origin: DocumentSource | None = None,
        of: str = "",
    ) -> CachedMetadata:
        """Keep the metadata of a version; `of` is the id of its table, where there may be others of it."""
        before = self._kept.get(self._latest.get(of, "")) if of else None
        kept = CachedMetadata(document, table, base_file, origin, before)
        if of:
            if len(self._latest) >= _MAX_TABLES:
                self._latest.clear()
            self._latest[of] = version_token
        self.forget(version_token)
        if kept.size > self._max_bytes // 2:
            return kept
        self._kept[version_token] = kept
        self._bytes += kept.size
        while self._bytes > self._max_bytes:
            _, left = self._kept.popitem(last=False)
            self._bytes -= left.size
        return kept

    def forget(self, version_token: str) -> None:
        """Let go of a version that nothing will ask for again: others need the room."""
        old = self._kept.pop(version_token, None)
        if old is not None:
            self._bytes -= old.size
