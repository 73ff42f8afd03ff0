"""Object attributes, conditions and ranges in request and response headers."""

from __future__ import annotations

from typing import Final

from lakebed.core.checksums import Checksum
from lakebed.objects.buckets.bucket import Bucket
from lakebed.objects.conditions import NO_READ_CONDITIONS, NO_WRITE_CONDITIONS, ReadConditions, WriteConditions
from lakebed.objects.config.expiry import expires_at
from lakebed.objects.config.object_lock import LegalHold, check_retention_date
from lakebed.objects.config.tagging import NO_TAGS, parse_tag_query
from lakebed.objects.model import DEFAULT_ATTRIBUTES, REDIRECT, ObjectAttributes, StoredObject
from lakebed.objects.reading import RangeRequest
from lakebed.wire.aws.errors import AwsFault
from lakebed.wire.aws.numbers import whole_number
from lakebed.wire.aws.timestamps import http_time, iso_time
from lakebed.wire.http.message import Headers

from .documents.lifecycle import expiration_header
from .documents.object_lock import legal_hold_from_header, retention_from_headers
from .request import S3Request

META: Final = "x-amz-meta-"
CUSTOMER_KEY: Final = "x-amz-server-side-encryption-customer-"
_STORED: Final = {
    "cache-control": "Cache-Control",
    "content-disposition": "Content-Disposition",
    "content-encoding": "Content-Encoding",
    "content-language": "Content-Language",
    "expires": "Expires",
    REDIRECT: REDIRECT,  # only website endpoints follow it, which are not supported
}
_OVERRIDES: Final = {
    "response-content-type": "Content-Type",
    "response-content-language": "Content-Language",
    "response-expires": "Expires",
    "response-cache-control": "Cache-Control",
    "response-content-disposition": "Content-Disposition",
    "response-content-encoding": "Content-Encoding",
}
_READ_CONDITIONS: Final = frozenset({"if-match", "if-none-match", "if-modified-since", "if-unmodified-since"})
_CANNED_ACLS: Final = frozenset({"private", "bucket-owner-full-control", "bucket-owner-read"})


def read_attributes(request: S3Request, now_ms: int) -> ObjectAttributes:
    """The object's attributes from the headers of an upload. Raises AwsFault, InvalidInput, InvalidTag."""
    headers = request.headers
    reject_unsupported(request)
    stored_headers: dict[str, str] = {}
    metadata: dict[str, str] = {}
    for name, value in headers.items():
        if not value.isascii() and (name.startswith(META) or name in _STORED or name == "content-type"):
            _check_utf8(name, value)
        if name.startswith(META):
            metadata[name[len(META) :]] = value
        elif name in _STORED:
            if name == "content-encoding":
                value = ",".join(c for c in map(str.strip, value.split(",")) if c and c != "aws-chunked")
            if value:
                stored_headers[name] = value
    content_type = headers.get("content-type")
    tags = parse_tag_query(headers["x-amz-tagging"]) if "x-amz-tagging" in headers else NO_TAGS
    retention = retention_from_headers(
        headers.get("x-amz-object-lock-mode"), headers.get("x-amz-object-lock-retain-until-date")
    )
    if retention is not None:
        check_retention_date(retention, now_ms)
    legal_hold = legal_hold_from_header(headers.get("x-amz-object-lock-legal-hold"))
    if not (stored_headers or metadata or content_type or tags or retention or legal_hold):
        return DEFAULT_ATTRIBUTES
    return ObjectAttributes(
        content_type=content_type or DEFAULT_ATTRIBUTES.content_type,
        headers=stored_headers,
        metadata=metadata,
        tags=tags,
        retention=retention,
        legal_hold=None if legal_hold is None else legal_hold is LegalHold.ON,
    )


def _check_utf8(name: str, value: str) -> None:
    """Raise AwsFault for a value that cannot be stored as text."""
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise AwsFault(400, "InvalidArgument", "Header value is not UTF-8.", ArgumentName=name) from error


def reject_unsupported(request: S3Request) -> None:
    """Reject headers of features that are not supported, rather than ignore them. Raises AwsFault."""
    headers = request.headers
    storage_class = headers.get("x-amz-storage-class")
    if storage_class is not None and storage_class != "STANDARD":
        raise AwsFault(400, "InvalidStorageClass", "The storage class you specified is not valid")
    acl = headers.get("x-amz-acl")
    if acl is not None and acl not in _CANNED_ACLS:
        raise acl_fault()
    for name in headers:
        if name.startswith("x-amz-grant-"):
            raise acl_fault()
        if name.startswith(CUSTOMER_KEY):
            raise customer_key_fault()
    location = headers.get(REDIRECT)
    if location is not None and not location.startswith(("/", "http://", "https://")):
        raise AwsFault(
            400,
            "InvalidRedirectLocation",
            "The website redirect location must have a prefix of 'http://' or 'https://' or '/'.",
        )


def customer_key_fault() -> AwsFault:
    """The error for customer-provided encryption keys (SSE-C)."""
    return AwsFault(501, "NotImplemented", "Encryption with customer-provided keys is not supported.")


def acl_fault() -> AwsFault:
    """The error for ACLs: all buckets are BucketOwnerEnforced, and only policies grant access."""
    return AwsFault(400, "AccessControlListNotSupported", "The bucket does not allow ACLs")


def wants_encryption(request: S3Request) -> bool | None:
    """Whether the upload requests encryption; None without the header. Raises AwsFault."""
    algorithm = request.headers.get("x-amz-server-side-encryption")
    if algorithm is None:
        if "x-amz-server-side-encryption-aws-kms-key-id" in request.headers:
            raise AwsFault(
                400,
                "InvalidArgument",
                "Server Side Encryption with AWS KMS managed key requires HTTP header x-amz-server-side-encryption :"
                " aws:kms",
            )
        return None
    if algorithm == "AES256":
        return True
    if algorithm.startswith("aws:kms"):
        raise AwsFault(501, "NotImplemented", "Server-side encryption with KMS keys is not supported.")
    raise AwsFault(
        400,
        "InvalidArgument",
        "The encryption method specified is not supported",
        ArgumentName="x-amz-server-side-encryption",
        ArgumentValue=algorithm[:100],
    )


def read_conditions(request: S3Request, prefix: str = "") -> ReadConditions:
    """The conditions of a read; with a prefix, those of a copy source."""
    headers = request.headers
    if not prefix and _READ_CONDITIONS.isdisjoint(headers):
        return NO_READ_CONDITIONS
    match = headers.get(prefix + "if-match")
    none_match = headers.get(prefix + "if-none-match")
    modified = request.time_header(prefix + "if-modified-since")
    unmodified = request.time_header(prefix + "if-unmodified-since")
    if match is None and none_match is None and modified is None and unmodified is None:
        return NO_READ_CONDITIONS
    return ReadConditions(match, none_match, modified, unmodified)


def write_conditions(request: S3Request) -> WriteConditions:
    """The conditions of a write."""
    headers = request.headers
    match, none_match = headers.get("if-match"), headers.get("if-none-match")
    if match is None and none_match is None:
        return NO_WRITE_CONDITIONS
    return WriteConditions(match, none_match)


def delete_conditions(request: S3Request) -> WriteConditions:
    """The conditions of a DELETE. Raises AwsFault."""
    headers = request.headers
    stated_size = headers.get("x-amz-if-match-size")
    stated_time = headers.get("x-amz-if-match-last-modified-time")
    if stated_size is None and stated_time is None and "if-match" not in headers:
        return NO_WRITE_CONDITIONS
    size = None if stated_size is None else whole_number(stated_size)
    if stated_size is not None and size is None:
        raise AwsFault(400, "InvalidArgument", "x-amz-if-match-size is not a number")
    modified = request.time_header("x-amz-if-match-last-modified-time")
    if stated_time is not None and modified is None:
        raise AwsFault(400, "InvalidArgument", "x-amz-if-match-last-modified-time is not a valid time")
    return WriteConditions(headers.get("if-match"), None, size, modified)


def read_range(request: S3Request) -> RangeRequest | None:
    """The requested byte range; a malformed one is ignored (RFC 9110 §14.2)."""
    text = request.headers.get("range")
    if text is None or not text.startswith("bytes="):
        return None
    stated_first, separator, stated_last = text[6:].partition("-")
    if not separator:
        return None
    first, last = whole_number(stated_first), whole_number(stated_last)
    if not stated_first:
        return None if last is None else RangeRequest(suffix=last)
    if first is None or (stated_last and last is None):
        return None
    if last is not None and last < first:
        return None
    return RangeRequest(first=first, last=last)


def object_headers(request: S3Request, bucket: Bucket, found: StoredObject, day_ms: int) -> Headers:
    """The headers of GET and HEAD, without those that depend on the range."""
    attributes = found.attributes
    headers: Headers = [
        ("ETag", f'"{found.etag}"'),
        ("Last-Modified", http_time(found.modified_ms)),
        ("Accept-Ranges", "bytes"),
        ("Content-Type", attributes.content_type),
    ]
    if attributes is not DEFAULT_ATTRIBUTES:
        headers += [(_STORED[name], value) for name, value in attributes.headers.items()]
        headers += [(META + name, value) for name, value in attributes.metadata.items()]
        if attributes.tags:
            headers.append(("x-amz-tagging-count", str(len(attributes.tags))))
        headers += lock_headers(attributes)
        headers += encryption_headers(attributes.encrypted)
    if bucket.keeps_versions:
        headers.append(("x-amz-version-id", found.version))
    mode = request.headers.get("x-amz-checksum-mode")
    if mode is not None and mode.upper() == "ENABLED" and not _reads_part(request, found):
        headers += checksum_headers(found.checksum)
    if bucket.settings.lifecycle is not None:
        headers += expiration_headers(bucket, found, day_ms)
    if "response-" in request.http.raw_query:
        _override(request, headers)
    return headers


def _reads_part(request: S3Request, found: StoredObject) -> bool:
    """Whether only a part of the object is read: a client would compare it with the checksum of the whole object."""
    if "range" in request.headers:
        return True
    return bool(found.attributes.part_count) and "partNumber" in request.http.raw_query


def _override(request: S3Request, headers: Headers) -> None:
    """Replace headers by `response-…` parameters, which only signed requests may have. Raises AwsFault."""
    for parameter, name in _OVERRIDES.items():
        value = request.query.get(parameter)
        if value is None:
            continue
        if not request.authenticated.is_signed:
            raise AwsFault(
                400, "InvalidRequest", "Request specific response headers cannot be used for anonymous GET requests."
            )
        if not value.isprintable():
            raise AwsFault(400, "InvalidArgument", "Header value cannot be represented.", ArgumentName=parameter)
        headers[:] = [item for item in headers if item[0] != name]
        headers.append((name, value))


def lock_headers(attributes: ObjectAttributes) -> Headers:
    """The retention and legal hold of a version."""
    headers: Headers = []
    if attributes.retention is not None:
        headers.append(("x-amz-object-lock-mode", attributes.retention.mode))
        headers.append(("x-amz-object-lock-retain-until-date", iso_time(attributes.retention.until_ms)))
    if attributes.legal_hold is not None:
        headers.append(("x-amz-object-lock-legal-hold", LegalHold.ON if attributes.legal_hold else LegalHold.OFF))
    return headers


def encryption_headers(encrypted: bool) -> Headers:
    """The server-side encryption of an object."""
    return [("x-amz-server-side-encryption", "AES256")] if encrypted else []


def checksum_headers(checksum: Checksum | None) -> Headers:
    """The checksum of an object."""
    if checksum is None:
        return []
    return [
        (f"x-amz-checksum-{checksum.algorithm.lower()}", checksum.text),
        ("x-amz-checksum-type", checksum.type.value),
    ]


def expiration_headers(bucket: Bucket, stored: StoredObject, day_ms: int) -> Headers:
    """When a lifecycle rule will expire the object."""
    rules = bucket.settings.lifecycle
    if rules is None or bucket.holds_tables:
        return []
    due = expires_at(rules, stored.key, stored.size, stored.attributes.tags, stored.modified_ms, day_ms=day_ms)
    return [] if due is None else [("x-amz-expiration", expiration_header(due))]
