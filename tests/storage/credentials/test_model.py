"""Credentials as values."""

from __future__ import annotations

import pytest

from lakebed.core.errors import Unavailable
from lakebed.core.secrets import Secret
from lakebed.storage.credentials import Credentials
from lakebed.storage.credentials.model import parse_expiry

from .fakes import NOW_MS, iso


def test_credentials_show_their_source_and_the_head_of_their_key_only() -> None:
    shown = repr(Credentials("AKIAABCDEFGHIJKLMNOP", Secret("hidden"), Secret("token"), source="profile"))
    assert shown == "<credentials from profile: AKIAABCD…>"
    assert shown == str(Credentials("AKIAABCDEFGHIJKLMNOP", Secret("hidden"), Secret("token"), source="profile"))


def test_generations_are_told_apart_by_their_keys_not_by_their_source() -> None:
    first = Credentials("id", Secret("a"), source="one")
    assert first == Credentials("id", Secret("a"), source="two")
    assert first != Credentials("id", Secret("b"), source="one")


@pytest.mark.parametrize(
    "text", [iso(NOW_MS), "2023-11-14T22:13:20+00:00", "2023-11-14T22:13:20", "2023-11-14T23:13:20+01:00"]
)
def test_expiry_is_read_in_every_form_that_aws_writes(text: str) -> None:
    assert parse_expiry(text, "test") == NOW_MS


def test_expiry_that_is_no_time_is_refused() -> None:
    with pytest.raises(Unavailable):
        parse_expiry("tomorrow", "test")
