"""The actions of S3 that a bucket policy may name, by what they act on.

A name that is not here is refused when a policy is put: a misspelt denial would deny nothing.
"""

from __future__ import annotations

from typing import Final


def _named(*names: str) -> frozenset[str]:
    return frozenset(f"s3:{name}" for line in names for name in line.split())


OBJECT_ACTIONS: Final = _named(
    "GetObject GetObjectVersion GetObjectAttributes GetObjectVersionAttributes",
    "GetObjectAcl GetObjectVersionAcl PutObjectAcl PutObjectVersionAcl",
    "GetObjectTagging GetObjectVersionTagging PutObjectTagging PutObjectVersionTagging",
    "DeleteObjectTagging DeleteObjectVersionTagging",
    "GetObjectRetention PutObjectRetention GetObjectLegalHold PutObjectLegalHold BypassGovernanceRetention",
    "GetObjectTorrent GetObjectVersionTorrent GetObjectVersionForReplication",
    "PutObject DeleteObject DeleteObjectVersion RestoreObject UpdateObjectEncryption",
    "AbortMultipartUpload ListMultipartUploadParts",
    "InitiateReplication ReplicateObject ReplicateDelete ReplicateTags ObjectOwnerOverrideToBucketOwner",
)
"""Those that act on `arn:aws:s3:::bucket/key`."""

BUCKET_ACTIONS: Final = _named(
    "CreateBucket DeleteBucket ListBucket ListBucketVersions ListBucketMultipartUploads GetBucketLocation",
    "GetBucketAcl PutBucketAcl GetBucketOwnershipControls PutBucketOwnershipControls",
    "GetBucketPolicy PutBucketPolicy DeleteBucketPolicy GetBucketPolicyStatus",
    "GetBucketPublicAccessBlock PutBucketPublicAccessBlock",
    "GetBucketVersioning PutBucketVersioning GetBucketObjectLockConfiguration PutBucketObjectLockConfiguration",
    "GetBucketTagging PutBucketTagging TagResource UntagResource ListTagsForResource",
    "GetBucketAbac PutBucketAbac",
    "GetBucketCORS PutBucketCORS GetBucketWebsite PutBucketWebsite DeleteBucketWebsite",
    "GetBucketLogging PutBucketLogging GetBucketNotification PutBucketNotification ListenBucketNotification",
    "GetBucketRequestPayment PutBucketRequestPayment GetEncryptionConfiguration PutEncryptionConfiguration",
    "GetLifecycleConfiguration PutLifecycleConfiguration",
    "GetReplicationConfiguration PutReplicationConfiguration",
    "GetAccelerateConfiguration PutAccelerateConfiguration GetAnalyticsConfiguration PutAnalyticsConfiguration",
    "GetInventoryConfiguration PutInventoryConfiguration GetMetricsConfiguration PutMetricsConfiguration",
    "GetIntelligentTieringConfiguration PutIntelligentTieringConfiguration",
    "GetBucketMetadataTableConfiguration CreateBucketMetadataTableConfiguration",
    "DeleteBucketMetadataTableConfiguration UpdateBucketMetadataInventoryTableConfiguration",
    "UpdateBucketMetadataJournalTableConfiguration CreateSession",
)
"""Those that act on `arn:aws:s3:::bucket`."""
