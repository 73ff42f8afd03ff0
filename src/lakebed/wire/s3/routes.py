"""Finds the operation of a request by its method, its bucket and key, and its subresource."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NamedTuple

from lakebed.wire.aws.errors import AwsFault
from lakebed.wire.http.message import Response

from .errors import method_not_allowed
from .handlers import (
    attributes,
    buckets,
    copy_object,
    delete_objects,
    listen_notification,
    listings,
    multipart,
    objects,
    post,
    select,
    settings,
    tags_and_locks,
)
from .request import S3Request
from .request_checks import NEVER_ANONYMOUS
from .services import S3Services
from .unsupported import UNSUPPORTED_BUCKET, UNSUPPORTED_OBJECT

Handler = Callable[[S3Services, S3Request], Awaitable[Response]]


class S3Operation(NamedTuple):
    """An operation: its S3 name, also in logs and metrics, and its handler."""

    name: str
    handle: Handler


_SERVICE: Final[Mapping[tuple[str, str], S3Operation]] = {
    ("GET", ""): S3Operation("ListBuckets", listings.list_buckets),
    ("GET", "events"): S3Operation("ListenNotification", listen_notification.listen_to_all),
}

_BUCKET: Final[Mapping[tuple[str, str], S3Operation]] = {
    ("PUT", ""): S3Operation("CreateBucket", buckets.create_bucket),
    ("HEAD", ""): S3Operation("HeadBucket", buckets.head_bucket),
    ("DELETE", ""): S3Operation("DeleteBucket", buckets.delete_bucket),
    ("GET", ""): S3Operation("ListObjects", listings.list_objects),
    ("GET", "list-type"): S3Operation("ListObjectsV2", listings.list_objects_v2),
    ("GET", "versions"): S3Operation("ListObjectVersions", listings.list_versions),
    ("GET", "uploads"): S3Operation("ListMultipartUploads", listings.list_uploads),
    ("GET", "location"): S3Operation("GetBucketLocation", buckets.get_location),
    ("POST", "select"): S3Operation("SelectObjects", select.select_objects),
    ("POST", "delete"): S3Operation("DeleteObjects", delete_objects.delete_objects),
    ("POST", ""): S3Operation("PostObject", post.post_object),
    ("GET", "object-lock"): S3Operation("GetObjectLockConfiguration", tags_and_locks.get_lock_configuration),
    ("PUT", "object-lock"): S3Operation("PutObjectLockConfiguration", tags_and_locks.put_lock_configuration),
    ("GET", "events"): S3Operation("ListenBucketNotification", listen_notification.listen_to_bucket),
    ("GET", "acl"): S3Operation("GetBucketAcl", buckets.get_bucket_acl),
    ("PUT", "acl"): S3Operation("PutBucketAcl", buckets.put_acl),
    **{key: S3Operation(name, handler) for key, (name, handler) in settings.ROUTES.items()},
}

_OBJECT: Final[Mapping[tuple[str, str], S3Operation]] = {
    ("GET", ""): S3Operation("GetObject", objects.get_object),
    ("HEAD", ""): S3Operation("HeadObject", objects.head_object),
    ("PUT", ""): S3Operation("PutObject", objects.put_object),
    ("PUT", "x-amz-copy-source"): S3Operation("CopyObject", copy_object.copy_object),
    ("DELETE", ""): S3Operation("DeleteObject", objects.delete_object),
    ("GET", "attributes"): S3Operation("GetObjectAttributes", attributes.get_object_attributes),
    ("POST", "select"): S3Operation("SelectObjectContent", select.select_object_content),
    ("POST", "uploads"): S3Operation("CreateMultipartUpload", multipart.create_upload),
    ("PUT", "uploadId"): S3Operation("UploadPart", multipart.upload_part),
    ("PUT", "uploadId x-amz-copy-source"): S3Operation("UploadPartCopy", multipart.upload_part_copy),
    ("POST", "uploadId"): S3Operation("CompleteMultipartUpload", multipart.complete_upload),
    ("DELETE", "uploadId"): S3Operation("AbortMultipartUpload", multipart.abort_upload),
    ("GET", "uploadId"): S3Operation("ListParts", multipart.list_parts),
    ("GET", "tagging"): S3Operation("GetObjectTagging", tags_and_locks.get_object_tagging),
    ("PUT", "tagging"): S3Operation("PutObjectTagging", tags_and_locks.put_object_tagging),
    ("DELETE", "tagging"): S3Operation("DeleteObjectTagging", tags_and_locks.delete_object_tagging),
    ("GET", "retention"): S3Operation("GetObjectRetention", tags_and_locks.get_retention),
    ("PUT", "retention"): S3Operation("PutObjectRetention", tags_and_locks.put_retention),
    ("GET", "legal-hold"): S3Operation("GetObjectLegalHold", tags_and_locks.get_legal_hold),
    ("PUT", "legal-hold"): S3Operation("PutObjectLegalHold", tags_and_locks.put_legal_hold),
    ("GET", "acl"): S3Operation("GetObjectAcl", buckets.get_object_acl),
    ("PUT", "acl"): S3Operation("PutObjectAcl", buckets.put_acl),
}

_SERVICE_SUBRESOURCES: Final = frozenset({name for _, name in _SERVICE if name})
_BUCKET_SUBRESOURCES: Final = frozenset({name for _, name in _BUCKET if name}) | set(UNSUPPORTED_BUCKET)
_OBJECT_SUBRESOURCES: Final = (
    frozenset({name for _, name in _OBJECT if name and " " not in name}) | set(UNSUPPORTED_OBJECT)
) - {"x-amz-copy-source"}


def find_operation(request: S3Request) -> S3Operation:
    """The operation of a request. Raises AwsFault if it is unknown or not supported."""
    method = request.http.method
    if not request.bucket:
        operation = _SERVICE.get((method, _subresource(request, _SERVICE_SUBRESOURCES)))
        if operation is None:
            raise method_not_allowed(method, "SERVICE")
        return operation
    if not request.http.raw_query and "x-amz-copy-source" not in request.headers:
        # Most requests: without query and copy source there is no subresource and no misplaced parameter.
        operation = (_OBJECT if request.key else _BUCKET).get((method, ""))
        if operation is not None:
            return operation
    _reject_misplaced(request)
    if not request.key:
        subresource = _subresource(request, _BUCKET_SUBRESOURCES)
        operation = _BUCKET.get((method, subresource))
        unsupported = UNSUPPORTED_BUCKET
    else:
        subresource = _subresource(request, _OBJECT_SUBRESOURCES)
        if method == "PUT" and "x-amz-copy-source" in request.headers and subresource in ("", "uploadId"):
            subresource = f"{subresource} x-amz-copy-source".strip()
        operation = _OBJECT.get((method, subresource))
        unsupported = UNSUPPORTED_OBJECT
    if operation is not None:
        return operation
    if subresource in unsupported:
        if request.caller.principal.is_anonymous:
            raise AwsFault(403, "AccessDenied", NEVER_ANONYMOUS.get(subresource, "Access Denied."))
        raise unsupported[subresource].fault(method)
    if request.key and method == "POST" and not subresource:
        raise method_not_allowed(method, "SERVICE")  # as the conformance suite expects
    raise method_not_allowed(method, "OBJECT" if request.key else "BUCKET")


def _reject_misplaced(request: S3Request) -> None:
    """Reject parameters and headers of another operation, with S3's errors. Raises AwsFault."""
    method, query = request.http.method, request.query if request.http.raw_query else {}
    if method != "PUT" and "x-amz-copy-source" in request.headers and (method != "POST" or "uploadId" in query):
        raise AwsFault(
            400,
            "InvalidArgument",
            "You can only specify a copy source header for copy requests.",
            ArgumentName="x-amz-copy-source",
            ArgumentValue=request.headers["x-amz-copy-source"][:1024],
        )
    if not request.key or not query:
        return
    if method == "GET" and "uploads" in query:
        raise AwsFault(400, "InvalidRequest", "Key is not expected for the GET method ?uploads subresource")
    if method == "GET" and "versions" in query:
        raise AwsFault(400, "InvalidRequest", "There is no such thing as the ?versions sub-resource for a key")
    if method == "PUT" and "partNumber" in query and "uploadId" not in query:
        raise AwsFault(
            400,
            "InvalidArgument",
            "This operation does not accept partNumber without uploadId",
            ArgumentName="partNumber",
            ArgumentValue="partNumber",
        )
    if method == "PUT" and "uploadId" in query and "partNumber" not in query:
        raise method_not_allowed(method, "UPLOAD")


def _subresource(request: S3Request, known: frozenset[str]) -> str:
    if not request.http.raw_query:
        return ""
    if known.isdisjoint(request.query):
        return ""
    return next(name for name in request.query if name in known)
