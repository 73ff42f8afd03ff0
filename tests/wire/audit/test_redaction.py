from __future__ import annotations

import json
from urllib.parse import quote

from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.clock import ManualClock
from lakebed.events.forms import Form, render
from lakebed.events.requests import event_of_request
from lakebed.meta.outbox import FIRST_REQUEST, OutboxEntry
from lakebed.wire.audit.redaction import (
    LOGGED_PARAMETERS,
    LOGGED_REQUEST_HEADERS,
    LOGGED_RESPONSE_HEADERS,
    redacted_query,
    request_entry,
)
from lakebed.wire.http import request_audit
from lakebed.wire.http.body import RequestBody
from lakebed.wire.http.message import Request, Response
from tests.events.samples import IDS

SECRET = "s3cr3t-value"

SECRET_HEADERS = [
    ("authorization", f"Bearer {SECRET}"),
    ("authorization", f"Basic {SECRET}"),
    ("authorization", f"AWS4-HMAC-SHA256 Credential=AKID/20260101/r/s3/aws4_request, Signature={SECRET}"),
    ("proxy-authorization", f"Basic {SECRET}"),
    ("cookie", f"session={SECRET}"),
    ("referer", f"https://x.example/b/k?X-Amz-Signature={SECRET}"),
    ("x-amz-security-token", SECRET),
    ("x-amz-content-sha256", SECRET),
    ("x-amz-copy-source", f"b/k?X-Amz-Security-Token={SECRET}"),
    ("x-amz-copy-source-server-side-encryption-customer-key", SECRET),
    ("x-amz-meta-password", SECRET),
    ("x-amz-mfa", f"serial {SECRET}"),
    ("x-amz-server-side-encryption-customer-key", SECRET),
    ("x-amz-server-side-encryption-customer-key-md5", SECRET),
    ("x-amz-tagging", f"token={SECRET}"),
    ("x-api-key", SECRET),
    ("idempotency-key", SECRET),
    ("lakebed-delivery", f"req_1.{SECRET}"),
    ("webhook-signature", f"v1,{SECRET}"),
]
SECRET_PARAMETERS = [
    "AWSAccessKeyId",
    "Signature",
    "X-Amz-Credential",
    "X-Amz-Security-Token",
    "X-Amz-Signature",
    "x-amz-security-token",
    "access_token",
    "client_secret",
    "continuation-token",
    "pageToken",
    "password",
    "token",
]
names = st.text(st.characters(codec="ascii", categories=["Ll", "Nd"], include_characters="-"), min_size=1, max_size=24)


def audit_records(request: Request, response: Response | None, *, principal: str = "ann") -> list[bytes]:
    """The audit records of a request, in the formats of all targets."""
    request.principal = principal
    record = request_audit.RequestRecord(lambda *_: None, ManualClock())
    record.name("s3", "GetObject", "b", "k")
    event = event_of_request(request_entry(record, request, response, "node"), record.occurred_ms)
    return [render(OutboxEntry(FIRST_REQUEST, event), form, region="r", ids=IDS).body for form in Form]


def a_request(headers: dict[str, str], query: str = "", path: str = "/b/k") -> Request:
    return Request("GET", path, query, headers, RequestBody(0), "https", "10.0.0.7", "R1")


@given(
    st.lists(st.sampled_from(SECRET_HEADERS), max_size=6),
    st.lists(st.tuples(st.sampled_from(SECRET_PARAMETERS) | names, st.booleans()), max_size=6),
    st.lists(names, max_size=4),
    st.lists(names | st.sampled_from(["Set-Cookie", "Location", "WWW-Authenticate"]), max_size=4),
    st.sampled_from(["", "ann"]),
)
def test_secrets_are_not_logged(
    headers: list[tuple[str, str]],
    parameters: list[tuple[str, bool]],
    unknown: list[str],
    response_headers: list[str],
    principal: str,
) -> None:
    sent = {name: SECRET for name in unknown if name not in LOGGED_REQUEST_HEADERS | {"host", "user-agent"}} | dict(
        headers
    )
    pairs = [
        f"{quote(name)}={SECRET}" if has_name else SECRET
        for name, has_name in parameters
        if name not in LOGGED_PARAMETERS
    ]
    received = [(name, SECRET) for name in response_headers if name.lower() not in LOGGED_RESPONSE_HEADERS]
    response = Response(200, received, SECRET.encode())
    bodies = audit_records(a_request(sent, "&".join(pairs)), response, principal=principal)
    assert bodies
    for body in bodies:
        assert SECRET.encode() not in body


@given(
    st.dictionaries(names | st.sampled_from(sorted(LOGGED_REQUEST_HEADERS)), st.text(max_size=8)), st.text(max_size=40)
)
def test_audit_records_of_any_request_are_json(headers: dict[str, str], query: str) -> None:
    for body in audit_records(a_request(headers, query, "/b/\udcff"), None):
        assert json.loads(body)


def test_logged_names_contain_none_that_carry_credentials() -> None:
    logged_names = {name.lower() for name in LOGGED_REQUEST_HEADERS | LOGGED_RESPONSE_HEADERS | LOGGED_PARAMETERS}
    for word in (
        "auth",
        "cookie",
        "credential",
        "password",
        "referer",
        "secret",
        "signature",
        "token",
        "customer-key",
        "mfa",
    ):
        assert not {name for name in logged_names if word in name}, word


def test_listed_query_parameters_are_logged() -> None:
    assert redacted_query("list-type=2&prefix=a%20b&X-Amz-Signature=abc&token=x") == {
        "list-type": "2",
        "prefix": "a b",
    }
    assert redacted_query("prefix=%ff") == {}, "malformed queries are not logged"
    assert redacted_query("prefix=" + "x" * 5000) == {"prefix": "x" * 1024}


def test_audit_record_has_the_fields_of_minio() -> None:
    headers = {
        "host": "s3.example",
        "user-agent": "aws-cli/2",
        "range": "bytes=0-1",
        "authorization": "AWS4-HMAC-SHA256 Credential=AKID/20260101/us-east-1/s3/aws4_request, Signature=ff",
    }
    request = a_request(headers, "versionId=v1&X-Amz-Signature=ff")
    bodies = audit_records(request, Response(206, [("ETag", '"e"'), ("x-amz-request-id", "R1")], b"ab"))
    entry = json.loads(bodies[list(Form).index(Form.AUDIT)])
    assert entry == {
        "version": "1",
        "time": "2023-11-14T22:13:20.000Z",
        "event": "s3:GetObject",
        "trigger": "incoming",
        "api": {
            "name": "GetObject",
            "bucket": "b",
            "object": "k",
            "status": "Partial Content",
            "statusCode": 206,
            "rx": 0,
            "tx": 0,
            "timeToFirstByte": "0ns",
            "timeToFirstByteInNS": "0",
            "timeToResponse": "0ns",
            "timeToResponseInNS": "0",
        },
        "remotehost": "10.0.0.7",
        "requestID": "R1",
        "userAgent": "aws-cli/2",
        "requestPath": "/b/k",
        "requestHost": "s3.example",
        "requestNode": "node",
        "requestQuery": {"versionId": "v1"},
        "requestHeader": {"range": "bytes=0-1"},
        "responseHeader": {"etag": '"e"', "x-amz-request-id": "R1"},
        "tags": {"protocol": "s3", "method": "GET", "principal": "ann"},
        "accessKey": "AKID",
    }
    anonymous = json.loads(audit_records(a_request(headers), None, principal="")[list(Form).index(Form.AUDIT)])
    assert "accessKey" not in anonymous
    assert anonymous["tags"]["claimedAccessKey"] == "AKID"
    assert anonymous["api"]["statusCode"] == 0, "there was no response"
