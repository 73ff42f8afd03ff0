"""Versioning of a bucket."""

from __future__ import annotations

from enum import StrEnum

from lakebed.core.errors import InvalidBucketState

__all__ = ["Versioning", "check_versioning_change"]


class Versioning(StrEnum):
    """A bucket's versioning state. It starts unversioned and never returns to that."""

    UNVERSIONED = ""
    ENABLED = "Enabled"
    SUSPENDED = "Suspended"

    @property
    def keeps_versions(self) -> bool:
        """Whether a new write keeps the previous version."""
        return self is Versioning.ENABLED


def check_versioning_change(to: Versioning, *, locked: bool) -> None:
    """Raise InvalidBucketState if versioning would be suspended on a bucket with object lock."""
    if locked and to is not Versioning.ENABLED:
        raise InvalidBucketState("object lock is enabled on the bucket, so versioning cannot be suspended")
