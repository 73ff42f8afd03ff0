"""Object tags, and object lock: the bucket's configuration, retention and legal hold of versions."""

from __future__ import annotations

import msgspec

from lakebed.core.errors import InvalidBucketState, NoSuchConfiguration
from lakebed.core.json.parsing import parse_body
from lakebed.objects.buckets.bucket import Bucket, BucketSettings
from lakebed.objects.config.object_lock import LegalHold, check_retention_date
from lakebed.objects.config.tagging import NO_TAGS
from lakebed.objects.config.versioning import Versioning
from lakebed.objects.model import StoredObject
from lakebed.wire.aws.errors import AwsFault
from lakebed.wire.http.message import Headers, Response

from ..documents.object_lock import (
    read_legal_hold,
    read_object_lock,
    read_retention,
    write_legal_hold,
    write_object_lock,
    write_retention,
)
from ..documents.tagging import read_object_tagging, write_tagging
from ..payload import read_document, read_parsed
from ..request import S3Request
from ..services import S3Services
from .listings import xml_response


async def get_lock_configuration(services: S3Services, request: S3Request) -> Response:
    """GetObjectLockConfiguration."""
    bucket = await services.buckets.read(request.caller, request.bucket, "s3:GetBucketObjectLockConfiguration")
    if bucket.settings.object_lock is None:
        raise NoSuchConfiguration("object-lock")
    return xml_response(write_object_lock(bucket.settings.object_lock))


async def put_lock_configuration(services: S3Services, request: S3Request) -> Response:
    """PutObjectLockConfiguration: enable object lock on a versioned bucket, or change the default retention."""
    await services.buckets.read(request.caller, request.bucket, "s3:PutBucketObjectLockConfiguration")
    body = await read_document(request.http, request.authenticated)
    if not body:
        raise AwsFault(400, "MissingRequestBodyError", "Request Body is empty")
    config = await parse_body(read_object_lock, body)

    def change(bucket: Bucket) -> BucketSettings:
        if bucket.versioning != Versioning.ENABLED:
            raise InvalidBucketState("Versioning must be 'Enabled' on the bucket to apply a Object Lock configuration")
        return msgspec.structs.replace(bucket.settings, object_lock=config)

    await services.buckets.change(request.caller, request.bucket, "s3:PutBucketObjectLockConfiguration", change)
    return Response(200)


async def get_retention(services: S3Services, request: S3Request) -> Response:
    """GetObjectRetention."""
    retention = await services.tags_and_locks.retention(
        request.caller, request.bucket, request.key, request.annotated_version
    )
    return xml_response(write_retention(retention))


async def put_retention(services: S3Services, request: S3Request) -> Response:
    """PutObjectRetention."""
    await services.buckets.precheck(request.caller, request.bucket, "s3:PutObjectRetention", key=request.key)
    retention = await read_parsed(request, read_retention)
    if retention is not None:
        check_retention_date(retention, services.clock.now_ms())
    await services.tags_and_locks.set_retention(
        request.caller, request.bucket, request.key, request.annotated_version, retention
    )
    return Response(200)


async def get_legal_hold(services: S3Services, request: S3Request) -> Response:
    """GetObjectLegalHold."""
    on = await services.tags_and_locks.legal_hold(
        request.caller, request.bucket, request.key, request.annotated_version
    )
    return xml_response(write_legal_hold(LegalHold.ON if on else LegalHold.OFF))


async def put_legal_hold(services: S3Services, request: S3Request) -> Response:
    """PutObjectLegalHold."""
    await services.buckets.precheck(request.caller, request.bucket, "s3:PutObjectLegalHold", key=request.key)
    hold = await read_parsed(request, read_legal_hold)
    await services.tags_and_locks.set_legal_hold(
        request.caller, request.bucket, request.key, request.annotated_version, hold is LegalHold.ON
    )
    return Response(200)


async def get_object_tagging(services: S3Services, request: S3Request) -> Response:
    """GetObjectTagging."""
    bucket, found = await services.tags_and_locks.tags(request.caller, request.bucket, request.key, request.version)
    response = xml_response(write_tagging(found.attributes.tags))
    response.headers += _version_headers(bucket, found)
    return response


async def put_object_tagging(services: S3Services, request: S3Request) -> Response:
    """PutObjectTagging."""
    # An empty set removes the tags, which requires another permission.
    verbs = ("Put", "Delete")
    actions = (f"s3:{verb}Object{'' if request.version is None else 'Version'}Tagging" for verb in verbs)
    await services.buckets.precheck(request.caller, request.bucket, *actions, key=request.key)
    tags = await read_parsed(request, read_object_tagging)
    bucket, found = await services.tags_and_locks.set_tags(
        request.caller, request.bucket, request.key, request.version, tags
    )
    return Response(200, _version_headers(bucket, found))


async def delete_object_tagging(services: S3Services, request: S3Request) -> Response:
    """DeleteObjectTagging."""
    bucket, found = await services.tags_and_locks.set_tags(
        request.caller, request.bucket, request.key, request.version, NO_TAGS
    )
    return Response(204, _version_headers(bucket, found))


def _version_headers(bucket: Bucket, found: StoredObject) -> Headers:
    return [("x-amz-version-id", found.version)] if bucket.keeps_versions else []
