"""What an S3 answer that is not a success means: one pure table from status and code to our error tree.

The code is believed before the status, because a 200 can carry an error in its body (CompleteMultipartUpload sends its
headers early) and the client library reports that as 500. HEAD has no body, so there the status is all there is.

412 is *decided*: the condition was looked at and is false. 409 is *undecided*: another write was in the way. Taking a
409 for "already exists" would make every contender believe that another one won.
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
    """The S3 operations that the byte store uses, by their names on the wire."""

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
        """Whether readers can see that it happened: then a lost answer leaves that open."""
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
    """The error that an answer means. `code` is S3's, or anything else when the answer had no body."""
    if condition is not None:
        kind = _kind_of_condition(status, code, operation, condition)
        if kind is not None:
            return kind
    if operation is StoreOperation.HEAD and status == 400:
        # Expired tokens end here, as HEAD has no body to say so; a refresh can help and nothing else could.
        return e.CredentialsExpired
    if operation is StoreOperation.DELETE_MANY and code == "MissingContentMD5":
        # A store of the days when only MD5 would do; it is asked one by one instead.
        return e.NotSupported
    if code in _KIND_BY_CODE:
        return _KIND_BY_CODE[code]
    if status in _KIND_BY_STATUS:
        return _KIND_BY_STATUS[status]
    if 300 <= status < 400:
        return e.InvalidSetting  # another region or endpoint; asking again cannot help
    return e.InvalidInput if 400 <= status < 500 else e.Unavailable


def _kind_of_condition(
    status: int, code: str, operation: StoreOperation, condition: WriteCondition
) -> type[LakebedError] | None:
    if status == 412 or code == "PreconditionFailed":
        return e.AlreadyExists if isinstance(condition, IfAbsent) else e.PreconditionFailed
    if status == 304 and isinstance(condition, IfAbsent):
        return e.AlreadyExists
    # The key to be replaced is gone: decided. A bucket or an upload that is gone is another matter.
    key_is_gone = code == "NoSuchKey" or (operation is StoreOperation.PUT and code != "NoSuchBucket")
    if status == 404 and isinstance(condition, IfMatch) and key_is_gone:
        return e.PreconditionFailed
    return None


@dataclass(frozen=True, slots=True)
class Refusal:
    """What the store said. `detail` is its free text, cleared of our secrets by whoever made this."""

    status: int
    code: str
    detail: str = ""
    request_id: str = ""
    object_size: int | None = None


def failure(
    refusal: Refusal, operation: StoreOperation, key: str = "", condition: WriteCondition | None = None
) -> LakebedError:
    """The error for a refusal, told with everything but secrets."""
    kind = failure_kind(refusal.status, refusal.code, operation, condition)
    values = {"operation": operation, "status": refusal.status, "code": refusal.code, "key": repr(key) if key else ""}
    values |= {"request": refusal.request_id, "detail": repr(refusal.detail) if refusal.detail else ""}
    told = " ".join(f"{name}={value}" for name, value in values.items() if value)
    if issubclass(kind, e.InvalidSetting):
        return kind(f"region, endpoint, bucket: the store is not where they say. {told}")
    message = f"the store refused. {told}"
    if issubclass(kind, e.InvalidRange):
        return kind(message, size=refusal.object_size)
    if issubclass(kind, e.PreconditionFailed):
        return kind(message, condition="If-Match" if isinstance(condition, IfMatch) else None)
    if kind is e.Unavailable:
        # A store that failed in the middle does not know; one that gave up waiting for the body does.
        return e.Unavailable(message, undecided=operation.changes_objects and refusal.status >= 500)
    return kind(message)
