"""Serializes table metadata: equal values give equal text.

Most of a document is the history, which only grows at its end until something expires. So a document is kept as runs of
text: a commit that only appends to the history shares the earlier text, and costs only what it appends.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from msgspec import Raw

from ..documents import DocumentElement, encode, split
from ..schema import Schema
from .snapshots import ROW_LINEAGE_SINCE_VERSION
from .table import TableMetadata

__all__ = ["TableText", "TextRun", "serialize_table", "write_table"]


@dataclass(frozen=True, slots=True)
class TextRun:
    """The elements of a list, without its brackets: settled elements, and recent ones after them."""

    settled: bytes = b""
    """Shared by all later documents."""
    recent: bytes = b""
    """Begins with a comma, unless `settled` is empty."""

    @property
    def size(self) -> int:
        """The number of bytes."""
        return len(self.settled) + len(self.recent)

    def grown(self, elements: Sequence[DocumentElement]) -> TextRun:
        """The run with more elements appended."""
        if not elements:
            return self
        more = _joined(elements)
        return TextRun(self.settled, b"%b,%b" % (self.recent, more) if self.size else more)

    def whole(self) -> TextRun:
        """The run with all of it settled."""
        return TextRun(self.settled + self.recent) if self.recent else self


@dataclass(frozen=True, slots=True)
class TableText:
    """A metadata document in runs of text."""

    head: bytes
    """The text before the snapshots."""
    snapshots: TextRun
    middle: bytes
    """The text between the snapshots and the snapshot log."""
    log: TextRun
    tail: bytes
    """The text after the snapshot log."""

    @property
    def pieces(self) -> tuple[bytes, ...]:
        """The document in pieces, in order."""
        snapshots, log = self.snapshots, self.log
        return self.head, snapshots.settled, snapshots.recent + self.middle, log.settled, log.recent + self.tail

    @property
    def size(self) -> int:
        """The number of bytes of the document."""
        return len(self.head) + self.snapshots.size + len(self.middle) + self.log.size + len(self.tail)

    @property
    def settled_size(self) -> int:
        """The number of settled bytes."""
        return len(self.snapshots.settled) + len(self.log.settled)

    @property
    def recent_size(self) -> int:
        """The number of bytes appended to the history since it was settled."""
        return len(self.snapshots.recent) + len(self.log.recent)

    def whole(self) -> TableText:
        """The same document with all of its history settled. Costs a copy of the history."""
        if not self.recent_size:
            return self
        return TableText(self.head, self.snapshots.whole(), self.middle, self.log.whole(), self.tail)


def write_table(
    metadata: TableMetadata, *, base: TableMetadata | None = None, before: TableText | None = None
) -> TableText:
    """The metadata document, compact. Unchanged parts keep their text.

    `before` is the document of `base`: if the table only grew since, the text of its history is shared.
    """
    growth = metadata.grown_from(base)
    if before is not None and growth is not None:
        snapshots, log = before.snapshots.grown(growth.snapshots), before.log.grown(growth.log)
    else:
        snapshots = TextRun(_joined(metadata.snapshots.values()))
        log = TextRun(_joined(metadata.snapshot_log))
    return _around(metadata, snapshots, log)


def serialize_table(metadata: TableMetadata, *, referenced_snapshots_only: bool = False) -> bytes:
    """The metadata document in one piece, at the cost of a copy of its text.

    With `referenced_snapshots_only`, snapshots without a branch or tag are omitted, for clients that load snapshots on
    demand; logs and references stay complete. Such a document is a response and must not be stored.
    """
    snapshots: Iterable[DocumentElement] = metadata.snapshots.values()
    if referenced_snapshots_only:
        named = {reference.snapshot_id for reference in metadata.refs.values()}
        snapshots = (snapshot for snapshot in metadata.snapshots.values() if snapshot.snapshot_id in named)
    text = _around(metadata, TextRun(_joined(snapshots)), TextRun(_joined(metadata.snapshot_log)))
    return b"".join(text.pieces)


def _around(metadata: TableMetadata, snapshots: TextRun, log: TextRun) -> TableText:
    """The document with this text of its history."""
    version = metadata.format_version
    head: dict[str, object] = {"format-version": version}
    if metadata.uuid is not None:
        head["table-uuid"] = metadata.uuid
    head["location"] = metadata.location
    if version > 1:
        head["last-sequence-number"] = metadata.last_sequence_number
    head["last-updated-ms"] = metadata.last_updated_ms
    head["last-column-id"] = metadata.last_column_id
    if version == 1:
        head["schema"] = metadata.schema.written  # for readers without support for lists of schemas
    head["current-schema-id"] = metadata.current_schema_id
    head["schemas"] = _texts(metadata.schemas.values())
    if version == 1:
        head["partition-spec"] = split(metadata.spec.written, "partition-spec")["fields"]
    head["default-spec-id"] = metadata.default_spec_id
    head["partition-specs"] = _texts(metadata.specs.values())
    head["last-partition-id"] = metadata.last_partition_id
    head["default-sort-order-id"] = metadata.default_sort_order_id
    head["sort-orders"] = _texts(metadata.sort_orders.values())
    head["properties"] = dict(metadata.properties)
    head["current-snapshot-id"] = _current_snapshot_id(metadata)
    if version >= ROW_LINEAGE_SINCE_VERSION:
        head["next-row-id"] = metadata.next_row_id
    head["refs"] = {name: reference.written for name, reference in metadata.refs.items()}
    middle: dict[str, object] = {
        "statistics": _texts(metadata.statistics),
        "partition-statistics": _texts(metadata.partition_statistics),
    }
    tail: dict[str, object] = {"metadata-log": _texts(metadata.metadata_log)}
    if metadata.encryption_keys:
        tail["encryption-keys"] = _texts(metadata.encryption_keys.values())
    tail.update(metadata.unknown)
    return TableText(
        b'{%b,"snapshots":[' % _fields(head),
        snapshots,
        b'],%b,"snapshot-log":[' % _fields(middle),
        log,
        b"],%b}" % _fields(tail),
    )


def _fields(document: dict[str, object]) -> bytes:
    """The fields of an object, without its braces."""
    return bytes(encode(document))[1:-1]


def _joined(elements: Iterable[DocumentElement]) -> bytes:
    return b",".join([element.written for element in elements])


def _current_snapshot_id(metadata: TableMetadata) -> int | None:
    if metadata.current_snapshot_id is None and metadata.format_version < ROW_LINEAGE_SINCE_VERSION:
        return -1  # Readers of the older versions require a number.
    return metadata.current_snapshot_id


def _texts(elements: Iterable[DocumentElement | Schema]) -> list[Raw]:
    return [element.written for element in elements]
