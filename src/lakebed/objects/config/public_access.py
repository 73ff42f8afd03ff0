"""Public access block: switches that take public grants out of force, whatever policies and ACLs say."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["PublicAccessBlock"]


@dataclass(frozen=True, slots=True)
class PublicAccessBlock:
    """The four switches of a bucket."""

    block_public_acls: bool = False
    """Refuse requests that would set a public ACL."""

    ignore_public_acls: bool = False
    """Act as if public ACLs were not there."""

    block_public_policy: bool = False
    """Refuse bucket policies that are public."""

    restrict_public_buckets: bool = False
    """A public policy grants nothing to anonymous callers or other accounts."""
