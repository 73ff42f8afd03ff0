"""Wrong, altered, expired and malformed signatures in headers and presigned URLs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from tests.fixtures.raw_http import request_bytes

from .site import BODY, BUCKET, HEX, KEPT, Case, Site, assert_error, cases

pytestmark = [pytest.mark.integration, pytest.mark.slow]


def _altered(alter: Callable[[dict[str, str]], object]) -> Callable[[Site], bytes]:
    """A signed request whose headers were changed afterwards."""

    def make(site: Site) -> bytes:
        headers = site.signer.headers("PUT", f"/{BUCKET}/new", {"x-amz-meta-a": "b"}, BODY)
        alter(headers)
        return request_bytes("PUT", f"/{BUCKET}/new", headers, BODY)

    return make


def _authorization(change: Callable[[str], str]) -> Callable[[Site], bytes]:
    return _altered(lambda headers: headers.update(authorization=change(headers["authorization"])))


def _redirected(method: str, target: str) -> Callable[[Site], bytes]:
    """A valid signature of another request."""

    def make(site: Site) -> bytes:
        headers = site.signer.headers("PUT", f"/{BUCKET}/new?tagging", None, BODY)
        return request_bytes(method, target, headers, BODY)

    return make


def _by(**claims: object) -> Callable[[Site], bytes]:
    """A request with another signer or signing time."""
    return lambda site: replace(site.signer, **claims).request("PUT", f"/{BUCKET}/new", None, BODY)  # type: ignore[arg-type]  # names and types of the fields are in the table


@pytest.mark.usefixtures("unchanged")
@cases(
    ("wrong secret", 403, "SignatureDoesNotMatch", _by(secret_key="another")),
    ("unknown key", 403, "InvalidAccessKeyId", _by(access_key="LKBDNOSUCHKEYATALL00")),
    ("clock behind", 403, "RequestTimeTooSkewed", _by(offset=timedelta(minutes=-16))),
    ("clock ahead", 403, "RequestTimeTooSkewed", _by(offset=timedelta(minutes=16))),
    ("another service", 400, "AuthorizationHeaderMalformed", _by(service="ec2")),
    ("altered query", 403, "SignatureDoesNotMatch", _redirected("PUT", f"/{BUCKET}/new?legal-hold")),
    ("altered key", 403, "SignatureDoesNotMatch", _redirected("PUT", f"/{BUCKET}/other?tagging")),
    ("altered method", 403, "SignatureDoesNotMatch", _redirected("POST", f"/{BUCKET}/new?tagging")),
    ("altered header", 403, "SignatureDoesNotMatch", _altered(lambda h: h.update({"x-amz-meta-a": "c"}))),
    ("removed header", 403, "SignatureDoesNotMatch", _altered(lambda h: h.pop("x-amz-meta-a"))),
    ("added header", 403, "AccessDenied", _altered(lambda h: h.update({"x-amz-acl": "private"}))),
    ("no date", 403, "AccessDenied", _altered(lambda h: h.pop("x-amz-date"))),
    ("date in words", 403, "AccessDenied", _altered(lambda h: h.update({"x-amz-date": "yesterday"}))),
    ("date in strange digits", 403, "AccessDenied", _altered(lambda h: h.update({"x-amz-date": "²0260101T000000Z"}))),
    ("date of month 13", 403, "AccessDenied", _altered(lambda h: h.update({"x-amz-date": "20261301T000000Z"}))),
    ("no content hash", 400, "InvalidRequest", _altered(lambda h: h.pop("x-amz-content-sha256"))),
    ("basic", 400, "InvalidArgument", _authorization(lambda a: "Basic dXNlcjpwYXNz")),
    ("bearer", 400, "InvalidArgument", _authorization(lambda a: "Bearer token")),
    ("version 2", 400, "InvalidRequest", _authorization(lambda a: "AWS LKBDTESTROOTACCESSKY:c2lnbmF0dXJl")),
    ("version 4a", 400, "InvalidRequest", _authorization(lambda a: a.replace("HMAC", "ECDSA-P256"))),
    ("empty", 400, "InvalidArgument", _altered(lambda h: h.update(authorization=""))),
    ("none", 403, "AccessDenied", _altered(lambda h: h.pop("authorization"))),
    ("scheme alone", 400, "AuthorizationHeaderMalformed", _authorization(lambda a: "AWS4-HMAC-SHA256 ")),
    ("nonsense", 400, "AuthorizationHeaderMalformed", _authorization(lambda a: "AWS4-HMAC-SHA256 Signature=" + HEX)),
    (
        "no credential",
        400,
        "AuthorizationHeaderMalformed",
        _authorization(lambda a: a.replace("Credential=", "Cred=")),
    ),
    (
        "no signed headers",
        400,
        "AuthorizationHeaderMalformed",
        _authorization(lambda a: a.replace("SignedHeaders=", "Signed=")),
    ),
    ("no signature", 400, "AuthorizationHeaderMalformed", _authorization(lambda a: a.partition(", Signature")[0])),
    ("short signature", 400, "AuthorizationHeaderMalformed", _authorization(lambda a: a[:-1])),
    ("signature of zeros", 403, "SignatureDoesNotMatch", _authorization(lambda a: a[:-64] + HEX)),
    ("signature not ascii", 403, "SignatureDoesNotMatch", _authorization(lambda a: a[:-64] + "é" * 64)),
    (
        "scope cut short",
        400,
        "AuthorizationHeaderMalformed",
        _authorization(lambda a: a.replace("/aws4_request", "")),
    ),
    (
        "scope of another day",
        400,
        "AuthorizationHeaderMalformed",
        _authorization(lambda a: a.replace("/20", "/19", 1)),
    ),
    (
        "host not signed",
        400,
        "AuthorizationHeaderMalformed",
        _authorization(lambda a: a.replace("SignedHeaders=host;", "SignedHeaders=")),
    ),
    (
        "header twice",
        400,
        "AuthorizationHeaderMalformed",
        lambda s: s.put().replace(b"\r\n\r\n", b"\r\nauthorization: AWS4-HMAC-SHA256 x\r\n\r\n", 1),
    ),
    (
        "key that is not utf-8",
        400,
        "AuthorizationHeaderMalformed",
        _authorization(lambda a: a.replace("LKBD", "\udcff")),
    ),
    ("key that is not ascii", 400, "AuthorizationHeaderMalformed", _authorization(lambda a: a.replace("LKBD", "é"))),
    (
        "region that is not utf-8",
        400,
        "AuthorizationHeaderMalformed",
        _authorization(lambda a: a.replace("us-", "\udcff")),
    ),
    ("headers that are not utf-8", 403, "AccessDenied", _authorization(lambda a: a.replace("x-amz-meta-a", "\udcff"))),
    ("token that is not utf-8", 400, "InvalidToken", lambda s: s.put({"x-amz-security-token": "\udcff"})),
    ("token that is not ascii", 400, "InvalidToken", lambda s: s.put({"x-amz-security-token": "é" * 50})),
    ("hash that is not utf-8", 400, "InvalidArgument", lambda s: s.put(payload_hash="\udcff" * 44)),
    ("both header and query", 400, "InvalidArgument", lambda s: _both_mechanisms(s)),
    ("unknown token", 400, "InvalidToken", lambda s: s.put({"x-amz-security-token": "nonsense"})),
)
def test_request_with_an_invalid_signature_is_rejected(site: Site, case: Case) -> None:
    assert_error(site.send(case.make(site)), case.status, case.code)


def _both_mechanisms(site: Site) -> bytes:
    target = site.signer.presign("PUT", f"/{BUCKET}/new", 60)
    return site.signer.request("PUT", target, None, BODY)


def _presigned(seconds: int | str, change: Callable[[str], str] = str, **fields: str) -> Callable[[Site], bytes]:
    def make(site: Site) -> bytes:
        offset = timedelta(seconds=int(fields.get("offset", "0")))
        named = {name: value for name, value in fields.items() if name != "offset"}
        target = site.signer.shifted(offset).presign("PUT", f"/{BUCKET}/new", seconds, **named)
        return request_bytes("PUT", change(target), {"host": site.signer.host, "content-length": "0"})

    return make


@pytest.mark.usefixtures("unchanged")
@cases(
    ("past its time", 403, "AccessDenied", _presigned(60, offset="-61")),
    ("before its time", 403, "AccessDenied", _presigned(60, offset="1000")),
    ("for no time", 403, "AccessDenied", _presigned(0)),
    ("for a negative time", 400, "AuthorizationQueryParametersError", _presigned(-5)),
    ("for over a week", 400, "AuthorizationQueryParametersError", _presigned(604_801)),
    ("for a year of digits", 400, "AuthorizationQueryParametersError", _presigned("9" * 5000)),
    ("time in words", 400, "AuthorizationQueryParametersError", _presigned("soon")),
    ("time in strange digits", 400, "AuthorizationQueryParametersError", _presigned("²")),
    ("time with many signs", 400, "AuthorizationQueryParametersError", _presigned("--5")),
    ("date in words", 400, "AuthorizationQueryParametersError", _presigned(60, Date="yesterday")),
    ("date in strange digits", 400, "AuthorizationQueryParametersError", _presigned(60, Date="²0260101T000000Z")),
    ("another algorithm", 400, "AuthorizationQueryParametersError", _presigned(60, Algorithm="AWS4-ECDSA-P256-SHA256")),
    ("credential of nul", 400, "InvalidArgument", _presigned(60, Credential="\0/20260101/r/s3/aws4_request")),
    ("credential cut short", 400, "AuthorizationQueryParametersError", _presigned(60, Credential="KEY/20260101")),
    ("host not signed", 400, "AuthorizationQueryParametersError", _presigned(60, SignedHeaders="x-amz-date")),
    ("header not sent", 403, "SignatureDoesNotMatch", _presigned(60, SignedHeaders="host;x-amz-acl")),
    (
        "no signature",
        400,
        "AuthorizationQueryParametersError",
        _presigned(60, lambda target: target.partition("&X-Amz-Signature")[0]),
    ),
    ("altered key", 403, "SignatureDoesNotMatch", _presigned(60, lambda target: target.replace("/new", "/other"))),
    ("longer time", 403, "SignatureDoesNotMatch", _presigned(60, lambda target: target.replace("=60&", "=600&"))),
    ("added parameter", 403, "SignatureDoesNotMatch", _presigned(60, lambda target: target + "&uploads=")),
    ("signature cut short", 403, "SignatureDoesNotMatch", _presigned(60, lambda target: target[:-5])),
    (
        "version 2",
        400,
        "InvalidRequest",
        lambda s: s.raw("PUT", f"/{BUCKET}/new?AWSAccessKeyId=a&Expires=1&Signature=b"),
    ),
)
def test_presigned_url_with_an_invalid_signature_is_rejected(site: Site, case: Case) -> None:
    assert_error(site.send(case.make(site)), case.status, case.code)


@pytest.mark.usefixtures("unchanged")
def test_presigned_url_for_get_is_rejected_for_other_methods(site: Site) -> None:
    target = site.signer.presign("GET", f"/{BUCKET}/{KEPT}", 60)
    host = {"host": site.signer.host}
    assert site.send(request_bytes("GET", target, host)).body == b"kept bytes"
    for method in ("PUT", "DELETE", "POST"):
        response = site.send(request_bytes(method, target, host | {"content-length": "0"}))
        assert_error(response, 403, "SignatureDoesNotMatch")


@pytest.mark.usefixtures("unchanged")
def test_presigned_url_is_rejected_after_its_expiry(site: Site) -> None:
    target = site.signer.shifted(timedelta(seconds=-58)).presign("GET", f"/{BUCKET}/{KEPT}", 60)
    request = request_bytes("GET", target, {"host": site.signer.host})
    with site.connect() as connection:
        assert connection.exchange(request).body == b"kept bytes"
        while (response := connection.exchange(request)).status == 200:
            assert response.body == b"kept bytes"
    assert_error(response, 403, "AccessDenied")
    assert b"Request has expired" in response.body
