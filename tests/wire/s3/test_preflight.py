from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import urllib3

from lakebed.core.access import Credential, root_of
from lakebed.core.clock import ManualClock
from lakebed.core.errors import Unauthenticated
from lakebed.governance.authorizer import PolicyAuthorizer
from lakebed.meta.outbox import Outbox
from lakebed.objects.blobs.contents import Contents, MissingBlobs
from lakebed.objects.blobs.encryption import KeyRing
from lakebed.objects.blobs.garbage_collection import BlobGarbageCollector
from lakebed.objects.blobs.ingest import Ingester
from lakebed.objects.config.cors import CorsConfiguration, CorsRule
from lakebed.objects.context import ObjectContext
from lakebed.objects.model import Caller
from lakebed.storage.memory import MemoryStorage
from lakebed.wire.aws.authentication import SignatureAuthenticator
from lakebed.wire.aws.errors import AwsFault
from lakebed.wire.http.body import RequestBody
from lakebed.wire.http.message import Request
from lakebed.wire.s3.handlers.cors import cors_headers, preflight_response
from lakebed.wire.s3.services import S3Services
from tests.clients.boto import connected
from tests.fixtures.server import RunningServer
from tests.meta.stores import open_migrated_file
from tests.storage.ownership import ClaimedAtFirstUse

RULES = CorsConfiguration(
    (
        CorsRule(
            origins=("https://app.example",),
            methods=("PUT", "DELETE"),
            headers=("x-amz-*",),
            exposed_headers=("ETag",),
            max_age_seconds=60,
        ),
        CorsRule(origins=("*",), methods=("GET",)),
    )
)
VARY = ("Vary", "Origin, Access-Control-Request-Headers, Access-Control-Request-Method")
ANY_ORIGIN = [("Access-Control-Allow-Origin", "*"), ("Access-Control-Allow-Methods", "GET"), VARY]


class NoCredentials:
    """Knows no access keys: browsers send preflight requests unsigned."""

    async def credential(self, access_key_id: str, session_token: str | None = None) -> Credential:
        raise Unauthenticated(f"no such key. key={access_key_id}")


@pytest.fixture
async def services(tmp_path: Path) -> AsyncIterator[S3Services]:
    """The real services, with one bucket with CORS rules and one without."""
    clock = ManualClock()
    meta = await open_migrated_file(tmp_path / "meta.db")
    storage = MemoryStorage(clock)
    keys = KeyRing({"k": bytes(32)}, "k")
    authorizer = PolicyAuthorizer(clock)
    object_context = ObjectContext(
        meta=meta,
        outbox=Outbox(meta),
        storage=storage,
        ingester=Ingester(storage, keys, clock, inline_max_bytes=1024),
        contents=Contents(storage, keys, MissingBlobs(meta).explain),
        authorizer=authorizer,
        clock=clock,
        garbage_collector=BlobGarbageCollector(meta, storage, ClaimedAtFirstUse(storage), clock, grace_ms=0),
    )
    made = S3Services.on(
        object_context, SignatureAuthenticator(NoCredentials(), clock), policies=authorizer, lifecycle_day_ms=86_400_000
    )
    root = Caller(root_of("000000000000"))
    await made.buckets.create(root, "open")
    await made.buckets.set(root, "open", "s3:PutBucketCORS", cors=RULES)
    await made.buckets.create(root, "closed")
    yield made
    await meta.close()


def request(method: str = "OPTIONS", /, **headers: str) -> Request:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Request(method, "/open/key", "", named, RequestBody(0), "http", "127.0.0.1", "id")


async def fault_of(services: S3Services, preflight: Request, bucket: str = "open") -> AwsFault:
    with pytest.raises(AwsFault) as caught:
        await preflight_response(services, preflight, bucket)
    return caught.value


async def test_allowed_preflight_gets_the_headers_of_its_rule(services: S3Services) -> None:
    preflight = request(
        origin="https://app.example",
        access_control_request_method="PUT",
        access_control_request_headers="X-Amz-Date, x-amz-meta-a",
    )
    response = await preflight_response(services, preflight, "open")
    assert response.status == 200
    assert response.headers == [
        ("Access-Control-Allow-Origin", "https://app.example"),
        ("Access-Control-Allow-Methods", "PUT, DELETE"),
        ("Access-Control-Allow-Headers", "X-Amz-Date, x-amz-meta-a"),
        ("Access-Control-Expose-Headers", "ETag"),
        ("Access-Control-Max-Age", "60"),
        ("Access-Control-Allow-Credentials", "true"),
        VARY,
    ]


async def test_rule_for_all_origins_allows_any_origin(services: S3Services) -> None:
    preflight = request(origin="https://any.example", access_control_request_method="GET")
    assert (await preflight_response(services, preflight, "open")).headers == ANY_ORIGIN


@pytest.mark.parametrize(
    "preflight",
    [
        request(),
        request(access_control_request_method="GET"),
        request(origin="https://app.example"),
        request(origin="", access_control_request_method="GET"),
    ],
)
async def test_preflight_without_origin_or_method_is_a_bad_request(services: S3Services, preflight: Request) -> None:
    fault = await fault_of(services, preflight)
    assert (fault.status, fault.code) == (400, "BadRequest")
    assert str(fault).startswith("Insufficient information.")


@pytest.mark.parametrize(
    ("preflight", "message"),
    [
        (
            request(origin="https://app.example", access_control_request_method="PATCH"),
            "Invalid Access-Control-Request-Method: PATCH",
        ),
        (
            request(
                origin="https://app.example",
                access_control_request_method="PUT",
                access_control_request_headers="x-amz-date,x amz",
            ),
            'Access-Control-Request-Headers "x amz" contains invalid character.',
        ),
    ],
)
async def test_preflight_with_an_invalid_method_or_header_is_a_bad_request(
    services: S3Services, preflight: Request, message: str
) -> None:
    fault = await fault_of(services, preflight)
    assert (fault.status, fault.code, str(fault)) == (400, "BadRequest", message)


@pytest.mark.parametrize(
    "preflight",
    [
        request(origin="https://other.example", access_control_request_method="PUT"),
        request(origin="https://app.example", access_control_request_method="POST"),
        request(
            origin="https://app.example", access_control_request_method="PUT", access_control_request_headers="x-other"
        ),
    ],
)
async def test_preflight_that_no_rule_allows_is_forbidden(services: S3Services, preflight: Request) -> None:
    fault = await fault_of(services, preflight)
    assert (fault.status, fault.code) == (403, "AccessForbidden")
    assert str(fault).startswith("CORSResponse: ")


async def test_missing_buckets_and_buckets_without_rules_get_the_same_error(services: S3Services) -> None:
    preflight = request(origin="https://app.example", access_control_request_method="GET")
    closed, missing = await fault_of(services, preflight, "closed"), await fault_of(services, preflight, "missing")
    assert (closed.status, closed.code) == (403, "AccessForbidden")
    assert (closed.status, closed.code, str(closed), closed.details) == (
        missing.status,
        missing.code,
        str(missing),
        missing.details,
    )


async def test_allowed_request_gets_cors_headers(services: S3Services) -> None:
    assert await cors_headers(services, request("GET", origin="https://any.example"), "open") == ANY_ORIGIN
    headers = dict(await cors_headers(services, request("DELETE", origin="https://app.example"), "open"))
    assert headers["Access-Control-Allow-Origin"] == "https://app.example"
    assert headers["Access-Control-Expose-Headers"] == "ETag"
    assert "Access-Control-Allow-Headers" not in headers


async def test_access_control_request_method_overrides_the_method(services: S3Services) -> None:
    preflight = request("PUT", origin="https://any.example", access_control_request_method="GET")
    assert await cors_headers(services, preflight, "open") == ANY_ORIGIN
    preflight = request("GET", origin="https://any.example", access_control_request_method="PUT")
    assert await cors_headers(services, preflight, "open") == []


@pytest.mark.parametrize(
    ("preflight", "bucket"),
    [
        (request("GET"), "open"),
        (request("PUT", origin="https://other.example"), "open"),
        (request("GET", origin="https://app.example"), "closed"),
        (request("GET", origin="https://app.example"), "missing"),
    ],
)
async def test_request_that_no_rule_allows_gets_no_cors_headers(
    services: S3Services, preflight: Request, bucket: str
) -> None:
    assert await cors_headers(services, preflight, bucket) == []


@pytest.mark.integration
def test_browser_sends_a_preflight_and_then_posts_across_origins(lakebed_server: RunningServer) -> None:
    bucket = f"cors-{uuid.uuid4().hex[:20]}"
    rule = {"AllowedOrigins": ["https://*.example"], "AllowedMethods": ["POST"], "AllowedHeaders": ["*"]}
    with connected(lakebed_server) as s3, urllib3.PoolManager(retries=False) as browser:
        s3.create_bucket(Bucket=bucket)
        s3.put_bucket_cors(Bucket=bucket, CORSConfiguration={"CORSRules": [rule]})
        form = s3.generate_presigned_post(bucket, "k")
        origin = {"origin": "https://app.example"}
        requested = {**origin, "access-control-request-method": "POST", "access-control-request-headers": "x-a"}
        preflight = browser.request("OPTIONS", form["url"], headers=requested)
        assert (preflight.status, preflight.data) == (200, b"")
        assert preflight.headers["Access-Control-Allow-Headers"] == "x-a"
        fields = {**form["fields"], "file": ("a.txt", b"x")}
        posted = browser.request("POST", form["url"], fields=fields, headers=origin)
        assert posted.status == 204
        assert posted.headers["Access-Control-Allow-Origin"] == "https://app.example"
        requested["access-control-request-method"] = "PUT"
        assert browser.request("OPTIONS", form["url"], headers=requested).status == 403
