from __future__ import annotations

import pickle

from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.secrets import Secret


@given(st.text(min_size=4).filter(lambda text: "*" not in text))
def test_secret_is_hidden_in_every_text_form(text: str) -> None:
    secret = Secret(text)
    assert {repr(secret), str(secret), f"{secret}", f"{secret!r}", repr([secret])} == {"***", "[***]"}


@given(st.text())
def test_secret_is_revealed_on_request(text: str) -> None:
    assert Secret(text).reveal() == text


def test_secrets_compare_by_value() -> None:
    assert Secret("a") == Secret("a")
    assert Secret("ä") != Secret("b")
    assert Secret("a") != "a"
    assert len({Secret("a"), Secret("a"), Secret("b")}) == 2


def test_only_an_empty_secret_is_false() -> None:
    assert not Secret("")
    assert Secret("0")


def test_secret_can_be_pickled() -> None:
    assert pickle.loads(pickle.dumps(Secret("a"))) == Secret("a")
