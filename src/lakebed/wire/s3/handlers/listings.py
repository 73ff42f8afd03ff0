"""ListBuckets, ListObjects (both versions), ListObjectVersions, ListMultipartUploads."""

from __future__ import annotations

from typing import Final

from lakebed.core.access import canonical_id
from lakebed.core.errors import InvalidInput
from lakebed.core.paging import PageTokens
from lakebed.objects.listing import ListedObject, ListedVersion
from lakebed.objects.listing import Listing as Page
from lakebed.objects.model import StoredUpload
from lakebed.wire.aws.errors import AwsFault
from lakebed.wire.aws.numbers import whole_number
from lakebed.wire.http.message import Response

from ..documents.listings import (
    BucketRow,
    ListingHeader,
    ObjectRow,
    OwnerElement,
    VersionRow,
    write_bucket_list,
    write_object_list,
    write_object_list_v2,
    write_version_list,
)
from ..documents.multipart import UploadListing, UploadRow, write_upload_list
from ..request import S3Request
from ..services import S3Services

MAX_PAGE: Final = 1000
MAX_BUCKETS: Final = 10_000
_tokens: Final = PageTokens("s3-list", str)


def xml_response(body: bytes) -> Response:
    """A response with an XML document."""
    return Response(200, [("Content-Type", "application/xml")], body)


def owner_of(account: str) -> OwnerElement:
    """The Owner element of an account."""
    return OwnerElement(canonical_id(account), account)


async def list_buckets(services: S3Services, request: S3Request) -> Response:
    """ListBuckets: the caller's buckets."""
    max_buckets = request.parameter("max-buckets")
    limit = MAX_BUCKETS if max_buckets is None else whole_number(max_buckets)
    if limit is None or not 1 <= limit <= MAX_BUCKETS:
        raise InvalidInput(
            f"Argument max-buckets must be an integer between 1 and {MAX_BUCKETS}.",
            argument="max-buckets",
            value=max_buckets,
        )
    prefix = request.query.get("prefix", "")
    token = request.parameter("continuation-token")
    after = "" if token is None else _tokens.decode(token)
    page = await services.buckets.list(request.caller, prefix=prefix, after=after, limit=limit)
    more = _tokens.encode(page.buckets[-1].name) if page.truncated and page.buckets else None
    rows = [BucketRow(bucket.name, bucket.created_ms, bucket.region) for bucket in page.buckets]
    owner = owner_of(request.caller.principal.account)
    return xml_response(write_bucket_list(owner, rows, prefix=prefix or None, continuation_token=more))


async def list_objects(services: S3Services, request: S3Request) -> Response:
    """ListObjects."""
    query = request.query
    limit = request.integer("max-keys", MAX_PAGE, maximum=MAX_PAGE)
    delimiter = request.parameter("delimiter")
    marker = query.get("marker", "")
    page = await services.lister.objects(
        request.caller,
        request.bucket,
        prefix=query.get("prefix", ""),
        delimiter=delimiter or "",
        after=marker,
        limit=limit,
    )
    listing = _listing_header(request, page, limit, owner=True)
    next_marker = _next_key(page) if delimiter is not None else None
    body = write_object_list(listing, _object_rows(page.entries), marker=marker, next_marker=next_marker)
    return xml_response(body)


async def list_objects_v2(services: S3Services, request: S3Request) -> Response:
    """ListObjectsV2."""
    query = request.query
    limit = request.integer("max-keys", MAX_PAGE, maximum=MAX_PAGE)
    token = query.get("continuation-token")
    if token == "":
        raise InvalidInput("The continuation token provided is incorrect", argument="continuation-token")
    start_after = query.get("start-after", "")
    after = start_after if token is None else _read_token(token)
    page = await services.lister.objects(
        request.caller,
        request.bucket,
        prefix=query.get("prefix", ""),
        delimiter=query.get("delimiter", ""),
        after=after,
        limit=limit,
    )
    next_key = _next_key(page)
    body = write_object_list_v2(
        _listing_header(request, page, limit, owner=query.get("fetch-owner", "").lower() == "true"),
        _object_rows(page.entries),
        continuation_token=token,
        next_continuation_token=None if next_key is None else _tokens.encode(next_key),
        start_after=start_after if "start-after" in query and token is None else None,
    )
    return xml_response(body)


async def list_versions(services: S3Services, request: S3Request) -> Response:
    """ListObjectVersions."""
    query = request.query
    max_keys = query.get("max-keys", "")
    if max_keys.startswith("-"):
        raise InvalidInput("max-keys cannot be negative", argument="maxKeys", value=max_keys[:100])
    limit = request.integer("max-keys", MAX_PAGE, maximum=MAX_PAGE)
    key_marker, version_marker = query.get("key-marker", ""), query.get("version-id-marker", "")
    if version_marker and not key_marker:
        raise InvalidInput(
            "A version-id marker cannot be specified without a key marker.", argument="version-id-marker"
        )
    page = await services.lister.versions(
        request.caller,
        request.bucket,
        prefix=query.get("prefix", ""),
        delimiter=query.get("delimiter", ""),
        key_marker=key_marker,
        version_marker=version_marker,
        limit=limit,
    )
    body = write_version_list(
        _listing_header(request, page, limit, owner=True),
        [_version_row(entry) for entry in page.entries],
        key_marker=key_marker,
        version_id_marker=version_marker,
        next_key_marker=_next_key(page),
        next_version_id_marker=page.last.version if page.truncated and isinstance(page.last, ListedVersion) else None,
    )
    return xml_response(body)


async def list_uploads(services: S3Services, request: S3Request) -> Response:
    """ListMultipartUploads."""
    query = request.query
    limit = request.integer("max-uploads", MAX_PAGE, maximum=MAX_PAGE)
    key_marker, upload_marker = query.get("key-marker", ""), query.get("upload-id-marker", "")
    page = await services.lister.uploads(
        request.caller,
        request.bucket,
        prefix=query.get("prefix", ""),
        delimiter=query.get("delimiter", ""),
        key_marker=key_marker,
        upload_marker=upload_marker,
        limit=limit,
    )
    listing = UploadListing(
        bucket=request.bucket,
        prefix=query.get("prefix", ""),
        delimiter=request.parameter("delimiter"),
        max_uploads=limit,
        is_truncated=page.truncated,
        owner=owner_of(page.bucket.owner),
        key_marker=key_marker,
        upload_id_marker=upload_marker,
        next_key_marker=_next_key(page),
        next_upload_id_marker=page.last.id if page.truncated and isinstance(page.last, StoredUpload) else None,
        common_prefixes=page.prefixes,
        is_url_encoded=_is_url_encoded(request),
    )
    return xml_response(write_upload_list(listing, [_upload_row(entry) for entry in page.entries]))


def _next_key(page: Page[ListedObject] | Page[ListedVersion] | Page[StoredUpload]) -> str | None:
    """The last key or common prefix of a truncated page."""
    if not page.truncated or page.last is None:
        return None
    return page.last if isinstance(page.last, str) else page.last.key


def _listing_header(
    request: S3Request, page: Page[ListedObject] | Page[ListedVersion], limit: int, *, owner: bool
) -> ListingHeader:
    return ListingHeader(
        bucket=request.bucket,
        prefix=request.query.get("prefix", ""),
        delimiter=request.parameter("delimiter"),
        max_keys=limit,
        is_truncated=page.truncated,
        common_prefixes=page.prefixes,
        is_url_encoded=_is_url_encoded(request),
        owner=owner_of(page.bucket.owner) if owner else None,
    )


def _is_url_encoded(request: S3Request) -> bool:
    encoding = request.parameter("encoding-type")
    if encoding is None:
        return False
    if encoding.lower() != "url":
        raise InvalidInput("Invalid Encoding Method specified in Request", argument="encoding-type", value=encoding)
    return True


def _object_rows(entries: list[ListedObject]) -> list[ObjectRow]:
    kinds: dict[str, tuple[str | None, str | None]] = {"": (None, None)}
    rows: list[ObjectRow] = []
    for key, size, etag, modified_ms, checksum in entries:
        # Algorithm and type without the value: a page has few combinations, and each is split once.
        prefix = checksum[: checksum.rfind(" ")] if checksum else ""
        kind = kinds.get(prefix)
        if kind is None:
            algorithm, _, checksum_type = prefix.partition(" ")
            kind = kinds[prefix] = (algorithm, checksum_type)
        rows.append((key, size, etag, modified_ms, *kind))
    return rows


def _version_row(entry: ListedVersion) -> VersionRow:
    algorithm, kind = entry.checksum_text.split(" ", 2)[:2] if entry.checksum_text else (None, None)
    return VersionRow(
        entry.key,
        entry.version,
        entry.is_latest,
        entry.modified_ms,
        entry.is_marker,
        entry.size,
        entry.etag,
        algorithm,
        kind,
    )


def _upload_row(upload: StoredUpload) -> UploadRow:
    attributes = upload.attributes
    return UploadRow(
        upload.key,
        upload.id,
        upload.started_ms,
        checksum_algorithm=attributes.checksum_algorithm or None,
        checksum_type=attributes.checksum_kind or None,
    )


def _read_token(token: str) -> str:
    try:
        return _tokens.decode(token)
    except InvalidInput as error:
        raise AwsFault(
            400, "InvalidArgument", "The continuation token provided is incorrect", ArgumentName="continuation-token"
        ) from error
