"""Tells a blob that was replaced while it was read from one that the object store lost.

Both look alike to a reader: the store does not have the blob that the row named. If the metadata still refers to it,
bytes that were acknowledged are not there: a disk that is not mounted, another bucket, damage. Clients must not take
that for an object that was deleted.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from lakebed.core.errors import BlobMissing, LakebedError, NoSuchKey
from lakebed.core.ids import BlobId
from lakebed.meta.seam import MetaStore

from .. import rows
from .ingest import blob_key

log = logging.getLogger("lakebed.objects")

_NOT_COUNTED: Final[Callable[[], None]] = lambda: None  # noqa: E731


class MissingBlobs:
    """Explains blobs that were not found."""

    def __init__(self, meta: MetaStore, count: Callable[[], None] = _NOT_COUNTED) -> None:
        """`count` is called for each read of a blob that is missing."""
        self._meta = meta
        self._count = count

    async def explain(self, blob: BlobId) -> LakebedError:
        """The error to raise for a blob that the object store does not have: BlobMissing, or NoSuchKey."""
        if await self._meta.row(rows.BLOB_IS_REFERRED_TO, blob) is None:
            return NoSuchKey("the object was replaced or deleted while it was being read")
        self._count()
        log.error("stored bytes are missing from the object store", extra={"key": blob_key(blob)})
        return BlobMissing(
            f"stored bytes are missing; see that the object store is mounted and is the right one. key={blob_key(blob)}"
        )
