"""Invalid names of buckets and keys, and unusual names that are valid."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote, unquote
from xml.etree import ElementTree

import pytest

from .site import BODY, BUCKET, KEPT, Case, Site, assert_error, cases

pytestmark = [pytest.mark.integration, pytest.mark.slow]


@pytest.mark.usefixtures("unchanged")
@cases(
    ("key of 1025 bytes", 400, "KeyTooLongError", lambda s: s.put(key="k" * 1025)),
    ("key of 1025 bytes in 3-byte letters", 400, "KeyTooLongError", lambda s: s.put(key="%E2%82%AC" * 341 + "kk")),
    ("nul", 400, "InvalidURI", lambda s: s.put(key="a%00b")),
    ("read nul", 400, "InvalidURI", lambda s: s.signed("GET", f"/{BUCKET}/a%00b")),
    ("delete nul", 400, "InvalidURI", lambda s: s.signed("DELETE", f"/{BUCKET}/a%00b")),
    ("copy from nul", 400, "InvalidArgument", lambda s: s.put({"x-amz-copy-source": f"/{BUCKET}/a%00b"}, b"")),
    ("control character echoed", 400, "InvalidArgument", lambda s: s.signed("GET", f"/{BUCKET}?max-keys=%01%1B")),
    ("bytes that are not utf-8", 400, "InvalidURI", lambda s: s.put(key="%FF%FE")),
    ("raw bytes", 400, "BadRequest", lambda s: s.put(key="\udcff")),
    ("overlong utf-8", 400, "InvalidURI", lambda s: s.put(key="%C0%AF")),
    ("surrogate", 400, "InvalidURI", lambda s: s.put(key="%ED%A0%80")),
    ("percent alone", 400, "InvalidURI", lambda s: s.put(key="a%")),
    ("percent and no digits", 400, "InvalidURI", lambda s: s.put(key="%zz")),
    ("no bucket", 400, "InvalidBucketName", lambda s: s.signed("PUT", "//key", None, BODY)),
    ("list no bucket", 400, "InvalidBucketName", lambda s: s.signed("GET", "//key")),
    ("post to no bucket", 400, "InvalidBucketName", lambda s: s.signed("POST", "//key", None, BODY)),
    ("upper case bucket", 400, "InvalidBucketName", lambda s: s.signed("PUT", "/UPPER")),
    ("short bucket", 400, "InvalidBucketName", lambda s: s.signed("PUT", "/ab")),
    ("long bucket", 400, "InvalidBucketName", lambda s: s.signed("PUT", f"/{'b' * 64}")),
    ("address as bucket", 400, "InvalidBucketName", lambda s: s.signed("PUT", "/192.168.0.1")),
    ("dots as bucket", 400, "InvalidBucketName", lambda s: s.signed("PUT", "/..")),
    ("nul in bucket", 400, "InvalidURI", lambda s: s.signed("PUT", "/buck%00et")),
    ("slash in bucket", 400, "InvalidBucketName", lambda s: s.signed("PUT", "/buck%2Fet")),
    ("object of a bucket with nul", 400, "InvalidURI", lambda s: s.signed("GET", "/buck%00et/key")),
    ("absent bucket", 404, "NoSuchBucket", lambda s: s.signed("PUT", "/bad-input-absent/key", None, BODY)),
    ("absent key", 404, "NoSuchKey", lambda s: s.signed("GET", f"/{BUCKET}/absent")),
    ("version that is not utf-8", 400, "InvalidArgument", lambda s: s.signed("GET", f"/{BUCKET}/{KEPT}?versionId=%FF")),
    ("prefix that is not utf-8", 400, "InvalidArgument", lambda s: s.signed("GET", f"/{BUCKET}?prefix=%FF")),
    ("marker that is not utf-8", 400, "InvalidArgument", lambda s: s.signed("GET", f"/{BUCKET}?marker=%ED%A0%80")),
    ("raw bytes in a parameter", 400, "BadRequest", lambda s: s.signed("GET", f"/{BUCKET}?prefix=\udcff")),
    ("nul in a prefix", 400, "InvalidArgument", lambda s: s.signed("GET", f"/{BUCKET}?prefix=%00")),
    ("nul in a marker", 400, "InvalidArgument", lambda s: s.signed("GET", f"/{BUCKET}?list-type=2&start-after=a%00")),
    ("nul in an upload", 400, "InvalidArgument", lambda s: s.signed("GET", f"/{BUCKET}/a?uploadId=%00")),
    ("parameter that is not utf-8", 400, "InvalidArgument", lambda s: s.signed("GET", f"/{BUCKET}?%FF=1")),
    ("upload that is not utf-8", 400, "InvalidArgument", lambda s: s.signed("DELETE", f"/{BUCKET}/a?uploadId=%FF")),
)
def test_invalid_name_is_rejected(site: Site, case: Case) -> None:
    assert_error(site.send(case.make(site)), case.status, case.code)


def test_invalid_bucket_name_gets_the_message_of_s3_and_a_reason(site: Site) -> None:
    body = site.send(site.signed("PUT", "/UPPER")).body
    assert b"<Message>The specified bucket is not valid.</Message>" in body
    assert b"<Reason>a bucket name is 3 to 63 lower-case letters, digits, dots and hyphens" in body


ODD_NAMES: Final = (
    "../../../../etc/passwd",
    "..",
    ".",
    "a/../b",
    "a/./b",
    "//a",
    "a//b",
    "a/",
    "/",
    "%2e%2e/%2E%2E",
    "%2F%2F",
    "caf\u00e9",
    "cafe\u0301",
    "\u65e5\u672c\u8a9e",
    "\U0001f600",
    "a b+c%20d",
    "a%0Ab%0Dc%09d",
    "%01%1F%7F",
    "%EF%BF%BE",
    "a?b",
    "con",
    "x" * 1024,
    "\u20ac" * 341,
)


@pytest.mark.parametrize("name", ODD_NAMES, ids=lambda name: ascii(name)[1:30].replace("\\", "_"))
def test_keys_that_look_like_paths_are_only_names(site: Site, name: str) -> None:
    """A key is its decoded path: it is stored, listed and deleted under that name."""
    raw = quote(name.replace("?", "%3F"), safe="/%+.~")
    key = unquote(raw)
    with site.connect() as connection:
        assert connection.exchange(site.put(key=raw)).status == 200
        assert connection.exchange(site.signed("GET", f"/{BUCKET}/{raw}")).body == BODY
        listed = connection.exchange(site.signed("GET", f"/{BUCKET}?list-type=2&encoding-type=url"))
        keys = [
            unquote(found.text or "") for found in ElementTree.fromstring(listed.body).iter() if _ends(found, "Key")
        ]
        assert sorted(keys) == sorted([key, KEPT])
        assert connection.exchange(site.signed("DELETE", f"/{BUCKET}/{raw}")).status == 204
        assert connection.exchange(site.signed("GET", f"/{BUCKET}/{raw}")).status == 404
    outside = site.server.data.parent
    assert {path.name for path in outside.iterdir()} == {site.server.data.name, site.server.log.name}


def _ends(element: ElementTree.Element, name: str) -> bool:
    return element.tag.endswith(f"}}{name}")
