"""Presigned URLs: their scope and their expiry."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import botocore.auth
import botocore.crt.auth
import pytest
import urllib3

from tests.clients.boto import all_keys, body_of, connected
from tests.clients.plain_http import fetch
from tests.fixtures.server import RunningServer

pytestmark = pytest.mark.integration


def presign(s3: Any, method: str, bucket: str, seconds: int = 60, **more: Any) -> str:  # Any: the call's own parameters
    url: str = s3.generate_presigned_url(method, Params={"Bucket": bucket, "Key": "k", **more}, ExpiresIn=seconds)
    return url


def at(monkeypatch: pytest.MonkeyPatch, moment: datetime) -> None:
    """Make botocore, or the CRT, sign at another time."""

    def clock(remove_tzinfo: bool = True) -> datetime:
        return moment.replace(tzinfo=None) if remove_tzinfo else moment

    for module in (botocore.auth, botocore.crt.auth):
        monkeypatch.setattr(module, "get_current_datetime", clock)


def test_expired_url_is_refused(s3: Any, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"1")
    now = datetime.now(UTC)
    at(monkeypatch, now - timedelta(seconds=90))
    late, good = presign(s3, "get_object", bucket, 60), presign(s3, "get_object", bucket, 600)
    assert parse_qs(urlsplit(late).query)["X-Amz-Date"] == [(now - timedelta(seconds=90)).strftime("%Y%m%dT%H%M%SZ")]
    answer = fetch("GET", late)
    assert (answer.status, answer.code) == (403, "AccessDenied")
    assert b"expired" in answer.body
    assert fetch("GET", good).body == b"1"


def test_url_is_valid_for_at_most_seven_days(s3: Any, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"1")
    too_long = presign(s3, "get_object", bucket, 604_801)
    assert fetch("GET", too_long).code == "AuthorizationQueryParametersError"
    at(monkeypatch, datetime.now(UTC) - timedelta(days=6))
    assert fetch("GET", presign(s3, "get_object", bucket, 604_800)).body == b"1"


def test_url_signed_in_the_future_is_refused(s3: Any, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"1")
    at(monkeypatch, datetime.now(UTC) + timedelta(days=1))
    answer = fetch("GET", presign(s3, "get_object", bucket))
    assert (answer.status, answer.code) == (403, "AccessDenied")


@pytest.mark.parametrize(
    ("before", "after"),
    [("X-Amz-Expires=60", "X-Amz-Expires=6000"), ("/k?", "/other?"), ("X-Amz-Signature=", "X-Amz-Signature=0")],
    ids=["longer", "another key", "another signature"],
)
def test_modified_url_is_refused(s3: Any, bucket: str, before: str, after: str) -> None:
    for key in ("k", "other"):
        s3.put_object(Bucket=bucket, Key=key, Body=b"1")
    changed = presign(s3, "get_object", bucket).replace(before, after)
    answer = fetch("GET", changed)
    assert (answer.status, answer.code) == (403, "SignatureDoesNotMatch")


def test_url_is_valid_for_its_method_only(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"1")
    reading = presign(s3, "get_object", bucket)
    assert fetch("PUT", reading, body=b"2").code == "SignatureDoesNotMatch"
    assert fetch("DELETE", reading).code == "SignatureDoesNotMatch"
    assert body_of(s3, bucket, "k") == b"1"


def test_put_url_requires_the_signed_headers(s3: Any, bucket: str) -> None:
    url = presign(s3, "put_object", bucket, ContentType="text/plain", Metadata={"a": "1"}, IfNoneMatch="*")
    signed = {"Content-Type": "text/plain", "x-amz-meta-a": "1", "If-None-Match": "*"}
    assert fetch("PUT", url, headers={**signed, "Content-Type": "text/html"}, body=b"1").code == "SignatureDoesNotMatch"
    assert fetch("PUT", url, headers={**signed, "x-amz-meta-b": "2"}, body=b"1").code == "AccessDenied"
    assert all_keys(s3, bucket) == []
    assert fetch("PUT", url, headers=signed, body=b"1").status == 200
    assert fetch("PUT", url, headers=signed, body=b"2").code == "PreconditionFailed"
    head = s3.head_object(Bucket=bucket, Key="k")
    assert (head["ContentType"], head["Metadata"]) == ("text/plain", {"a": "1"})


def test_url_may_override_response_headers(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"1")
    url = presign(s3, "get_object", bucket, ResponseContentDisposition='attachment; filename="ä b.txt"')
    assert fetch("GET", url).headers["content-disposition"].startswith("attachment; filename=")


def test_parts_are_uploaded_through_presigned_urls(s3: Any, bucket: str) -> None:
    upload = s3.create_multipart_upload(Bucket=bucket, Key="k")["UploadId"]
    url = presign(s3, "upload_part", bucket, UploadId=upload, PartNumber=1)
    put = fetch("PUT", url, body=b"a part")
    parts = {"Parts": [{"PartNumber": 1, "ETag": put.headers["etag"]}]}
    s3.complete_multipart_upload(Bucket=bucket, Key="k", UploadId=upload, MultipartUpload=parts)
    assert body_of(s3, bucket, "k") == b"a part"


def test_post_form_accepts_what_its_policy_allows(s3: Any, bucket: str) -> None:
    form = s3.generate_presigned_post(bucket, "in/${filename}", Conditions=[["content-length-range", 1, 10]])

    def post(body: bytes, **changed: str) -> Any:  # Any: a status and a code
        fields = [*{**form["fields"], **changed}.items(), ("file", ("name.txt", body))]
        encoded, content_type = urllib3.encode_multipart_formdata(fields)
        answer = fetch("POST", form["url"], headers={"Content-Type": content_type}, body=encoded)
        return answer.status, answer.code

    assert post(b"short") == (204, "")
    assert all_keys(s3, bucket) == ["in/name.txt"]
    assert post(b"much too long") == (400, "EntityTooLarge")
    assert post(b"short", key="elsewhere/${filename}") == (403, "AccessDenied")
    assert post(b"short", **{"x-amz-signature": "0" * 64}) == (403, "SignatureDoesNotMatch")
    assert body_of(s3, bucket, "in/name.txt") == b"short"


def test_signature_version_2_url_gets_an_error_with_the_remedy(
    lakebed_server: RunningServer, s3: Any, bucket: str
) -> None:
    """By default botocore presigns for us-east-1 with Signature Version 2, so the error names the remedy."""
    with connected(lakebed_server, signature_version=None) as unset:
        url = presign(unset, "get_object", bucket)
    assert "AWSAccessKeyId=" in url
    answer = fetch("GET", url)
    assert (answer.status, answer.code) == (400, "InvalidRequest")
    assert b"AWS4-HMAC-SHA256" in answer.body
