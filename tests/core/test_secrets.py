from __future__ import annotations

import pickle

from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.secrets import Secret


@given(st.text(min_size=4).filter(lambda text: "*" not in text))
def test_a_secret_shows_in_no_form_of_text(text: str) -> None:
    secret = Secret(text)
    assert {repr(secret), str(secret), f"{secret}", f"{secret!r}", repr([secret])} == {"***", "[***]"}


@given(st.text())
def test_a_secret_is_there_when_asked_for(text: str) -> None:
    assert Secret(text).reveal() == text


def test_secrets_compare_by_what_they_hide() -> None:
    assert Secret("a") == Secret("a")
    assert Secret("ä") != Secret("b")
    assert Secret("a") != "a"
    assert len({Secret("a"), Secret("a"), Secret("b")}) == 2


def test_only_the_empty_secret_is_false() -> None:
    assert not Secret("")
    assert Secret("0")


def test_a_secret_reaches_another_process() -> None:
    assert pickle.loads(pickle.dumps(Secret("a"))) == Secret("a")
