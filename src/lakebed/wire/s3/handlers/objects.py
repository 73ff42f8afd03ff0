"""GetObject, HeadObject, PutObject, DeleteObject."""

from __future__ import annotations

from typing import Final

from lakebed.core.errors import InvalidInput, NotFound
from lakebed.objects.blobs.contents import ByteRange, ContentSource
from lakebed.objects.deleting import DeletedObject, ObjectIdentifier
from lakebed.objects.model import MAX_PARTS
from lakebed.objects.reading import FoundObject
from lakebed.objects.writing import NewObject, WrittenObject
from lakebed.wire.aws.errors import AwsFault
from lakebed.wire.aws.numbers import whole_number
from lakebed.wire.http.message import FileSlice, Headers, Response

from ..object_headers import (
    checksum_headers,
    delete_conditions,
    encryption_headers,
    expiration_headers,
    object_headers,
    read_attributes,
    read_conditions,
    read_range,
    wants_encryption,
    write_conditions,
)
from ..payload import open_payload
from ..request import S3Request
from ..services import S3Services

_ATTEMPTS: Final = 4
"""Attempts of a GET whose object is replaced before it can be opened."""


async def get_object(services: S3Services, request: S3Request) -> Response:
    """GetObject: the bytes of an object, or a range or part of them."""
    part = _part_number(request)
    conditions = read_conditions(request)
    wanted = read_range(request)
    version = request.version
    for attempt in range(1, _ATTEMPTS + 1):
        found = await services.reader.get(
            request.caller,
            request.bucket,
            request.key,
            version=version,
            conditions=conditions,
            wanted=wanted,
            part=part,
        )
        assert found.source is not None  # noqa: S101  # `get` opens the content
        status, chosen, headers = _describe(services, request, found)
        try:
            response = await _open(found.source, chosen, status, headers)
        except NotFound:
            # The object was replaced between reading its row and opening its file: return the new one.
            if attempt == _ATTEMPTS:
                raise
        else:
            services.read_events.emit("ObjectAccessed:Get", found.bucket, found.object, request.caller)
            return response
    raise AssertionError("unreachable")


async def head_object(services: S3Services, request: S3Request) -> Response:
    """HeadObject."""
    found = await services.reader.head(
        request.caller,
        request.bucket,
        request.key,
        version=request.version,
        conditions=read_conditions(request),
        wanted=read_range(request),
        part=_part_number(request),
    )
    status, chosen, headers = _describe(services, request, found)
    services.read_events.emit("ObjectAccessed:Head", found.bucket, found.object, request.caller)
    return Response(status, headers, length=chosen.length)


def _describe(services: S3Services, request: S3Request, found: FoundObject) -> tuple[int, ByteRange, Headers]:
    headers = object_headers(request, found.bucket, found.object, services.lifecycle_day_ms)
    if found.part_count is not None:
        headers.append(("x-amz-mp-parts-count", str(found.part_count)))
    size = found.object.size
    chosen = found.wanted
    if chosen is None:
        return 200, ByteRange(0, size), headers
    if chosen.length == 0:
        return 200, chosen, headers
    headers.append(("Content-Range", f"bytes {chosen.start}-{chosen.end - 1}/{size}"))
    return 206, chosen, headers


async def _open(source: ContentSource, chosen: ByteRange, status: int, headers: Headers) -> Response:
    body = source.inline(chosen)
    if body is not None:
        return Response(status, headers, body)
    slices = await source.open_files(chosen)
    if slices is not None:
        files = [
            piece if isinstance(piece, bytes) else FileSlice(piece.descriptor, piece.offset, piece.length)
            for piece in slices
        ]
        return Response(status, headers, files=files, length=chosen.length)
    return Response(status, headers, stream=await source.open_stream(chosen), length=chosen.length)


def _part_number(request: S3Request) -> int | None:
    if not request.http.raw_query or "partNumber" not in request.query:
        return None
    text = request.query["partNumber"]
    number = whole_number(text)
    if number is None or not 1 <= number <= MAX_PARTS:
        raise InvalidInput(
            f"Part number must be an integer between 1 and {MAX_PARTS}, inclusive.", argument="partNumber", value=text
        )
    if "range" in request.headers:
        raise AwsFault(400, "InvalidRequest", "Cannot specify both Range header and partNumber query parameter")
    return number


async def put_object(services: S3Services, request: S3Request) -> Response:
    """PutObject."""
    new = NewObject(
        request.key,
        read_attributes(request, services.clock.now_ms()),
        wants_encryption(request),
        write_conditions(request),
    )
    payload, expected = open_payload(request)
    written = await services.writer.put(request.caller, request.bucket, new, payload, expected)
    return Response(200, written_headers(services, written))


def written_headers(services: S3Services, written: WrittenObject) -> Headers:
    """The response headers of a write."""
    stored = written.object
    headers: Headers = [("ETag", f'"{stored.etag}"'), ("x-amz-object-size", str(stored.size))]
    if written.version is not None:
        headers.append(("x-amz-version-id", written.version))
    headers += encryption_headers(stored.attributes.encrypted)
    headers += checksum_headers(written.checksum)
    headers += expiration_headers(written.bucket, stored, services.lifecycle_day_ms)
    return headers


async def delete_object(services: S3Services, request: S3Request) -> Response:
    """DeleteObject, of the current version or a specified one."""
    identifier = ObjectIdentifier(request.key, request.version, delete_conditions(request))
    deleted = await services.deleter.delete(request.caller, request.bucket, identifier)
    return Response(204, deleted_headers(deleted))


def deleted_headers(deleted: DeletedObject) -> Headers:
    """The response headers of a deletion."""
    headers: Headers = []
    if deleted.marker is not None:
        headers.append(("x-amz-delete-marker", "true"))
    version = deleted.marker if deleted.made_marker else deleted.version
    if version is not None:
        headers.append(("x-amz-version-id", version))
    return headers
