"""Options of a GCS store."""

from __future__ import annotations

from typing import Any

import pytest

from lakebed.core.errors import InvalidSetting
from lakebed.core.secrets import Secret
from lakebed.storage.gcs import GcsOptions


def test_prefix_is_joined_with_one_slash() -> None:
    assert GcsOptions("bucket", prefix="/a/b//").key_prefix == "a/b/"
    assert GcsOptions("bucket").key_prefix == ""


@pytest.mark.parametrize("bucket", ["abc", "a.b.example.org", "a_b-c", "0" * 63])
def test_bucket_names_of_gcs_are_accepted(bucket: str) -> None:
    assert GcsOptions(bucket).bucket == bucket


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"bucket": ""}, "bucket"),
        ({"bucket": "ab"}, "bucket"),
        ({"bucket": "UPPER"}, "bucket"),
        ({"bucket": "a/b"}, "bucket"),
        ({"bucket": "it's"}, "bucket"),
        ({"bucket": "bucket\n"}, "bucket"),
        ({"prefix": "a/../b"}, "prefix"),
        ({"endpoint": "http://127.0.0.1:4443"}, "endpoint"),
        ({"token": Secret("")}, "token"),
        ({"service_account_json": Secret("")}, "service_account_json"),
        ({"token": Secret("hidden"), "service_account_json": Secret("hidden")}, "token"),
        ({"max_concurrency": 0}, "max_concurrency"),
        ({"connect_timeout_seconds": 0}, "connect_timeout_seconds"),
    ],
)
def test_invalid_option_is_rejected_by_name(wrong: dict[str, Any], field: str) -> None:  # Any: wrong on purpose
    with pytest.raises(InvalidSetting) as refused:
        GcsOptions(**{"bucket": "bucket", **wrong})
    assert str(refused.value).startswith(f"{field}: ")
    assert refused.value.argument == field
    assert "hidden" not in str(refused.value)


def test_secrets_are_not_shown() -> None:
    assert "hidden" not in repr(GcsOptions("bucket", token=Secret("hidden")))
