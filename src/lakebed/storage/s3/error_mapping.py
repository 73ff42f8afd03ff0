"""Maps S3 error responses, by status and code, to errors of this package.

The code takes precedence over the status: CompleteMultipartUpload may return an error in the body of a 200, which
botocore reports as 500. A HEAD response has no body, so only its status is known.

412 is *decided*: the condition was evaluated and is false. 409 is *undecided*: another write was concurrent. If a 409
meant "already exists", each contender could believe that another one won.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from lakebed.core import errors as e
from lakebed.core.errors import LakebedError

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

_KIND_BY_STATUS: Final[Mapping[int, type[LakebedError]]] = {
    304: e.NotModified,
    401: e.Unauthenticated,
    403: e.AccessDenied,
    404: e.NotFound,
    405: e.NotSupported,
    408: e.Unavailable,
    409: e.WriteConflict,
    412: e.PreconditionFailed,
    413: e.TooLarge,
    416: e.InvalidRange,
    429: e.Throttled,
    501: e.NotSupported,
    503: e.Throttled,
    507: e.StorageFull,
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
    if status in _KIND_BY_STATUS:
        return _KIND_BY_STATUS[status]
    if 300 <= status < 400:
        return e.InvalidSetting  # another region or endpoint, so a retry cannot help
    return e.InvalidInput if 400 <= status < 500 else e.Unavailable


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


@dataclass(frozen=True, slots=True)
class ErrorResponse:
    """An error response. `detail` is its message, without secrets."""

    status: int
    code: str
    detail: str = ""
    request_id: str = ""
    object_size: int | None = None


def failure(
    response: ErrorResponse, operation: StoreOperation, key: str = "", condition: WriteCondition | None = None
) -> LakebedError:
    """The error of a response, with its details."""
    kind = failure_kind(response.status, response.code, operation, condition)
    values = {"operation": operation, "status": response.status, "code": response.code, "key": repr(key) if key else ""}
    values |= {"request": response.request_id, "detail": repr(response.detail) if response.detail else ""}
    details = " ".join(f"{name}={value}" for name, value in values.items() if value)
    if issubclass(kind, e.InvalidSetting):
        return kind(f"region, endpoint, bucket: the store is not there. {details}")
    message = f"store request failed. {details}"
    if issubclass(kind, e.InvalidRange):
        return kind(message, size=response.object_size)
    if issubclass(kind, e.PreconditionFailed):
        return kind(message, condition="If-Match" if isinstance(condition, IfMatch) else None)
    if kind is e.Unavailable:
        # After an internal error the outcome is unknown; after a timeout waiting for the body nothing happened.
        return e.Unavailable(message, undecided=operation.changes_objects and response.status >= 500)
    return kind(message)
