from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.errors import InvalidInput, LakebedError
from lakebed.wire.aws.store_address import ExternalAddress, StoreAddress, StoreListener
from lakebed.wire.http.body import RequestBody
from lakebed.wire.http.message import Request

HERE = StoreAddress("eu-west-1", domains=("s3.example",))


def request(host: str = "catalog.example:9000", scheme: str = "http") -> Request:
    return Request("POST", "/", "", {"host": host}, RequestBody(0), scheme, "", "R1")


def test_s3_endpoint_is_the_host_of_the_catalog_by_default() -> None:
    assert HERE.endpoint_for(request()) == "http://catalog.example:9000"
    assert HERE.endpoint_for(request("[::1]:9000", "https")) == "https://[::1]:9000"
    assert StoreAddress("eu-west-1", "https://s3.example/").endpoint_for(request()) == "https://s3.example"


@pytest.mark.parametrize(
    ("listener", "host", "endpoint"),
    [
        (StoreListener(None, 9000), "lake.example:9001", "http://lake.example:9000"),
        (StoreListener(None, 9000), "lake.example", "http://lake.example:9000"),
        (StoreListener(None, 9000), "10.0.0.7:9001", "http://10.0.0.7:9000"),
        (StoreListener(None, 9000), "[::1]:9001", "http://[::1]:9000"),
        (StoreListener(None, 9000), "[::1]", "http://[::1]:9000"),
        (StoreListener("10.0.0.5", 9000), "127.0.0.1:9001", "http://10.0.0.5:9000"),
        (StoreListener("fd00::5", 9000), "127.0.0.1:9001", "http://[fd00::5]:9000"),
    ],
)
def test_s3_endpoint_is_the_separate_listener(listener: StoreListener, host: str, endpoint: str) -> None:
    address = StoreAddress("eu-west-1", listener=listener)
    assert address.endpoint_for(request(host)) == endpoint
    assert address.parse(f"{endpoint}/b/k", request(host)).target.bucket == "b"
    with pytest.raises(InvalidInput):
        address.parse(f"http://{host}/b/k", request(host))


@pytest.mark.parametrize(
    ("uri", "host", "bucket", "key"),
    [
        ("http://catalog.example:9000/b/k", "catalog.example:9000", "b", "k"),
        ("http://Catalog.Example:9000/b/a%20k", "catalog.example:9000", "b", "a k"),
        ("https://catalog.example:9000/b", "catalog.example:9000", "b", ""),
        ("http://catalog.example:9000", "catalog.example:9000", "", ""),
        ("https://b.s3.example/k/l", "b.s3.example", "b", "k/l"),
        ("https://b.s3.example:443/k", "b.s3.example", "b", "k"),
        ("http://s3.example:80/b/k", "s3.example", "b", "k"),
    ],
)
def test_uris_of_this_server_are_parsed(uri: str, host: str, bucket: str, key: str) -> None:
    parsed = HERE.parse(uri, request())
    assert (parsed.host, parsed.target.bucket, parsed.target.key) == (host, bucket, key)


def test_configured_endpoint_and_catalog_host_are_both_accepted() -> None:
    apart = StoreAddress("eu-west-1", "https://files.example")
    for uri in ("https://files.example/b/k", "https://files.example:443/b/k", "http://catalog.example:9000/b/k"):
        assert apart.parse(uri, request()).target.key == "k"


@pytest.mark.parametrize(
    "uri",
    [
        "http://elsewhere.example/b/k",
        "http://catalog.example:9001/b/k",
        "http://catalog.example/b/k",
        "http://catalog.example:9000.evil.example/b/k",
        "http://evils3.example/b/k",
        "http://s3.example.evil/b/k",
        "http://user@catalog.example:9000/b/k",
        "http://catalog.example:9000/b/k#f",
        "http://catalog.example:9000/b/\tk",
        "http://catalog.example:9000/b/é",
        "http://[::1/b/k",
        "s3://b/k",
        "/b/k",
        "",
    ],
)
def test_other_uris_are_rejected(uri: str) -> None:
    with pytest.raises(InvalidInput):
        HERE.parse(uri, request())


@given(st.text())
def test_random_uris_are_parsed_or_rejected(text: str) -> None:
    for uri in (text, f"http://catalog.example:9000/{text}"):
        try:
            HERE.parse(uri, request())
        except LakebedError:
            continue


@pytest.mark.parametrize(
    ("endpoint", "uri", "key"),
    [
        ("http://127.0.0.1:9000", "http://127.0.0.1:9000/lake/t/a%20b", "t/a b"),
        ("https://s3.example", "https://s3.example/lake/t/x?versionId=1", "t/x"),
        ("https://s3.example", "https://lake.s3.example/t/x", "t/x"),
        ("", "https://lake.s3.eu-west-1.amazonaws.com/t/x", "t/x"),
        ("", "https://s3.eu-west-1.amazonaws.com/lake/t/x", "t/x"),
        ("", "https://s3.dualstack.eu-west-1.amazonaws.com/lake/t/x", "t/x"),
    ],
)
def test_uri_of_an_external_store_is_parsed(endpoint: str, uri: str, key: str) -> None:
    parsed = ExternalAddress("lake", endpoint).parse(uri)
    assert (parsed.target.bucket, parsed.target.key) == ("lake", key)


@pytest.mark.parametrize(
    ("endpoint", "uri"),
    [
        ("https://s3.example", "https://s3.example.evil.example/lake/x"),
        ("https://s3.example", "https://lake.s3.example.evil.example/x"),
        ("https://s3.example", "https://s3.example:444/lake/x"),
        ("https://s3.example", "https://other.s3.example/x"),
        ("https://s3.example", "https://169.254.169.254/lake/x"),
        ("", "https://lake.s3.eu-west-1.amazonaws.com.evil.example/x"),
        ("", "https://evil.amazonaws.com/lake/x"),
    ],
)
def test_uri_of_another_host_is_rejected(endpoint: str, uri: str) -> None:
    with pytest.raises(InvalidInput, match="does not belong"):
        ExternalAddress("lake", endpoint).parse(uri)
