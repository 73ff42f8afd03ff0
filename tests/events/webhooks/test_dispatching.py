from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from lakebed.core.errors import Unavailable
from lakebed.events.webhooks import Subscriber, Tally, dispatching
from lakebed.meta.outbox import Entry
from tests.objects.stores import ROOT

from .conftest import URL, Office, Receiver, a_subscriber, open_office


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition; a test that waits for ever has failed."""
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.005)


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatching, "_LOOK_SECONDS", 0.01)
    monkeypatch.setattr(dispatching, "_PAUSE_SECONDS", 0.01)


async def test_subscribers_of_settings_and_api_are_served_from_when_they_came(
    office: Office, receiver: Receiver
) -> None:
    stated = open_office(office.facilities, office.clock, receiver, a_subscriber("stated", "TableCommitted"))
    told: list[Tally] = []
    running = asyncio.create_task(stated.dispatcher.run(told.append))
    try:
        cursors = office.facilities.outbox.cursors
        async with asyncio.timeout(30):
            while not await cursors(office.facilities.meta):
                await asyncio.sleep(0.005)
        await office.tell("a")
        await until(lambda: ("stated", "a") in pairs(receiver))
        await office.webhooks.put(ROOT, "added", URL, ["TableCommitted"], None)
        await office.tell("b")
        await until(lambda: {("stated", "b"), ("added", "b")} <= set(pairs(receiver)))
        assert ("added", "a") not in pairs(receiver)
        await until(lambda: sum(tally.delivered for tally in told) == len(receiver.got))
        await office.webhooks.delete(ROOT, "added")
        await until(lambda: "added" not in stated.dispatcher._served)
        await office.tell("c")
        await until(lambda: ("stated", "c") in pairs(receiver))
        assert ("added", "c") not in pairs(receiver)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    # Nobody has to wait for the lease to run out.
    assert await office.dispatcher._held.take()


def pairs(receiver: Receiver) -> list[tuple[str, str]]:
    return [(name, entry.event.subject) for (name, _), entry in zip(receiver.got, receiver.entries, strict=True)]


async def test_a_subscriber_that_the_settings_name_no_more_holds_nothing_back(office: Office) -> None:
    before = open_office(office.facilities, office.clock, office.receiver, a_subscriber("old"), holder="one")
    assert await before.dispatcher._held.take()
    await before.dispatcher.look(lambda tally: None)
    assert [name for name, _ in await office.facilities.outbox.cursors(office.facilities.meta)] == ["webhook old"]
    await before.dispatcher._stop(["old"])
    await before.dispatcher._held.release()
    assert await office.dispatcher._held.take()
    await office.dispatcher.look(lambda tally: None)
    assert await office.facilities.outbox.cursors(office.facilities.meta) == []


async def test_one_process_delivers_and_the_next_takes_over(office: Office, receiver: Receiver) -> None:
    await office.webhooks.put(ROOT, "r", URL, ["TableCommitted"], None)
    assert await office.dispatcher._held.take()
    other = open_office(office.facilities, office.clock, receiver, holder="two")
    assert not await other.dispatcher._held.take()
    office.clock.advance(dispatching.LEASE_SECONDS + 1)
    assert await other.dispatcher._held.take()


async def test_a_crash_of_one_delivery_does_not_end_them(office: Office, receiver: Receiver) -> None:
    crashes = iter([RuntimeError("a mistake"), Unavailable("down")])

    class Crashing(Receiver):
        async def send(self, subscriber: Subscriber, entry: Entry) -> None:
            error = next(crashes, None)
            if isinstance(error, RuntimeError):
                raise error
            await receiver.send(subscriber, entry)

    broken = open_office(office.facilities, office.clock, Crashing())
    await office.webhooks.put(ROOT, "r", URL, ["TableCommitted"], None)
    await office.tell("a")
    running = asyncio.create_task(broken.dispatcher.run(lambda tally: None))
    try:
        await until(lambda: receiver.subjects == ["a"])
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_old_dead_letters_and_too_many_of_them_go(
    office: Office, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatching, "MOST_DEAD", 2)
    await office.webhooks.put(ROOT, "r", URL, ["TableCommitted"], None)
    receiver.refuses = lambda entry: True
    await office.tell("a", "b", "c", "d")
    courier = await office.courier()
    for _ in range(3):
        await office.drain(courier)
        office.clock.advance(10)
    assert (await office.webhooks.get(ROOT, "r")).dead == 4
    await office.dispatcher._forget({"r": a_subscriber()})
    assert (await office.webhooks.get(ROOT, "r")).dead == 2
    office.clock.advance(31 * 86_400)
    await office.dispatcher._forget({"r": a_subscriber()})
    assert (await office.webhooks.get(ROOT, "r")).dead == 0
