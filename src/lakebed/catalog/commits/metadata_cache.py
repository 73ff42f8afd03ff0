"""Caches recently read or written metadata by version token, which never changes its content.

Not by file: a registered file may be overwritten once no table uses it, and registered again.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from lakebed.iceberg.metadata.parsing import parse_table
from lakebed.iceberg.metadata.serialization import TableText
from lakebed.iceberg.metadata.table import TableMetadata

from .shared_history import BaseFile, DocumentSource, recover_base_file

MAX_BYTES: Final = 64 * 1024 * 1024
"""Size of cached metadata files per worker. Their parsed form takes about three times as much in addition."""


_MAX_TABLES: Final = 4096


class CachedMetadata:
    """One metadata file: its JSON, and its parsed form."""

    __slots__ = ("_like", "_origin", "_table", "base_file", "pieces", "referenced", "size", "text")

    def __init__(
        self,
        document: bytes | TableText,
        table: TableMetadata | None = None,
        base_file: BaseFile | None = None,
        origin: DocumentSource | None = None,
        like: CachedMetadata | None = None,
    ) -> None:
        """`like` is an earlier version: parts with equal text are not parsed again."""
        self._origin = origin
        self._like: TableMetadata | None = None if like is None else like._table
        self.text: TableText | None = None if isinstance(document, bytes) else document
        """The parts of a document, shared with those before and after. Unknown until `recall` if it was read."""
        self.base_file = base_file
        """The file whose history the next one can share, if there is one."""
        self.pieces: tuple[bytes, ...] = (document,) if isinstance(document, bytes) else document.pieces
        """The JSON in pieces: joining long documents costs a copy."""
        self.size = sum(map(len, self.pieces))
        self._table: TableMetadata | None = table
        self.referenced: bytes | None = None
        """The JSON without unreferenced snapshots, once it was requested."""

    def recall(self) -> None:
        """Determine, for a document that was read, which parts the next one can share."""
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
        """The table metadata. Parsed on first use: most loads return the JSON as it is."""
        if self._table is None:
            self._table = parse_table(self.document, self._like)
            self._like = None
        return self._table


class MetadataCache:
    """An LRU cache of metadata by version token."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._kept: OrderedDict[str, CachedMetadata] = OrderedDict()
        self._latest: dict[str, str] = {}
        """The last cached version, by table id."""

    def get(self, version_token: str) -> CachedMetadata | None:
        """The metadata of a version, if it is cached."""
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
        """Cache the metadata of a version; `of` is the table's id, if earlier versions may be cached."""
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
        """Remove a version that will not be requested again."""
        old = self._kept.pop(version_token, None)
        if old is not None:
            self._bytes -= old.size
