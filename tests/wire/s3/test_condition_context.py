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


def test_headers_give_their_values() -> None:
    facts = request_condition_keys(request({name: f"value of {name}" for name in _HEADERS}), UNSIGNED, NOW_MS)
    assert {facts[key] for key in _HEADERS.values()} == {f"value of {name}" for name in _HEADERS}


def test_headers_that_are_not_there_give_nothing() -> None:
    assert set(request_condition_keys(request(), UNSIGNED, NOW_MS)) == {"s3:signatureversion", "s3:authType"}


def test_every_fact_is_a_key_that_a_bucket_policy_may_name() -> None:
    headers = dict.fromkeys([*_HEADERS, "authorization"], "x")
    facts = request_condition_keys(request(headers, "TLSv1.2"), SIGNED, NOW_MS)
    facts |= form_condition_keys(facts, dict.fromkeys(OBJECT_HEADERS, "x"), SIGNED_AT, NOW_MS)
    assert [key for key in facts if actions_with_key(fold_key(key)) is None] == []


@pytest.mark.parametrize(
    ("who", "headers", "expected"),
    [
        (UNSIGNED, {}, "ANONYMOUS"),
        (SIGNED, {}, "REST-QUERY-STRING"),
        (SIGNED, {"authorization": "AWS4-HMAC-SHA256 …"}, "REST-HEADER"),
    ],
)
def test_way_of_signing(who: Authenticated, headers: dict[str, str], expected: str) -> None:
    assert request_condition_keys(request(headers), who, NOW_MS)["s3:authType"] == expected


@pytest.mark.parametrize(("signed_at", "expected"), [(SIGNED_AT, "10250"), (SIGNED_AT + 60, "0")])
def test_age_of_a_signature_is_in_milliseconds_and_never_below_none(signed_at: int, expected: str) -> None:
    facts = request_condition_keys(request(), SIGNED._replace(signed_at=signed_at), NOW_MS)
    assert facts["s3:signatureAge"] == expected


@pytest.mark.parametrize(("version", "expected"), [("TLSv1.2", "1.2"), ("TLSv1.3", "1.3"), ("", None)])
def test_version_of_tls_is_a_number(version: str, expected: str | None) -> None:
    assert request_condition_keys(request(tls_version=version), SIGNED, NOW_MS).get("s3:TlsVersion") == expected


@pytest.mark.parametrize(
    ("claim", "expected"),
    [
        (PayloadClaim(), "UNSIGNED-PAYLOAD"),
        (PayloadClaim(sha256="0" * 64), "0" * 64),
        (PayloadClaim(streaming=StreamingKind.SIGNED), "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"),
    ],
)
def test_content_is_what_was_signed_whatever_a_header_says(claim: PayloadClaim, expected: str) -> None:
    forged = request({"x-amz-content-sha256": "1" * 64})
    facts = request_condition_keys(forged, SIGNED._replace(payload=claim), NOW_MS)
    assert facts["s3:x-amz-content-sha256"] == expected
    assert request_condition_keys(forged, UNSIGNED, NOW_MS)["s3:x-amz-content-sha256"] == "1" * 64


def test_form_keeps_of_the_request_around_it_what_is_not_of_an_object() -> None:
    around = request({"x-amz-acl": "around", "user-agent": "browser", "authorization": "x"}, "TLSv1.3")
    facts = form_condition_keys(
        request_condition_keys(around, SIGNED, NOW_MS),
        {"x-amz-storage-class": "STANDARD", "x-amz-date": "x"},
        SIGNED_AT,
        NOW_MS,
    )
    assert facts == {
        "aws:UserAgent": "browser",
        "s3:TlsVersion": "1.3",
        "s3:authType": "POST",
        "s3:signatureAge": "10250",
        "s3:signatureversion": "AWS4-HMAC-SHA256",
        "s3:x-amz-storage-class": "STANDARD",
    }


def test_form_that_nobody_signed() -> None:
    assert form_condition_keys({}, {}, None, NOW_MS) == {
        "s3:authType": "ANONYMOUS",
        "s3:signatureversion": "AWS4-HMAC-SHA256",
    }
