"""Maps error responses of Azure Blob Storage and of Google Cloud Storage to errors of this package.

The service's code takes precedence over the status. As with S3, 412 is *decided*. So is Azure's 409 with a code which
says that the blob exists; any other 409 is *undecided*.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from ...core import errors as e
from ...core.errors import LakebedError
from ..error_response import ErrorResponse, error_of_response, kind_of_status
from ..seam import IfAbsent, IfMatch, WriteCondition


class CloudOperation(StrEnum):
    """Requests to a service."""

    PUT = "put"
    PUT_BLOCK = "put block"
    PUT_BLOCK_LIST = "put block list"
    GET = "get"
    HEAD = "head"
    LIST = "list"
    DELETE = "delete"
    GET_DELEGATION_KEY = "get user delegation key"

    @property
    def changes_objects(self) -> bool:
        """Whether readers see the effect: then a lost response leaves the outcome open."""
        return self in (CloudOperation.PUT, CloudOperation.PUT_BLOCK_LIST, CloudOperation.DELETE)


CodeTable = Mapping[str, type[LakebedError]]

AZURE_CODES: Final[CodeTable] = {
    "BlobNotFound": e.NoSuchKey,
    "ContainerNotFound": e.NoSuchBucket,
    "ContainerBeingDeleted": e.NoSuchBucket,
    "BlobAlreadyExists": e.AlreadyExists,
    "PathAlreadyExists": e.AlreadyExists,
    "ConditionNotMet": e.PreconditionFailed,
    "TargetConditionNotMet": e.PreconditionFailed,
    "AuthenticationFailed": e.Unauthenticated,
    "InvalidAuthenticationInfo": e.Unauthenticated,
    "NoAuthenticationInformation": e.Unauthenticated,
    "AccountIsDisabled": e.AccessDenied,
    "AuthorizationFailure": e.AccessDenied,
    "AuthorizationPermissionMismatch": e.AccessDenied,
    "ContainerDisabled": e.AccessDenied,
    "InsufficientAccountPermissions": e.AccessDenied,
    # A lease is another client's lock; a retry cannot help, nor does a condition depend on it.
    "LeaseIdMissing": e.AccessDenied,
    "BlobImmutableDueToPolicy": e.VersionProtected,
    "BlobImmutableDueToLegalHold": e.VersionProtected,
    "SnapshotsPresent": e.StateConflict,
    "DirectoryIsNotEmpty": e.StateConflict,
    "PathConflict": e.StateConflict,
    "ResourceTypeMismatch": e.StateConflict,
    "ServerBusy": e.Throttled,
    "InternalError": e.Unavailable,
    "OperationTimedOut": e.Unavailable,
    "Md5Mismatch": e.IntegrityMismatch,
    "Crc64Mismatch": e.IntegrityMismatch,
    "InvalidBlockList": e.InvalidPart,
    "BlockCountExceedsLimit": e.TooLarge,
    "BlockListTooLong": e.TooLarge,
    "MetadataTooLarge": e.TooLarge,
    "RequestBodyTooLarge": e.TooLarge,
    "InvalidRange": e.InvalidRange,
    "InvalidResourceName": e.InvalidName,
    "InvalidUri": e.InvalidName,
    "FeatureVersionMismatch": e.NotSupported,
    "UnsupportedHeader": e.NotSupported,
    "UnsupportedHttpVerb": e.NotSupported,
    "UnsupportedQueryParameter": e.NotSupported,
}
"""Codes of the Blob service (`x-ms-error-code`)."""

GCS_CODES: Final[CodeTable] = {
    "bucketNotFound": e.NoSuchBucket,  # the client's name for a `notFound` of the bucket
    "notFound": e.NoSuchKey,
    "conditionNotMet": e.PreconditionFailed,
    "authError": e.CredentialsExpired,
    "required": e.Unauthenticated,
    "accountDisabled": e.AccessDenied,
    "forbidden": e.AccessDenied,
    "insufficientPermissions": e.AccessDenied,
    "objectUnderActiveHold": e.VersionProtected,
    "retentionPolicyNotMet": e.VersionProtected,
    "quotaExceeded": e.Throttled,
    "rateLimitExceeded": e.Throttled,
    "userRateLimitExceeded": e.Throttled,
    "backendError": e.Unavailable,
    "internalError": e.Unavailable,
    "requestedRangeNotSatisfiable": e.InvalidRange,
    "uploadTooLarge": e.TooLarge,
    "notImplemented": e.NotSupported,
}
"""Reasons in errors of the JSON API."""


def failure_kind(
    codes: CodeTable, status: int, code: str, condition: WriteCondition | None = None
) -> type[LakebedError]:
    """The error class of a response. `code` may be empty: some responses have no body."""
    kind = codes.get(code) or kind_of_status(status)
    if isinstance(condition, IfAbsent) and (kind is e.PreconditionFailed or status == 304):
        return e.AlreadyExists
    if isinstance(condition, IfMatch) and kind in (e.NoSuchKey, e.NotFound):
        return e.PreconditionFailed  # the key to replace does not exist: decided
    if kind is e.AlreadyExists and not isinstance(condition, IfAbsent):
        return e.WriteConflict  # without the condition, existing is no reason to reject a write
    return kind


def failure(
    codes: CodeTable,
    response: ErrorResponse,
    operation: CloudOperation,
    key: str = "",
    condition: WriteCondition | None = None,
) -> LakebedError:
    """The error of a response, with its details."""
    return error_of_response(
        failure_kind(codes, response.status, response.code, condition),
        response,
        operation=operation,
        changes_objects=operation.changes_objects,
        key=key,
        condition=condition,
    )
