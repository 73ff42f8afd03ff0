"""The contract of targets: whatever events are sent to passes this suite, against the real server.

Subclass `TargetContract` and define a `service` fixture; what the server cannot do is declared in its `capabilities`,
and the tests of that are skipped. Every test has a place of its own.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from lakebed.core.errors import Unavailable, Undeliverable
from lakebed.core.ids import new_deployment_id
from lakebed.events.forms import Form, render
from lakebed.events.ids import EventIds
from lakebed.events.requests import RequestEntry, event_of_request
from lakebed.events.targets.seam import EventMessage, EventTarget
from lakebed.meta.outbox import FIRST_REQUEST, OutboxEntry
from tests.fixtures.brokers.service import PASSWORD, WRONG_PASSWORD, Heard, TargetService, Way, heard_until, marker_in

T = TypeVar("T")


def needs(*names: str) -> Callable[[T], T]:
    """The test runs only where these capabilities are declared."""

    def mark(test: T) -> T:
        test.needs = names  # type: ignore[attr-defined]  # read again by the fixture below
        return test

    return mark


def make_message(
    key: str = "sales/in/2026 Q1.csv", *, is_removal: bool = False, padding: int = 0, target: str = ""
) -> EventMessage:
    """An event as it is sent by default, with its id somewhere in it."""
    marker = f"evt_{secrets.token_hex(8)}"
    name = "s3:ObjectRemoved:Delete" if is_removal else "s3:ObjectCreated:Put"
    record = {"eventVersion": "2.1", "eventName": name, "s3": {"object": {"key": key, "marker": marker}}}
    body = {"EventName": name, "Key": key, "Records": [record]}
    if padding:
        record["padding"] = "x" * padding
    return EventMessage(marker, name, key, is_removal, 1_772_600_767_089, json.dumps(body).encode(), target=target)


def shared_messages() -> list[EventMessage]:
    """One event for two targets, and one of the same number from another deployment."""
    ours, theirs = (dataclasses.replace(make_message(), id=EventIds(new_deployment_id()).cursor(1)) for _ in range(2))
    return [dataclasses.replace(ours, target=name) for name in ("one:kind", "two:kind")] + [
        dataclasses.replace(theirs, target="one:kind")
    ]


def make_entry() -> EventMessage:
    """An entry of an audit log as it is sent by default, with its id somewhere in it."""
    marker = f"evt_{secrets.token_hex(8)}"
    told = RequestEntry(
        edge="s3", api="PutObject", bucket="sales", object="in/2026 Q1.csv", status=200, request_id=marker
    )
    entry = OutboxEntry(FIRST_REQUEST, event_of_request(told, 1_772_600_767_089))
    return dataclasses.replace(
        render(entry, Form.AUDIT, region="us-east-1", ids=EventIds(new_deployment_id())), id=marker
    )


def record_in(heard: Heard) -> object:
    """The record of a message, in whichever form it arrived."""
    document = json.loads(heard.body)
    if isinstance(document, list):
        (document,) = document
    if "version" in document:
        # An entry of an audit log is all there is.
        return document
    (record,) = document["Event"] if "Event" in document else document["Records"]
    return record


class TargetContract:
    """What holds for every target."""

    @pytest.fixture
    def place(self) -> str:
        return f"place_{secrets.token_hex(6)}"

    @pytest.fixture(autouse=True)
    def _capable(self, request: pytest.FixtureRequest, service: TargetService) -> None:
        wanted: tuple[str, ...] = getattr(request.function, "needs", ())
        for name in wanted:
            if not getattr(service.capabilities, name):
                pytest.skip(f"{service.name}: not {name}")

    @pytest.fixture
    async def target(self, service: TargetService, place: str) -> AsyncIterator[EventTarget]:
        target = service.target(place)
        yield target
        await target.close()

    async def test_a_message_arrives_as_it_was_sent(
        self, service: TargetService, target: EventTarget, place: str
    ) -> None:
        message = make_message()
        async with service.listening(place) as ear:
            await target.send(message)
            (heard,) = await heard_until(ear, {message.id})
        assert record_in(heard) == json.loads(message.body)["Records"][0]
        if service.capabilities.carries_ids:
            assert heard.id == message.id

    async def test_an_entry_of_an_audit_log_arrives(
        self, service: TargetService, target: EventTarget, place: str
    ) -> None:
        message = make_entry()
        async with service.listening(place) as ear:
            await target.send(message)
            (heard,) = await heard_until(ear, {message.id})
        entry = record_in(heard)
        assert entry == json.loads(message.body)
        assert isinstance(entry, dict)
        assert entry["api"]["name"] == "PutObject"

    async def test_keys_that_are_not_ascii_arrive(
        self, service: TargetService, target: EventTarget, place: str
    ) -> None:
        message = make_message('bücket/日本語/😀 it\'s "quoted" \\ 100%')
        async with service.listening(place) as ear:
            await target.send(message)
            (heard,) = await heard_until(ear, {message.id})
        assert record_in(heard) == json.loads(message.body)["Records"][0]

    async def test_a_message_that_is_sent_twice_is_there_once_or_told_by_its_id(
        self, service: TargetService, target: EventTarget, place: str
    ) -> None:
        twice, last = make_message("a/1"), make_message("a/2")
        async with service.listening(place) as ear:
            for message in (twice, twice, last):
                await target.send(message)
            heard = await heard_until(ear, {last.id})
        counted = Counter(one.marker for one in heard)
        if service.capabilities.deduplicates:
            assert counted == {twice.id: 1, last.id: 1}
        else:
            assert counted == {twice.id: 2, last.id: 1}
            assert [one.id for one in heard] == [one.marker for one in heard]

    async def test_two_targets_on_one_place_each_deliver_every_event(
        self, service: TargetService, target: EventTarget, place: str
    ) -> None:
        events = [make_message(f"bucket/{number}") for number in range(6)]
        other = service.target(place)
        try:
            async with service.listening(place) as ear:
                for event in events:
                    await target.send(dataclasses.replace(event, target="one:kind"))
                    await other.send(dataclasses.replace(event, target="two:kind"))
                heard = await heard_until(ear, {event.id for event in events}, times=2)
        finally:
            await other.close()
        assert Counter(one.marker for one in heard) == {event.id: 2 for event in events}

    async def test_two_deployments_on_one_place_each_deliver_every_event(
        self, service: TargetService, target: EventTarget, place: str
    ) -> None:
        deployments = [EventIds(new_deployment_id()) for _ in range(2)]
        events = [
            dataclasses.replace(make_message(f"bucket/{seq}"), id=ids.cursor(seq), target="one:kind")
            for ids in deployments
            for seq in range(1, 7)
        ]
        markers = {marker_in(event.body) for event in events}
        async with service.listening(place) as ear:
            for event in events:
                await target.send(event)
            heard = await heard_until(ear, markers)
        assert Counter(one.marker for one in heard) == dict.fromkeys(markers, 1)
        if service.capabilities.carries_ids:
            assert {one.id for one in heard} == {event.id for event in events}

    async def test_as_many_as_may_be_under_way_all_arrive(
        self, service: TargetService, target: EventTarget, place: str
    ) -> None:
        messages = [make_message(f"bucket/{number}") for number in range(3 * target.max_in_flight)]
        turns = asyncio.Semaphore(target.max_in_flight)

        async def send(message: EventMessage) -> None:
            async with turns:
                await target.send(message)

        async with service.listening(place) as ear:
            await asyncio.gather(*map(send, messages))
            heard = await heard_until(ear, {message.id for message in messages})
        assert Counter(one.marker for one in heard) == {message.id: 1 for message in messages}

    @needs("keeps_order")
    async def test_messages_of_one_sender_arrive_in_order(
        self, service: TargetService, target: EventTarget, place: str
    ) -> None:
        messages = [make_message("bucket/one") for _ in range(10)]
        async with service.listening(place) as ear:
            for message in messages:
                await target.send(message)
            heard = await heard_until(ear, {messages[-1].id})
        assert [one.marker for one in heard] == [message.id for message in messages]

    @needs("stops")
    async def test_a_server_that_stops_is_unavailable_and_gets_messages_when_it_is_back(
        self, service: TargetService, target: EventTarget, place: str
    ) -> None:
        first, second = make_message("a/1"), make_message("a/2")
        async with service.listening(place) as ear:
            await target.send(first)
            await heard_until(ear, {first.id})
        service.stop()
        try:
            with pytest.raises(Unavailable):
                await target.send(second)
            with pytest.raises(Unavailable):
                await target.check()
        finally:
            service.start()
        async with service.listening(place) as ear:
            await target.send(second)
            assert second.id in {one.marker for one in await heard_until(ear, {second.id})}
        await target.check()

    async def test_check_says_nothing_of_a_place_that_takes_messages(
        self, service: TargetService, target: EventTarget, place: str
    ) -> None:
        async with service.listening(place):
            await target.check()

    @needs("missing_places")
    async def test_check_tells_of_a_place_that_is_not_there(self, target: EventTarget) -> None:
        with pytest.raises(Unavailable):
            await target.check()

    async def test_what_the_server_does_not_take_is_undeliverable_and_the_next_message_arrives(
        self, service: TargetService, target: EventTarget, place: str
    ) -> None:
        good = make_message()
        async with service.listening(place) as ear:
            with pytest.raises(Undeliverable):
                await target.send(service.too_long(make_message()))
            await target.send(good)
            assert [one.marker for one in await heard_until(ear, {good.id})] == [good.id]

    async def test_nothing_is_sent_after_the_end_which_may_come_twice(
        self, service: TargetService, target: EventTarget, place: str
    ) -> None:
        message = make_message()
        async with service.listening(place) as ear:
            await target.send(message)
            await heard_until(ear, {message.id})
        await target.close()
        await target.close()
        with pytest.raises(Unavailable):
            await target.send(make_message())

    async def test_one_that_was_never_used_can_be_closed(self, service: TargetService, place: str) -> None:
        await service.target(place).close()

    # -- who is who -----------------------------------------------------------------------------------------------

    @needs("passwords")
    async def test_the_right_password_opens(self, service: TargetService, place: str) -> None:
        await self._arrives(service, place, service.target(place, Way.PASSWORD))

    @needs("passwords")
    async def test_a_wrong_password_is_told_without_telling_it(self, service: TargetService, place: str) -> None:
        target = service.target(place, Way.WRONG_PASSWORD)
        try:
            async with service.listening(place):
                for attempt in (target.send(make_message()), target.check()):
                    with pytest.raises(Unavailable, match="reason=") as refused:
                        await attempt
                    assert WRONG_PASSWORD not in str(refused.value)
                    assert PASSWORD not in str(refused.value)
                    assert refused.value.__cause__ is None
        finally:
            await target.close()

    @needs("tls")
    async def test_a_server_that_the_authority_vouches_for_is_trusted(self, service: TargetService, place: str) -> None:
        await self._arrives(service, place, service.target(place, Way.TLS))

    @needs("tls")
    async def test_a_server_that_nobody_vouches_for_is_not_sent_anything(
        self, service: TargetService, place: str
    ) -> None:
        misled = dataclasses.replace(service.certificates.misled, cert=None, key=None)
        await self._fails(service, place, service.target(place, Way.TLS, misled))

    @needs("mutual_tls")
    async def test_who_shows_a_certificate_is_let_in(self, service: TargetService, place: str) -> None:
        await self._arrives(service, place, service.target(place, Way.MUTUAL))

    @needs("mutual_tls")
    async def test_who_shows_none_is_not(self, service: TargetService, place: str) -> None:
        await self._fails(service, place, service.target(place, Way.MUTUAL, service.certificates.trusting))

    @needs("mutual_tls")
    async def test_certificates_that_are_replaced_on_disk_are_used_next(
        self, service: TargetService, place: str, tmp_path: Path
    ) -> None:
        certificates = service.certificates
        files = certificates.copied(tmp_path, certificates.strange_client)
        target = service.target(place, Way.MUTUAL, files)
        try:
            async with service.listening(place) as ear:
                with pytest.raises(Unavailable):
                    await target.send(make_message())
                certificates.replace(files, certificates.client)
                for shown in (certificates.client, certificates.authority.issue("another")):
                    certificates.replace(files, shown)
                    message = make_message()
                    await target.send(message)
                    await heard_until(ear, {message.id})
        finally:
            await target.close()

    async def _arrives(self, service: TargetService, place: str, target: EventTarget) -> None:
        message = make_message()
        try:
            async with service.listening(place) as ear:
                await target.check()
                await target.send(message)
                await heard_until(ear, {message.id})
        finally:
            await target.close()

    async def _fails(self, service: TargetService, place: str, target: EventTarget) -> None:
        try:
            async with service.listening(place) as ear:
                with pytest.raises(Unavailable, match="reason="):
                    await target.send(make_message())
                with pytest.raises(Unavailable):
                    await target.check()
                assert await ear.heard() == []
        finally:
            await target.close()
