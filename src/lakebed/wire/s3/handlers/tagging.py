"""Tags of objects."""

from __future__ import annotations

from lakebed.objects.buckets.bucket import Bucket
from lakebed.objects.config.tagging import NO_TAGS
from lakebed.objects.model import StoredObject
from lakebed.wire.http.message import Headers, Response

from ..documents.tagging import read_object_tagging, write_tagging
from ..payload import read_parsed
from ..request import S3Request
from ..services import S3Services
from .listings import xml_response


async def get_object_tagging(services: S3Services, request: S3Request) -> Response:
    """The tags of a version."""
    bucket, found = await services.annotations.tags(request.caller, request.bucket, request.key, request.version)
    response = xml_response(write_tagging(found.attributes.tags))
    response.headers += _version_headers(bucket, found)
    return response


async def put_object_tagging(services: S3Services, request: S3Request) -> Response:
    """Replace the tags of a version."""
    # An empty set removes the tags, which is another permission.
    verbs = ("Put", "Delete")
    actions = (f"s3:{verb}Object{'' if request.version is None else 'Version'}Tagging" for verb in verbs)
    await services.buckets.precheck(request.caller, request.bucket, *actions, key=request.key)
    tags = await read_parsed(request.http, request.who, read_object_tagging)
    bucket, found = await services.annotations.set_tags(
        request.caller, request.bucket, request.key, request.version, tags
    )
    return Response(200, _version_headers(bucket, found))


async def delete_object_tagging(services: S3Services, request: S3Request) -> Response:
    """Remove the tags of a version."""
    bucket, found = await services.annotations.set_tags(
        request.caller, request.bucket, request.key, request.version, NO_TAGS
    )
    return Response(204, _version_headers(bucket, found))


def _version_headers(bucket: Bucket, found: StoredObject) -> Headers:
    return [("x-amz-version-id", found.version)] if bucket.keeps_versions else []
