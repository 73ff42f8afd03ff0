"""The actions that the policies of buckets and table buckets may name, by what they act on.

Other names are refused when a policy is put: a denial of an action that is never authorized denies nothing.
`s3tables:ListTableBuckets` is missing because it is authorized on an account and not on a bucket. `UpdateNamespace` and
`RunTableMaintenance` are extensions of this server: S3 Tables has no action for them.
"""

from __future__ import annotations

from typing import Final


def named_actions(service: str, *lines: str) -> frozenset[str]:
    """Actions of one service; each line holds names separated by spaces."""
    return frozenset(f"{service}:{name}" for line in lines for name in line.split())


OBJECT_ACTIONS: Final = named_actions(
    "s3",
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
"""Actions on `arn:aws:s3:::bucket/key`."""

BUCKET_ACTIONS: Final = named_actions(
    "s3",
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
"""Actions on `arn:aws:s3:::bucket`."""

TABLE_BUCKET_ACTIONS: Final = named_actions(
    "s3tables",
    "CreateTableBucket GetTableBucket",
    "CreateNamespace GetNamespace ListNamespaces UpdateNamespace DeleteNamespace ListTables CreateTable",
)
"""Actions on `arn:aws:s3tables:REGION:ACCOUNT:bucket/NAME`."""

TABLE_ACTIONS: Final = named_actions(
    "s3tables",
    "GetTable RenameTable DeleteTable GetTableMetadataLocation UpdateTableMetadataLocation",
    "GetTableData PutTableData",
    "GetTableMaintenanceConfiguration PutTableMaintenanceConfiguration RunTableMaintenance",
)
"""Actions on `…:bucket/NAME/table/ID`. Authorized on the bucket if the table does not exist;
`…MaintenanceConfiguration` also for the bucket's default configuration."""

IN_NAMESPACE: Final = (
    TABLE_BUCKET_ACTIONS - named_actions("s3tables", "CreateTableBucket GetTableBucket")
) | TABLE_ACTIONS
"""Actions whose requests name a namespace."""

ON_NAME: Final = TABLE_ACTIONS | named_actions("s3tables", "CreateTable")
"""Actions whose requests name a table or view."""
