from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.errors import InvalidName, TooLarge
from lakebed.objects.names import check_bucket_name, check_key


@pytest.mark.parametrize("name", ["abc", "a-b", "a.b.c", "0ab", "a" * 63, "1.2.3.4.5", "my-bucket-2024"])
def test_valid_bucket_name_is_accepted(name: str) -> None:
    check_bucket_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "ab",
        "a" * 64,
        "Abc",
        "a_b",
        "-abc",
        "abc-",
        ".abc",
        "abc.",
        "a..b",
        "a.-b",
        "a-.b",
        "192.168.5.4",
        "abc\n",
        "a b",
        "äbc",
        "a/b",
        "xn--abc",
        "sthree-abc",
        "amzn-s3-demo-abc",
        "abc-s3alias",
        "abc--ol-s3",
        "abc.mrap",
        "abc--x-s3",
        "abc--table-s3",
    ],
)
def test_invalid_bucket_name_is_rejected(name: str) -> None:
    with pytest.raises(InvalidName) as refused:
        check_bucket_name(name)
    assert refused.value.value == name


@pytest.mark.parametrize("key", ["a", "/", "//a//", ".", "../..", "a" * 1024, "é" * 512, "\x01", "\U0010ffff" * 256])
def test_key_up_to_its_limit_is_accepted(key: str) -> None:
    check_key(key)


@pytest.mark.parametrize("key", ["a" * 1025, "é" * 512 + "a", "\U0010ffff" * 257])
def test_key_is_measured_in_utf8_bytes(key: str) -> None:
    with pytest.raises(TooLarge) as refused:
        check_key(key)
    assert refused.value.argument == "key"


@pytest.mark.parametrize("key", ["", "a\0b", "\udcff", "a\ud800"])
def test_empty_or_undecodable_key_is_rejected(key: str) -> None:
    with pytest.raises(InvalidName):
        check_key(key)


@given(st.text())
def test_any_key_is_accepted_or_rejected(key: str) -> None:
    try:
        check_key(key)
    except (InvalidName, TooLarge):
        assert not key or "\0" in key or len(key.encode("utf-8", "replace")) > 1024 or not _is_utf8(key)
    else:
        assert 1 <= len(key.encode()) <= 1024


def _is_utf8(key: str) -> bool:
    try:
        key.encode()
    except UnicodeEncodeError:
        return False
    return True
