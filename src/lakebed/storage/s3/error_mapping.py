"""Maps S3 error responses, by status and code, to errors of this package.

The code takes precedence over the status: CompleteMultipartUpload may return an error in the body of a 200, which
botocore reports as 500. A HEAD response has no body, so only its status is known.

412 is *decided*: the condition was evaluated and is false. 409 is *undecided*: another write was concurrent. If a 409
meant "already exists", each contender could believe that another one won.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from lakebed.core import errors as e
from lakebed.core.errors import LakebedError

from ..error_response import ErrorResponse, error_of_response, kind_of_status
from ..seam import IfAbsent, IfMatch, WriteCondition


class StoreOperation(StrEnum):
    """S3 operations of the object store, by their names on the wire."""

    PUT = "PutObject"
    CREATE_UPLOAD = "CreateMultipartUpload"
    UPLOAD_PART = "UploadPart"
    COMPLETE = "CompleteMultipartUpload"
    ABORT = "AbortMultipartUpload"
    LIST_UPLOADS = "ListMultipartUploads"
    GET = "GetObject"
    HEAD = "HeadObject"
    LIST = "ListObjectsV2"
    DELETE = "DeleteObject"
    DELETE_MANY = "DeleteObjects"

    @property
    def changes_objects(self) -> bool:
        """Whether readers see the effect: then a lost response leaves the outcome open."""
        return self in (StoreOperation.PUT, StoreOperation.COMPLETE, StoreOperation.DELETE, StoreOperation.DELETE_MANY)


_KIND_BY_CODE: Final[Mapping[str, type[LakebedError]]] = {
    "NoSuchKey": e.NoSuchKey,
    "NoSuchBucket": e.NoSuchBucket,
    "NoSuchUpload": e.NoSuchUpload,
    "NoSuchVersion": e.NoSuchVersion,
    "PreconditionFailed": e.PreconditionFailed,
    "ConditionalRequestConflict": e.WriteConflict,
    "OperationAborted": e.WriteConflict,
    "ExpiredToken": e.CredentialsExpired,
    "ExpiredTokenException": e.CredentialsExpired,
    "InvalidToken": e.CredentialsExpired,
    "TokenRefreshRequired": e.CredentialsExpired,
    "InvalidAccessKeyId": e.Unauthenticated,
    "SignatureDoesNotMatch": e.Unauthenticated,
    "RequestTimeTooSkewed": e.Unauthenticated,
    "AccessDenied": e.AccessDenied,
    "AllAccessDisabled": e.AccessDenied,
    "SlowDown": e.Throttled,
    "ServiceUnavailable": e.Throttled,
    "Throttling": e.Throttled,
    "ThrottlingException": e.Throttled,
    "TooManyRequests": e.Throttled,
    "InternalError": e.Unavailable,
    "RequestTimeout": e.Unavailable,
    "IncompleteBody": e.Unavailable,
    "XMinioStorageFull": e.StorageFull,
    "QuotaExceeded": e.StorageFull,
    "BadDigest": e.IntegrityMismatch,
    "InvalidDigest": e.IntegrityMismatch,
    "XAmzContentChecksumMismatch": e.IntegrityMismatch,
    "XAmzContentSHA256Mismatch": e.IntegrityMismatch,
    "EntityTooSmall": e.PartTooSmall,
    "EntityTooLarge": e.TooLarge,
    "KeyTooLongError": e.InvalidName,
    "InvalidPart": e.InvalidPart,
    "InvalidPartOrder": e.InvalidPartOrder,
    "InvalidRange": e.InvalidRange,
    "InvalidArgument": e.InvalidInput,
    "InvalidRequest": e.InvalidInput,
    "MalformedXML": e.InvalidInput,
    "NotImplemented": e.NotSupported,
    "MethodNotAllowed": e.NotSupported,
    "PermanentRedirect": e.InvalidSetting,
    "TemporaryRedirect": e.InvalidSetting,
    "AuthorizationHeaderMalformed": e.InvalidSetting,
    "InvalidBucketName": e.InvalidSetting,
}


def failure_kind(
    status: int, code: str, operation: StoreOperation, condition: WriteCondition | None = None
) -> type[LakebedError]:
    """The error class of a response. `code` is S3's, or arbitrary if the response had no body."""
    if condition is not None:
        kind = _kind_of_condition(status, code, operation, condition)
        if kind is not None:
            return kind
    if operation is StoreOperation.HEAD and status == 400:
        # Expired tokens are reported like this, because HEAD has no body; only a refresh can help.
        return e.CredentialsExpired
    if operation is StoreOperation.DELETE_MANY and code == "MissingContentMD5":
        # An old store that requires MD5: keys are deleted one by one instead.
        return e.NotSupported
    if code in _KIND_BY_CODE:
        return _KIND_BY_CODE[code]
    return kind_of_status(status)


def _kind_of_condition(
    status: int, code: str, operation: StoreOperation, condition: WriteCondition
) -> type[LakebedError] | None:
    if status == 412 or code == "PreconditionFailed":
        return e.AlreadyExists if isinstance(condition, IfAbsent) else e.PreconditionFailed
    if status == 304 and isinstance(condition, IfAbsent):
        return e.AlreadyExists
    # The key to replace does not exist: decided. A missing bucket or upload is another error.
    key_is_gone = code == "NoSuchKey" or (operation is StoreOperation.PUT and code != "NoSuchBucket")
    if status == 404 and isinstance(condition, IfMatch) and key_is_gone:
        return e.PreconditionFailed
    return None


def failure(
    response: ErrorResponse, operation: StoreOperation, key: str = "", condition: WriteCondition | None = None
) -> LakebedError:
    """The error of a response, with its details."""
    kind = failure_kind(response.status, response.code, operation, condition)
    return error_of_response(
        kind,
        response,
        operation=operation,
        changes_objects=operation.changes_objects,
        key=key,
        condition=condition,
    )
