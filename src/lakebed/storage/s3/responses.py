"""Converts S3 responses to values of ObjectStorage."""

from __future__ import annotations

from datetime import datetime

from lakebed.core.errors import Unavailable

from ..seam import Key, ObjectHead, ObjectVersion
from .encoding import unquote_etag
from .error_mapping import StoreOperation
from .request import Reply


def bare_etag(reply: Reply, operation: StoreOperation) -> str:
    """The ETag. A response without one is rejected: a proxy may have made it. Raises Unavailable."""
    etag = reply.get("ETag")
    if not isinstance(etag, str) or not etag:
        raise Unavailable(f"response without an ETag. operation={operation}", undecided=operation.changes_objects)
    return unquote_etag(etag)


def written_version(reply: Reply, operation: StoreOperation) -> ObjectVersion:
    """The version of a write. Raises Unavailable."""
    return ObjectVersion(bare_etag(reply, operation), reply.get("VersionId"))


def object_head(key: Key, reply: Reply) -> ObjectHead:
    """The result of a HEAD. Raises Unavailable."""
    metadata = {name.lower(): value for name, value in reply.get("Metadata", {}).items()}
    return ObjectHead(
        key,
        reply["ContentLength"],
        bare_etag(reply, StoreOperation.HEAD),
        epoch_ms(reply["LastModified"]),
        metadata,
        reply.get("VersionId"),
    )


def epoch_ms(moment: datetime) -> int:
    """A time as milliseconds since the epoch."""
    return round(moment.timestamp() * 1000)
