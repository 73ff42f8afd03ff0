"""Options of an S3 store."""

from __future__ import annotations

from typing import Any

import pytest

from lakebed.core.errors import InvalidSetting
from lakebed.core.secrets import Secret
from lakebed.storage.s3 import S3Options


@pytest.mark.parametrize(
    ("prefix", "joined"), [("", ""), ("a", "a/"), ("a/", "a/"), ("/a/b//", "a/b/"), ("/", ""), ("ü", "ü/")]
)
def test_prefix_is_joined_with_one_slash(prefix: str, joined: str) -> None:
    assert S3Options("bucket", prefix=prefix).key_prefix == joined


def test_endpoint_implies_path_style_by_default() -> None:
    assert not S3Options("bucket").uses_path_style
    assert S3Options("bucket", endpoint="https://s3.example.org").uses_path_style
    assert not S3Options("bucket", endpoint="https://s3.example.org", path_style=False).uses_path_style
    assert S3Options("bucket", path_style=True).uses_path_style


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"bucket": ""}, "bucket"),
        ({"bucket": "a/b"}, "bucket"),
        ({"prefix": "a/../b"}, "prefix"),
        ({"prefix": "a//b"}, "prefix"),
        ({"prefix": "a" * 600}, "prefix"),
        ({"region": ""}, "region"),
        ({"endpoint": "http://127.0.0.1:9000"}, "endpoint"),
        ({"endpoint": "127.0.0.1:9000"}, "endpoint"),
        ({"endpoint": "https://"}, "endpoint"),
        ({"endpoint": "https://host:port"}, "endpoint"),
        ({"endpoint": "https://user:password@host"}, "endpoint"),
        ({"endpoint": "https://host/?x=1"}, "endpoint"),
        ({"access_key_id": "id"}, "secret_access_key"),
        ({"secret_access_key": Secret("hidden")}, "access_key_id"),
        ({"session_token": Secret("hidden")}, "session_token"),
        ({"checksum": "md4"}, "checksum"),
        ({"max_concurrency": 0}, "max_concurrency"),
        ({"connect_timeout_seconds": 0}, "connect_timeout_seconds"),
        ({"read_timeout_seconds": float("nan")}, "read_timeout_seconds"),
    ],
)
def test_invalid_option_is_rejected_by_name(wrong: dict[str, Any], field: str) -> None:  # Any: wrong on purpose
    with pytest.raises(InvalidSetting) as refused:
        S3Options(**{"bucket": "bucket", **wrong})
    assert str(refused.value).startswith(f"{field}: ")
    assert refused.value.argument == field
    assert "hidden" not in str(refused.value)
    assert "password" not in str(refused.value)


def test_plain_http_requires_allow_http() -> None:
    assert S3Options("bucket", endpoint="http://127.0.0.1:9000", allow_http=True).endpoint


def test_repr_contains_no_secrets() -> None:
    options = S3Options("bucket", access_key_id="id", secret_access_key=Secret("hidden"))
    assert "hidden" not in repr(options)
