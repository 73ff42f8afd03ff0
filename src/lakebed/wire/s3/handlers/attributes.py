"""GetObjectAttributes."""

from __future__ import annotations

from typing import Final

from lakebed.objects.model import unpack_checksum
from lakebed.objects.reading import FoundObject
from lakebed.wire.aws.errors import AwsFault
from lakebed.wire.aws.numbers import whole_number
from lakebed.wire.aws.timestamps import http_time
from lakebed.wire.http.message import Response

from ..documents.objects import AttributeParts, ObjectAttributesPart, ObjectPart, write_attributes
from ..request import S3Request
from ..services import S3Services
from .listings import MAX_PAGE, xml_response

_KNOWN: Final = frozenset({"ETag", "Checksum", "ObjectParts", "StorageClass", "ObjectSize"})


async def get_object_attributes(services: S3Services, request: S3Request) -> Response:
    """GetObjectAttributes."""
    await services.buckets.find(request.bucket)
    requested = _requested_attributes(request)
    limit = _number(request, "x-amz-max-parts", MAX_PAGE)
    marker = _number(request, "x-amz-part-number-marker", 0)
    found = await services.reader.get(
        request.caller,
        request.bucket,
        request.key,
        version=request.version,
        action="s3:GetObjectVersionAttributes" if request.version is not None else "s3:GetObjectAttributes",
    )
    stored = found.object
    attributes = ObjectAttributesPart(
        etag=stored.etag if "ETag" in requested else None,
        checksum=stored.checksum if "Checksum" in requested else None,
        parts=_parts(found, marker, limit) if "ObjectParts" in requested else None,
        storage_class="STANDARD" if "StorageClass" in requested else None,
        size=stored.size if "ObjectSize" in requested else None,
    )
    services.read_events.emit("ObjectAccessed:Attributes", found.bucket, stored, request.caller)
    response = xml_response(write_attributes(attributes))
    response.headers.append(("Last-Modified", http_time(stored.modified_ms)))
    if found.bucket.keeps_versions:
        response.headers.append(("x-amz-version-id", stored.version))
    return response


def _requested_attributes(request: S3Request) -> set[str]:
    text = request.headers.get("x-amz-object-attributes", "")
    names = {name.strip() for name in text.split(",") if name.strip()}
    if not names:
        raise AwsFault(
            400,
            "InvalidRequest",
            "The x-amz-object-attributes header specifying the attributes to be retrieved is either missing or empty",
        )
    if names - _KNOWN:
        raise AwsFault(400, "InvalidArgument", "Invalid attribute name specified.")
    return names


def _number(request: S3Request, name: str, default: int) -> int:
    text = request.headers.get(name)
    if text is None:
        return default
    number = whole_number(text)
    if number is None:
        raise AwsFault(400, "InvalidArgument", f"{name} is not a number", ArgumentName=name, ArgumentValue=text[:100])
    return number


def _parts(found: FoundObject, marker: int, limit: int) -> AttributeParts | None:
    count = found.object.attributes.part_count
    if not count or found.source is None:
        return None
    limit = min(limit, MAX_PAGE)
    numbered = [(extent.part, extent) for extent in found.source.extents if extent.part > marker]
    page = numbered[:limit]
    rows = [ObjectPart(number, extent.size, unpack_checksum(extent.checksum)) for number, extent in page]
    return AttributeParts(count, marker, limit, len(numbered) > limit, rows)
