"""Credential values."""

from __future__ import annotations

import pytest

from lakebed.core.errors import Unavailable
from lakebed.core.secrets import Secret
from lakebed.storage.credentials import Credentials
from lakebed.storage.credentials.model import parse_expiry

from .fakes import NOW_MS, iso


def test_repr_shows_only_the_source_and_a_prefix_of_the_key_id() -> None:
    shown = repr(Credentials("AKIAABCDEFGHIJKLMNOP", Secret("hidden"), Secret("token"), source="profile"))
    assert shown == "<credentials from profile: AKIAABCD…>"
    assert shown == str(Credentials("AKIAABCDEFGHIJKLMNOP", Secret("hidden"), Secret("token"), source="profile"))


def test_credentials_are_compared_by_keys_not_by_source() -> None:
    first = Credentials("id", Secret("a"), source="one")
    assert first == Credentials("id", Secret("a"), source="two")
    assert first != Credentials("id", Secret("b"), source="one")


@pytest.mark.parametrize(
    "text", [iso(NOW_MS), "2023-11-14T22:13:20+00:00", "2023-11-14T22:13:20", "2023-11-14T23:13:20+01:00"]
)
def test_expiry_is_parsed_in_every_form_of_aws(text: str) -> None:
    assert parse_expiry(text, "test") == NOW_MS


def test_invalid_expiry_is_rejected() -> None:
    with pytest.raises(Unavailable):
        parse_expiry("tomorrow", "test")
