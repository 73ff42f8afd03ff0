"""Invalid keys and metadata are rejected before they reach a store."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.errors import InvalidInput, InvalidName, TooLarge
from lakebed.storage.keys import MAX_KEY_BYTES, MAX_METADATA_BYTES, check_key, check_metadata


@given(st.text(alphabet=st.sampled_from("a./\0é"), max_size=6))
def test_key_is_valid_exactly_if_all_segments_are(text: str) -> None:
    allowed = "\0" not in text and all(segment not in ("", ".", "..") for segment in text.split("/"))
    if allowed:
        assert check_key(text) == text.encode()
    else:
        with pytest.raises(InvalidName):
            check_key(text)


def test_length_of_a_key_is_counted_in_bytes() -> None:
    assert len(check_key("é" * (MAX_KEY_BYTES // 2))) == MAX_KEY_BYTES
    with pytest.raises(InvalidName, match="bytes=1026"):
        check_key("é" * (MAX_KEY_BYTES // 2 + 1))


def test_key_with_a_lone_surrogate_is_rejected() -> None:
    with pytest.raises(InvalidName):
        check_key("a\udc80")


def test_checked_metadata_is_a_copy() -> None:
    metadata = {"name": "value"}
    checked = check_metadata(metadata)
    metadata["name"] = "other"
    assert checked == {"name": "value"}
    assert check_metadata(None) == {}


@pytest.mark.parametrize("name", ["", "Upper", "a-b", "a_b", "ä", "a b"])
def test_metadata_name_must_be_lower_case_letters_and_digits(name: str) -> None:
    with pytest.raises(InvalidName):
        check_metadata({name: "x"})


@pytest.mark.parametrize("value", [" first", "last ", "a\tb", "a\r\nb", "ä", "\x7f"])
def test_metadata_value_must_be_safe_in_a_header(value: str) -> None:
    with pytest.raises(InvalidInput):
        check_metadata({"name": value})


@pytest.mark.parametrize("value", ["", "x", "a b", "!~", "a  b"])
def test_plain_metadata_value_is_accepted(value: str) -> None:
    assert check_metadata({"name": value}) == {"name": value}


def test_metadata_has_a_total_limit() -> None:
    value = "x" * (MAX_METADATA_BYTES - 1)
    assert check_metadata({"a": value}) == {"a": value}
    with pytest.raises(TooLarge):
        check_metadata({"a": value, "b": ""})
