"""Keys that servers often re-encode, normalise or truncate: each is stored and found exactly as sent."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree

import pytest

from tests.clients.boto import all_keys, body_of, refused, root_keys
from tests.clients.plain_http import fetch
from tests.clients.signing import EMPTY_SHA256, Signer
from tests.fixtures.server import RunningServer

pytestmark = pytest.mark.integration

ODD_KEYS = {
    "plus": "a+b",
    "percent": "100%",
    "percent sequence": "a%20b",
    "encoded slash": "a%2Fb",
    "tilde": "~user",
    "spaces": " a  b ",
    "double slash": "a//b",
    "leading slash": "/a",
    "slashes only": "///",
    "trailing slash": "a/",
    "dot": "a/./b",
    "two dots": "a/../b",
    "only dots": "..",
    "leading dots": "../../etc/passwd",
    "unicode": "ümläut/日本語/😀",
    "decomposed unicode": "u\u0308",
    "reserved": "a!b*c'd(e)f;g:h@i&j=k$l,m",
    "question and hash": "a?b#c",
    "quotes and angles": "\"a\" <b> & 'c'",
    "backslash": "a\\b",
    "brackets": "a[b]{c}|d^e`f",
    "tab and newline": "a\tb\nc",
    "subresource": "k?acl&versionId=1",
    "longest": "k" * 1024,
    "longest in two-byte letters": "ä" * 512,
    "deep": "d/" * 500 + "leaf",
}


@pytest.fixture(params=list(ODD_KEYS.values()), ids=list(ODD_KEYS))
def key(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


def test_key_survives_put_get_list_copy_and_delete(s3: Any, bucket: str, key: str) -> None:
    s3.put_object(Bucket=bucket, Key=key, Body=key.encode())
    assert all_keys(s3, bucket) == [key]
    assert body_of(s3, bucket, key) == key.encode()
    assert s3.head_object(Bucket=bucket, Key=key)["ContentLength"] == len(key.encode())
    s3.copy_object(Bucket=bucket, Key="copy", CopySource={"Bucket": bucket, "Key": key})
    assert body_of(s3, bucket, "copy") == key.encode()
    s3.delete_object(Bucket=bucket, Key="copy")
    s3.delete_object(Bucket=bucket, Key=key)
    assert all_keys(s3, bucket) == []


def test_key_survives_a_batch_delete(s3: Any, bucket: str, key: str) -> None:
    s3.put_object(Bucket=bucket, Key=key, Body=b"1")
    answer = s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": key}]})
    assert [item["Key"] for item in answer["Deleted"]] == [key]
    assert all_keys(s3, bucket) == []


@pytest.mark.parametrize("version", ["", "list-type=2&"], ids=["V1", "V2"])
def test_listing_returns_the_key_plain_and_encoded(
    lakebed_server: RunningServer, s3: Any, bucket: str, key: str, version: str
) -> None:
    s3.put_object(Bucket=bucket, Key=key, Body=b"1")
    url = f"{lakebed_server.endpoint}/{bucket}?{version}prefix={quote(key[:5], safe='')}"
    signer = Signer(root_keys(lakebed_server))
    plain = fetch("GET", url, headers=signer.headers("GET", url, EMPTY_SHA256))
    assert _keys_in(plain.body) == [key]
    url += "&encoding-type=url"
    encoded = fetch("GET", url, headers=signer.headers("GET", url, EMPTY_SHA256))
    assert _keys_in(encoded.body) == [quote(key, safe="/-_.~")]


def _keys_in(document: bytes) -> list[str]:
    namespace = "{http://s3.amazonaws.com/doc/2006-03-01/}"
    return [
        item.text or "" for item in ElementTree.fromstring(document).iterfind(f"{namespace}Contents/{namespace}Key")
    ]


def test_presigned_urls_reach_the_key(s3: Any, bucket: str, key: str) -> None:
    target = {"Bucket": bucket, "Key": key}
    assert fetch("PUT", s3.generate_presigned_url("put_object", Params=target), body=b"linked").status == 200
    assert all_keys(s3, bucket) == [key]
    assert fetch("GET", s3.generate_presigned_url("get_object", Params=target)).body == b"linked"
    assert fetch("DELETE", s3.generate_presigned_url("delete_object", Params=target)).status == 204


def test_path_is_verified_as_it_was_signed(lakebed_server: RunningServer, s3: Any, bucket: str, key: str) -> None:
    """Accepts paths encoded once, as S3 does, or sent with less encoding than signed; twice, as other AWS services do.

    Double encoding is refused for the service name `s3`: a signature for the key `a%20b` would be valid for `a b` too.
    """
    s3.put_object(Bucket=bucket, Key=key, Body=b"1")
    signer = Signer(root_keys(lakebed_server))
    once = "/" + bucket + "/" + quote(key, safe="/-_.~")
    twice = quote(once, safe="/-_.~")
    relaxed = "/" + bucket + "/" + quote(key, safe="/-_.~!*'();:@&=+$,")
    tables = replace(signer, service="s3tables")
    for used_signer, sent, signed in (
        (signer, once, once),
        (signer, relaxed, once),
        (signer, relaxed, relaxed),
        (tables, once, once),
        (tables, once, twice),
    ):
        url = lakebed_server.endpoint + sent
        answer = fetch("GET", url, headers=used_signer.headers("GET", url, EMPTY_SHA256, path=signed))
        assert (answer.status, answer.body) == (200, b"1"), (used_signer.service, sent, signed)
    if twice != once:
        url = lakebed_server.endpoint + once
        assert fetch("GET", url, headers=signer.headers("GET", url, EMPTY_SHA256, path=twice)).status == 403


def test_key_that_is_too_long_is_refused(s3: Any, bucket: str) -> None:
    for key in ("k" * 1025, "ä" * 513):
        with refused("KeyTooLongError", 400):
            s3.put_object(Bucket=bucket, Key=key, Body=b"1")
    assert all_keys(s3, bucket) == []


def test_nul_and_broken_utf8_are_refused(lakebed_server: RunningServer, s3: Any, bucket: str) -> None:
    signer = Signer(root_keys(lakebed_server))
    for path in ("a%00b", "%FF%FE", "%C3"):
        url = f"{lakebed_server.endpoint}/{bucket}/{path}"
        answer = fetch("PUT", url, headers=signer.headers("PUT", url, EMPTY_SHA256))
        assert answer.status == 400
        assert answer.code in ("InvalidURI", "InvalidArgument")
    assert all_keys(s3, bucket) == []


def test_keys_are_listed_in_byte_order(s3: Any, bucket: str) -> None:
    keys = ["~", "z", "Z", "ä", "a", "a/", "a0", "a b", "a+b", "日", "\U0001f600", "\uffee"]
    for key in keys:
        s3.put_object(Bucket=bucket, Key=key, Body=b"")
    assert all_keys(s3, bucket) == sorted(keys, key=str.encode)
