"""PostObject with forms as boto3 signs them and browsers send them, on a running server."""

from __future__ import annotations

import base64
import hashlib
import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any
from xml.etree import ElementTree

import pytest
import urllib3
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from urllib3.fields import RequestField
from urllib3.filepost import encode_multipart_formdata

from lakebed.meta.outbox import Outbox
from lakebed.meta.sqlite.store import SqliteStore
from tests.clients.boto import Keys, connected, refused, root_keys
from tests.fixtures.server import RunningServer

pytestmark = pytest.mark.integration

CONTENT = b"the bytes of a file\r\n--\r\n"


@pytest.fixture(scope="module")
def s3(lakebed_server: RunningServer) -> Iterator[Any]:  # Any: boto3's clients are made at run time
    with connected(lakebed_server) as client:
        yield client


@pytest.fixture
def bucket(s3: Any) -> str:
    name = f"post-{uuid.uuid4().hex[:20]}"
    s3.create_bucket(Bucket=name)
    return name


@pytest.fixture(scope="module")
def http() -> Iterator[urllib3.PoolManager]:
    with urllib3.PoolManager(retries=False) as pool:
        yield pool


class Page:
    """A web page with a form on it."""

    def __init__(self, s3: Any, bucket: str, http: urllib3.PoolManager) -> None:
        self.s3 = s3
        self.bucket = bucket
        self.http = http

    def sign(
        self,
        key: str = "k",
        fields: Mapping[str, str] = MappingProxyType({}),
        *,
        conditions: Sequence[object] = (),
        expires: int = 60,
    ) -> dict[str, str]:
        """The fields of a form whose policy has conditions on these fields, and further conditions."""
        signed: dict[str, str] = self.s3.generate_presigned_post(
            self.bucket,
            key,
            Fields=dict(fields),
            Conditions=[*({name: value} for name, value in fields.items()), *conditions],
            ExpiresIn=expires,
        )["fields"]
        return signed

    def send(
        self, fields: dict[str, str], content: bytes | None = CONTENT, *, filename: str = "a.txt", **headers: str
    ) -> urllib3.BaseHTTPResponse:
        """Post the form."""
        parts = [RequestField(name, value) for name, value in fields.items()]
        for part in parts:
            part.make_multipart()
        if content is not None:
            file = RequestField("file", content, filename=filename)
            file.make_multipart(content_type="application/x-of-the-part")
            parts.append(file)
        body, content_type = encode_multipart_formdata(parts)
        return self.post(body, content_type, **headers)

    def post(self, body: bytes, content_type: str, **headers: str) -> urllib3.BaseHTTPResponse:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.http.request(
            "POST",
            f"{self.s3.meta.endpoint_url}/{self.bucket}",
            body=body,
            headers={"content-type": content_type, **named},
            redirect=False,
        )

    def stored(self, key: str = "k") -> bytes:
        body: bytes = self.s3.get_object(Bucket=self.bucket, Key=key)["Body"].read()
        return body

    def is_empty(self) -> bool:
        return not self.s3.list_objects_v2(Bucket=self.bucket)["KeyCount"]


@pytest.fixture
def page(s3: Any, bucket: str, http: urllib3.PoolManager) -> Page:
    return Page(s3, bucket, http)


def error_of(response: urllib3.BaseHTTPResponse) -> tuple[int, str]:
    return response.status, ElementTree.fromstring(response.data).findtext("Code", "")


def message_of(response: urllib3.BaseHTTPResponse) -> str:
    return ElementTree.fromstring(response.data).findtext("Message", "")


def test_signed_form_stores_its_file_and_gets_204(page: Page, bucket: str) -> None:
    response = page.send(
        page.sign("folder/k ü", {"Content-Type": "text/plain; charset=utf-8", "x-amz-meta-color": "grün"})
    )
    assert (response.status, response.data) == (204, b"")
    assert response.headers["ETag"] == f'"{hashlib.md5(CONTENT).hexdigest()}"'
    assert response.headers["Location"] == f"{page.s3.meta.endpoint_url}/{bucket}/folder/k%20%C3%BC"
    found = page.s3.head_object(Bucket=bucket, Key="folder/k ü")
    assert page.stored("folder/k ü") == CONTENT
    assert found["ContentType"] == "text/plain; charset=utf-8"
    assert found["ResponseMetadata"]["HTTPHeaders"]["x-amz-meta-color"].encode("latin-1").decode() == "grün"


def test_content_type_defaults_without_its_field(page: Page, bucket: str) -> None:
    assert page.send(page.sign()).status == 204
    assert page.s3.head_object(Bucket=bucket, Key="k")["ContentType"] == "binary/octet-stream"


def test_large_file_arrives_whole(page: Page) -> None:
    content = b"\r\n--\r\n-\r" * 300_000 + b"\r\n"
    assert page.send(page.sign(), content).status == 204
    assert page.stored() == content


def test_empty_file_is_an_object(page: Page) -> None:
    assert page.send(page.sign(), b"").status == 204
    assert page.stored() == b""


def test_filename_is_inserted_into_the_key(page: Page) -> None:
    assert page.send(page.sign("in/${filename}"), filename="C:\\temp\\photo.png").status == 204
    assert page.stored("in/photo.png") == CONTENT


def test_status_201_returns_the_location(page: Page, bucket: str) -> None:
    response = page.send(page.sign("a&b", {"success_action_status": "201"}))
    assert response.status == 201
    document = ElementTree.fromstring(response.data)
    assert document.tag == "PostResponse"
    assert {item.tag: item.text for item in document} == {
        "Location": response.headers["Location"],
        "Bucket": bucket,
        "Key": "a&b",
        "ETag": response.headers["ETag"],
    }


@pytest.mark.parametrize(("requested", "status"), [("200", 200), ("204", 204), ("404", 204), ("", 204)])
def test_other_statuses_have_no_body(page: Page, requested: str, status: int) -> None:
    response = page.send(page.sign("k", {"success_action_status": requested}))
    assert (response.status, response.data) == (status, b"")


@pytest.mark.parametrize("field", ["success_action_redirect", "redirect"])
def test_success_action_redirect_has_bucket_key_and_etag(page: Page, bucket: str, field: str) -> None:
    response = page.send(page.sign("a/b c", {field: "https://app.example/done?x=1#top"}))
    etag = hashlib.md5(CONTENT).hexdigest()
    assert response.status == 303
    assert response.headers["Location"] == (
        f"https://app.example/done?x=1&bucket={bucket}&key=a%2Fb%20c&etag=%22{etag}%22#top"
    )


@pytest.mark.parametrize("url", ["", "done.html", "javascript:alert(1)", "https://a b/", "http://[", "ftp://host/"])
def test_invalid_redirect_is_ignored(page: Page, url: str) -> None:
    assert page.send(page.sign("k", {"success_action_redirect": url})).status == 204


def test_tags_encryption_and_headers_are_stored(page: Page, bucket: str) -> None:
    fields = {
        "tagging": "<Tagging><TagSet><Tag><Key>a b</Key><Value>1+2=3</Value></Tag></TagSet></Tagging>",
        "x-amz-server-side-encryption": "AES256",
        "acl": "private",
        "Content-Disposition": "inline",
    }
    response = page.send(page.sign("k", fields))
    assert response.status == 204
    assert response.headers["x-amz-server-side-encryption"] == "AES256"
    found = page.s3.head_object(Bucket=bucket, Key="k")
    assert (found["ServerSideEncryption"], found["ContentDisposition"]) == ("AES256", "inline")
    assert page.s3.get_object_tagging(Bucket=bucket, Key="k")["TagSet"] == [{"Key": "a b", "Value": "1+2=3"}]
    assert page.stored() == CONTENT


def test_matching_checksum_is_stored(page: Page, bucket: str) -> None:
    sha256 = base64.b64encode(hashlib.sha256(CONTENT).digest()).decode()
    md5 = base64.b64encode(hashlib.md5(CONTENT).digest()).decode()
    assert page.send(page.sign("k", {"x-amz-checksum-sha256": sha256, "Content-MD5": md5})).status == 204
    found = page.s3.head_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")
    assert found["ChecksumSHA256"] == sha256


@pytest.mark.parametrize("field", ["x-amz-checksum-sha256", "content-md5"])
def test_file_with_a_wrong_digest_is_not_stored(page: Page, field: str) -> None:
    digest = hashlib.sha256(b"another").digest() if "sha" in field else hashlib.md5(b"another").digest()
    response = page.send(page.sign("k", {field: base64.b64encode(digest).decode()}))
    assert error_of(response) == (400, "BadDigest")
    assert page.is_empty()


def test_acl_is_rejected(page: Page) -> None:
    assert error_of(page.send(page.sign("k", {"acl": "public-read"}))) == (400, "AccessControlListNotSupported")
    assert page.is_empty()


def test_wrong_signature_is_rejected(page: Page) -> None:
    fields = page.sign()
    signature = fields["x-amz-signature"]
    forged = {**fields, "x-amz-signature": ("1" if signature[0] == "0" else "0") + signature[1:]}
    assert error_of(page.send(forged)) == (403, "SignatureDoesNotMatch")
    later = json.loads(base64.b64decode(fields["policy"])) | {"expiration": "2999-01-01T00:00:00Z"}
    prolonged = {**fields, "policy": base64.b64encode(json.dumps(later).encode()).decode()}
    assert error_of(page.send(prolonged)) == (403, "SignatureDoesNotMatch")
    assert page.is_empty()


def test_unknown_access_key_is_rejected(page: Page, lakebed_server: RunningServer) -> None:
    with connected(lakebed_server, Keys("AKIAUNKNOWNUNKNOWN00", "secret")) as unknown:
        fields = Page(unknown, page.bucket, page.http).sign()
    assert error_of(page.send(fields)) == (403, "InvalidAccessKeyId")


def test_expired_policy_is_rejected(page: Page) -> None:
    response = page.send(page.sign(expires=-10))
    assert error_of(response) == (403, "AccessDenied")
    assert message_of(response) == "Invalid according to Policy: Policy expired."


def test_form_for_another_bucket_is_rejected(page: Page, s3: Any) -> None:
    fields = page.sign()
    other = f"post-{uuid.uuid4().hex[:20]}"
    s3.create_bucket(Bucket=other)
    response = Page(s3, other, page.http).send({**fields, "bucket": page.bucket})
    assert error_of(response) == (403, "AccessDenied")
    assert message_of(response).startswith("Invalid according to Policy: Policy Condition failed: ")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"key": "another"}, "Policy Condition failed: "),
        ({"Content-Type": "text/html"}, "Policy Condition failed: "),
        ({"x-amz-meta-more": "1"}, "Extra input fields: x-amz-meta-more"),
        ({"success_action_redirect": "https://elsewhere.example/"}, "Extra input fields: success_action_redirect"),
    ],
)
def test_form_that_violates_its_policy_is_rejected(page: Page, change: dict[str, str], reason: str) -> None:
    response = page.send(page.sign("k", {"Content-Type": "text/plain"}) | change)
    assert error_of(response) == (403, "AccessDenied")
    assert message_of(response).startswith(f"Invalid according to Policy: {reason}")
    assert page.is_empty()


@pytest.mark.parametrize("size", [10, 11, 2 * 1024 * 1024])
def test_file_within_the_size_range_is_stored(page: Page, size: int) -> None:
    fields = page.sign(conditions=[["content-length-range", 10, 2 * 1024 * 1024]])
    assert page.send(fields, bytes(size)).status == 204
    assert page.stored() == bytes(size)


@pytest.mark.parametrize(
    ("size", "code"), [(0, "EntityTooSmall"), (9, "EntityTooSmall"), (2 * 1024 * 1024 + 1, "EntityTooLarge")]
)
def test_file_outside_the_size_range_is_not_stored(page: Page, size: int, code: str) -> None:
    fields = page.sign(conditions=[["content-length-range", 10, 2 * 1024 * 1024]])
    assert error_of(page.send(fields, bytes(size))) == (400, code)
    assert page.is_empty()


def test_form_signed_with_temporary_credentials_requires_their_token(page: Page, lakebed_server: RunningServer) -> None:
    with connected(lakebed_server, root_keys(lakebed_server), service="sts") as sts:
        found = sts.assume_role(RoleArn="arn:aws:iam::000000000000:role/any", RoleSessionName="form")["Credentials"]
    keys = Keys(found["AccessKeyId"], found["SecretAccessKey"], found["SessionToken"])
    with connected(lakebed_server, keys) as temporary:
        fields = Page(temporary, page.bucket, page.http).sign()
    assert page.send(fields).status == 204
    without = {name: value for name, value in fields.items() if name != "x-amz-security-token"}
    assert page.send(without).status == 403


def test_anonymous_form_requires_a_public_policy(page: Page, bucket: str) -> None:
    assert error_of(page.send({"key": "k"})) == (403, "AccessDenied")
    assert page.is_empty()
    statement = {"Effect": "Allow", "Principal": "*", "Action": "s3:PutObject", "Resource": f"arn:aws:s3:::{bucket}/*"}
    page.s3.put_bucket_policy(Bucket=bucket, Policy=json.dumps({"Version": "2012-10-17", "Statement": [statement]}))
    assert page.send({"KEY": "k", "Submit": "line\r\nbreak"}).status == 204
    assert page.stored() == CONTENT


def test_request_headers_of_a_form_satisfy_no_condition_on_the_object(page: Page, bucket: str) -> None:
    statement = {
        "Effect": "Allow",
        "Principal": "*",
        "Action": "s3:PutObject",
        "Resource": f"arn:aws:s3:::{bucket}/*",
        "Condition": {"StringEquals": {"s3:x-amz-server-side-encryption": "AES256"}},
    }
    page.s3.put_bucket_policy(Bucket=bucket, Policy=json.dumps({"Version": "2012-10-17", "Statement": [statement]}))
    response = page.send({"key": "k"}, x_amz_server_side_encryption="AES256")
    assert error_of(response) == (403, "AccessDenied")
    assert page.send({"key": "k", "x-amz-server-side-encryption": "AES256"}).status == 204


@pytest.mark.parametrize("missing", ["policy", "x-amz-signature", "x-amz-credential", "x-amz-date", "x-amz-algorithm"])
def test_partially_signed_form_is_rejected_with_the_missing_field(page: Page, missing: str) -> None:
    response = page.send({name: value for name, value in page.sign().items() if name != missing})
    assert error_of(response) == (400, "InvalidArgument")
    assert ElementTree.fromstring(response.data).findtext("ArgumentName") == missing


def test_form_requires_a_key_and_a_file(page: Page) -> None:
    fields = page.sign()
    for response, argument in [
        (page.send({name: value for name, value in fields.items() if name != "key"}), "key"),
        (page.send(fields, None), "file"),
    ]:
        assert error_of(response) == (400, "InvalidArgument")
        assert ElementTree.fromstring(response.data).findtext("ArgumentName") == argument


def test_forms_with_signature_version_2_are_rejected(page: Page) -> None:
    response = page.send({"key": "k", "AWSAccessKeyId": "k", "policy": "e30=", "signature": "AAAA"})
    assert error_of(response) == (400, "InvalidRequest")


def test_form_in_a_signed_request_is_rejected(page: Page, lakebed_server: RunningServer) -> None:
    url = f"{page.s3.meta.endpoint_url}/{page.bucket}"
    signed = AWSRequest("POST", url, headers={"content-type": "multipart/form-data; boundary=b"}, data=b"")
    S3SigV4Auth(Credentials(lakebed_server.access_key, lakebed_server.secret_key), "s3", "us-east-1").add_auth(signed)
    response = page.http.request("POST", url, body=b"", headers=dict(signed.headers))
    assert error_of(response) == (400, "InvalidRequest")


def test_field_with_a_line_break_is_rejected(page: Page) -> None:
    response = page.send(page.sign("k", {"x-amz-meta-a": "1\r\nset-cookie: a=b"}))
    assert error_of(response) == (400, "InvalidArgument")
    assert page.is_empty()


def test_truncated_form_stores_nothing(page: Page) -> None:
    body, content_type = encode_multipart_formdata([*page.sign().items(), ("file", ("a.txt", CONTENT))])
    assert error_of(page.post(body.rstrip()[:-2], content_type)) == (400, "MalformedPOSTRequest")
    assert error_of(page.post(b"", content_type)) == (400, "MalformedPOSTRequest")
    assert error_of(page.post(body, "application/octet-stream")) == (412, "PreconditionFailed")
    assert page.is_empty()


def test_missing_bucket_gets_no_such_bucket(page: Page, s3: Any) -> None:
    missing = Page(s3, f"post-{uuid.uuid4().hex[:20]}", page.http)
    assert error_of(missing.send(missing.sign())) == (404, "NoSuchBucket")
    with refused("404", 404):
        s3.head_bucket(Bucket=missing.bucket)


async def test_event_of_a_post_is_object_created_post(page: Page, bucket: str, lakebed_server: RunningServer) -> None:
    assert page.send(page.sign("posted")).status == 204
    meta = await SqliteStore.open(lakebed_server.data / "meta.db")
    try:
        entries = await Outbox(meta).read_after(meta, 0, 1_000_000)
    finally:
        await meta.close()
    assert [entry.event.kind for entry in entries if entry.event.subject == f"{bucket}/posted"] == [
        "ObjectCreated:Post"
    ]
