from __future__ import annotations

import pytest

from lakebed.core.access import ANONYMOUS, root_of
from lakebed.governance.policy_language.condition_keys import actions_with_key
from lakebed.governance.policy_language.wildcards import fold_key
from lakebed.wire.aws.authentication import Authenticated, PayloadClaim
from lakebed.wire.aws.chunk_signing import StreamingKind
from lakebed.wire.http.body import RequestBody
from lakebed.wire.http.message import Request
from lakebed.wire.s3.condition_context import _HEADERS, OBJECT_HEADERS, form_condition_keys, request_condition_keys

ROOT = root_of("000000000000")
NOW_MS = 1_700_000_000_250
SIGNED_AT = 1_699_999_990
SIGNED = Authenticated(ROOT, signed_at=SIGNED_AT)
UNSIGNED = Authenticated(ANONYMOUS, is_signed=False)


def request(headers: dict[str, str] | None = None, tls_version: str = "") -> Request:
    return Request("PUT", "/bucket/key", "", headers or {}, RequestBody(0), "https", "192.0.2.7", "R1", tls_version)


def test_headers_set_their_condition_keys() -> None:
    keys = request_condition_keys(request({name: f"value of {name}" for name in _HEADERS}), UNSIGNED, NOW_MS)
    assert {keys[key] for key in _HEADERS.values()} == {f"value of {name}" for name in _HEADERS}


def test_missing_headers_set_no_condition_keys() -> None:
    assert set(request_condition_keys(request(), UNSIGNED, NOW_MS)) == {"s3:signatureversion", "s3:authType"}


def test_bucket_policies_may_use_every_condition_key() -> None:
    headers = dict.fromkeys([*_HEADERS, "authorization"], "x")
    keys = request_condition_keys(request(headers, "TLSv1.2"), SIGNED, NOW_MS)
    keys |= form_condition_keys(keys, dict.fromkeys(OBJECT_HEADERS, "x"), SIGNED_AT, NOW_MS)
    assert [key for key in keys if actions_with_key(fold_key(key)) is None] == []


@pytest.mark.parametrize(
    ("authenticated", "headers", "expected"),
    [
        (UNSIGNED, {}, "ANONYMOUS"),
        (SIGNED, {}, "REST-QUERY-STRING"),
        (SIGNED, {"authorization": "AWS4-HMAC-SHA256 …"}, "REST-HEADER"),
    ],
)
def test_auth_type_is_the_kind_of_signature(
    authenticated: Authenticated, headers: dict[str, str], expected: str
) -> None:
    assert request_condition_keys(request(headers), authenticated, NOW_MS)["s3:authType"] == expected


@pytest.mark.parametrize(("signed_at", "expected"), [(SIGNED_AT, "10250"), (SIGNED_AT + 60, "0")])
def test_signature_age_is_in_milliseconds_and_never_negative(signed_at: int, expected: str) -> None:
    keys = request_condition_keys(request(), SIGNED._replace(signed_at=signed_at), NOW_MS)
    assert keys["s3:signatureAge"] == expected


@pytest.mark.parametrize(("version", "expected"), [("TLSv1.2", "1.2"), ("TLSv1.3", "1.3"), ("", None)])
def test_tls_version_is_a_number(version: str, expected: str | None) -> None:
    assert request_condition_keys(request(tls_version=version), SIGNED, NOW_MS).get("s3:TlsVersion") == expected


@pytest.mark.parametrize(
    ("claim", "expected"),
    [
        (PayloadClaim(), "UNSIGNED-PAYLOAD"),
        (PayloadClaim(sha256="0" * 64), "0" * 64),
        (PayloadClaim(streaming=StreamingKind.SIGNED), "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"),
    ],
)
def test_content_sha256_is_the_signed_value_for_signed_requests(claim: PayloadClaim, expected: str) -> None:
    forged = request({"x-amz-content-sha256": "1" * 64})
    keys = request_condition_keys(forged, SIGNED._replace(payload=claim), NOW_MS)
    assert keys["s3:x-amz-content-sha256"] == expected
    assert request_condition_keys(forged, UNSIGNED, NOW_MS)["s3:x-amz-content-sha256"] == "1" * 64


def test_form_has_condition_keys_of_its_fields_and_of_the_connection() -> None:
    outer = request({"x-amz-acl": "outer", "user-agent": "browser", "authorization": "x"}, "TLSv1.3")
    keys = form_condition_keys(
        request_condition_keys(outer, SIGNED, NOW_MS),
        {"x-amz-storage-class": "STANDARD", "x-amz-date": "x"},
        SIGNED_AT,
        NOW_MS,
    )
    assert keys == {
        "aws:UserAgent": "browser",
        "s3:TlsVersion": "1.3",
        "s3:authType": "POST",
        "s3:signatureAge": "10250",
        "s3:signatureversion": "AWS4-HMAC-SHA256",
        "s3:x-amz-storage-class": "STANDARD",
    }


def test_unsigned_form_is_anonymous() -> None:
    assert form_condition_keys({}, {}, None, NOW_MS) == {
        "s3:authType": "ANONYMOUS",
        "s3:signatureversion": "AWS4-HMAC-SHA256",
    }
