"""Authentication and authorization precede the body: bodies of anonymous callers are neither read nor parsed.

Each request sends `Expect: 100-continue`. The server sends 100 Continue when it starts to read the body, so a final
response without it shows that the body was not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import pytest

from lakebed.wire.admin.operations import BASE as ADMIN
from lakebed.wire.admin.operations import admin_mount
from lakebed.wire.iceberg.operations import catalog_routes
from lakebed.wire.json.routing import CATALOG_BASES
from lakebed.wire.management.operations import BASE as MANAGEMENT
from lakebed.wire.management.operations import management_mount
from lakebed.wire.oauth.app import TOKEN_PATHS
from lakebed.wire.polaris.operations import polaris_routes
from lakebed.wire.s3 import routes as s3_routes
from tests.fixtures.raw_http import Connection, RawResponse, Signer, request_bytes
from tests.fixtures.server import RunningServer

pytestmark = [pytest.mark.integration, pytest.mark.slow]

BUCKET: Final = "bodies-unread"
MISSING: Final = "bodies-unread-absent"
_READS_THE_FORM_FIRST: Final = "PostObject"
"""The only operation of S3 whose body authenticates the caller: up to 20 KiB of it are read before."""

_MORE: Final = {"uploadId": "=x&partNumber=1", "select": "&select-type=2"}
"""Parameters that a subresource requires before the body is read."""


def _filled(path: str) -> str:
    return re.sub(r"\{[^}]+\}", "x", path)


def _s3() -> Iterator[tuple[str, str, str]]:
    for (method, subresource), operation in s3_routes._SERVICE.items():
        yield operation.name, method, f"/?{subresource}"
    for table, place in ((s3_routes._BUCKET, ""), (s3_routes._OBJECT, "/key")):
        for bucket in (BUCKET, MISSING):
            for (method, subresource), operation in table.items():
                if operation.name != _READS_THE_FORM_FIRST:
                    name = subresource.split(" ")[0]
                    query = f"?{name}{_MORE.get(name, '')}" if name and name != "x-amz-copy-source" else ""
                    yield f"{operation.name} {bucket}", method, f"/{bucket}{place}{query}"
    yield "SecurityToken", "POST", "/"


def _catalogs() -> Iterator[tuple[str, str, str]]:
    for route in catalog_routes().routes:
        yield route.name, route.method, CATALOG_BASES[0] + _filled(route.path)
    for policy in polaris_routes().routes:
        yield policy.name, policy.method, _filled(policy.path)
    for admin in admin_mount().routes.routes:
        yield admin.name, admin.method, ADMIN + _filled(admin.path)
    for managed in management_mount().routes.routes:
        yield managed.name, managed.method, MANAGEMENT + _filled(managed.path)


S3_ROUTES: Final = sorted(set(_s3()))
CATALOG_ROUTES: Final = sorted(set(_catalogs()))


@pytest.fixture(scope="module")
def port(lakebed_server: RunningServer) -> int:
    signer = Signer(f"127.0.0.1:{lakebed_server.port}")
    with Connection(lakebed_server.port) as connection:
        assert connection.exchange(signer.request("PUT", f"/{BUCKET}")).status == 200
    return lakebed_server.port


def first_response(port: int, method: str, target: str, *, size: int = 8 << 20) -> RawResponse:
    """The first response to a request that waits for 100 Continue before it sends its body."""
    headers = {"host": f"127.0.0.1:{port}", "content-length": str(size), "expect": "100-continue"}
    with Connection(port) as connection:
        return connection.exchange(request_bytes(method, target, headers), is_head=method == "HEAD")


def test_tables_contain_all_routes() -> None:
    assert len(S3_ROUTES) > 100
    assert len(CATALOG_ROUTES) > 150


@pytest.mark.parametrize(("name", "method", "target"), S3_ROUTES)
def test_s3_reads_no_body_of_an_anonymous_caller(port: int, name: str, method: str, target: str) -> None:
    response = first_response(port, method, target)
    assert response.status in (403, 404, 405, 501) or (method in ("GET", "HEAD") and response.status >= 400), (
        name,
        response,
    )


@pytest.mark.parametrize(("name", "method", "target"), CATALOG_ROUTES)
def test_catalogs_read_no_body_of_an_anonymous_caller(port: int, name: str, method: str, target: str) -> None:
    assert first_response(port, method, target).status == 401


@pytest.mark.parametrize("path", sorted(TOKEN_PATHS))
def test_token_endpoint_rejects_a_large_body_without_reading_it(port: int, path: str) -> None:
    headers = {
        "host": f"127.0.0.1:{port}",
        "content-type": "application/x-www-form-urlencoded",
        "content-length": str(64 * 1024 + 1),
        "expect": "100-continue",
    }
    with Connection(port) as connection:
        response = connection.exchange(request_bytes("POST", path, headers))
    assert (response.status, b"body too large" in response.body) == (400, True)


def test_form_for_a_missing_bucket_is_not_read(port: int) -> None:
    headers = {
        "host": f"127.0.0.1:{port}",
        "content-type": "multipart/form-data; boundary=b",
        "content-length": "1000",
        "expect": "100-continue",
    }
    with Connection(port) as connection:
        response = connection.exchange(request_bytes("POST", f"/{MISSING}", headers))
    assert (response.status, response.code) == (404, "NoSuchBucket")


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("PUT", f"/{BUCKET}/key?tagging"),
        ("PUT", f"/{BUCKET}/key?retention"),
        ("PUT", f"/{BUCKET}/key?legal-hold"),
        ("PUT", f"/{BUCKET}?lifecycle"),
        ("PUT", f"/{BUCKET}?notification"),
        ("POST", f"/{BUCKET}?delete"),
        ("POST", f"/{BUCKET}/key?uploadId=x"),
    ],
)
def test_malformed_body_of_an_anonymous_caller_gets_access_denied(port: int, method: str, target: str) -> None:
    headers = {"host": f"127.0.0.1:{port}", "content-length": "7"}
    with Connection(port) as connection:
        response = connection.exchange(request_bytes(method, target, headers, b"<<<\0\xff>>"))
    assert (response.status, response.code) == (403, "AccessDenied")
