"""Routing of requests to operations: those of S3's model, extensions, and unsupported ones."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import botocore.session
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.catalog.access.authorization import CatalogAuthorizer
from lakebed.catalog.catalogs.service import CatalogService
from lakebed.core.access import ANONYMOUS, Credential, CredentialResolver, Principal
from lakebed.core.clock import ManualClock
from lakebed.core.errors import Unauthenticated
from lakebed.governance.authorizer import PolicyAuthorizer
from lakebed.objects.model import Caller
from lakebed.wire.aws.authentication import Authenticated, SignatureAuthenticator
from lakebed.wire.aws.errors import AwsFault
from lakebed.wire.aws.request_target import S3Target
from lakebed.wire.http.body import RequestBody
from lakebed.wire.http.message import Request
from lakebed.wire.s3 import routes
from lakebed.wire.s3.app import S3Application
from lakebed.wire.s3.errors import CONFIGURATION_CODES
from lakebed.wire.s3.request import S3Request
from lakebed.wire.s3.routes import find_operation
from lakebed.wire.s3.services import S3Services
from lakebed.wire.s3.unsupported import UNSUPPORTED_BUCKET, UNSUPPORTED_OBJECT, UnsupportedS3Operation, inventory
from tests.objects.stores import DAY_MS, ROOT, opened_store

METHODS = ("GET", "HEAD", "PUT", "POST", "DELETE")


@dataclass(frozen=True, slots=True)
class Shape:
    """The parts of a request that determine its route."""

    method: str
    bucket: str = ""
    key: str = ""
    query: dict[str, str] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    principal: Principal = ROOT.principal

    def request(self) -> S3Request:
        raw_query = "&".join(f"{name}={value}" if value else name for name, value in self.query.items())
        http = Request(self.method, "/", raw_query, dict(self.headers), RequestBody(0), "http", "", "R1")
        principal = self.principal
        return S3Request(http, S3Target(self.bucket, self.key), Authenticated(principal), Caller(principal))


def outcome(shape: Shape) -> str:
    """The operation's name, or the status and code of the fault."""
    try:
        return find_operation(shape.request()).name
    except AwsFault as fault:
        return f"{fault.status} {fault.code}"


# -- S3's own model -------------------------------------------------------------------------------------------------

_MODEL = botocore.session.Session().get_service_model("s3")

RENAMED = {
    "DeleteBucketLifecycle": "DeleteBucketLifecycleConfiguration",
    "GetBucketLifecycle": "GetBucketLifecycleConfiguration",
    "PutBucketLifecycle": "PutBucketLifecycleConfiguration",
    "GetBucketNotification": "GetBucketNotificationConfiguration",
    "PutBucketNotification": "PutBucketNotificationConfiguration",
    # Only the endpoint distinguishes them, and directory buckets are not supported.
    "ListDirectoryBuckets": "ListBuckets",
}
UNSUPPORTED = {
    "CreateBucketMetadataConfiguration",
    "CreateBucketMetadataTableConfiguration",
    "CreateSession",
    "DeleteBucketAnalyticsConfiguration",
    "DeleteBucketIntelligentTieringConfiguration",
    "DeleteBucketInventoryConfiguration",
    "DeleteBucketMetadataConfiguration",
    "DeleteBucketMetadataTableConfiguration",
    "DeleteBucketMetricsConfiguration",
    "DeleteBucketReplication",
    "DeleteBucketWebsite",
    "DeleteObjectAnnotation",
    "GetBucketAbac",
    "GetBucketAnalyticsConfiguration",
    "GetBucketIntelligentTieringConfiguration",
    "GetBucketInventoryConfiguration",
    "GetBucketMetadataConfiguration",
    "GetBucketMetadataTableConfiguration",
    "GetBucketMetricsConfiguration",
    "GetObjectAnnotation",
    "GetObjectTorrent",
    "ListBucketAnalyticsConfigurations",
    "ListBucketIntelligentTieringConfigurations",
    "ListBucketInventoryConfigurations",
    "ListBucketMetricsConfigurations",
    "ListObjectAnnotations",
    "PutBucketAbac",
    "PutBucketAccelerateConfiguration",
    "PutBucketAnalyticsConfiguration",
    "PutBucketIntelligentTieringConfiguration",
    "PutBucketInventoryConfiguration",
    "PutBucketMetricsConfiguration",
    "PutBucketReplication",
    "PutBucketWebsite",
    "PutObjectAnnotation",
    "RenameObject",
    "RestoreObject",
    "UpdateBucketMetadataAnnotationTableConfiguration",
    "UpdateBucketMetadataInventoryTableConfiguration",
    "UpdateBucketMetadataJournalTableConfiguration",
    "UpdateObjectEncryption",
}
OTHER_ERRORS = {
    "GetBucketReplication": "404 ReplicationConfigurationNotFoundError",
    "GetBucketWebsite": "404 NoSuchWebsiteConfiguration",
    # Object Lambda, on a separate host.
    "WriteGetObjectResponse": "405 MethodNotAllowed",
}


def _modelled(name: str) -> Shape:
    """The minimal request of an operation in the model."""
    operation = _MODEL.operation_model(name)
    path, _, fixed = operation.http["requestUri"].partition("?")
    query = {pair.partition("=")[0]: pair.partition("=")[2] for pair in fixed.split("&") if pair}
    headers = {}
    shape = operation.input_shape
    for member in shape.required_members if shape is not None else ():
        place = shape.members[member].serialization
        if place.get("location") == "querystring":
            query[place["name"]] = "1"
        elif place.get("location") == "header":
            headers[place["name"].lower()] = "b/k"
    return Shape(
        operation.http["method"],
        "bucket" if "{Bucket}" in path else "",
        "key" if "{Key" in path else "",
        query,
        headers,
    )


@pytest.mark.parametrize("name", _MODEL.operation_names)
def test_every_operation_of_the_model_is_served_or_not_implemented(name: str) -> None:
    """Routing a new S3 operation to another one could delete or overwrite the object."""
    expected = "501 NotImplemented" if name in UNSUPPORTED else OTHER_ERRORS.get(name, RENAMED.get(name, name))
    assert outcome(_modelled(name)) == expected


# -- served operations ----------------------------------------------------------------------------------------------


def _tables() -> Iterator[tuple[Shape, str]]:
    for (method, subresource), operation in routes._SERVICE.items():
        yield Shape(method, query={subresource: ""} if subresource else {}), operation.name
    for (method, subresource), operation in routes._BUCKET.items():
        yield Shape(method, "bucket", "", {subresource: ""} if subresource else {}), operation.name
    for (method, subresource), operation in routes._OBJECT.items():
        *names, header = subresource.split(" ") if "x-amz-copy-source" in subresource else (subresource, "")
        query = {name: "1" for name in names if name}
        if "uploadId" in query and method == "PUT":
            query["partNumber"] = "1"
        yield Shape(method, "bucket", "key", query, {header: "b/k"} if header else {}), operation.name


@pytest.mark.parametrize(("shape", "name"), list(_tables()), ids=lambda value: value if isinstance(value, str) else "")
def test_every_operation_is_reachable(shape: Shape, name: str) -> None:
    assert outcome(shape) == name


def test_operation_names_are_unique() -> None:
    names = [name for _, name in _tables()]
    assert sorted(names) == sorted(set(names))


@pytest.mark.parametrize(
    ("shape", "name"),
    [
        (Shape("GET", "bucket", "key", {"versionId": "v"}), "GetObject"),
        (Shape("GET", "bucket", "key", {"partNumber": "1"}), "GetObject"),
        (Shape("GET", "bucket", "key", {"response-content-type": "x"}), "GetObject"),
        (Shape("DELETE", "bucket", "key", {"versionId": "v"}), "DeleteObject"),
        (Shape("GET", "bucket", "", {"prefix": "versions"}), "ListObjects"),
        (Shape("GET", "bucket", "", {"list-type": "2", "prefix": "uploads"}), "ListObjectsV2"),
        (Shape("GET", "bucket", "", {"prefix": "a", "versions": ""}), "ListObjectVersions"),
        (Shape("PUT", "bucket", "key", {"partNumber": "1", "uploadId": "u"}), "UploadPart"),
        (Shape("PUT", "bucket", "key", {"x-id": "PutObject"}), "PutObject"),
        (Shape("PUT", "bucket", "key", {"tagging": ""}, {"x-amz-copy-source": "b/k"}), "PutObjectTagging"),
    ],
)
def test_other_parameters_do_not_change_the_route(shape: Shape, name: str) -> None:
    assert outcome(shape) == name


@pytest.mark.parametrize(
    "shape",
    [
        Shape("PUT"),
        Shape("DELETE"),
        Shape("PATCH", "bucket"),
        Shape("POST", "bucket", "key"),
        Shape("POST", "bucket", "", {"versioning": ""}),
        Shape("DELETE", "bucket", "", {"versioning": ""}),
        Shape("DELETE", "bucket", "", {"acl": ""}),
        Shape("GET", "bucket", "", {"delete": ""}),
        Shape("DELETE", "bucket", "key", {"uploads": ""}),
        Shape("PUT", "bucket", "key", {"uploadId": "u"}),
    ],
)
def test_unsupported_method_of_a_resource_is_rejected(shape: Shape) -> None:
    assert outcome(shape) == "405 MethodNotAllowed"


_SUBRESOURCES = sorted(routes._BUCKET_SUBRESOURCES | routes._OBJECT_SUBRESOURCES | {"prefix", "partNumber"})


@given(
    method=st.sampled_from((*METHODS, "PATCH", "OPTIONS", "")),
    bucket=st.sampled_from(("", "bucket")),
    key=st.sampled_from(("", "key")),
    query=st.dictionaries(st.sampled_from(_SUBRESOURCES) | st.text("abc", min_size=1), st.just(""), max_size=3),
    copies=st.booleans(),
)
def test_any_request_gets_an_operation_or_a_fault(
    method: str, bucket: str, key: str, query: dict[str, str], copies: bool
) -> None:
    shape = Shape(method, bucket, key if bucket else "", query, {"x-amz-copy-source": "b/k"} if copies else {})
    known = {name for _, name in _tables()}
    assert outcome(shape) in known | {
        "400 InvalidArgument",
        "400 InvalidRequest",
        "404 NoSuchWebsiteConfiguration",
        "404 ReplicationConfigurationNotFoundError",
        "405 MethodNotAllowed",
        "501 NotImplemented",
    }


# -- unsupported operations -----------------------------------------------------------------------------------------

_UNSUPPORTED_SUBRESOURCES = [
    *(
        (scope, name, item)
        for scope, table in (("bucket", UNSUPPORTED_BUCKET), ("key", UNSUPPORTED_OBJECT))
        for name, item in table.items()
    )
]


@pytest.mark.parametrize(
    ("scope", "name", "item"), _UNSUPPORTED_SUBRESOURCES, ids=lambda value: value if isinstance(value, str) else ""
)
def test_unsupported_subresource_gets_the_error_of_the_inventory(
    scope: str, name: str, item: UnsupportedS3Operation
) -> None:
    listed = next(row[1] for row in inventory() if row[0] == item.feature)
    table = routes._BUCKET if scope == "bucket" else routes._OBJECT
    for method in METHODS:
        shape = Shape(method, "bucket", "key" if scope == "key" else "", {name: ""})
        if (method, name) in table:
            # Clients read these settings first; writing the default succeeds.
            assert listed == "200 with nothing set on read, 501 NotImplemented on write"
        elif method == "GET" and item.absent is not None:
            assert outcome(shape) == f"404 {CONFIGURATION_CODES[item.absent][0]}"
            assert listed == f"{outcome(shape)} on read, 501 NotImplemented on write"
        else:
            assert outcome(shape) == "501 NotImplemented"
            assert listed.endswith((outcome(shape), f"{outcome(shape)} on write"))


def test_anonymous_caller_does_not_learn_what_is_unsupported() -> None:
    assert outcome(Shape("GET", "bucket", "", {"inventory": ""}, principal=ANONYMOUS)) == "403 AccessDenied"


def test_inventory_names_every_feature_once() -> None:
    features = [row[0] for row in inventory()]
    assert sorted(features) == sorted(set(features))
    assert all(feature and listed for feature, listed, _ in inventory())


# -- unsupported features of served operations ----------------------------------------------------------------------


class _RootAuthenticator(SignatureAuthenticator):
    """Verifies requests with an Authorization header; authenticates others as root."""

    async def authenticate(self, request: Request) -> Authenticated:
        if "authorization" in request.headers:
            return await super().authenticate(request)
        return Authenticated(ROOT.principal)


def _document(name: str, inner: str) -> bytes:
    return f'<{name} xmlns="http://s3.amazonaws.com/doc/2006-03-01/">{inner}</{name}>'.encode()


_TRANSITION = _document(
    "LifecycleConfiguration",
    "<Rule><ID>r</ID><Status>Enabled</Status><Filter><Prefix></Prefix></Filter>"
    "<Transition><Days>1</Days><StorageClass>GLACIER</StorageClass></Transition></Rule>",
)
_EXPIRATION = _document(
    "LifecycleConfiguration",
    "<Rule><ID>r</ID><Status>Enabled</Status><Filter><Prefix></Prefix></Filter>"
    "<Expiration><Days>1</Days></Expiration></Rule>",
)
_MFA = _document("VersioningConfiguration", "<Status>Enabled</Status><MfaDelete>Enabled</MfaDelete>")
_REQUESTER = _document("RequestPaymentConfiguration", "<Payer>Requester</Payer>")

_CASES: dict[str, list[tuple[str, str, str, dict[str, str], bytes]]] = {
    "ACL grants and canned ACLs beyond private": [
        ("PUT", "/bucket/k", "", {"x-amz-acl": "public-read"}, b""),
        ("PUT", "/bucket/k", "", {"x-amz-grant-read": "id=1"}, b""),
        ("PUT", "/bucket/k", "acl", {"x-amz-acl": "public-read"}, b""),
        ("PUT", "/bucket", "acl", {"x-amz-acl": "public-read"}, b""),
    ],
    "Signature Version 2": [("GET", "/bucket/k", "", {"authorization": "AWS AKID:c2lnbmF0dXJl"}, b"")],
    "Signature Version 4A (multi-region)": [
        (
            "GET",
            "/bucket/k",
            "",
            {"authorization": "AWS4-ECDSA-P256-SHA256 Credential=A/20130524/s3/aws4_request"},
            b"",
        )
    ],
    "SSE-C (customer-provided keys)": [
        ("PUT", "/bucket/k", "", {"x-amz-server-side-encryption-customer-algorithm": "AES256"}, b"")
    ],
    "SSE-KMS": [("PUT", "/bucket/k", "", {"x-amz-server-side-encryption": "aws:kms"}, b"")],
    "Storage classes other than STANDARD": [("PUT", "/bucket/k", "", {"x-amz-storage-class": "GLACIER"}, b"")],
    "Lifecycle transitions": [("PUT", "/bucket", "lifecycle", {}, _TRANSITION)],
    "Lifecycle expiration in table buckets": [("PUT", "/tables", "lifecycle", {}, _EXPIRATION)],
    "Notifications to SNS topics, Lambda functions and EventBridge": [
        ("PUT", "/bucket", "notification", {}, _document("NotificationConfiguration", f"<{kind}/>"))
        for kind in ("TopicConfiguration", "CloudFunctionConfiguration", "EventBridgeConfiguration")
    ],
    "MFA delete": [("PUT", "/bucket", "versioning", {}, _MFA)],
    "Requester pays": [("PUT", "/bucket", "requestPayment", {}, _REQUESTER)],
    "Access points and object lambda": [
        ("PUT", "/bucket/k", "", {"x-amz-copy-source": "arn:aws:s3:us-east-1:1:accesspoint/a/object/k"}, b"")
    ],
}


def test_every_other_entry_of_the_inventory_has_a_case() -> None:
    subresources = {item.feature for _, _, item in _UNSUPPORTED_SUBRESOURCES}
    assert {row[0] for row in inventory()} - subresources == set(_CASES)


@pytest.mark.parametrize("feature", sorted(_CASES))
async def test_unsupported_feature_gets_the_error_of_the_inventory(feature: str, tmp_path: Path) -> None:
    listed = next(row[1] for row in inventory() if row[0] == feature)
    clock = ManualClock()
    async with opened_store(f"sqlite:{tmp_path / 'meta.db'}", "memory", tmp_path, clock) as store:
        await store.bucket("bucket")
        await store.put("bucket", "k", b"unchanged")
        await store.bucket("tables")
        await CatalogService(store.object_context, CatalogAuthorizer(store.object_context)).enable(ROOT, "tables")
        source: CredentialResolver = _NoCredentials()
        services = S3Services.on(
            store.object_context,
            _RootAuthenticator(source, clock),
            policies=PolicyAuthorizer(clock),
            lifecycle_day_ms=DAY_MS,
        )
        application = S3Application(services, None, clock=clock)  # type: ignore[arg-type]  # the tests request no tokens
        for method, path, query, headers, body in _CASES[feature]:
            received = RequestBody(len(body))
            if body:
                received.push(body)
                received.finish()
            sent = {"host": "localhost", "content-length": str(len(body)), **headers}
            request = Request(method, path, query, sent, received, "http", "127.0.0.1", "R1")
            response = await application(request)
            code = re.search(rb"<Code>(\w+)</Code>", response.body)
            assert code is not None, response.body
            assert f"{response.status} {code[1].decode()}" == listed
        assert await store.get("bucket", "k") == b"unchanged"


class _NoCredentials:
    async def credential(self, access_key_id: str, session_token: str | None = None) -> Credential:
        raise Unauthenticated(f"no such key. key={access_key_id}")
