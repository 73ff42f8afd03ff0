"""CreateBucket, HeadBucket, DeleteBucket, GetBucketLocation, and ACL requests of owner-enforced buckets."""

from __future__ import annotations

from lakebed.core.errors import BucketAlreadyOwned, BucketHasTables, BucketNotEmpty, InvalidName
from lakebed.objects.config.ownership import ObjectOwnership, check_ownership
from lakebed.objects.model import StoredObject
from lakebed.objects.names import check_bucket_name
from lakebed.wire.aws.errors import AwsFault
from lakebed.wire.http.message import Response

from ..documents.access import write_access_control_policy
from ..documents.buckets import read_bucket_creation, write_location
from ..object_headers import acl_fault, reject_unsupported
from ..payload import read_document, read_parsed
from ..request import S3Request
from ..services import S3Services
from .listings import owner_of, xml_response


async def create_bucket(services: S3Services, request: S3Request) -> Response:
    """CreateBucket."""
    reject_unsupported(request)
    ownership = request.headers.get("x-amz-object-ownership")
    if ownership is not None:
        _check_ownership(ownership)
    services.buckets.precheck_creation(request.caller, request.bucket)
    creation = await read_parsed(request, lambda body: read_bucket_creation(body) if body else None)
    if creation is not None and creation.location is not None:
        wanted = "us-east-1" if creation.location in ("", "US") else creation.location
        if wanted != services.region and creation.location != "EU":
            raise AwsFault(
                400,
                "IllegalLocationConstraintException",
                f"The {creation.location} location constraint is incompatible for the region specific endpoint this"
                " request was sent to.",
            )
    lock = request.headers.get("x-amz-bucket-object-lock-enabled", "").lower() == "true"
    try:
        await services.buckets.create(
            request.caller,
            request.bucket,
            object_lock=lock,
            tags=creation.tags if creation is not None else None,
            location=creation.location if creation is not None else None,
        )
    except InvalidName as error:
        raise _invalid_name(request.bucket, error) from error
    except BucketAlreadyOwned:
        # As in AWS: success in us-east-1 if the caller already owns it, a conflict in other regions.
        if services.region != "us-east-1":
            raise
    return Response(200, [("Location", f"/{request.bucket}"), ("x-amz-bucket-arn", f"arn:aws:s3:::{request.bucket}")])


def _invalid_name(bucket: str, error: InvalidName) -> AwsFault:
    """The error for an invalid name: S3's exact message if S3 rejects the name too, because clients compare it."""
    message = "The specified bucket is not valid."
    try:
        check_bucket_name(bucket)
    except InvalidName:
        return AwsFault(400, "InvalidBucketName", message, BucketName=bucket, Reason=str(error))
    return AwsFault(400, "InvalidBucketName", f"{message[:-1]}: {error}", BucketName=bucket, Reason=str(error))


def _check_ownership(stated: str) -> None:
    try:
        check_ownership(ObjectOwnership(stated))
    except ValueError as error:
        raise AwsFault(
            400,
            "InvalidArgument",
            f"Invalid x-amz-object-ownership header: {stated[:100]}",
            ArgumentName="x-amz-object-ownership",
        ) from error


async def head_bucket(services: S3Services, request: S3Request) -> Response:
    """HeadBucket."""
    bucket = await services.buckets.head(request.caller, request.bucket)
    return Response(200, [("x-amz-bucket-region", bucket.region), ("Content-Type", "application/xml")])


async def delete_bucket(services: S3Services, request: S3Request) -> Response:
    """DeleteBucket."""
    try:
        await services.buckets.delete(request.caller, request.bucket)
    except BucketHasTables as error:
        message = f"The bucket you tried to delete is not empty: {error}"
        raise AwsFault(409, "BucketNotEmpty", message, BucketName=request.bucket) from error
    except BucketNotEmpty as error:
        bucket = await services.buckets.find(request.bucket)
        advice = " You must delete all versions in the bucket." if bucket.keeps_versions else ""
        raise AwsFault(
            409,
            "BucketNotEmpty",
            f"The bucket you tried to delete is not empty.{advice}",
            BucketName=request.bucket,
        ) from error
    return Response(204)


async def get_location(services: S3Services, request: S3Request) -> Response:
    """GetBucketLocation."""
    bucket = await services.buckets.read(request.caller, request.bucket, "s3:GetBucketLocation")
    return xml_response(write_location(bucket.region))


async def get_bucket_acl(services: S3Services, request: S3Request) -> Response:
    """GetBucketAcl: full control for the owner."""
    bucket = await services.buckets.read(request.caller, request.bucket, "s3:GetBucketAcl")
    return xml_response(write_access_control_policy(owner_of(bucket.owner)))


async def get_object_acl(services: S3Services, request: S3Request) -> Response:
    """GetObjectAcl: full control for the bucket's owner."""
    bucket, _ = await services.reader.find(
        request.caller, request.bucket, request.key, request.version, "s3:GetObjectAcl", "s3:GetObjectVersionAcl"
    )
    return xml_response(write_access_control_policy(owner_of(bucket.owner)))


async def put_acl(services: S3Services, request: S3Request) -> Response:
    """PutBucketAcl and PutObjectAcl: succeed for the ACL that the bucket already has; others are not supported."""
    found: StoredObject | None = None
    if request.key:
        bucket, found = await services.reader.find(
            request.caller, request.bucket, request.key, request.version, "s3:PutObjectAcl", "s3:PutObjectVersionAcl"
        )
    else:
        bucket = await services.buckets.read(request.caller, request.bucket, "s3:PutBucketAcl")
    await read_document(request.http, request.authenticated)
    reject_unsupported(request)
    if request.headers.get("x-amz-acl") is None:
        raise acl_fault()
    if found is not None:
        services.read_events.emit("ObjectAcl:Put", bucket, found, request.caller)
    return Response(200)
