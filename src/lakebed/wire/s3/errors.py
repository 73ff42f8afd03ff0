"""Maps domain errors to S3's errors.

This package raises protocol errors, such as an invalid signature or document, as `AwsFault`. Services raise the errors
of `core.errors`, which are looked up here by their class or the nearest base class.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from lakebed.core import errors as e
from lakebed.select.errors import SelectCode
from lakebed.wire.aws.errors import AwsFault
from lakebed.wire.http.message import Headers, Response
from lakebed.wire.s3.documents._parts import optional
from lakebed.wire.s3.xml import document, escape

from .chunked import ChunkSignatureMismatch, ChunkTooSmall, MalformedChunk, MalformedTrailer, TruncatedBody
from .xml import MalformedDocument


@dataclass(frozen=True, slots=True)
class S3Error:
    """The status, code and message of an error."""

    status: int
    code: str
    message: str | None = None
    """S3's message; None for the message of the error itself."""


def method_not_allowed(method: str, resource: str) -> AwsFault:
    """The error for a method that a resource does not support."""
    return AwsFault(
        405,
        "MethodNotAllowed",
        "The specified method is not allowed against this resource.",
        Method=method,
        ResourceType=resource,
    )


S3_ERRORS: Final[Mapping[type[e.LakebedError], S3Error]] = {
    e.LakebedError: S3Error(500, "InternalError", "We encountered an internal error. Please try again."),
    e.InvalidInput: S3Error(400, "InvalidArgument"),
    MalformedDocument: S3Error(
        400,
        "MalformedXML",
        "The XML you provided was not well-formed or did not validate against our published schema.",
    ),
    MalformedChunk: S3Error(400, "IncompleteBody", "The request body terminated unexpectedly"),
    TruncatedBody: S3Error(400, "IncompleteBody", "The request body terminated unexpectedly"),
    ChunkTooSmall: S3Error(
        400, "InvalidChunkSizeError", "Only the last chunk is allowed to have a size less than 8192 bytes"
    ),
    MalformedTrailer: S3Error(
        400,
        "MalformedTrailerError",
        "The request contained trailing data that was not well-formed or did not conform to our published schema.",
    ),
    ChunkSignatureMismatch: S3Error(
        403,
        "SignatureDoesNotMatch",
        "The request signature we calculated does not match the signature you provided. Check your key and signing"
        " method.",
    ),
    e.InvalidSetting: S3Error(400, "InvalidArgument"),
    e.InvalidName: S3Error(400, "InvalidArgument"),
    e.InvalidRange: S3Error(416, "InvalidRange", "The requested range is not satisfiable"),
    e.InvalidPart: S3Error(
        400,
        "InvalidPart",
        "One or more of the specified parts could not be found.  The part may not have been uploaded, or the specified"
        " entity tag may not match the part's entity tag.",
    ),
    e.InvalidPartOrder: S3Error(
        400,
        "InvalidPartOrder",
        "The list of parts was not in ascending order. Parts must be ordered by part number.",
    ),
    e.PartTooSmall: S3Error(400, "EntityTooSmall", "Your proposed upload is smaller than the minimum allowed size"),
    e.TooLarge: S3Error(400, "EntityTooLarge", "Your proposed upload exceeds the maximum allowed object size."),
    e.InvalidTag: S3Error(400, "InvalidTag"),
    e.InvalidPolicy: S3Error(400, "MalformedPolicy"),
    e.InvalidRetention: S3Error(400, "InvalidArgument"),
    e.InvalidEncryption: S3Error(400, "InvalidEncryptionAlgorithmError"),
    e.SelectError: S3Error(400, SelectCode.INVALID_REQUEST_PARAMETER),  # only a default: the error has a code
    e.NotFound: S3Error(404, "NoSuchKey"),
    e.NoSuchBucket: S3Error(404, "NoSuchBucket", "The specified bucket does not exist."),
    e.NoSuchKey: S3Error(404, "NoSuchKey", "The specified key does not exist."),
    e.NoSuchVersion: S3Error(404, "NoSuchVersion", "The specified version does not exist."),
    e.NoSuchUpload: S3Error(
        404,
        "NoSuchUpload",
        "The specified multipart upload does not exist. The upload ID may be invalid, or the upload may have been"
        " aborted or completed.",
    ),
    e.NoSuchConfiguration: S3Error(404, "NoSuchConfiguration"),
    e.NoSuchPrincipal: S3Error(403, "InvalidAccessKeyId"),
    e.AlreadyExists: S3Error(409, "OperationAborted"),
    e.BucketAlreadyExists: S3Error(
        409,
        "BucketAlreadyExists",
        "The requested bucket name is not available. The bucket name can not be an existing collection, and the bucket"
        " namespace is shared by all users of the system. Please select a different name and try again.",
    ),
    e.BucketAlreadyOwned: S3Error(
        409,
        "BucketAlreadyOwnedByYou",
        "Your previous request to create the named bucket succeeded and you already own it.",
    ),
    e.PreconditionFailed: S3Error(
        412, "PreconditionFailed", "At least one of the pre-conditions you specified did not hold."
    ),
    e.NotModified: S3Error(304, "NotModified"),
    e.StateConflict: S3Error(409, "OperationAborted"),
    e.BucketNotEmpty: S3Error(409, "BucketNotEmpty", "The bucket you tried to delete is not empty."),
    e.BucketHasTables: S3Error(409, "BucketNotEmpty"),
    e.InvalidBucketState: S3Error(409, "InvalidBucketState"),
    e.IsDeleteMarker: S3Error(405, "MethodNotAllowed", "The specified method is not allowed against this resource."),
    e.WriteConflict: S3Error(
        409,
        "ConditionalRequestConflict",
        "A conflicting conditional operation is currently in progress against this resource. Please try again.",
    ),
    e.Fenced: S3Error(503, "ServiceUnavailable"),
    e.Unauthenticated: S3Error(403, "AccessDenied"),
    e.CredentialsExpired: S3Error(400, "ExpiredToken", "The provided token has expired."),
    e.CredentialsRevoked: S3Error(
        403, "InvalidAccessKeyId", "The AWS Access Key Id you provided does not exist in our records."
    ),
    e.AccessDenied: S3Error(403, "AccessDenied"),
    e.VersionProtected: S3Error(403, "AccessDenied", "Access Denied because object protected by object lock."),
    e.IntegrityMismatch: S3Error(
        400, "BadDigest", "The Content-MD5 or checksum value that you specified did not match what the server received."
    ),
    e.Incomplete: S3Error(
        400,
        "IncompleteBody",
        "You did not provide the number of bytes specified by the Content-Length HTTP header",
    ),
    # Only for dead letters, never in a response.
    e.Undeliverable: S3Error(500, "InternalError"),
    e.NotSupported: S3Error(501, "NotImplemented"),
    e.Throttled: S3Error(503, "SlowDown", "Please reduce your request rate."),
    e.Unavailable: S3Error(503, "ServiceUnavailable", "Please try again."),
    e.StorageFull: S3Error(507, "InsufficientStorage", "The server has no space left. Please try again later."),
    e.StoreMismatch: S3Error(503, "ServiceUnavailable", "The object store belongs to another deployment."),
    e.Corrupted: S3Error(500, "InternalError", "The stored object is damaged."),
    e.BlobMissing: S3Error(500, "InternalError", "Stored bytes of the object are missing."),
}

SELECT_STATUSES: Final[Mapping[str, int]] = {
    **dict.fromkeys(SelectCode, 400),
    SelectCode.UNAUTHORIZED_ACCESS: 401,
    SelectCode.METHOD_NOT_ALLOWED: 405,
    SelectCode.INTERNAL_ERROR: 500,
    SelectCode.BUSY: 503,
}
"""The status of each select error that is returned before the first record."""

CONFIGURATION_CODES: Final[Mapping[str, tuple[str, str]]] = {
    "policy": ("NoSuchBucketPolicy", "The bucket policy does not exist."),
    "lifecycle": ("NoSuchLifecycleConfiguration", "The lifecycle configuration does not exist"),
    "cors": ("NoSuchCORSConfiguration", "The CORS configuration does not exist"),
    "tags": ("NoSuchTagSet", "The TagSet does not exist."),
    "encryption": (
        "ServerSideEncryptionConfigurationNotFoundError",
        "The server side encryption configuration was not found",
    ),
    "object-lock": (
        "ObjectLockConfigurationNotFoundError",
        "Object Lock configuration does not exist for this bucket.",
    ),
    "object-retention": (
        "NoSuchObjectLockConfiguration",
        "The specified object does not have a ObjectLock configuration.",
    ),
    "public-access-block": (
        "NoSuchPublicAccessBlockConfiguration",
        "The public access block configuration was not found",
    ),
    "ownership": ("OwnershipControlsNotFoundError", "The bucket ownership controls were not found."),
    "website": ("NoSuchWebsiteConfiguration", "The specified bucket does not have a website configuration"),
    "replication": (
        "ReplicationConfigurationNotFoundError",
        "The replication configuration was not found",
    ),
}


ARGUMENT_ERRORS: Final[Mapping[tuple[type[e.InvalidInput], str], S3Error]] = {
    (MalformedChunk, "x-amz-decoded-content-length"): S3Error(
        400,
        "IncompleteBody",
        "You did not provide the number of bytes specified by the Content-Length HTTP header",
    ),
    (e.InvalidTag, "Key"): S3Error(400, "InvalidTag", "The TagKey you have provided is invalid"),
    (e.InvalidTag, "Value"): S3Error(400, "InvalidTag", "The TagValue you have provided is invalid"),
    (e.InvalidTag, "TagSet"): S3Error(400, "InvalidTag", "Cannot provide multiple Tags with the same key"),
    (e.InvalidTag, "ObjectTags"): S3Error(400, "BadRequest", "Object tags cannot be greater than 10"),
    (e.InvalidTag, "BucketTags"): S3Error(400, "BadRequest", "Bucket tag count cannot be greater than 50"),
    (e.InvalidInput, "x-amz-tagging"): S3Error(
        400,
        "InvalidArgument",
        "The header 'x-amz-tagging' shall be encoded as UTF-8 then URLEncoded URL query parameters without tag name"
        " duplicates.",
    ),
    (e.InvalidInput, "copy-to-itself"): S3Error(
        400,
        "InvalidRequest",
        "This copy request is illegal because it is trying to copy an object to itself without changing the object's"
        " metadata, storage class, website redirect location or encryption attributes.",
    ),
    (e.InvalidInput, "notification-destination"): S3Error(
        400,
        "UnsupportedNotification",
        "Only queues are supported as destinations: their ARNs name targets of this server.",
    ),
    (e.InvalidInput, "object-lock"): S3Error(400, "InvalidRequest", "Bucket is missing Object Lock Configuration"),
    (e.InvalidInput, "x-amz-object-lock"): S3Error(400, "InvalidRequest", "Bucket is missing ObjectLockConfiguration"),
    (e.InvalidInput, "RetainUntilDate"): S3Error(
        400, "InvalidArgument", "The retain until date must be in the future!"
    ),
}
"""Errors that S3 has for single arguments."""


@dataclass(frozen=True, slots=True)
class RenderedError:
    """An error as it is sent."""

    status: int
    code: str
    message: str
    headers: Headers = field(default_factory=list)
    details: Mapping[str, str] = field(default_factory=dict)


def render_error(error: e.LakebedError, *, is_anonymous: bool = False) -> RenderedError:
    """The S3 error for a domain error. Anonymous callers do not learn why access is denied."""
    if isinstance(error, AwsFault):
        return RenderedError(error.status, error.code, str(error), error.headers, error.details)
    if isinstance(error, e.NoSuchConfiguration):
        code, message = CONFIGURATION_CODES.get(error.kind, ("NoSuchConfiguration", str(error)))
        return RenderedError(404, code, message)
    if isinstance(error, e.SelectError):
        return RenderedError(SELECT_STATUSES.get(error.code, 400), error.code, str(error))
    reply = next(S3_ERRORS[kind] for kind in type(error).__mro__ if kind in S3_ERRORS)
    headers: Headers = []
    details: dict[str, str] = {}
    code, message = reply.code, reply.message if reply.message is not None else str(error)
    if type(error) in (e.AccessDenied, e.Vetoed) and is_anonymous:
        message = "Access Denied."
    elif isinstance(error, e.NoSuchKey) and error.delete_marker is not None:
        headers = [("x-amz-delete-marker", "true"), ("x-amz-version-id", error.delete_marker)]
    elif isinstance(error, e.IsDeleteMarker):
        headers = [("x-amz-delete-marker", "true"), ("Allow", "DELETE")]
    elif isinstance(error, e.NotModified):
        headers = [] if error.etag is None else [("ETag", f'"{error.etag}"')]
    elif isinstance(error, e.InvalidRange) and error.size is not None:
        headers = [("Content-Range", f"bytes */{error.size}")]
        details = {"ActualObjectSize": str(error.size)}
    elif isinstance(error, e.PreconditionFailed) and error.condition is not None:
        details = {"Condition": error.condition}
    elif isinstance(error, ChunkTooSmall):
        details = {"Chunk": str(error.number), "BadChunkSize": str(error.size)}
    elif isinstance(error, e.InvalidPart) and error.count is not None:
        message = "The requested partnumber is not satisfiable."
        details = {"ActualPartCount": str(error.count), "PartNumberRequested": str(error.part)}
        return RenderedError(416, "InvalidPartNumber", message, details=details)
    elif isinstance(error, e.IntegrityMismatch):
        code, message, details = _render_mismatch(error, code, message)
    elif isinstance(error, e.TooLarge):
        code, message = _TOO_LARGE.get(error.argument or "", (code, message))
    elif isinstance(error, e.InvalidInput) and (type(error), error.argument) in ARGUMENT_ERRORS:
        known = ARGUMENT_ERRORS[type(error), error.argument or ""]
        code, message = known.code, known.message or message
        if isinstance(error, e.InvalidTag):
            details = {f"Tag{error.argument}": error.value or ""} if error.argument in ("Key", "Value") else {}
        elif code == "InvalidArgument":
            details = {"ArgumentName": error.argument or "", "ArgumentValue": error.value or ""}
    elif isinstance(error, e.InvalidRetention):
        if error.argument is not None and error.value is not None:
            is_positive = not error.value.startswith("-") and error.value != "0"
            problem = "too large" if is_positive else "must be a positive integer value"
            message = f"Default retention period {problem}."
            details = {"ArgumentName": error.argument, "ArgumentValue": error.value}
    elif type(error) is e.InvalidInput:
        if error.argument is None:
            # The error is about a combination of values.
            code = "InvalidRequest"
        else:
            details = {"ArgumentName": error.argument}
            if error.value is not None:
                details["ArgumentValue"] = error.value
    elif isinstance(error, e.Unavailable):
        headers = [("Retry-After", "1")]
    return RenderedError(reply.status, code, message, headers, details)


def _render_mismatch(error: e.IntegrityMismatch, code: str, message: str) -> tuple[str, str, dict[str, str]]:
    claimed, calculated = error.claimed or "", error.calculated or ""
    if error.digest == "sha256-payload":
        message = "The provided 'x-amz-content-sha256' header does not match what was computed."
        details = {"ClientComputedContentSHA256": claimed, "S3ComputedContentSHA256": calculated}
        return "XAmzContentSHA256Mismatch", message, details
    if error.digest == "md5":
        message = "The Content-MD5 you specified did not match what we received."
        # S3 returns the expected digest in hexadecimal and the calculated one in base64.
        encoded = base64.b64encode(bytes.fromhex(calculated)).decode("ascii")
        return code, message, {"ExpectedDigest": claimed, "CalculatedDigest": encoded}
    if error.part is not None:
        message = f"The {error.digest.lower()} you specified for part {error.part} did not match what we received."
    elif error.digest:
        message = f"The {error.digest} you specified did not match the calculated checksum."
    return code, message, {}


_TOO_LARGE: Final[Mapping[str, tuple[str, str]]] = {
    "key": ("KeyTooLongError", "Your key is too long"),
    "metadata": ("MetadataTooLarge", "Your metadata headers exceed the maximum allowed metadata size"),
    "document": ("MalformedXML", "The document is larger than any that S3 accepts here"),
    "policy": ("PolicyTooLarge", "The policy document exceeds the maximum allowed document size."),
}


def error_response(rendered: RenderedError, *, resource: str, request_id: str, host_id: str, is_head: bool) -> Response:
    """The response: an XML document, except where HTTP allows no body."""
    if rendered.status == 304:
        return Response(304, [*rendered.headers])
    if is_head:
        return Response(rendered.status, [*rendered.headers, ("Content-Type", "application/xml")])
    body = write_error(rendered.code, rendered.message, resource, request_id, rendered.details, host_id=host_id)
    headers: Headers = [*rendered.headers, ("Content-Type", "application/xml")]
    return Response(rendered.status, headers, body)


__all__ = ["write_error"]

_NOT_XML: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")


def write_error(
    code: str,
    message: str,
    resource: str,
    request_id: str,
    details: Mapping[str, str] | None = None,
    *,
    host_id: str | None = None,
) -> bytes:
    """Write an Error document. `details` are additional elements by name, such as `ArgumentName`."""
    further = "".join([f"<{name}>{_escape_any(value)}</{name}>" for name, value in (details or {}).items()])
    return document(
        "Error",
        f"<Code>{escape(code)}</Code><Message>{_escape_any(message)}</Message>{further}"
        f"<Resource>{_escape_any(resource)}</Resource><RequestId>{escape(request_id)}</RequestId>"
        f"{optional('HostId', host_id)}",
        namespace=False,
    )


def _escape_any(text: str) -> str:
    """Escape text from a client so that the document stays well-formed."""
    return escape(_NOT_XML.sub("\ufffd", text))
