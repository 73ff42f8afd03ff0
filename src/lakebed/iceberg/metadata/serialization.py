"""Serializes table metadata: equal values give equal text.

The history of a table is most of its document, and grows at its end alone until something is expired. So a document is
kept as the runs that it is made of: a commit that only adds to the history shares the text that was there before, and
costs what it adds, however long the history is.
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
    """The elements of a list, as they stand between its brackets: those that are settled, and those behind them."""

    settled: bytes = b""
    """Shared by all documents since it was settled."""
    recent: bytes = b""
    """Begins with a comma, unless nothing is settled."""

    @property
    def size(self) -> int:
        """How many bytes it has."""
        return len(self.settled) + len(self.recent)

    def grown(self, elements: Sequence[DocumentElement]) -> TextRun:
        """The same with more elements behind it."""
        if not elements:
            return self
        more = _joined(elements)
        return TextRun(self.settled, b"%b,%b" % (self.recent, more) if self.size else more)

    def whole(self) -> TextRun:
        """The same, all of it settled."""
        return TextRun(self.settled + self.recent) if self.recent else self


@dataclass(frozen=True, slots=True)
class TableText:
    """A metadata document in runs."""

    head: bytes
    """Up to the snapshots."""
    snapshots: TextRun
    middle: bytes
    """Between the snapshots and the snapshot log."""
    log: TextRun
    tail: bytes
    """From the end of the snapshot log."""

    @property
    def pieces(self) -> tuple[bytes, ...]:
        """The document, to be read one after the other."""
        snapshots, log = self.snapshots, self.log
        return self.head, snapshots.settled, snapshots.recent + self.middle, log.settled, log.recent + self.tail

    @property
    def size(self) -> int:
        """How many bytes the document has."""
        return len(self.head) + self.snapshots.size + len(self.middle) + self.log.size + len(self.tail)

    @property
    def settled_size(self) -> int:
        """How many of them are settled."""
        return len(self.snapshots.settled) + len(self.log.settled)

    @property
    def recent_size(self) -> int:
        """How much was added to the history since it was settled."""
        return len(self.snapshots.recent) + len(self.log.recent)

    def whole(self) -> TableText:
        """The same document, all of its history settled. Costs a copy of it."""
        if not self.recent_size:
            return self
        return TableText(self.head, self.snapshots.whole(), self.middle, self.log.whole(), self.tail)


def write_table(
    metadata: TableMetadata, *, base: TableMetadata | None = None, before: TableText | None = None
) -> TableText:
    """The metadata document, compact. Parts go in as they were written.

    `before` is the document of `base`: where the table only grew from that, the text of its history is shared with it.
    """
    growth = metadata.grown_from(base)
    if before is not None and growth is not None:
        snapshots, log = before.snapshots.grown(growth.snapshots), before.log.grown(growth.log)
    else:
        snapshots = TextRun(_joined(metadata.snapshots.values()))
        log = TextRun(_joined(metadata.snapshot_log))
    return _around(metadata, snapshots, log)


def serialize_table(metadata: TableMetadata, *, referenced_snapshots_only: bool = False) -> bytes:
    """The metadata document in one piece. The cost is a copy of the text of its parts.

    With `referenced_snapshots_only`, snapshots that no branch or tag names are left out, as clients that load history
    when they need it ask for; logs and references stay complete. Such a document is an answer, not to be stored.
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
        head["schema"] = metadata.schema.written  # for readers older than lists of schemas
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
    """The fields of an object, as they stand between its braces."""
    return bytes(encode(document))[1:-1]


def _joined(elements: Iterable[DocumentElement]) -> bytes:
    return b",".join([element.written for element in elements])


def _current_snapshot_id(metadata: TableMetadata) -> int | None:
    if metadata.current_snapshot_id is None and metadata.format_version < ROW_LINEAGE_SINCE_VERSION:
        return -1  # Readers of the older versions expect a number.
    return metadata.current_snapshot_id


def _texts(elements: Iterable[DocumentElement | Schema]) -> list[Raw]:
    return [element.written for element in elements]
