"""Who owns what is written into a bucket, and who pays: its owner, in both cases."""

from __future__ import annotations

from enum import StrEnum

from lakebed.core.errors import NotSupported

__all__ = ["ObjectOwnership", "Payer", "check_ownership", "check_payer"]


class ObjectOwnership(StrEnum):
    """S3's three kinds. Only the first is served: access is decided by policies, never by ACLs."""

    BUCKET_OWNER_ENFORCED = "BucketOwnerEnforced"
    BUCKET_OWNER_PREFERRED = "BucketOwnerPreferred"
    OBJECT_WRITER = "ObjectWriter"


class Payer(StrEnum):
    """Who pays for requests."""

    BUCKET_OWNER = "BucketOwner"
    REQUESTER = "Requester"


def check_ownership(ownership: ObjectOwnership) -> None:
    """Raise NotSupported for ownership that would bring ACLs into force."""
    if ownership is not ObjectOwnership.BUCKET_OWNER_ENFORCED:
        raise NotSupported(f"object ownership is always BucketOwnerEnforced. requested={ownership}")


def check_payer(payer: Payer) -> None:
    """Raise NotSupported if requesters were to pay."""
    if payer is not Payer.BUCKET_OWNER:
        raise NotSupported(f"requests are always paid by the bucket's owner. requested={payer}")
