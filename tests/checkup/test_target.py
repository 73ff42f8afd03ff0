from __future__ import annotations

import pytest

from lakebed.checkup.target import CheckedStore
from lakebed.storage.s3 import S3Options


@pytest.mark.parametrize(
    ("options", "url", "host", "port", "token_service"),
    [
        (
            S3Options("abc", endpoint="https://store.example.org/"),
            "https://store.example.org/abc",
            "store.example.org",
            443,
            "https://store.example.org",
        ),
        (
            S3Options("abc", endpoint="http://[::1]:9000", allow_http=True),
            "http://[::1]:9000/abc",
            "::1",
            9000,
            "http://[::1]:9000",
        ),
        (
            S3Options("abc", endpoint="https://store.example.org:9", path_style=False),
            "https://abc.store.example.org:9/",
            "abc.store.example.org",
            9,
            "https://store.example.org:9",
        ),
        (
            S3Options("abc"),
            "https://abc.s3.eu-central-1.amazonaws.com/",
            "abc.s3.eu-central-1.amazonaws.com",
            443,
            "https://sts.eu-central-1.amazonaws.com",
        ),
    ],
)
def test_store_urls(options: S3Options, url: str, host: str, port: int, token_service: str) -> None:
    target = CheckedStore(options, "eu-central-1")
    assert (target.bucket_url, target.host, target.port, target.token_service) == (url, host, port, token_service)


def test_sts_endpoint_can_differ() -> None:
    target = CheckedStore(S3Options("bucket"), "us-east-1", sts_endpoint="https://sts.example.org/")
    assert target.token_service == "https://sts.example.org"
