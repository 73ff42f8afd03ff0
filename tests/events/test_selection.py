from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.errors import InvalidInput
from lakebed.events.selection import EVERYTHING, MAX_WORDS, parse_selection

KINDS = st.text("abAB:", min_size=1, max_size=6)


@given(st.lists(st.tuples(KINDS, st.booleans()), min_size=1, max_size=5), KINDS)
def test_a_kind_is_taken_if_a_word_names_it_or_begins_it(words: list[tuple[str, bool]], kind: str) -> None:
    chosen = parse_selection(",".join(word + "*" * is_beginning for word, is_beginning in words))
    assert chosen.takes(kind) is any(
        kind.startswith(word) if is_beginning else kind == word for word, is_beginning in words
    )
    assert not chosen.is_everything


def test_nothing_named_is_everything_and_so_is_a_star() -> None:
    assert EVERYTHING.takes("Anything")
    assert EVERYTHING.is_everything
    assert parse_selection("*").takes("Anything")
    assert parse_selection("TableCreated,*").is_everything


@pytest.mark.parametrize("text", ["", ",", "a,,b", "*a", "a*b", "a**", "a,b*c*"])
def test_words_that_name_nothing_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="kind is a list"):
        parse_selection(text)


def test_too_many_words_are_refused() -> None:
    assert parse_selection(",".join(["a"] * MAX_WORDS)).takes("a")
    with pytest.raises(InvalidInput, match="too many"):
        parse_selection(",".join(["a"] * (MAX_WORDS + 1)))
