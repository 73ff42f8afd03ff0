"""CopyObject."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote_to_bytes

import msgspec

from lakebed.core.checksums import ChecksumAlgorithm, parse_algorithm
from lakebed.core.errors import InvalidInput, InvalidName
from lakebed.objects.config.tagging import NO_TAGS, TagSet, parse_tag_query
from lakebed.objects.copying import CopyChanges, CopySource
from lakebed.objects.model import ObjectAttributes
from lakebed.objects.names import check_bucket_name
from lakebed.objects.writing import NewObject
from lakebed.wire.aws.errors import AwsFault
from lakebed.wire.http.message import Response

from ..documents.objects import write_copy
from ..object_headers import (
    encryption_headers,
    expiration_headers,
    read_attributes,
    read_conditions,
    wants_encryption,
    write_conditions,
)
from ..request import S3Request, checked_version
from ..request_checks import EXPECTED_SOURCE_OWNER, require_owner
from ..services import S3Services
from .listings import xml_response

_UNKNOWN_ALGORITHM: Final = (
    "Checksum algorithm provided is unsupported. Please try again with any of the valid types:"
    f" [{', '.join(sorted(ChecksumAlgorithm))}]"
)
_BROKEN_ESCAPE: Final = re.compile("%(?![0-9A-Fa-f]{2})")


def read_copy_source(request: S3Request) -> CopySource:
    """Parse `x-amz-copy-source`: `[/]bucket/key[?versionId=id]`, percent-encoded. Raises AwsFault."""
    text = request.headers["x-amz-copy-source"]
    path, separator, query = text.partition("?versionId=")
    version = query if separator else None
    if _BROKEN_ESCAPE.search(path):
        raise _bad_source("encoding", text)
    try:
        text.encode()
        decoded = unquote_to_bytes(path).decode()
    except UnicodeError as error:
        raise _bad_source("encoding", text) from error
    if decoded.startswith("arn:"):
        raise AwsFault(501, "NotImplemented", "Access points are not supported.")
    bucket, _, key = decoded.removeprefix("/").partition("/")
    try:
        check_bucket_name(bucket)
    except InvalidName as error:
        raise _bad_source("bucket name", text) from error
    if not key or "\0" in key:
        raise _bad_source("object key", key)
    if version is not None:
        version = checked_version(version)
    return CopySource(bucket, key, version, read_conditions(request, "x-amz-copy-source-"))


async def check_source_owner(services: S3Services, request: S3Request, source: CopySource) -> None:
    """Reject a copy if the expected owner of the source bucket is not its owner. Raises AwsFault."""
    expected = request.headers.get(EXPECTED_SOURCE_OWNER)
    if expected is not None:
        await require_owner(services, source.bucket, expected)


def _bad_source(piece: str, value: str) -> AwsFault:
    return AwsFault(
        400,
        "InvalidArgument",
        f"Invalid copy source {piece}",
        ArgumentName="x-amz-copy-source",
        ArgumentValue=value[:1024],
    )


async def copy_object(services: S3Services, request: S3Request) -> Response:
    """CopyObject."""
    source = read_copy_source(request)
    await check_source_owner(services, request, source)
    attributes = read_attributes(request, services.clock.now_ms())
    new = NewObject(
        request.key,
        # Tags have their own directive, below.
        msgspec.structs.replace(attributes, tags=NO_TAGS),
        wants_encryption(request),
        write_conditions(request),
    )
    changes = CopyChanges(_replaced(request, attributes), _replaced_tags(request), requested_algorithm(request))
    copied = await services.copier.copy(request.caller, source, request.bucket, new, changes)
    written = copied.written
    stored = written.object
    response = xml_response(write_copy(stored.etag, stored.modified_ms, stored.checksum))
    if written.version is not None:
        response.headers.append(("x-amz-version-id", written.version))
    if copied.source_version is not None:
        response.headers.append(("x-amz-copy-source-version-id", copied.source_version))
    response.headers += encryption_headers(stored.attributes.encrypted)
    response.headers += expiration_headers(written.bucket, stored, services.lifecycle_day_ms)
    return response


def _replaced(request: S3Request, attributes: ObjectAttributes) -> ObjectAttributes | None:
    directive = request.headers.get("x-amz-metadata-directive", "COPY")
    if directive == "REPLACE":
        return attributes
    if directive != "COPY":
        raise AwsFault(400, "InvalidArgument", "Unknown metadata directive.", ArgumentName="x-amz-metadata-directive")
    return None


def _replaced_tags(request: S3Request) -> TagSet | None:
    directive = request.headers.get("x-amz-tagging-directive", "COPY")
    if directive == "REPLACE":
        return parse_tag_query(request.headers.get("x-amz-tagging", ""))
    if directive != "COPY":
        raise AwsFault(400, "InvalidArgument", "Unknown tagging directive.", ArgumentName="x-amz-tagging-directive")
    return None


def requested_algorithm(request: S3Request) -> ChecksumAlgorithm | None:
    """The checksum algorithm for the new object, if the request has one. Raises AwsFault."""
    named = request.headers.get("x-amz-checksum-algorithm")
    if named is None:
        return None
    try:
        return parse_algorithm(named)
    except InvalidInput as error:
        raise AwsFault(400, "InvalidRequest", _UNKNOWN_ALGORITHM) from error
