from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.errors import InvalidInput
from lakebed.events.selection import ALL_EVENTS, MAX_PATTERNS, EventSelection, parse_selection
from lakebed.meta.outbox import OutboxEvent


def of(kind: str, *, subject: str = "s", operation: str = "", **payload: str) -> OutboxEvent:
    return OutboxEvent(kind, subject, msgspec.msgpack.encode(payload), 1, operation)


KINDS = st.text("abAB:", min_size=1, max_size=6)


@given(st.lists(st.tuples(KINDS, st.booleans()), min_size=1, max_size=5), KINDS)
def test_a_kind_is_taken_if_a_word_names_it_or_begins_it(words: list[tuple[str, bool]], kind: str) -> None:
    chosen = parse_selection(",".join(word + "*" * is_beginning for word, is_beginning in words))
    assert chosen.matches(of(kind)) is any(
        kind.startswith(word) if is_beginning else kind == word for word, is_beginning in words
    )
    assert not chosen.matches_all


def test_nothing_named_matches_all_and_so_is_a_star() -> None:
    assert ALL_EVENTS.matches(of("Anything"))
    assert ALL_EVENTS.matches_all
    assert parse_selection("*").matches(of("Anything"))
    assert parse_selection("TableCreated,*").matches_all


@pytest.mark.parametrize("text", ["", ",", "a,,b", "*a", "a*b", "a**", "a,b*c*"])
def test_words_that_name_nothing_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="kind must be a comma-separated list"):
        parse_selection(text)


def test_too_many_words_are_refused() -> None:
    assert parse_selection(",".join(["a"] * MAX_PATTERNS)).matches(of("a"))
    with pytest.raises(InvalidInput, match="too many"):
        parse_selection(",".join(["a"] * (MAX_PATTERNS + 1)))


def test_an_event_is_taken_by_the_operation_that_it_came_of() -> None:
    committed = of("TableCommitted", operation="UPDATE_TABLE")
    assert parse_selection("AFTER_UPDATE_TABLE").matches(committed)
    assert parse_selection("AFTER_*").matches(committed)
    assert not parse_selection("AFTER_*").matches(of("TableCommitted"))
    assert not parse_selection("AFTER_DROP_TABLE").matches(committed)


def test_a_subject_takes_what_is_in_it_and_nothing_that_only_begins_alike() -> None:
    chosen = EventSelection(subject="lake/ns1")
    assert chosen.matches(of("A", subject="lake/ns1"))
    assert chosen.matches(of("A", subject="lake/ns1/t"))
    assert not chosen.matches(of("A", subject="lake/ns10/t"))
    assert not chosen.matches_all


def test_a_principal_is_whoever_the_event_names() -> None:
    chosen = parse_selection("A*", principal="anna")
    assert chosen.matches(of("A", principal="anna"))
    assert not chosen.matches(of("A", principal="annabel"))
    assert not chosen.matches(of("A"))
    assert not chosen.matches(of("B", principal="anna"))
    assert not chosen.matches(OutboxEvent("A", "s", b"\xc1", 1))
