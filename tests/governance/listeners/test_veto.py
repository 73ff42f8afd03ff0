from __future__ import annotations

import asyncio
import logging

import pytest

from lakebed.core.errors import InvalidInput, Unavailable, Vetoed
from lakebed.core.operations import Operation
from lakebed.governance.listeners import Intent, Listeners, veto

from .intents import Remembering, an_intent


async def test_who_is_not_asked_for_is_not_asked() -> None:
    guard = Remembering("CREATE_TABLE")
    listeners = Listeners([guard])
    assert listeners.operations == {Operation.CREATE_TABLE}
    await listeners.check([an_intent(Operation.DROP_TABLE)])
    assert guard.asked == []
    assert Listeners().operations == frozenset()


async def test_the_first_veto_decides_and_its_reason_is_told() -> None:
    first, second = Remembering(name="first", vetoes=["DROP_TABLE"]), Remembering(name="second")
    with pytest.raises(Vetoed, match=r"vetoed by first: lake/sales/orders is frozen\. operation=DROP_TABLE"):
        await Listeners([first, second]).check([an_intent()])
    assert second.asked == []


async def test_of_several_intents_one_veto_is_enough() -> None:
    guard = Remembering(vetoes=["lake/sales/b"])
    intents = [an_intent(Operation.UPDATE_TABLE, name=name) for name in "abc"]
    with pytest.raises(Vetoed, match="lake/sales/b is frozen"):
        await Listeners([guard]).check(intents)
    assert [intent.name for intent in guard.asked] == ["a", "b"]


class Answering:
    name = "odd"
    operations = frozenset(Operation)

    def __init__(self, answer: str | Exception | None) -> None:
        self._answer = answer

    async def before(self, intent: Intent) -> str | None:
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


async def test_a_veto_without_words_is_a_veto() -> None:
    with pytest.raises(Vetoed, match="no reason was given"):
        await Listeners([Answering("")]).check([an_intent()])


async def test_a_reason_is_not_told_at_any_length() -> None:
    with pytest.raises(Vetoed) as caught:
        await Listeners([Answering("x" * 100_000)]).check([an_intent()])
    assert len(str(caught.value)) < 2200


async def test_a_listener_that_breaks_lets_nothing_happen(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR), pytest.raises(Unavailable, match="odd did not decide; nothing was done"):
        await Listeners([Answering(ValueError("no"))]).check([an_intent()])
    assert "listener crashed" in caplog.text


async def test_what_a_listener_says_of_the_request_comes_through() -> None:
    with pytest.raises(InvalidInput, match="not a document"):
        await Listeners([Answering(InvalidInput("not a document"))]).check([an_intent()])


async def test_a_listener_that_never_answers_lets_nothing_happen(monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent(Answering):
        async def before(self, intent: Intent) -> str | None:
            await asyncio.Event().wait()
            return None

    monkeypatch.setattr(veto, "DECISION_SECONDS", 0.01)
    with pytest.raises(Unavailable, match="did not decide"):
        await Listeners([Silent(None)]).check([an_intent()])


def test_a_subject_is_as_events_have_it() -> None:
    assert an_intent().subject == "lake/sales/orders"
    assert an_intent(namespace=("a", "b"), name="").subject == "lake/a.b"
    assert an_intent(catalog="", namespace=(), name="anna").subject == "anna"


def test_an_intent_does_not_show_its_document() -> None:
    assert "hunter2" not in repr(an_intent(document=b'{"secret": "hunter2"}'))
