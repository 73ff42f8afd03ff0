"""Bucket settings. One table defines those that are documents with GET, PUT and DELETE."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4

import msgspec

from lakebed.core.errors import InvalidBucketState, InvalidPolicy, NoSuchConfiguration
from lakebed.objects.buckets.bucket import Bucket, BucketSettings
from lakebed.objects.config.lifecycle import LifecycleConfiguration
from lakebed.objects.config.ownership import ObjectOwnership, Payer, check_ownership, check_payer
from lakebed.objects.config.tagging import NO_TAGS
from lakebed.objects.config.versioning import Versioning
from lakebed.wire.aws.errors import AwsFault
from lakebed.wire.http.message import Response

from ..documents import access, buckets, cors, lifecycle, tagging
from ..documents.buckets import read_versioning, write_versioning
from ..documents.notification import read_notification, write_notification
from ..errors import method_not_allowed
from ..payload import read_document, read_parsed
from ..policy_errors import policy_problem
from ..request import S3Request
from ..services import S3Services
from .listings import xml_response

Handler = Callable[[S3Services, S3Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class BucketSetting:
    """A bucket setting that is a document. Any: each has its own type, which `read` and `write` share."""

    subresource: str
    operation: str
    field: str
    kind: str
    read: Callable[[bytes], Any]
    write: Callable[[Any], bytes]
    cleared: Any = None
    action: str = ""
    """The noun of the permissions, such as `BucketCORS` in `s3:GetBucketCORS`."""
    put_status: int = 200
    check: Callable[[Bucket, Any], None] | None = None
    """Raises an error if the value is not allowed on the bucket."""

    async def get(self, services: S3Services, request: S3Request) -> Response:
        """Read the setting. Raises NoSuchConfiguration."""
        bucket = await services.buckets.read(request.caller, request.bucket, f"s3:Get{self.action}")
        value = getattr(bucket.settings, self.field)
        if value is None or value == self.cleared:
            raise NoSuchConfiguration(self.kind)
        return xml_response(self.write(value))

    async def put(self, services: S3Services, request: S3Request) -> Response:
        """Replace the setting."""
        # Authorization fails before the document is read.
        await services.buckets.read(request.caller, request.bucket, f"s3:Put{self.action}")
        value = await read_parsed(request, self.read)

        def change(bucket: Bucket) -> BucketSettings:
            if self.check is not None:
                self.check(bucket, value)
            return msgspec.structs.replace(bucket.settings, **{self.field: value})

        await services.buckets.change(request.caller, request.bucket, f"s3:Put{self.action}", change)
        return Response(self.put_status)

    async def delete(self, services: S3Services, request: S3Request) -> Response:
        """Remove the setting; succeeds if it is not set."""
        await services.buckets.set(request.caller, request.bucket, f"s3:Put{self.action}", **{self.field: self.cleared})
        return Response(204)


def _new_rule_id() -> str:
    return uuid4().hex


def _check_lifecycle(bucket: Bucket, configuration: LifecycleConfiguration) -> None:
    """Reject expiration in table buckets, where it never runs: a file's age does not show whether a table uses it."""
    if bucket.holds_tables and configuration.expires_objects:
        raise AwsFault(
            405,
            "MethodNotAllowed",
            "Lifecycle rules that expire objects are not allowed against a table bucket: table maintenance removes"
            " unreferenced files. Rules that abort uploads are allowed.",
            Method="PUT",
            ResourceType="LIFECYCLE",
        )


def _read_ownership(body: bytes) -> ObjectOwnership:
    ownership = access.read_ownership(body)
    check_ownership(ownership)
    return ownership


_SETTINGS: Final = (
    BucketSetting(
        "lifecycle",
        "BucketLifecycleConfiguration",
        "lifecycle",
        "lifecycle",
        lambda body: lifecycle.read_lifecycle(body, _new_rule_id),
        lifecycle.write_lifecycle,
        action="LifecycleConfiguration",
        check=_check_lifecycle,
    ),
    BucketSetting("cors", "BucketCors", "cors", "cors", cors.read_cors, cors.write_cors, action="BucketCORS"),
    BucketSetting(
        "tagging",
        "BucketTagging",
        "tags",
        "tags",
        tagging.read_bucket_tagging,
        tagging.write_tagging,
        cleared=NO_TAGS,
        action="BucketTagging",
        put_status=204,
    ),
    BucketSetting(
        "encryption",
        "BucketEncryption",
        "encryption",
        "encryption",
        buckets.read_encryption,
        buckets.write_encryption,
        action="EncryptionConfiguration",
    ),
    BucketSetting(
        "publicAccessBlock",
        "PublicAccessBlock",
        "public_access_block",
        "public-access-block",
        access.read_public_access_block,
        access.write_public_access_block,
        action="BucketPublicAccessBlock",
    ),
    BucketSetting(
        "ownershipControls",
        "BucketOwnershipControls",
        "ownership",
        "ownership",
        _read_ownership,
        access.write_ownership,
        action="BucketOwnershipControls",
    ),
)


async def get_policy(services: S3Services, request: S3Request) -> Response:
    """GetBucketPolicy: the unchanged document."""
    bucket = await services.buckets.read(request.caller, request.bucket, "s3:GetBucketPolicy")
    _require_own_account(request, bucket)
    if bucket.settings.policy is None:
        raise NoSuchConfiguration("policy")
    return Response(200, [("Content-Type", "application/json")], bucket.settings.policy)


async def put_policy(services: S3Services, request: S3Request) -> Response:
    """PutBucketPolicy. Public policies are rejected if the bucket blocks them."""
    bucket = await services.buckets.read(request.caller, request.bucket, "s3:PutBucketPolicy")
    _require_own_account(request, bucket)
    document = await read_document(request.http, request.authenticated)
    if not document:
        raise AwsFault(400, "MissingRequestBodyError", "Request Body is empty")

    def change(bucket: Bucket) -> BucketSettings:
        _require_own_account(request, bucket)
        services.policies.check_bucket_policy(document, bucket.name, _table_arn(bucket))
        block = bucket.settings.public_access_block
        if block is not None and block.block_public_policy and services.policies.is_public(document):
            raise AwsFault(
                403, "AccessDenied", "Access Denied: public policies are blocked by the PublicAccessBlock setting."
            )
        return msgspec.structs.replace(bucket.settings, policy=document)

    table_bucket = _table_arn(bucket)
    try:
        # Checking a long policy takes long. The check inside the transaction uses the cached result of this one.
        await asyncio.to_thread(services.policies.check_bucket_policy, document, bucket.name, table_bucket)
        await services.buckets.change(request.caller, request.bucket, "s3:PutBucketPolicy", change)
    except InvalidPolicy as error:
        problem = await asyncio.to_thread(policy_problem, services.policies, document, request.bucket, table_bucket)
        raise AwsFault(400, "MalformedPolicy", problem or str(error)) from error
    return Response(204)


async def delete_policy(services: S3Services, request: S3Request) -> Response:
    """DeleteBucketPolicy."""

    def change(bucket: Bucket) -> BucketSettings:
        _require_own_account(request, bucket)
        return msgspec.structs.replace(bucket.settings, policy=None)

    await services.buckets.change(request.caller, request.bucket, "s3:DeleteBucketPolicy", change)
    return Response(204)


def _table_arn(bucket: Bucket) -> str:
    """The S3 Tables ARN that the policy of a table bucket may also name; empty for other buckets."""
    return bucket.table_arn if bucket.holds_tables else ""


def _require_own_account(request: S3Request, bucket: Bucket) -> None:
    """Require the owner's account: a policy cannot permit other accounts to read or change itself."""
    if request.caller.principal.account != bucket.owner:
        raise method_not_allowed(request.http.method, "BUCKETPOLICY")


async def get_policy_status(services: S3Services, request: S3Request) -> Response:
    """GetBucketPolicyStatus: whether the policy is public."""
    bucket = await services.buckets.read(request.caller, request.bucket, "s3:GetBucketPolicyStatus")
    if bucket.settings.policy is None:
        raise NoSuchConfiguration("policy")
    return xml_response(access.write_policy_status(services.policies.is_public(bucket.settings.policy)))


async def get_request_payment(services: S3Services, request: S3Request) -> Response:
    """GetBucketRequestPayment: always the bucket owner."""
    await services.buckets.read(request.caller, request.bucket, "s3:GetBucketRequestPayment")
    return xml_response(access.write_request_payment(Payer.BUCKET_OWNER))


async def put_request_payment(services: S3Services, request: S3Request) -> Response:
    """PutBucketRequestPayment: only the bucket owner is accepted."""
    await services.buckets.read(request.caller, request.bucket, "s3:PutBucketRequestPayment")
    check_payer(await read_parsed(request, access.read_request_payment))
    return Response(200)


async def get_accelerate(services: S3Services, request: S3Request) -> Response:
    """GetBucketAccelerateConfiguration: never set."""
    await services.buckets.read(request.caller, request.bucket, "s3:GetAccelerateConfiguration")
    return xml_response(access.write_no_accelerate())


async def get_logging(services: S3Services, request: S3Request) -> Response:
    """GetBucketLogging: never set."""
    await services.buckets.read(request.caller, request.bucket, "s3:GetBucketLogging")
    return xml_response(access.write_no_logging())


async def put_logging(services: S3Services, request: S3Request) -> Response:
    """PutBucketLogging: disabling succeeds; enabling is not supported."""
    await services.buckets.read(request.caller, request.bucket, "s3:PutBucketLogging")
    await read_parsed(request, access.read_logging)
    return Response(200)


_SKIP: Final = "x-amz-skip-destination-validation"


async def get_notification(services: S3Services, request: S3Request) -> Response:
    """GetBucketNotificationConfiguration; an empty document without rules."""
    return xml_response(write_notification(await services.notifications.read(request.caller, request.bucket)))


async def put_notification(services: S3Services, request: S3Request) -> Response:
    """PutBucketNotificationConfiguration."""
    # Authorization fails before the document is read.
    await services.notifications.authorize(request.caller, request.bucket)
    configuration = await read_parsed(request, lambda body: read_notification(body, _new_rule_id))
    await services.notifications.put(
        request.caller,
        request.bucket,
        configuration,
        checks_targets=request.headers.get(_SKIP, "").lower() != "true",
    )
    return Response(200)


async def get_versioning(services: S3Services, request: S3Request) -> Response:
    """GetBucketVersioning."""
    bucket = await services.buckets.read(request.caller, request.bucket, "s3:GetBucketVersioning")
    return xml_response(write_versioning(Versioning(bucket.versioning)))


async def put_versioning(services: S3Services, request: S3Request) -> Response:
    """PutBucketVersioning: enable or suspend."""
    if "x-amz-mfa" in request.headers:
        raise AwsFault(501, "NotImplemented", "MFA delete is not supported.")
    await services.buckets.read(request.caller, request.bucket, "s3:PutBucketVersioning")
    status = await read_parsed(request, read_versioning)
    try:
        await services.buckets.set_versioning(request.caller, request.bucket, status)
    except InvalidBucketState as error:
        raise AwsFault(
            409,
            "InvalidBucketState",
            "An Object Lock configuration is present on this bucket, so the versioning state cannot be changed.",
        ) from error
    return Response(200)


ROUTES: Final[dict[tuple[str, str], tuple[str, Handler]]] = {
    ("GET", "policy"): ("GetBucketPolicy", get_policy),
    ("PUT", "policy"): ("PutBucketPolicy", put_policy),
    ("DELETE", "policy"): ("DeleteBucketPolicy", delete_policy),
    ("GET", "policyStatus"): ("GetBucketPolicyStatus", get_policy_status),
    ("GET", "requestPayment"): ("GetBucketRequestPayment", get_request_payment),
    ("PUT", "requestPayment"): ("PutBucketRequestPayment", put_request_payment),
    ("GET", "accelerate"): ("GetBucketAccelerateConfiguration", get_accelerate),
    ("GET", "versioning"): ("GetBucketVersioning", get_versioning),
    ("PUT", "versioning"): ("PutBucketVersioning", put_versioning),
    ("GET", "notification"): ("GetBucketNotificationConfiguration", get_notification),
    ("PUT", "notification"): ("PutBucketNotificationConfiguration", put_notification),
    ("GET", "logging"): ("GetBucketLogging", get_logging),
    ("PUT", "logging"): ("PutBucketLogging", put_logging),
}
for _setting in _SETTINGS:
    ROUTES["GET", _setting.subresource] = (f"Get{_setting.operation}", _setting.get)
    ROUTES["PUT", _setting.subresource] = (f"Put{_setting.operation}", _setting.put)
    ROUTES["DELETE", _setting.subresource] = (f"Delete{_setting.operation}", _setting.delete)
