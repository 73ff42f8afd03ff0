"""Object ownership and request payer of a bucket: always the bucket owner."""

from __future__ import annotations

from enum import StrEnum

from lakebed.core.errors import NotSupported

__all__ = ["ObjectOwnership", "Payer", "check_ownership", "check_payer"]


class ObjectOwnership(StrEnum):
    """S3's three settings. Only the first is supported: access is decided by policies, never by ACLs."""

    BUCKET_OWNER_ENFORCED = "BucketOwnerEnforced"
    BUCKET_OWNER_PREFERRED = "BucketOwnerPreferred"
    OBJECT_WRITER = "ObjectWriter"


class Payer(StrEnum):
    """The payer of requests."""

    BUCKET_OWNER = "BucketOwner"
    REQUESTER = "Requester"


def check_ownership(ownership: ObjectOwnership) -> None:
    """Raise NotSupported for settings that would enable ACLs."""
    if ownership is not ObjectOwnership.BUCKET_OWNER_ENFORCED:
        raise NotSupported(f"object ownership is always BucketOwnerEnforced. requested={ownership}")


def check_payer(payer: Payer) -> None:
    """Raise NotSupported for requester pays."""
    if payer is not Payer.BUCKET_OWNER:
        raise NotSupported(f"requests are always paid by the bucket's owner. requested={payer}")
