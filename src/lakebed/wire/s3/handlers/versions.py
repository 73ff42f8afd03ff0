"""GetBucketVersioning, PutBucketVersioning."""

from __future__ import annotations

from lakebed.core.errors import InvalidBucketState
from lakebed.objects.config.versioning import Versioning
from lakebed.wire.aws.errors import AwsFault
from lakebed.wire.http.message import Response

from ..documents.buckets import read_versioning, write_versioning
from ..payload import read_parsed
from ..request import S3Request
from ..services import S3Services
from .listings import xml_response


async def get_versioning(services: S3Services, request: S3Request) -> Response:
    """Whether versions are kept."""
    bucket = await services.buckets.read(request.caller, request.bucket, "s3:GetBucketVersioning")
    return xml_response(write_versioning(Versioning(bucket.versioning)))


async def put_versioning(services: S3Services, request: S3Request) -> Response:
    """Enable or suspend versioning."""
    if "x-amz-mfa" in request.headers:
        raise AwsFault(501, "NotImplemented", "MFA delete is not supported.")
    await services.buckets.read(request.caller, request.bucket, "s3:PutBucketVersioning")
    status = await read_parsed(request.http, request.who, read_versioning)
    try:
        await services.buckets.set_versioning(request.caller, request.bucket, status)
    except InvalidBucketState as error:
        raise AwsFault(
            409,
            "InvalidBucketState",
            "An Object Lock configuration is present on this bucket, so the versioning state cannot be changed.",
        ) from error
    return Response(200)
