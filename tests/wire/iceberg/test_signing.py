"""Remote signing: the object store accepts signed requests, and only requests for the table's files are signed."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.clients.boto import Keys

from .lake import DOMAIN, HOST, ROOT_KEYS, Answer, Lake, allow, opened_lake

SIGN = "/lake/namespaces/ns/tables/t/sign"
ANY_TABLE = "/aws/s3/sign"
HOME = "/lake/home/t"
FOREIGN_PATHS = (
    "/lake/loose",
    "/lake/home/t",
    "/lake/home/t/",
    "/lake/home/t/../t10/f",
    "/lake/home/t/%2E%2E/t10/f",
    "/lake?list-type=2&prefix=home/t",
    "/lake?list-type=2&prefix=home/",
    "/lake?list-type=2&prefix=",
    "/lake?list-type=2",
)
"""Requests for objects of no table, or of several."""


@pytest.fixture
async def lake(tmp_path: Path) -> AsyncIterator[Lake]:
    """A server with a table `t` at `home/t`, a table at `home/t10`, and a file in each."""
    async with opened_lake(tmp_path) as opened:
        await opened.table("t", location="s3://lake/home/t", properties={"write.data.path": "s3://lake/far/t"})
        await opened.table("t10", location="s3://lake/home/t10")
        for path in ("/home/t/f", "/home/t10/f", "/far/t/f", "/loose"):
            await opened.send("PUT", f"/lake{path}", b"rows of " + path.encode())
        yield opened


async def sign(
    lake: Lake,
    method: str,
    path: str,
    headers: Mapping[str, str] | None = None,
    *,
    keys: Keys = ROOT_KEYS,
    endpoint: str = SIGN,
    origin: str = f"http://{HOST}",
    **more: Any,
) -> Answer:
    """Request a signature."""
    document = {
        "region": "us-east-1",
        "uri": origin + path,
        "method": method,
        "headers": {name: [value] for name, value in (headers or {}).items()},
        **more,
    }
    return await lake.call("POST", endpoint, document, keys=keys)


def digest(body: bytes) -> dict[str, str]:
    """The header that the store requires for DeleteObjects."""
    return {"Content-MD5": base64.b64encode(hashlib.md5(body).digest()).decode()}


async def send_signed(
    lake: Lake,
    method: str,
    path: str,
    headers: Mapping[str, str] | None = None,
    *,
    body: bytes = b"",
    signed_body: str | None = None,
    **more: Any,
) -> Answer:
    """Request a signature, and send the request with the returned headers.

    `signed_body` is the body in the signing request.
    """
    signed = await sign(lake, method, path, headers, body=signed_body, **more)
    assert signed.status == 200, signed.body
    returned = {name: ",".join(values) for name, values in signed.document["headers"].items()}
    host = signed.document["uri"].partition("//")[2].partition("/")[0]
    return await lake.send(method, path, body, returned, keys=None, host=host)


@pytest.mark.parametrize("endpoint", [SIGN, ANY_TABLE])
async def test_signed_requests_read_write_and_delete_the_tables_files(lake: Lake, endpoint: str) -> None:
    for folder in (HOME, "/lake/far/t"):
        assert (await send_signed(lake, "GET", f"{folder}/f", endpoint=endpoint)).body.startswith(b"rows of")
        assert (await send_signed(lake, "HEAD", f"{folder}/f", endpoint=endpoint)).status == 200
        assert (await send_signed(lake, "PUT", f"{folder}/g%20h", body=b"new", endpoint=endpoint)).status == 200
        assert (await lake.send("GET", f"{folder}/g%20h")).body == b"new"
        assert (await send_signed(lake, "DELETE", f"{folder}/g%20h", endpoint=endpoint)).status == 204
        prefix = folder.removeprefix("/lake/")
        listed = await send_signed(lake, "GET", f"/lake?list-type=2&prefix={prefix}%2F&x-id=List", endpoint=endpoint)
        assert listed.body.count(b"<Key>") >= 1
        assert f"<Key>{prefix}/f</Key>".encode() in listed.body


async def test_requests_of_a_multipart_upload_are_signed(lake: Lake) -> None:
    started = await send_signed(lake, "POST", f"{HOME}/big?uploads=")
    upload = started.body.partition(b"<UploadId>")[2].partition(b"<")[0].decode()
    part = await send_signed(lake, "PUT", f"{HOME}/big?partNumber=1&uploadId={upload}", body=b"a part")
    listed = f"<Part><PartNumber>1</PartNumber><ETag>{part.headers['etag']}</ETag></Part>"
    done = f"<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>"
    assert (await send_signed(lake, "POST", f"{HOME}/big?uploadId={upload}", body=done.encode())).status == 200
    assert (await lake.send("GET", f"{HOME}/big")).body == b"a part"


async def test_signature_of_a_read_is_valid_for_every_range(lake: Lake) -> None:
    signed = await sign(lake, "GET", f"{HOME}/f", {"Range": "bytes=0-3", "amz-sdk-invocation-id": "1"})
    returned = {name: values[0] for name, values in signed.document["headers"].items()}
    assert (returned["Range"], returned["amz-sdk-invocation-id"]) == ("bytes=0-3", "1")
    for byte_range, content in (("bytes=0-3", b"rows"), ("bytes=5-6", b"of")):
        changed = {**returned, "Range": byte_range, "amz-sdk-invocation-id": "2"}
        assert (await lake.send("GET", f"{HOME}/f", headers=changed, keys=None)).body == content


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", f"{HOME}/f", None),
        ("HEAD", f"{HOME}/f", None),
        ("GET", "/lake?list-type=2&prefix=home/t/", None),
        ("PUT", f"{HOME}/f", None),
        ("DELETE", f"{HOME}/f", None),
        ("POST", "/lake?delete=", "<Delete><Object><Key>home/t/f</Key></Object></Delete>"),
    ],
)
@pytest.mark.parametrize("endpoint", [SIGN, ANY_TABLE])
async def test_signatures_are_not_cached_by_clients(
    lake: Lake, endpoint: str, method: str, path: str, body: str | None
) -> None:
    signed = await sign(lake, method, path, body=body, endpoint=endpoint)
    # Java clients cache responses with `private`, by method, region and URI only.
    assert (signed.status, signed.headers["cache-control"]) == (200, "no-cache")


async def test_signature_is_valid_only_for_its_request(lake: Lake) -> None:
    signed = await sign(lake, "GET", f"{HOME}/f")
    returned = {name: values[0] for name, values in signed.document["headers"].items()}
    for method, path in (("GET", f"{HOME}/g"), ("PUT", f"{HOME}/f"), ("GET", "/lake/home/t10/f")):
        refused = await lake.send(method, path, headers=returned, keys=None)
        assert (refused.status, b"SignatureDoesNotMatch" in refused.body) == (403, True)
    added = {**returned, "x-amz-copy-source": "/lake/home/t10/f"}
    assert (await lake.send("GET", f"{HOME}/f", headers=added, keys=None)).status == 403
    assert returned["X-Amz-Content-SHA256"] == "UNSIGNED-PAYLOAD"
    assert set(returned) == {"Authorization", "Host", "X-Amz-Date", "X-Amz-Security-Token", "X-Amz-Content-SHA256"}


async def test_session_of_a_signature_covers_only_the_tables_files(lake: Lake) -> None:
    """The client has the session token without the secret key, and the session's policy limits signed requests."""
    doomed = "<Delete><Object><Key>home/t/f</Key></Object></Delete>"
    other = b"<Delete><Object><Key>home/t10/f</Key></Object></Delete>"
    answer = await send_signed(lake, "POST", "/lake?delete=", digest(other), body=other, signed_body=doomed)
    assert b"<Code>AccessDenied</Code>" in answer.body
    assert (await lake.send("GET", "/lake/home/t10/f")).status == 200


@pytest.mark.parametrize(
    ("method", "path"),
    [
        *(("GET", path) for path in FOREIGN_PATHS),
        ("GET", "/"),
        ("GET", "/lake/home/t10/f"),
        ("PUT", "/lake/home/t10/g"),
        ("GET", "/other/home/t/f"),
        ("GET", "/lake?list-type=2&prefix=home/t10/"),
        ("DELETE", "/lake/far/f"),
    ],
)
async def test_requests_outside_the_tables_directories_are_not_signed(lake: Lake, method: str, path: str) -> None:
    assert (await sign(lake, method, path)).error == (403, "ForbiddenException")


@pytest.mark.parametrize("path", [*FOREIGN_PATHS, "/plain/f", "/", "/absent/f"])
async def test_requests_for_objects_of_no_table_are_not_signed(lake: Lake, path: str) -> None:
    await lake.store.bucket("plain")
    assert (await sign(lake, "GET", path, endpoint=ANY_TABLE)).error == (403, "ForbiddenException")


async def test_deletion_of_files_of_two_tables_is_not_signed(lake: Lake) -> None:
    body = "<Delete><Object><Key>home/t/f</Key></Object><Object><Key>home/t10/f</Key></Object></Delete>"
    assert (await sign(lake, "POST", "/lake?delete=", endpoint=ANY_TABLE, body=body)).error[0] == 403


async def test_every_key_of_a_deletion_is_checked(lake: Lake) -> None:
    inside = "<Object><Key>home/t/f</Key></Object>"
    for outside in ("home/t10/f", "loose", "home/t"):
        body = f"<Delete>{inside}<Object><Key>{outside}</Key></Object></Delete>"
        assert (await sign(lake, "POST", "/lake?delete=", body=body)).error[0] == 403
    for broken in (None, "", "<Delete", "<Delete/>"):
        assert (await sign(lake, "POST", "/lake?delete=", body=broken)).error == (400, "BadRequestException")
    both = f"<Delete>{inside}<Object><Key>far/t/f</Key></Object></Delete>"
    answer = await send_signed(
        lake, "POST", "/lake?delete=", digest(both.encode()), body=both.encode(), signed_body=both
    )
    assert answer.body.count(b"<Deleted>") == 2


@pytest.mark.parametrize("source", ["/lake/home/t10/f", "lake/loose", "/other/home/t/f", "lake%2Fhome%2Ft10%2Ff"])
async def test_copies_from_other_directories_are_not_signed(lake: Lake, source: str) -> None:
    assert (await sign(lake, "PUT", f"{HOME}/copy", {"x-amz-copy-source": source})).error[0] == 403
    inside = {"x-amz-copy-source": "/lake/far/t/f"}
    assert (await send_signed(lake, "PUT", f"{HOME}/copy", inside)).status == 200


async def test_virtual_host_style_requests_are_signed(lake: Lake) -> None:
    origin = f"http://lake.{DOMAIN}:9000"
    assert (await send_signed(lake, "GET", "/home/t/f", origin=origin)).body == b"rows of /home/t/f"
    assert (await sign(lake, "GET", "/home/t10/f", origin=origin)).error[0] == 403
    assert (await sign(lake, "GET", "/home/t/f", origin=f"http://other.{DOMAIN}:9000")).error[0] == 403


@pytest.mark.parametrize(
    "wrong",
    [
        {"region": "eu-west-1"},
        {"uri": "http://elsewhere.example/lake/home/t/f"},
        {"uri": f"ftp://{HOST}/lake/home/t/f"},
        {"uri": f"http://user:secret@{HOST}/lake/home/t/f"},
        {"uri": f"http://{HOST}/lake/home/t/f#part"},
        {"uri": f"http://{HOST}/lake/home/t/\n/f"},
        {"uri": "/lake/home/t/f"},
        {"uri": f"http://{HOST}/lake/home/t/%ff"},
        {"uri": f"http://{HOST}//home/t/f"},
        {"uri": f"http://{HOST}/lake/home/t/f?acl="},
        {"uri": f"http://{HOST}/lake?policy="},
        {"method": "PATCH"},
        {"method": "OPTIONS"},
        {"headers": {"bad name": ["x"]}},
        {"headers": {"x-amz-meta-a": ["a\r\nb: c"]}},
        {"headers": {"x-amz-content-sha256": ["STREAMING-AWS4-HMAC-SHA256-PAYLOAD"]}},
        {"headers": {"x-amz-copy-source": ["a/b", "c/d"]}},
        {"headers": "none"},
    ],
)
async def test_invalid_requests_are_refused(lake: Lake, wrong: dict[str, Any]) -> None:
    document = {"region": "us-east-1", "uri": f"http://{HOST}{HOME}/f", "method": "GET", "headers": {}, **wrong}
    assert (await lake.call("POST", SIGN, document)).error == (400, "BadRequestException")


async def test_requests_for_other_providers_are_not_signed(lake: Lake) -> None:
    assert (await sign(lake, "GET", f"{HOME}/f", provider="gcs")).error == (406, "UnsupportedOperationException")
    assert (await sign(lake, "GET", f"{HOME}/f", provider="s3", properties={"a": "b"})).status == 200


async def test_signatures_require_permissions_on_the_table(lake: Lake) -> None:
    reader = await lake.user("reader", allow("s3tables:GetTableData"))
    viewer = await lake.user("viewer", allow("s3tables:GetTable", "s3:*"))
    for endpoint in (SIGN, ANY_TABLE):
        assert (await send_signed(lake, "GET", f"{HOME}/f", keys=reader, endpoint=endpoint)).status == 200
        for method in ("PUT", "DELETE"):
            refused = await sign(lake, method, f"{HOME}/f", keys=reader, endpoint=endpoint)
            assert refused.error == (403, "ForbiddenException")
        assert (await sign(lake, "GET", f"{HOME}/f", keys=viewer, endpoint=endpoint)).error[0] == 403


async def test_missing_table_is_reported_only_with_read_permission(lake: Lake) -> None:
    unprivileged = await lake.user("unprivileged")
    absent = "/lake/namespaces/ns/tables/absent/sign"
    assert (await sign(lake, "GET", f"{HOME}/f", endpoint=absent)).error == (404, "NoSuchTableException")
    assert (await sign(lake, "GET", f"{HOME}/f", endpoint=absent, keys=unprivileged)).error[0] == 403


async def test_only_head_requests_are_signed_for_a_dropped_table(lake: Lake) -> None:
    """Engines check for the metadata file after a drop."""
    await lake.call("POST", "/buckets/lake/properties", {"updates": {"undrop-window-seconds": "3600"}})
    await lake.call("DELETE", "/lake/namespaces/ns/tables/t")
    for endpoint in (SIGN, ANY_TABLE):
        assert (await send_signed(lake, "HEAD", f"{HOME}/f", endpoint=endpoint)).status == 200
        for method in ("GET", "PUT", "DELETE"):
            assert (await sign(lake, method, f"{HOME}/f", endpoint=endpoint)).status in (403, 404)


async def test_signature_expires_with_its_credentials(lake: Lake) -> None:
    signed = await sign(lake, "GET", f"{HOME}/f")
    returned = {name: values[0] for name, values in signed.document["headers"].items()}
    lake.clock.advance(901)
    assert (await lake.send("GET", f"{HOME}/f", headers=returned, keys=None)).status in (400, 403)


async def test_trailing_checksum_is_signed_as_an_unsigned_payload(lake: Lake) -> None:
    signed = await sign(lake, "PUT", f"{HOME}/f", {"x-amz-trailer": "x-amz-checksum-crc32"})
    assert signed.document["headers"]["X-Amz-Content-SHA256"] == ["STREAMING-UNSIGNED-PAYLOAD-TRAILER"]
