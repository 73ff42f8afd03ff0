"""Metadata files that share history: snapshots in an earlier file are not written again.

A file that was written whole, as a blob, is a *base file*. The files of later commits contain only new parts, and share
the snapshots and the snapshot log of the base file. Over S3 each reads as one document, byte for byte as if it was
written whole. When enough history follows the base file, or when its history is no longer the beginning of the new one,
the next file is written whole, and is the next base file. So the cost of a commit hardly grows with the number of
snapshots (ADR 15).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, NamedTuple

from lakebed.iceberg.metadata.serialization import TableText, TextRun, write_table
from lakebed.iceberg.metadata.table import TableMetadata
from lakebed.objects.blobs.composition import BaseContent, BaseRange, digest_of
from lakebed.objects.model import Extent

__all__ = [
    "MAX_RECENT_BYTES",
    "BaseFile",
    "DocumentSource",
    "base_file_of",
    "recover_base_file",
    "shared_parts",
    "should_share_history",
]

MAX_RECENT_BYTES: Final = 64 * 1024
"""Maximum history after a base file. Each later file repeats it, for about 130 commits."""

_MAX_OWN_BYTES: Final = 128 * 1024
_MAX_OWN_SHARE: Final = 8
"""Own bytes of a file that shares history: at most this many, or an eighth of all. They are in the metadata store."""

_IS_SHARED: Final = [False, True, False, False, True, False, False]
"""Which of the seven parts are shared."""


@dataclass(frozen=True, slots=True)
class BaseFile:
    """A metadata file that was written whole, with the ranges of its settled text runs."""

    text: TableText
    content: BaseContent
    snapshots: BaseRange
    log: BaseRange

    def holds(self, text: TableText) -> bool:
        """Whether the settled runs of this text are the base file's, by identity."""
        own = self.text
        return text.snapshots.settled is own.snapshots.settled and text.log.settled is own.log.settled


def base_file_of(text: TableText, content: BaseContent) -> BaseFile:
    """The base file with this text, all of which is settled. Costs a checksum of its history."""
    at = len(text.head)
    snapshots = BaseRange(at, len(text.snapshots.settled), digest_of(text.snapshots.settled))
    at += text.snapshots.size + len(text.middle)
    return BaseFile(text, content, snapshots, BaseRange(at, len(text.log.settled), digest_of(text.log.settled)))


def should_share_history(text: TableText, base_file: BaseFile, *, encrypt: bool) -> bool:
    """Whether a file with this text should share the base file's history."""
    if not base_file.holds(text) or base_file.content.encrypted != encrypt:
        return False  # its history or the bucket's encryption changed since
    size, settled = text.size, text.settled_size
    most_own = min(settled, max(_MAX_OWN_BYTES, size // _MAX_OWN_SHARE))
    return text.recent_size <= MAX_RECENT_BYTES and size - settled <= most_own


def shared_parts(text: TableText, base_file: BaseFile) -> list[bytes | BaseRange]:
    """The parts of a file that shares the base file's history: always these seven, as `recover_base_file` expects."""
    return [
        text.head,
        base_file.snapshots,
        text.snapshots.recent,
        text.middle,
        base_file.log,
        text.log.recent,
        text.tail,
    ]


class DocumentSource(NamedTuple):
    """The content of a document that was read, the content it shares, and its pieces."""

    content: int
    base_content: int | None
    pieces: Sequence[Extent]


def recover_base_file(
    document: bytes, table: TableMetadata, origin: DocumentSource
) -> tuple[TableText, BaseFile] | None:
    """The text of a document that was read, and the base file for the next one; None without a base file.

    So any worker can continue from a file that another one wrote. Costs a copy.
    """
    if origin.base_content is not None:
        return _recover_shared(document, origin.pieces, origin.base_content)
    if len(origin.pieces) != 1 or origin.pieces[0].blob is None or origin.pieces[0].size != len(document):
        return None
    text = write_table(table)
    if text.size != len(document) or b"".join(text.pieces) != document:
        return None  # written by another writer, with other text
    return text, base_file_of(text, BaseContent(origin.content, origin.pieces[0]))


def _recover_shared(document: bytes, pieces: Sequence[Extent], base_content: int) -> tuple[TableText, BaseFile] | None:
    ends = list(accumulate(piece.size for piece in pieces))
    if [bool(piece.blob_size) for piece in pieces] != _IS_SHARED or ends[-1] != len(document):
        return None
    head, snapshots, recent, middle, log, recent_log, tail = (
        document[end - piece.size : end] for piece, end in zip(pieces, ends, strict=True)
    )
    text = TableText(head, TextRun(snapshots, recent), middle, TextRun(log, recent_log), tail)
    shared, shared_log = (piece for piece in pieces if piece.blob_size)
    return text, BaseFile(
        text,
        BaseContent(base_content, Extent(shared.blob_size, blob=shared.blob, seal=shared.seal)),
        BaseRange(shared.start, shared.size, digest_of(snapshots)),
        BaseRange(shared_log.start, shared_log.size, digest_of(log)),
    )
