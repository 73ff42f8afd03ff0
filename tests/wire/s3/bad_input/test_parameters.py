"""Invalid query parameters, ranges, parts and methods."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import pytest

from tests.fixtures.raw_http import UNSIGNED

from .site import BODY, BUCKET, KEPT, VERSIONED, Case, Site, assert_error, cases

pytestmark = [pytest.mark.integration, pytest.mark.slow]


def _get(target: str, extra: Mapping[str, str] | None = None) -> Callable[[Site], bytes]:
    return lambda site: site.signed("GET", target.replace("UPLOAD", site.upload), extra)


def _part(number: str, extra: Mapping[str, str] | None = None) -> Callable[[Site], bytes]:
    return lambda site: site.signed(
        "PUT", f"/{BUCKET}/upload?partNumber={number}&uploadId={site.upload}", extra, b"" if extra else BODY
    )


def _complete(parts: str, extra: Mapping[str, str] | None = None) -> Callable[[Site], bytes]:
    body = f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>".encode()
    return lambda site: site.signed("POST", f"/{BUCKET}/upload?uploadId={site.upload}", extra, body)


_ABSENT_PART: Final = f"<Part><PartNumber>1</PartNumber><ETag>{'0' * 32}</ETag></Part>"


@pytest.mark.usefixtures("unchanged")
@cases(
    ("page of words", 400, "InvalidArgument", _get(f"/{BUCKET}?max-keys=many")),
    ("negative page", 400, "InvalidArgument", _get(f"/{BUCKET}?max-keys=-1")),
    ("page with many signs", 400, "InvalidArgument", _get(f"/{BUCKET}?max-keys=--1")),
    ("page of strange digits", 400, "InvalidArgument", _get(f"/{BUCKET}?max-keys=%C2%B2")),
    ("page over all bounds", 400, "InvalidArgument", _get(f"/{BUCKET}?max-keys=99999999999")),
    ("page of 5000 digits", 400, "InvalidArgument", _get(f"/{BUCKET}?max-keys={'9' * 5000}")),
    ("page of a fraction", 400, "InvalidArgument", _get(f"/{BUCKET}?max-keys=1.5")),
    ("page of versions", 400, "InvalidArgument", _get(f"/{BUCKET}?versions&max-keys=x")),
    ("page of uploads", 400, "InvalidArgument", _get(f"/{BUCKET}?uploads&max-uploads=x")),
    ("page of parts", 400, "InvalidArgument", _get(f"/{BUCKET}/upload?uploadId=UPLOAD&max-parts=x")),
    ("page of buckets", 400, "InvalidArgument", _get("/?max-buckets=x")),
    ("encoding", 400, "InvalidArgument", _get(f"/{BUCKET}?encoding-type=rot13")),
    ("token", 400, "InvalidArgument", _get(f"/{BUCKET}?list-type=2&continuation-token=nonsense")),
    ("empty token", 400, "InvalidArgument", _get(f"/{BUCKET}?list-type=2&continuation-token=")),
    ("token of buckets", 400, "InvalidArgument", _get("/?continuation-token=nonsense")),
    ("version marker alone", 400, "InvalidArgument", _get(f"/{VERSIONED}?versions&version-id-marker=abc")),
    ("empty version", 400, "InvalidArgument", _get(f"/{BUCKET}/{KEPT}?versionId=")),
    ("unknown version", 404, "NoSuchVersion", _get(f"/{VERSIONED}/{KEPT}?versionId=nonsense")),
    ("part 0 of an object", 400, "InvalidArgument", _get(f"/{BUCKET}/{KEPT}?partNumber=0")),
    ("part of strange digits", 400, "InvalidArgument", _get(f"/{BUCKET}/{KEPT}?partNumber=%C2%B2")),
    ("part of 5000 digits", 400, "InvalidArgument", _get(f"/{BUCKET}/{KEPT}?partNumber={'9' * 5000}")),
    ("range past the end", 416, "InvalidRange", _get(f"/{BUCKET}/{KEPT}", {"range": "bytes=100-"})),
    ("range far past the end", 416, "InvalidRange", _get(f"/{BUCKET}/{KEPT}", {"range": f"bytes={'9' * 18}-"})),
    ("override in lines", 400, "InvalidArgument", _get(f"/{BUCKET}/{KEPT}?response-content-type=a%0D%0Ax-evil:%201")),
    ("override not utf-8", 400, "InvalidArgument", _get(f"/{BUCKET}/{KEPT}?response-content-type=%FF")),
    ("attributes of nothing", 400, "InvalidRequest", _get(f"/{BUCKET}/{KEPT}?attributes")),
    (
        "attributes unknown",
        400,
        "InvalidArgument",
        _get(f"/{BUCKET}/{KEPT}?attributes", {"x-amz-object-attributes": "Nonsense"}),
    ),
    ("part number 0", 400, "InvalidArgument", _part("0")),
    ("part number 10001", 400, "InvalidArgument", _part("10001")),
    ("part number in words", 400, "InvalidArgument", _part("one")),
    ("part number in strange digits", 400, "InvalidArgument", _part("%C2%B2")),
    ("part number of 5000 digits", 400, "InvalidArgument", _part("9" * 5000)),
    (
        "part copied from strange digits",
        400,
        "InvalidArgument",
        _part("1", {"x-amz-copy-source": f"/{BUCKET}/{KEPT}", "x-amz-copy-source-range": "bytes=²-³"}),
    ),
    (
        "part copied past the end",
        400,
        "InvalidArgument",
        _part("1", {"x-amz-copy-source": f"/{BUCKET}/{KEPT}", "x-amz-copy-source-range": "bytes=0-99"}),
    ),
    ("unknown upload", 404, "NoSuchUpload", _get(f"/{BUCKET}/upload?uploadId=nonsense")),
    ("upload of another key", 404, "NoSuchUpload", _get(f"/{BUCKET}/{KEPT}?uploadId=UPLOAD")),
    ("complete with no parts", 400, "MalformedXML", _complete("")),
    ("complete with an absent part", 400, "InvalidPart", _complete(_ABSENT_PART)),
    ("complete with part 0", 400, "InvalidArgument", _complete(_ABSENT_PART.replace(">1<", ">0<"))),
    ("complete out of order", 400, "InvalidPartOrder", _complete(_ABSENT_PART.replace(">1<", ">2<") + _ABSENT_PART)),
    ("complete with a size in words", 400, "InvalidRequest", _complete(_ABSENT_PART, {"x-amz-mp-object-size": "x"})),
    (
        "complete with a size in strange digits",
        400,
        "InvalidRequest",
        _complete(_ABSENT_PART, {"x-amz-mp-object-size": "²"}),
    ),
    ("deletion of nothing", 400, "MalformedXML", lambda s: s.signed("POST", f"/{BUCKET}?delete", None, b"<Delete/>")),
    (
        "deletion of 1001",
        400,
        "MalformedXML",
        lambda s: s.signed(
            "POST", f"/{BUCKET}?delete", None, b"<Delete>%b</Delete>" % (b"<Object><Key>a</Key></Object>" * 1001)
        ),
    ),
    (
        "deletion without digest",
        400,
        "InvalidRequest",
        lambda s: s.signed("POST", f"/{BUCKET}?delete", None, b"<Delete/>", payload_hash=UNSIGNED),
    ),
    ("website", 404, "NoSuchWebsiteConfiguration", _get(f"/{BUCKET}?website")),
    ("put website", 501, "NotImplemented", lambda s: s.signed("PUT", f"/{BUCKET}?website", None, b"<a/>")),
    ("torrent", 501, "NotImplemented", _get(f"/{BUCKET}/{KEPT}?torrent")),
    ("put of a page", 405, "MethodNotAllowed", lambda s: s.signed("PUT", f"/{BUCKET}?versions", None, b"")),
    ("post to a key", 405, "MethodNotAllowed", lambda s: s.signed("POST", f"/{BUCKET}/{KEPT}", None, b"")),
    ("patch", 405, "MethodNotAllowed", lambda s: s.signed("PATCH", f"/{BUCKET}/{KEPT}")),
    ("delete of everything", 405, "MethodNotAllowed", lambda s: s.signed("DELETE", "/")),
    ("delete of a bucket in use", 409, "BucketNotEmpty", lambda s: s.signed("DELETE", f"/{BUCKET}/")),
)
def test_invalid_parameters_are_rejected(site: Site, case: Case) -> None:
    assert_error(site.send(case.make(site)), case.status, case.code)


@pytest.mark.parametrize(
    "text", ["bytes=²-", "bytes=-²", "bytes=a-b", "bytes=5-2", "bytes=0-1,3-4", "lines=1-2", "bytes"]
)
def test_malformed_range_is_ignored(site: Site, text: str) -> None:
    response = site.send(site.signed("GET", f"/{BUCKET}/{KEPT}", {"range": text}))
    assert (response.status, response.body) == (200, b"kept bytes")


@pytest.mark.parametrize("duration", ["%C2%B2", "9" * 5000, "-1", "--1", "soon"])
def test_invalid_session_duration_is_rejected(site: Site, duration: str) -> None:
    body = f"Action=AssumeRole&Version=2011-06-15&DurationSeconds={duration}".encode()
    response = site.send(site.signed("POST", "/", None, body))
    assert (response.status, response.code) == (400, "ValidationError")
    assert response.document_request_id == response.request_id != ""


@pytest.mark.usefixtures("unchanged")
def test_rejected_head_request_has_no_body(site: Site) -> None:
    with site.connect() as connection:
        response = connection.exchange(site.signed("HEAD", f"/{BUCKET}/absent"), is_head=True)
        assert (response.status, response.request_id != "") == (404, True)
        assert connection.exchange(site.signed("GET", f"/{BUCKET}/{KEPT}")).body == b"kept bytes"
