"""The actions that identity policies may name, by service, and their validation.

A misspelled action in a Deny denies nothing, so unknown actions are refused when a policy is put. Known are the actions
that this server authorizes, and all AWS actions of the same services, so that AWS policies are accepted unchanged.
Actions of other services (`kms:Decrypt`) never match a request; they are accepted for the same reason (ADR 44).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Final

from ..rbac.administrator import action_name
from ..rbac.operations import ACTION_PRIVILEGES, MANAGEMENT_OPERATIONS
from .resource_actions import BUCKET_ACTIONS, OBJECT_ACTIONS, TABLE_ACTIONS, TABLE_BUCKET_ACTIONS, named_actions
from .wildcards import PolicyPattern, no_values

__all__ = ["KNOWN_ACTIONS", "action_problem", "nearest_name"]


_S3_ACCOUNT_ACTIONS: Final = named_actions(
    "s3",
    "ListAllMyBuckets ListenNotification GetAccountPublicAccessBlock PutAccountPublicAccessBlock",
    "CreateAccessPoint DeleteAccessPoint GetAccessPoint ListAccessPoints PutAccessPointPublicAccessBlock",
    "GetAccessPointPolicy PutAccessPointPolicy DeleteAccessPointPolicy GetAccessPointPolicyStatus",
    "GetAccessPointScope PutAccessPointScope DeleteAccessPointScope",
    "CreateAccessPointForObjectLambda DeleteAccessPointForObjectLambda GetAccessPointForObjectLambda",
    "ListAccessPointsForObjectLambda GetAccessPointConfigurationForObjectLambda",
    "PutAccessPointConfigurationForObjectLambda GetAccessPointPolicyForObjectLambda",
    "PutAccessPointPolicyForObjectLambda DeleteAccessPointPolicyForObjectLambda",
    "GetAccessPointPolicyStatusForObjectLambda",
    "CreateMultiRegionAccessPoint DeleteMultiRegionAccessPoint GetMultiRegionAccessPoint ListMultiRegionAccessPoints",
    "DescribeMultiRegionAccessPointOperation GetMultiRegionAccessPointPolicy PutMultiRegionAccessPointPolicy",
    "GetMultiRegionAccessPointPolicyStatus GetMultiRegionAccessPointRoutes SubmitMultiRegionAccessPointRoutes",
    "CreateJob DescribeJob ListJobs UpdateJobPriority UpdateJobStatus GetJobTagging PutJobTagging DeleteJobTagging",
    "CreateAccessGrant DeleteAccessGrant GetAccessGrant ListAccessGrants ListCallerAccessGrants GetDataAccess",
    "CreateAccessGrantsInstance DeleteAccessGrantsInstance GetAccessGrantsInstance ListAccessGrantsInstances",
    "GetAccessGrantsInstanceForPrefix GetAccessGrantsInstanceResourcePolicy PutAccessGrantsInstanceResourcePolicy",
    "DeleteAccessGrantsInstanceResourcePolicy CreateAccessGrantsLocation DeleteAccessGrantsLocation",
    "GetAccessGrantsLocation ListAccessGrantsLocations UpdateAccessGrantsLocation",
    "AssociateAccessGrantsIdentityCenter DissociateAccessGrantsIdentityCenter",
    "GetStorageLensConfiguration PutStorageLensConfiguration DeleteStorageLensConfiguration",
    "ListStorageLensConfigurations GetStorageLensConfigurationTagging PutStorageLensConfigurationTagging",
    "DeleteStorageLensConfigurationTagging GetStorageLensDashboard CreateStorageLensGroup DeleteStorageLensGroup",
    "GetStorageLensGroup ListStorageLensGroups UpdateStorageLensGroup PauseReplication",
)
"""Actions on neither a bucket nor an object, so not valid in bucket policies."""

_AWS_TABLE_ACTIONS: Final = named_actions(
    "s3tables",
    "ListTableBuckets DeleteTableBucket ListTagsForResource TagResource UntagResource",
    "GetTableBucketPolicy PutTableBucketPolicy DeleteTableBucketPolicy",
    "GetTablePolicy PutTablePolicy DeleteTablePolicy",
    "GetTableBucketEncryption PutTableBucketEncryption DeleteTableBucketEncryption",
    "GetTableEncryption PutTableEncryption",
    "GetTableBucketMaintenanceConfiguration PutTableBucketMaintenanceConfiguration GetTableMaintenanceJobStatus",
    "GetTableBucketMetricsConfiguration PutTableBucketMetricsConfiguration DeleteTableBucketMetricsConfiguration",
    "GetTableBucketReplication PutTableBucketReplication DeleteTableBucketReplication",
    "GetTableReplication PutTableReplication DeleteTableReplication GetTableReplicationStatus",
    "GetTableBucketStorageClass PutTableBucketStorageClass GetTableStorageClass PutTableStorageClass",
    "GetTableRecordExpirationConfiguration PutTableRecordExpirationConfiguration",
    "GetTableRecordExpirationJobStatus",
)
"""S3 Tables actions that are not valid in a table bucket's policy; most are never authorized here."""

_STS_ACTIONS: Final = named_actions(
    "sts",
    "AssumeRole AssumeRoleWithSAML AssumeRoleWithWebIdentity AssumeRoot DecodeAuthorizationMessage GetAccessKeyInfo",
    "GetCallerIdentity GetDelegatedAccessToken GetFederationToken GetServiceBearerToken GetSessionToken",
    "GetWebIdentityToken SetContext SetSourceIdentity TagGetWebIdentityToken TagSession",
)

_SERVER_ACTIONS: Final = named_actions("lakebed", "ListTasks SubmitTask RunTasks ReadEvents ReadAudit ManageTargets")
"""Actions on the server."""

_STREAM_ACTIONS: Final = named_actions("streams", "Read Write Create Drop Alter Describe")

_LAKEBED_ACTIONS: Final = (
    frozenset(name for name in ACTION_PRIVILEGES if name.startswith("lakebed:"))
    | frozenset(map(action_name, MANAGEMENT_OPERATIONS))
    | _SERVER_ACTIONS
)

KNOWN_ACTIONS: Final[Mapping[str, frozenset[str]]] = {
    "s3": OBJECT_ACTIONS | BUCKET_ACTIONS | _S3_ACCOUNT_ACTIONS,
    "s3tables": TABLE_ACTIONS | TABLE_BUCKET_ACTIONS | _AWS_TABLE_ACTIONS,
    "sts": _STS_ACTIONS,
    "lakebed": _LAKEBED_ACTIONS,
    "streams": _STREAM_ACTIONS,
}
"""By service, spelled like `s3:GetObject`."""

_LOWER: Final = {service: frozenset(name.lower() for name in names) for service, names in KNOWN_ACTIONS.items()}
_ALL_LOWER: Final = frozenset[str]().union(*_LOWER.values())

_ALL: Final = frozenset[str]().union(*KNOWN_ACTIONS.values())

_SERVICE: Final = re.compile(r"[a-z0-9.-]+")
_NAME: Final = re.compile(r"[a-z0-9_.*?-]+")
"""The characters of AWS services and actions, in lower case."""

_SERVICE_LIKENESS: Final = 0.8
"""Similarity from which a service counts as a misspelled known one. No AWS service reaches it; a test checks them."""


def action_problem(written: str) -> str | None:
    """Why an identity policy must not name an action; None if it may."""
    action = written.lower()
    service = action.partition(":")[0]
    is_pattern = _has_wildcards(action)
    if action == "*" or action in _ALL_LOWER:
        return None
    known = _LOWER.get(service)
    if known is None and not _has_wildcards(service):
        nearest = _nearest_service(service)
        if nearest is not None:
            return f'unknown service in action "{written}"; did you mean "{nearest}:{written.partition(":")[2]}"?'
        if not _SERVICE.fullmatch(service):
            return f'unknown service in action "{written}"'
        if not _NAME.fullmatch(action.partition(":")[2]):
            return f'unknown action "{written}"{nearest_name(written, _ALL)}'
        return None  # another service of AWS
    if is_pattern:
        pattern = PolicyPattern(action, variables=False)
        if any(pattern.matches(name, no_values) for name in _ALL_LOWER if known is None or name in known):
            return None
        return f'no known action matches "{written}"{nearest_name(written, KNOWN_ACTIONS.get(service, ()))}'
    return f'unknown action "{written}"{nearest_name(written, KNOWN_ACTIONS[service])}'


def _nearest_service(written: str) -> str | None:
    """The known service that the text misspells, or None."""
    nearest = get_close_matches(written, KNOWN_ACTIONS, 1, _SERVICE_LIKENESS)
    if nearest:
        return nearest[0]
    # Too short for that similarity. No AWS service has such a name.
    return "s3" if len(written) <= 2 and ("3" in written or written.startswith("s")) else None


def _has_wildcards(text: str) -> bool:
    return "*" in text or "?" in text


def nearest_name(written: str, known: Iterable[str]) -> str:
    """A suggestion for the end of an error: the most similar known name; empty if none is similar."""
    by_lower = {name.lower(): name for name in sorted(known)}
    nearest = get_close_matches(written.lower(), by_lower, 1)
    return f'; did you mean "{by_lower[nearest[0]]}"?' if nearest else ""
