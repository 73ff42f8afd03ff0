"""The condition keys that bucket and table bucket policies may name, with the actions that can have them.

Unknown keys are refused when a policy is put, and so are keys beside actions that never have them: such a condition
denies nothing, or grants nothing, without its author noticing. Keys of other resources (batch jobs, access grants,
storage lens) are missing: no action of a bucket policy has them. Identity policies may name all keys beside any action
(`key_problem`), as in AWS: existing policies rely on `s3:prefix` beside `s3:GetObject`.

Some keys never have a value on this server (`aws:SourceVpc`, `s3:DataAccessPointArn`). Bucket tags (`s3:BucketTag/…`,
`aws:ResourceTag/…`) are among them: S3 has them only in buckets with PutBucketAbac, which is not supported.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from .actions import nearest_name
from .resource_actions import (
    BUCKET_ACTIONS,
    IN_NAMESPACE,
    OBJECT_ACTIONS,
    ON_NAME,
    TABLE_ACTIONS,
    TABLE_BUCKET_ACTIONS,
    named_actions,
)

ADDRESS_KEYS: Final = frozenset({"aws:sourceip"})
"""Keys whose operands S3 parses as addresses with any operator, even Null."""


def actions_with_key(key: str) -> frozenset[str] | None:
    """The actions whose requests can have a key, both in lower case; None for an unknown key.

    A key family (`s3:ExistingObjectTag/…`) requires a name after the slash.
    """
    family, slash, name = key.partition("/")
    return _CARRIERS.get(family + slash) if name or not slash else None


_named = partial(named_actions, "s3")

_EVERY_OF_S3: Final = OBJECT_ACTIONS | BUCKET_ACTIONS
_EVERY: Final = _EVERY_OF_S3 | TABLE_BUCKET_ACTIONS | TABLE_ACTIONS
_LISTS: Final = _named("ListBucket ListBucketVersions")
_PUT: Final = _named("PutObject BypassGovernanceRetention")
_ACL_WRITES: Final = _PUT | _named("PutObjectAcl PutObjectVersionAcl PutBucketAcl CreateBucket")
_ENCRYPTED_WRITES: Final = _PUT | _named("ReplicateObject")
_REPLICATION: Final = _named(
    "GetObjectVersionForReplication InitiateReplication ReplicateObject ReplicateDelete ReplicateTags",
    "ObjectOwnerOverrideToBucketOwner",
)
_BY_ACCESS_POINT: Final = (
    OBJECT_ACTIONS - _REPLICATION - _named("GetObjectTorrent GetObjectVersionTorrent UpdateObjectEncryption")
) | _named("ListBucket ListBucketVersions ListBucketMultipartUploads")

_TABLE: Final[tuple[tuple[str, frozenset[str]], ...]] = (
    # Global keys, valid with every action: of the principal and its session,
    ("aws:PrincipalAccount aws:PrincipalArn aws:PrincipalTag/ aws:PrincipalType aws:userid aws:username", _EVERY),
    ("aws:PrincipalOrgID aws:PrincipalOrgPaths", _EVERY),
    ("aws:PrincipalIsAWSService aws:PrincipalServiceName aws:PrincipalServiceNamesList", _EVERY),
    ("aws:TokenIssueTime aws:MultiFactorAuthAge aws:MultiFactorAuthPresent aws:SourceIdentity", _EVERY),
    ("aws:AssumedRoot aws:FederatedProvider aws:ChatbotSourceArn", _EVERY),
    ("aws:Ec2InstanceSourceVpc aws:Ec2InstanceSourcePrivateIPv4", _EVERY),
    # of the network,
    ("aws:SourceIp aws:SourceVpc aws:SourceVpcArn aws:SourceVpce aws:VpcSourceIp", _EVERY),
    ("aws:VpceAccount aws:VpceOrgID aws:VpceOrgPaths", _EVERY),
    # of the resource,
    ("aws:ResourceAccount aws:ResourceOrgID aws:ResourceOrgPaths aws:ResourceTag/", _EVERY),
    # and of the request.
    ("aws:CurrentTime aws:EpochTime aws:Referer aws:UserAgent aws:SecureTransport aws:RequestedRegion", _EVERY),
    ("aws:RequestTag/ aws:TagKeys", _EVERY),
    ("aws:CalledVia aws:CalledViaFirst aws:CalledViaLast aws:ViaAWSService", _EVERY),
    ("aws:SourceAccount aws:SourceArn aws:SourceOrgID aws:SourceOrgPaths aws:SourceOwner", _EVERY),
    ("aws:CalledViaAWSMCP aws:IsMcpServiceAction aws:ViaAWSMCPService", _EVERY),
    # S3 keys: of any request,
    ("s3:authType s3:signatureAge s3:signatureversion s3:TlsVersion s3:x-amz-content-sha256", _EVERY_OF_S3),
    ("s3:ResourceAccount s3:BucketTag/", _EVERY_OF_S3),
    # of requests through an access point or an access grant,
    (
        "s3:AccessPointNetworkOrigin s3:AccessPointTag/ s3:DataAccessPointAccount s3:DataAccessPointArn",
        _BY_ACCESS_POINT,
    ),
    (
        "s3:AccessGrantsInstanceArn",
        _LISTS
        | _named(
            "AbortMultipartUpload ListMultipartUploadParts ListBucketMultipartUploads DeleteObject DeleteObjectVersion",
            "GetObject GetObjectAcl GetObjectVersion GetObjectVersionAcl PutObject PutObjectAcl PutObjectVersionAcl",
        ),
    ),
    # of listings, except of uploads,
    ("s3:delimiter s3:max-keys s3:prefix", _LISTS),
    # of existing objects,
    (
        "s3:ExistingObjectTag/",
        _named(
            "GetObject GetObjectVersion GetObjectAttributes GetObjectVersionAttributes",
            "GetObjectAcl GetObjectVersionAcl PutObjectAcl PutObjectVersionAcl",
            "GetObjectTagging GetObjectVersionTagging PutObjectTagging PutObjectVersionTagging",
            "DeleteObjectTagging DeleteObjectVersionTagging",
        ),
    ),
    (
        "s3:versionid",
        _named(
            "GetObjectVersion GetObjectVersionAcl GetObjectVersionAttributes GetObjectVersionTagging",
            "GetObjectVersionTorrent PutObjectVersionAcl PutObjectVersionTagging",
            "DeleteObjectVersion DeleteObjectVersionTagging",
        ),
    ),
    # of conditional requests,
    ("s3:if-match", _named("GetObject PutObject DeleteObject")),
    ("s3:if-none-match", _named("GetObject PutObject")),
    # of writes,
    ("s3:ObjectCreationOperation", _named("PutObject")),
    ("s3:RequestObjectTag/ s3:RequestObjectTagKeys", _PUT | _named("PutObjectTagging PutObjectVersionTagging")),
    ("s3:x-amz-acl s3:x-amz-grant-full-control s3:x-amz-grant-read s3:x-amz-grant-read-acp", _ACL_WRITES),
    ("s3:x-amz-grant-write s3:x-amz-grant-write-acp", _ACL_WRITES),
    ("s3:x-amz-copy-source s3:x-amz-metadata-directive s3:x-amz-website-redirect-location", _PUT),
    ("s3:x-amz-server-side-encryption s3:x-amz-server-side-encryption-aws-kms-key-id", _ENCRYPTED_WRITES),
    ("s3:x-amz-server-side-encryption-customer-algorithm", _ENCRYPTED_WRITES),
    ("s3:x-amz-storage-class", _PUT | _named("PutObjectAcl PutObjectVersionAcl")),
    ("s3:object-lock-mode s3:object-lock-retain-until-date", _PUT | _named("PutObjectRetention")),
    ("s3:object-lock-remaining-retention-days", _PUT | _named("PutObjectRetention")),
    ("s3:object-lock-legal-hold", _PUT | _named("PutObjectLegalHold")),
    # and of buckets.
    ("s3:locationconstraint s3:x-amz-bucket-namespace s3:x-amz-object-ownership", _named("CreateBucket")),
    ("s3:InventoryAccessibleOptionalFields", _named("PutInventoryConfiguration")),
    ("s3:isReplicationPauseRequest", _named("PutReplicationConfiguration")),
    # Table buckets: the namespace with its levels joined by dots, and the name of a table or view.
    ("s3tables:namespace", IN_NAMESPACE),
    ("s3tables:tableName", ON_NAME),
)
"""Keys as AWS writes them, families with a final `/`, and their actions."""


def _folded() -> Iterator[tuple[str, frozenset[str]]]:
    for keys, actions in _TABLE:
        lower = frozenset(action.lower() for action in actions)
        for key in keys.split():
            yield key.lower(), lower


_CARRIERS: Final = dict(_folded())

_OF_IDENTITIES: Final = (
    # Batch jobs, replication and access points of S3,
    "s3:ExistingJobOperation s3:ExistingJobPriority s3:JobSuspendedCause s3:RequestJobOperation s3:RequestJobPriority",
    "s3:destinationRegion s3:AccessGrantsLocationScope",
    # encryption and tags of S3 Tables,
    "s3tables:KMSKeyArn s3tables:SSEAlgorithm s3tables:tableBucketTag/",
    # and the session that STS issues.
    "sts:AWSServiceName sts:DurationSeconds sts:ExternalId sts:RequestContext/ sts:RequestContextProviders",
    "sts:RoleSessionName sts:SourceIdentity sts:TaskPolicyArn sts:TransitiveTagKeys",
    "aws:SignInSessionArn",
)
"""Keys that only identity policies can name."""

_IDENTITY_KEYS: Final = {
    key.lower(): key for keys in (*(keys for keys, _ in _TABLE), *_OF_IDENTITIES) for key in keys.split()
}
_KEY_SERVICES: Final = frozenset(key.partition(":")[0] for key in _IDENTITY_KEYS) | {"lakebed", "streams"}


def key_problem(key: str) -> str | None:
    """Why an identity policy must not name a condition key; None if it may.

    Keys of other services are accepted, as their actions are.
    """
    family, slash, name = key.partition("/")
    if family.partition(":")[0] not in _KEY_SERVICES or (family + slash in _IDENTITY_KEYS and (name or not slash)):
        return None
    return f'unknown condition key "{key}"{nearest_name(family + slash, _IDENTITY_KEYS.values())}'
