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
def test_selection_matches_names_and_prefixes(words: list[tuple[str, bool]], kind: str) -> None:
    chosen = parse_selection(",".join(word + "*" * is_beginning for word, is_beginning in words))
    assert chosen.matches(of(kind)) is any(
        kind.startswith(word) if is_beginning else kind == word for word, is_beginning in words
    )
    assert not chosen.matches_all


def test_empty_selection_and_star_match_all() -> None:
    assert ALL_EVENTS.matches(of("Anything"))
    assert ALL_EVENTS.matches_all
    assert parse_selection("*").matches(of("Anything"))
    assert parse_selection("TableCreated,*").matches_all


@pytest.mark.parametrize("text", ["", ",", "a,,b", "*a", "a*b", "a**", "a,b*c*"])
def test_invalid_patterns_are_rejected(text: str) -> None:
    with pytest.raises(InvalidInput, match="kind must be a comma-separated list"):
        parse_selection(text)


def test_too_many_patterns_are_rejected() -> None:
    assert parse_selection(",".join(["a"] * MAX_PATTERNS)).matches(of("a"))
    with pytest.raises(InvalidInput, match="too many"):
        parse_selection(",".join(["a"] * (MAX_PATTERNS + 1)))


def test_selection_matches_the_operation() -> None:
    committed = of("TableCommitted", operation="UPDATE_TABLE")
    assert parse_selection("AFTER_UPDATE_TABLE").matches(committed)
    assert parse_selection("AFTER_*").matches(committed)
    assert not parse_selection("AFTER_*").matches(of("TableCommitted"))
    assert not parse_selection("AFTER_DROP_TABLE").matches(committed)


def test_subject_matches_itself_and_its_children_only() -> None:
    chosen = EventSelection(subject="lake/ns1")
    assert chosen.matches(of("A", subject="lake/ns1"))
    assert chosen.matches(of("A", subject="lake/ns1/t"))
    assert not chosen.matches(of("A", subject="lake/ns10/t"))
    assert not chosen.matches_all


def test_principal_is_matched_exactly() -> None:
    chosen = parse_selection("A*", principal="anna")
    assert chosen.matches(of("A", principal="anna"))
    assert not chosen.matches(of("A", principal="annabel"))
    assert not chosen.matches(of("A"))
    assert not chosen.matches(of("B", principal="anna"))
    assert not chosen.matches(OutboxEvent("A", "s", b"\xc1", 1))
