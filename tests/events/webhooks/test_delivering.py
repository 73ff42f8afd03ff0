from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakebed.core.clock import ManualClock
from lakebed.core.errors import Fenced, NotFound
from lakebed.core.webhooks import new_secret
from lakebed.events.webhooks import DeliveryState
from lakebed.events.webhooks import delivering as module
from lakebed.meta.outbox import Entry
from tests.objects.stores import ROOT, opened_store

from .conftest import URL, Office, Receiver, open_office


async def test_what_happens_after_the_subscription_arrives_in_order(office: Office, receiver: Receiver) -> None:
    await office.tell("before")
    await office.webhooks.put(ROOT, "r", URL, ["Table*"], None)
    await office.tell("a", "b", "c", table="T")
    await office.tell("x", kind="UserCreated")
    await office.drain(await office.courier())
    assert receiver.subjects == ["a", "b", "c"]
    status = await office.webhooks.get(ROOT, "r")
    assert (status.waiting, status.dead, status.failure) == (0, 0, "")


async def test_a_new_courier_goes_on_where_the_last_one_stood(office: Office, receiver: Receiver) -> None:
    await office.webhooks.put(ROOT, "r", URL, ["*"], None)
    await office.tell("a")
    first = await office.courier()
    await office.drain(first)
    done = len(receiver.got)
    await office.tell("b")
    await office.drain(await office.courier())
    assert receiver.subjects[done:] == ["b"]


async def test_a_refused_event_holds_up_its_own_lane_and_no_other(office: Office, receiver: Receiver) -> None:
    await office.webhooks.put(ROOT, "r", URL, ["TableCommitted"], None)
    receiver.refuses = lambda entry: entry.event.subject == "a1"
    await office.tell("a1", table="A")
    await office.tell("b1", table="B")
    await office.tell("a2", table="A")
    await office.tell("b2", table="B")
    courier = await office.courier()
    await office.drain(courier)
    assert receiver.subjects == ["b1", "b2"]
    await office.tell("a3", table="A")
    await office.tell("b3", table="B")
    await office.drain(courier)
    assert receiver.subjects == ["b1", "b2", "b3"]
    status = await office.webhooks.get(ROOT, "r")
    assert (status.waiting, status.failure) == (3, "answered 500")
    receiver.refuses = lambda entry: False
    office.clock.advance(10)
    await office.drain(courier)
    assert receiver.subjects == ["b1", "b2", "b3", "a1", "a2", "a3"]
    assert (await office.webhooks.get(ROOT, "r")).waiting == 0


async def test_attempts_come_with_growing_pauses_and_then_no_more(office: Office, receiver: Receiver) -> None:
    await office.webhooks.put(ROOT, "r", URL, ["TableCommitted"], None)
    receiver.refuses = lambda entry: entry.event.subject == "bad"
    await office.tell("bad", "later", table="A")
    courier = await office.courier()
    await office.drain(courier)
    assert len(receiver.tried) == 1
    # Not before its time.
    await office.drain(courier)
    assert len(receiver.tried) == 1
    office.clock.advance(1.01)
    await office.drain(courier)
    assert len(receiver.tried) == 2
    office.clock.advance(2.01)
    await office.drain(courier)
    # The third was the last: it is a dead letter, and what was behind it goes on.
    (dead,) = await office.webhooks.deliveries(ROOT, "r", DeliveryState.DEAD, after_seq=0, limit=10)
    assert (dead.entry.event.subject, dead.attempts, dead.failure) == ("bad", 3, "answered 500")
    assert receiver.subjects == ["later"]
    office.clock.advance(1000)
    await office.drain(courier)
    assert receiver.subjects == ["later"]
    # Until somebody has it tried again.
    receiver.refuses = lambda entry: False
    assert await office.webhooks.redrive(ROOT, "r", dead.entry.seq) == 1
    await office.drain(courier)
    assert receiver.subjects == ["later", "bad"]
    with pytest.raises(NotFound, match="no such dead letter"):
        await office.webhooks.redrive(ROOT, "r", dead.entry.seq)


async def test_what_waits_survives_the_outbox(office: Office, receiver: Receiver) -> None:
    await office.webhooks.put(ROOT, "r", URL, ["TableCommitted"], None)
    receiver.refuses = lambda entry: True
    await office.tell("a", operation="UPDATE_TABLE", table="T")
    await office.drain(await office.courier())
    office.clock.advance(5)
    assert await office.facilities.outbox.trim(occurred_before_ms=office.clock.now_ms()) > 0
    assert await office.facilities.outbox.read_after(office.facilities.meta, 0, 10) == []
    receiver.refuses = lambda entry: False
    await office.drain(await office.courier())
    (entry,) = receiver.entries
    assert (entry.event.subject, entry.event.type) == ("a", "AFTER_UPDATE_TABLE")


async def test_no_more_is_read_while_too_much_waits(
    office: Office, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_WAITING", 3)
    monkeypatch.setattr(module, "BATCH", 2)
    await office.webhooks.put(ROOT, "r", URL, ["TableCommitted"], None)
    receiver.refuses = lambda entry: True
    subjects = [f"s{number}" for number in range(10)]
    await office.tell(*subjects)
    courier = await office.courier()
    await office.drain(courier)
    # The first two of the log were that of the webhook itself, and one of these.
    assert (await office.webhooks.get(ROOT, "r")).waiting == 3
    assert len(receiver.tried) == 3
    assert (await courier.send_new()).is_full
    receiver.refuses = lambda entry: False
    office.clock.advance(10)
    for _ in range(10):
        await office.drain(courier)
    assert sorted(receiver.subjects) == subjects


async def test_the_outbox_is_not_kept_for_who_asks_for_other_events(office: Office) -> None:
    await office.webhooks.put(ROOT, "r", URL, ["Nothing"], None)
    courier = await office.courier()
    await office.drain(courier)
    await office.tell("a", "b")
    await office.drain(courier)
    # Not for each of them at once,
    last = await office.facilities.outbox.last_seq(office.facilities.meta)
    assert (await office.webhooks.get(ROOT, "r")).after == last - 2
    office.clock.advance(6)
    await office.drain(courier)
    # but soon, though nothing else happens.
    assert (await office.webhooks.get(ROOT, "r")).after == last


async def test_who_has_lost_the_lease_commits_nothing(office: Office, receiver: Receiver) -> None:
    await office.webhooks.put(ROOT, "r", URL, ["TableCommitted"], None)
    await office.tell("a")
    courier = await office.courier()
    office.clock.advance(60)
    other = open_office(office.facilities, office.clock, Receiver(), holder="two")
    assert await other.dispatcher._held.take()
    with pytest.raises(Fenced):
        await courier.step()
    # It was sent, and is sent again: at least once.
    await other.drain(await other.courier())
    assert receiver.subjects == other.receiver.subjects == ["a"]


async def test_a_courier_of_a_subscriber_that_is_gone_leaves_nothing_behind(office: Office, receiver: Receiver) -> None:
    await office.webhooks.put(ROOT, "r", URL, ["*"], None)
    receiver.refuses = lambda entry: True
    courier = await office.courier()
    await office.drain(courier)
    await office.webhooks.delete(ROOT, "r")
    with pytest.raises(NotFound):
        await office.drain(courier)
    assert await office.facilities.meta.rows("SELECT * FROM webhook_deliveries") == []
    assert await office.facilities.outbox.cursors(office.facilities.meta) == []


@settings(max_examples=30)
@given(
    st.lists(st.tuples(st.sampled_from("ABC"), st.booleans()), min_size=1, max_size=12),
    st.lists(st.sampled_from(["step", "crash", "later"]), max_size=12),
)
async def test_whatever_fails_and_whoever_crashes_each_table_arrives_in_order_and_whole(
    tmp_path_factory: pytest.TempPathFactory, events: list[tuple[str, bool]], acts: list[str]
) -> None:
    """Each event is refused once if it is to be; couriers are replaced at any time; then all is let be."""
    folder: Path = tmp_path_factory.mktemp("webhooks")
    async with opened_store(f"sqlite:{folder / 'meta.db'}", "memory", folder, ManualClock()) as store:
        receiver = Receiver()
        office = open_office(store.facilities, store.clock, receiver)
        await office.webhooks.put(ROOT, "r", URL, ["TableCommitted"], new_secret())
        refused: set[str] = set()

        def refuses(entry: Entry) -> bool:
            subject = entry.event.subject
            if subject.endswith("!") and subject not in refused:
                refused.add(subject)
                return True
            return False

        receiver.refuses = refuses
        subjects: dict[str, list[str]] = {}
        for number, (table, fails) in enumerate(events):
            subject = f"{table}{number}{'!' * fails}"
            subjects.setdefault(table, []).append(subject)
            await office.tell(subject, table=table)
        courier = await office.courier()
        for act in acts:
            if act == "step":
                await courier.step()
            elif act == "crash":
                courier = await office.courier()
            else:
                office.clock.advance(3)
        for _ in range(2 * len(events)):
            office.clock.advance(400)
            await office.drain(await office.courier())
        for table, expected in subjects.items():
            arrived = [subject for subject in receiver.subjects if subject.startswith(table)]
            # Some may have come twice, but never one behind a later one for the first time.
            assert list(dict.fromkeys(arrived)) == expected
