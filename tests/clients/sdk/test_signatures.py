"""Signature verification: accepted and refused hand-built requests, and the error codes."""

from __future__ import annotations

import base64
import hashlib
import socket
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import botocore.auth
import botocore.awsrequest
import botocore.credentials
import pytest

from tests.clients.boto import REGION, Keys, all_keys, body_of, root_keys
from tests.clients.plain_http import Answer, fetch
from tests.clients.signing import EMPTY_SHA256, Signer
from tests.fixtures.server import RunningServer

pytestmark = pytest.mark.integration

BODY = b"the body"


@pytest.fixture
def url(lakebed_server: RunningServer, bucket: str) -> str:
    return f"{lakebed_server.endpoint}/{bucket}/k"


@pytest.fixture
def signer(lakebed_server: RunningServer) -> Signer:
    return Signer(root_keys(lakebed_server))


def put(signer: Signer, url: str, **extra: str) -> Answer:
    headers = signer.headers("PUT", url, hashlib.sha256(BODY).hexdigest(), extra)
    return fetch("PUT", url, headers=headers, body=BODY)


@pytest.mark.parametrize("service", ["s3", "s3tables"])
def test_service_name_is_s3_or_s3tables(
    lakebed_server: RunningServer, s3: Any, bucket: str, url: str, service: str
) -> None:
    """Signed by botocore's signer with the given service name."""
    keys = botocore.credentials.Credentials(lakebed_server.access_key, lakebed_server.secret_key)
    request = botocore.awsrequest.AWSRequest("PUT", url, data=BODY)
    request.headers["X-Amz-Content-SHA256"] = hashlib.sha256(BODY).hexdigest()
    botocore.auth.SigV4Auth(keys, service, REGION).add_auth(request)
    assert f"/{service}/aws4_request" in request.headers["Authorization"]
    assert fetch("PUT", url, headers=dict(request.headers.items()), body=BODY).status == 200
    assert body_of(s3, bucket, "k") == BODY


def test_any_region_is_accepted(signer: Signer, url: str) -> None:
    assert put(replace(signer, region="eu-central-1"), url).status == 200


def test_content_hash_may_be_base64(signer: Signer, url: str, s3: Any, bucket: str) -> None:
    digest = base64.b64encode(hashlib.sha256(BODY).digest()).decode()
    assert fetch("PUT", url, headers=signer.headers("PUT", url, digest), body=BODY).status == 200
    assert body_of(s3, bucket, "k") == BODY


def test_base64_in_the_header_may_be_signed_in_hexadecimal(signer: Signer, url: str, s3: Any, bucket: str) -> None:
    digest = hashlib.sha256(BODY).digest()
    stated, signed = base64.b64encode(digest).decode(), digest.hex()
    assert fetch("PUT", url, headers=signer.headers("PUT", url, stated, payload=signed), body=BODY).status == 200
    assert body_of(s3, bucket, "k") == BODY
    assert fetch("PUT", url, headers=signer.headers("PUT", url, stated, payload=signed), body=BODY[1:]).status == 400


def test_payload_may_be_unsigned(signer: Signer, url: str, s3: Any, bucket: str) -> None:
    headers = signer.headers("PUT", url, "UNSIGNED-PAYLOAD")
    assert fetch("PUT", url, headers=headers, body=BODY).status == 200
    assert body_of(s3, bucket, "k") == BODY


def test_spaces_in_a_signed_header_are_folded(signer: Signer, url: str, s3: Any, bucket: str) -> None:
    assert put(signer, url, **{"x-amz-meta-note": "  a   b  "}).status == 200
    assert s3.head_object(Bucket=bucket, Key="k")["Metadata"]["note"].split() == ["a", "b"]


def _with_secret(signer: Signer, secret: str) -> Signer:
    return replace(signer, keys=replace(signer.keys, secret_key=secret))


def _with_clock(signer: Signer, minutes: int) -> Signer:
    return replace(signer, at=datetime.now(UTC) + timedelta(minutes=minutes))


MISMATCH = (403, "SignatureDoesNotMatch")
MALFORMED = (400, "AuthorizationHeaderMalformed")
SKEWED = (403, "RequestTimeTooSkewed")

FAULTS: dict[str, tuple[Callable[[Signer], Signer], tuple[int, str]]] = {
    "wrong secret": (lambda signer: _with_secret(signer, "wrong"), MISMATCH),
    "unknown key": (lambda signer: replace(signer, keys=Keys("UNKNOWN", "x")), (403, "InvalidAccessKeyId")),
    "unknown service": (lambda signer: replace(signer, service="ec2"), MALFORMED),
    "slow clock": (lambda signer: _with_clock(signer, -16), SKEWED),
    "fast clock": (lambda signer: _with_clock(signer, 16), SKEWED),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_wrongly_signed_request_stores_nothing(signer: Signer, url: str, s3: Any, bucket: str, fault: str) -> None:
    spoil, refusal = FAULTS[fault]
    answer = put(spoil(signer), url)
    assert (answer.status, answer.code) == refusal
    assert all_keys(s3, bucket) == []


Headers = dict[str, str]


def _without(name: str) -> Callable[[Headers], Headers]:
    return lambda sent: {other: value for other, value in sent.items() if other != name}


def _with(name: str, value: str) -> Callable[[Headers], Headers]:
    return lambda sent: {**sent, name: value}


CHANGES: dict[str, tuple[Callable[[Headers], Headers], tuple[int, str]]] = {
    "header changed": (_with("x-amz-meta-a", "2"), MISMATCH),
    "header dropped": (_without("x-amz-meta-a"), MISMATCH),
    "header added": (_with("x-amz-meta-b", "3"), (403, "AccessDenied")),
    "date dropped": (_without("x-amz-date"), (403, "AccessDenied")),
    "empty authorization": (_with("Authorization", "AWS4-HMAC-SHA256 "), MALFORMED),
    "version 2": (_with("Authorization", "AWS KEY:signature"), (400, "InvalidRequest")),
}


@pytest.mark.parametrize("change", CHANGES)
def test_request_changed_after_it_was_signed_stores_nothing(
    signer: Signer, url: str, s3: Any, bucket: str, change: str
) -> None:
    alter, refusal = CHANGES[change]
    sent = signer.headers("PUT", url, hashlib.sha256(BODY).hexdigest(), {"x-amz-meta-a": "1"})
    answer = fetch("PUT", url, headers=alter(sent), body=BODY)
    assert (answer.status, answer.code) == refusal
    assert all_keys(s3, bucket) == []


def test_body_other_than_the_signed_one_stores_nothing(signer: Signer, url: str, s3: Any, bucket: str) -> None:
    sent = signer.headers("PUT", url, hashlib.sha256(BODY).hexdigest())
    answer = fetch("PUT", url, headers=sent, body=BODY.upper())
    assert (answer.status, answer.code) == (400, "XAmzContentSHA256Mismatch")
    assert all_keys(s3, bucket) == []


def test_query_changed_after_it_was_signed_is_refused(signer: Signer, url: str) -> None:
    signed = signer.headers("GET", f"{url}?versionId=null", EMPTY_SHA256)
    assert fetch("GET", f"{url}?versionId=other", headers=signed).code == "SignatureDoesNotMatch"


def test_every_response_has_a_request_id(signer: Signer, url: str) -> None:
    answer = fetch("GET", url, headers=signer.headers("GET", url, EMPTY_SHA256))
    assert answer.code == "NoSuchKey"
    assert f"<RequestId>{answer.headers['x-amz-request-id']}</RequestId>".encode() in answer.body
    assert put(signer, url).headers["x-amz-request-id"] != answer.headers["x-amz-request-id"]


def test_100_continue_is_sent_only_after_the_signature_is_verified(
    lakebed_server: RunningServer, signer: Signer, url: str, s3: Any, bucket: str
) -> None:
    good = signer.headers("PUT", url, "UNSIGNED-PAYLOAD")
    with socket.create_connection(("127.0.0.1", lakebed_server.port), timeout=30) as connection:
        connection.sendall(_head(url, good))
        assert connection.recv(4096).startswith(b"HTTP/1.1 100 ")
        connection.sendall(BODY)
        assert connection.recv(4096).startswith(b"HTTP/1.1 200 ")
    assert body_of(s3, bucket, "k") == BODY
    bad = _with_secret(signer, "wrong").headers("PUT", url, "UNSIGNED-PAYLOAD")
    with socket.create_connection(("127.0.0.1", lakebed_server.port), timeout=30) as connection:
        connection.sendall(_head(url, bad))
        assert connection.recv(4096).startswith(b"HTTP/1.1 403 ")


def _head(url: str, headers: dict[str, str]) -> bytes:
    path = url[url.index("/", len("http://")) :]
    lines = [f"{name}: {value}" for name, value in headers.items()]
    lines += [f"Content-Length: {len(BODY)}", "Expect: 100-continue"]
    return f"PUT {path} HTTP/1.1\r\n".encode() + "\r\n".join(lines).encode() + b"\r\n\r\n"
