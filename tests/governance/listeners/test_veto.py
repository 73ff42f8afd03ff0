from __future__ import annotations

import asyncio
import logging

import pytest

from lakebed.core.errors import InvalidInput, Unavailable, Vetoed
from lakebed.core.operations import Operation
from lakebed.governance.listeners import Intent, Listeners, veto

from .intents import RecordingListener, an_intent


async def test_listener_is_called_only_for_its_operations() -> None:
    guard = RecordingListener("CREATE_TABLE")
    listeners = Listeners([guard])
    assert listeners.operations == {Operation.CREATE_TABLE}
    await listeners.check([an_intent(Operation.DROP_TABLE)])
    assert guard.intents == []
    assert Listeners().operations == frozenset()


async def test_first_veto_decides_and_its_reason_is_returned() -> None:
    first, second = RecordingListener(name="first", vetoes=["DROP_TABLE"]), RecordingListener(name="second")
    with pytest.raises(Vetoed, match=r"vetoed by first: lake/sales/orders is frozen\. operation=DROP_TABLE"):
        await Listeners([first, second]).check([an_intent()])
    assert second.intents == []


async def test_veto_of_one_intent_refuses_the_request() -> None:
    guard = RecordingListener(vetoes=["lake/sales/b"])
    intents = [an_intent(Operation.UPDATE_TABLE, name=name) for name in "abc"]
    with pytest.raises(Vetoed, match="lake/sales/b is frozen"):
        await Listeners([guard]).check(intents)
    assert [intent.name for intent in guard.intents] == ["a", "b"]


class FixedListener:
    name = "odd"
    operations = frozenset(Operation)

    def __init__(self, result: str | Exception | None) -> None:
        self._result = result

    async def before(self, intent: Intent) -> str | None:
        if isinstance(self._result, Exception):
            raise self._result
        return self._result


async def test_veto_without_a_reason() -> None:
    with pytest.raises(Vetoed, match="no reason was given"):
        await Listeners([FixedListener("")]).check([an_intent()])


async def test_long_reason_is_shortened() -> None:
    with pytest.raises(Vetoed) as caught:
        await Listeners([FixedListener("x" * 100_000)]).check([an_intent()])
    assert len(str(caught.value)) < 2200


async def test_crashing_listener_refuses_the_operation(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR), pytest.raises(Unavailable, match="odd did not decide; nothing was done"):
        await Listeners([FixedListener(ValueError("no"))]).check([an_intent()])
    assert "listener crashed" in caplog.text


async def test_errors_of_listeners_are_raised_unchanged() -> None:
    with pytest.raises(InvalidInput, match="not a document"):
        await Listeners([FixedListener(InvalidInput("not a document"))]).check([an_intent()])


async def test_listener_timeout_refuses_the_operation(monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent(FixedListener):
        async def before(self, intent: Intent) -> str | None:
            await asyncio.Event().wait()
            return None

    monkeypatch.setattr(veto, "DECISION_SECONDS", 0.01)
    with pytest.raises(Unavailable, match="did not decide"):
        await Listeners([Silent(None)]).check([an_intent()])


def test_subject_is_that_of_events() -> None:
    assert an_intent().subject == "lake/sales/orders"
    assert an_intent(namespace=("a", "b"), name="").subject == "lake/a.b"
    assert an_intent(catalog="", namespace=(), name="anna").subject == "anna"


def test_repr_of_an_intent_hides_its_document() -> None:
    assert "hunter2" not in repr(an_intent(document=b'{"secret": "hunter2"}'))
