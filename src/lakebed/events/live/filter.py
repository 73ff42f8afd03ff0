"""What a live listener of S3's events asks for. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from lakebed.meta.outbox import OutboxEntry

from ..names import name_of_kind
from .listeners import ALL_BUCKETS


@dataclass(frozen=True, slots=True)
class S3EventFilter:
    """Some events of a bucket, or of all, on keys that begin and end as they say."""

    mask: int
    bucket: str = ALL_BUCKETS
    prefix: str = ""
    suffix: str = ""

    def takes(self, entry: OutboxEntry) -> bool:
        """Whether it is one of them. Prefix and suffix are plain text, and may share characters of a short key."""
        name = name_of_kind(entry.event.kind)
        if name is None or not name.mask & self.mask:
            return False
        bucket, _, key = entry.event.subject.partition("/")
        if self.bucket not in (ALL_BUCKETS, bucket):
            return False
        return key.startswith(self.prefix) and key.endswith(self.suffix)
