"""Checks before an operation: the expected bucket owner, and operations that require a signature."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lakebed.core.access import canonical_id
from lakebed.wire.aws.errors import AwsFault

from .services import S3Services

EXPECTED_OWNER: Final = "x-amz-expected-bucket-owner"
EXPECTED_SOURCE_OWNER: Final = "x-amz-source-expected-bucket-owner"

_NEEDS_SIGNATURE: Final = "Anonymous users cannot invoke this API. Please authenticate."
NEVER_ANONYMOUS: Final[Mapping[str, str]] = {
    "CreateBucket": _NEEDS_SIGNATURE,
    "PutBucketAcl": _NEEDS_SIGNATURE,
    "PutObjectAcl": _NEEDS_SIGNATURE,
    "CopyObject": "Anonymous users cannot copy objects. Please authenticate.",
    "UploadPartCopy": "Access Denied.",
    "SelectObjectContent": _NEEDS_SIGNATURE,
    "SelectObjects": _NEEDS_SIGNATURE,
    "ListenBucketNotification": _NEEDS_SIGNATURE,
    "ListenNotification": _NEEDS_SIGNATURE,
    "CreateMultipartUpload": "Anonymous users cannot initiate multipart uploads. Please authenticate.",
    "GetBucketOwnershipControls": "s3:GetBucketOwnershipControls does not support Anonymous requests!",
    "PutBucketOwnershipControls": "s3:PutBucketOwnershipControls does not support Anonymous requests!",
    "DeleteBucketOwnershipControls": "s3:PutBucketOwnershipControls does not support Anonymous requests!",
}
"""Operations that no policy can allow to anonymous callers, with S3's message for them."""


async def require_owner(services: S3Services, bucket: str, account: str) -> None:
    """Reject a request if the expected bucket owner is not the owner. Raises AwsFault, NoSuchBucket.

    `account` is an account number or a canonical user id.
    """
    owner = (await services.buckets.find(bucket)).owner
    if account not in (owner, canonical_id(owner)):
        raise AwsFault(403, "AccessDenied", "Access Denied.")
