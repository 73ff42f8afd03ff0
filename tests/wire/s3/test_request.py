"""Bucket and key of a request, and its typed parameters."""

from __future__ import annotations

import contextlib
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.access import ANONYMOUS
from lakebed.core.errors import InvalidInput
from lakebed.objects.model import Caller
from lakebed.wire.aws.authentication import Authenticated
from lakebed.wire.aws.errors import AwsFault
from lakebed.wire.aws.request_target import S3Target, decode_path, parse_target
from lakebed.wire.http.body import RequestBody
from lakebed.wire.http.message import Request
from lakebed.wire.s3.request import S3Request

DOMAINS = ("s3.local", "objects.example.com")


def _request(query: str = "", headers: dict[str, str] | None = None) -> S3Request:
    http = Request("GET", "/", query, headers or {}, RequestBody(0), "http", "", "R1")
    return S3Request(http, S3Target("bucket", "key"), Authenticated(ANONYMOUS), Caller(ANONYMOUS))


# -- bucket and key -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "host", "bucket", "key"),
    [
        ("/", "localhost", "", ""),
        ("/bucket", "localhost", "bucket", ""),
        ("/bucket/", "localhost", "bucket", ""),
        ("/bucket/key", "localhost", "bucket", "key"),
        ("/bucket/a/b/", "localhost", "bucket", "a/b/"),
        ("/bucket//a", "localhost", "bucket", "/a"),
        ("/bucket/a%2Fb", "localhost", "bucket", "a/b"),
        ("/bucket/a+b", "localhost", "bucket", "a+b"),
        ("/bucket/a%20b", "localhost", "bucket", "a b"),
        ("/bucket/%25", "localhost", "bucket", "%"),
        ("/bucket/%2520", "localhost", "bucket", "%20"),
        ("/bucket/../x", "localhost", "bucket", "../x"),
        ("/bucket/%C3%A9", "localhost", "bucket", "é"),
        ("/bucket/é", "localhost", "bucket", "é"),
        ("/", "s3.local", "", ""),
        ("/bucket/key", "s3.local:9000", "bucket", "key"),
        ("/key", "bucket.s3.local", "bucket", "key"),
        ("/key", "bucket.s3.local:9000", "bucket", "key"),
        ("/", "bucket.s3.local", "bucket", ""),
        ("/a/b", "my.dotted.bucket.s3.local", "my.dotted.bucket", "a/b"),
        ("//a", "bucket.s3.local", "bucket", "/a"),
        ("/key", "bucket.objects.example.com", "bucket", "key"),
        ("/bucket/key", "bucket.elsewhere.com", "bucket", "key"),
        ("/bucket/key", "evil-s3.local", "bucket", "key"),
    ],
)
def test_bucket_and_key_are_parsed_from_path_or_host(path: str, host: str, bucket: str, key: str) -> None:
    target = parse_target(path, host, DOMAINS)
    assert (target.bucket, target.key) == (bucket, key)


def test_host_is_ignored_without_configured_domains() -> None:
    target = parse_target("/bucket/key", "other.s3.local", ())
    assert (target.bucket, target.key) == ("bucket", "key")


def test_path_with_an_empty_bucket_is_rejected() -> None:
    with pytest.raises(AwsFault) as error:
        parse_target("//key", "localhost", ())
    assert error.value.code == "InvalidBucketName"


@pytest.mark.parametrize("path", ["/bucket/%ff", "/bucket/%C3", "/%ff/key", "/bucket/%00", "/bucket/%zz", "/bucket/%"])
def test_path_with_invalid_encoding_is_rejected(path: str) -> None:
    with pytest.raises(AwsFault) as error:
        parse_target(path, "localhost", ())
    assert (error.value.status, error.value.code) == (400, "InvalidURI")


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1))
def test_any_key_round_trips_through_its_url(key: str) -> None:
    for safe in ("", "/~", "/!*'()+=:@,;$&"):
        assert parse_target("/bucket/" + quote(key, safe=safe), "localhost", ()).key == key
        assert parse_target("/" + quote(key, safe=safe), "bucket.s3.local", DOMAINS).key == key


@given(st.binary(max_size=12))
def test_random_path_is_decoded_or_rejected(raw: bytes) -> None:
    text = raw.decode("utf-8", "surrogateescape")
    with contextlib.suppress(AwsFault):
        assert "\0" not in decode_path(text).encode().decode()


# -- parameters -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "value"),
    [("", 7), ("n=", 7), ("n=0", 0), ("n=5", 5), ("n=10", 10), ("n=11", 10), ("n=2147483647", 10), ("n=0005", 5)],
)
def test_integer_is_reduced_to_the_maximum(query: str, value: int) -> None:
    assert _request(query).integer("n", 7, maximum=10) == value


@pytest.mark.parametrize(
    "text", ["-1", "--5", "2147483648", "9" * 5000, "x", "1.5", "%C2%B2", "%D9%A3", "1_0", "+1", "%201", "0x1"]
)
def test_invalid_integer_is_rejected(text: str) -> None:
    with pytest.raises(InvalidInput) as error:
        _request(f"n={text}").integer("n", 7, maximum=10)
    assert error.value.argument == "n"


@given(st.text())
def test_random_text_is_an_integer_or_rejected(text: str) -> None:
    request = _request(f"n={quote(text, safe='', errors='replace')}")
    try:
        value = request.integer("n", 7, maximum=10)
    except InvalidInput:
        return
    assert 0 <= value <= 10


def test_empty_parameter_is_none() -> None:
    request = _request("a=&b=1&b=2&c")
    assert [request.parameter(name) for name in ("a", "b", "c", "d")] == [None, "1", None, None]


@pytest.mark.parametrize(("query", "version"), [("", None), ("versionId=null", "null"), ("versionId=0aF", "0aF")])
def test_version_id_is_parsed(query: str, version: str | None) -> None:
    assert _request(query).version == version


@pytest.mark.parametrize("query", ["versionId", "versionId=", "versionId=a%20b", "versionId=%C3%A9", "versionId=a/b"])
def test_invalid_version_id_is_rejected(query: str) -> None:
    with pytest.raises(AwsFault) as error:
        _ = _request(query).version
    assert error.value.code == "InvalidArgument"


def test_empty_version_id_of_a_lock_request_is_the_current_version() -> None:
    assert _request("versionId=").annotated_version is None
    assert _request("versionId=a").annotated_version == "a"


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [
        ("Fri, 24 May 2013 00:00:00 GMT", 1369353600000),
        ("2013-05-24T00:00:00Z", 1369353600000),
        ("yesterday", None),
        ("", None),
    ],
)
def test_malformed_time_header_is_ignored(text: str, time_ms: int | None) -> None:
    request = _request(headers={"if-modified-since": text})
    assert request.time_header("if-modified-since") == time_ms
    assert request.time_header("if-unmodified-since") is None
