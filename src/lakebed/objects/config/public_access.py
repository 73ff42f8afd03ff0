"""Public access block: switches that disable public grants, regardless of policies and ACLs."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["PublicAccessBlock"]


@dataclass(frozen=True, slots=True)
class PublicAccessBlock:
    """The four switches of a bucket."""

    block_public_acls: bool = False
    """Reject requests that set a public ACL."""

    ignore_public_acls: bool = False
    """Ignore public ACLs."""

    block_public_policy: bool = False
    """Reject public bucket policies."""

    restrict_public_buckets: bool = False
    """A public policy grants nothing to anonymous callers or other accounts."""
