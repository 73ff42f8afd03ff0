"""Whether a bucket keeps the versions of its objects."""

from __future__ import annotations

from enum import StrEnum

from lakebed.core.errors import InvalidBucketState

__all__ = ["Versioning", "check_versioning_change"]


class Versioning(StrEnum):
    """A bucket's versioning. It begins unversioned and never goes back there."""

    UNVERSIONED = ""
    ENABLED = "Enabled"
    SUSPENDED = "Suspended"

    @property
    def keeps_versions(self) -> bool:
        """Whether a new write leaves what was there under its own version id."""
        return self is Versioning.ENABLED


def check_versioning_change(to: Versioning, *, locked: bool) -> None:
    """Raise InvalidBucketState if a bucket with object lock would stop keeping versions."""
    if locked and to is not Versioning.ENABLED:
        raise InvalidBucketState("object lock is enabled on the bucket, so versioning cannot be suspended")
