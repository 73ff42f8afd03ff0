"""The contract of target types: each type passes this suite against a real server.

Subclass `TargetContract` and define a `service` fixture. Tests of features that the server's `capabilities` exclude are
skipped. Every test has its own destination.
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
from tests.fixtures.brokers.service import (
    PASSWORD,
    WRONG_PASSWORD,
    Auth,
    BrokerService,
    Received,
    marker_in,
    receive_until,
)

T = TypeVar("T")


def needs(*names: str) -> Callable[[T], T]:
    """Run the test only if the service has these capabilities."""

    def mark(test: T) -> T:
        test.needs = names  # type: ignore[attr-defined]  # read again by the fixture below
        return test

    return mark


def make_message(
    key: str = "sales/in/2026 Q1.csv", *, is_removal: bool = False, padding: int = 0, target: str = ""
) -> EventMessage:
    """A message in the form s3, with its id in the body."""
    marker = f"evt_{secrets.token_hex(8)}"
    name = "s3:ObjectRemoved:Delete" if is_removal else "s3:ObjectCreated:Put"
    record = {"eventVersion": "2.1", "eventName": name, "s3": {"object": {"key": key, "marker": marker}}}
    body = {"EventName": name, "Key": key, "Records": [record]}
    if padding:
        record["padding"] = "x" * padding
    return EventMessage(marker, name, key, is_removal, 1_772_600_767_089, json.dumps(body).encode(), target=target)


def shared_messages() -> list[EventMessage]:
    """One event for two targets, and an event of another deployment with the same number."""
    ours, theirs = (dataclasses.replace(make_message(), id=EventIds(new_deployment_id()).cursor(1)) for _ in range(2))
    return [dataclasses.replace(ours, target=name) for name in ("one:kind", "two:kind")] + [
        dataclasses.replace(theirs, target="one:kind")
    ]


def make_entry() -> EventMessage:
    """A request log entry in the form audit, with its id in the body."""
    marker = f"evt_{secrets.token_hex(8)}"
    entry_payload = RequestEntry(
        edge="s3", api="PutObject", bucket="sales", object="in/2026 Q1.csv", status=200, request_id=marker
    )
    entry = OutboxEntry(FIRST_REQUEST, event_of_request(entry_payload, 1_772_600_767_089))
    return dataclasses.replace(
        render(entry, Form.AUDIT, region="us-east-1", ids=EventIds(new_deployment_id())), id=marker
    )


def record_in(received: Received) -> object:
    """The record in a received message, in any storage format."""
    document = json.loads(received.body)
    if isinstance(document, list):
        (document,) = document
    if "version" in document:
        return document
    (record,) = document["Event"] if "Event" in document else document["Records"]
    return record


class TargetContract:
    """Tests for every target type."""

    @pytest.fixture
    def destination(self) -> str:
        return f"place_{secrets.token_hex(6)}"

    @pytest.fixture(autouse=True)
    def _capable(self, request: pytest.FixtureRequest, service: BrokerService) -> None:
        required: tuple[str, ...] = getattr(request.function, "needs", ())
        for name in required:
            if not getattr(service.capabilities, name):
                pytest.skip(f"{service.name}: not {name}")

    @pytest.fixture
    async def target(self, service: BrokerService, destination: str) -> AsyncIterator[EventTarget]:
        target = service.target(destination)
        yield target
        await target.close()

    async def test_message_arrives_unchanged(
        self, service: BrokerService, target: EventTarget, destination: str
    ) -> None:
        message = make_message()
        async with service.listening(destination) as listener:
            await target.send(message)
            (received,) = await receive_until(listener, {message.id})
        assert record_in(received) == json.loads(message.body)["Records"][0]
        if service.capabilities.carries_ids:
            assert received.id == message.id

    async def test_request_log_entry_arrives(
        self, service: BrokerService, target: EventTarget, destination: str
    ) -> None:
        message = make_entry()
        async with service.listening(destination) as listener:
            await target.send(message)
            (received,) = await receive_until(listener, {message.id})
        entry = record_in(received)
        assert entry == json.loads(message.body)
        assert isinstance(entry, dict)
        assert entry["api"]["name"] == "PutObject"

    async def test_non_ascii_keys_arrive(self, service: BrokerService, target: EventTarget, destination: str) -> None:
        message = make_message('bücket/日本語/😀 it\'s "quoted" \\ 100%')
        async with service.listening(destination) as listener:
            await target.send(message)
            (received,) = await receive_until(listener, {message.id})
        assert record_in(received) == json.loads(message.body)["Records"][0]

    async def test_repeated_message_is_stored_once_or_has_the_same_id(
        self, service: BrokerService, target: EventTarget, destination: str
    ) -> None:
        twice, last = make_message("a/1"), make_message("a/2")
        async with service.listening(destination) as listener:
            for message in (twice, twice, last):
                await target.send(message)
            received = await receive_until(listener, {last.id})
        counted = Counter(message.marker for message in received)
        if service.capabilities.deduplicates:
            assert counted == {twice.id: 1, last.id: 1}
        else:
            assert counted == {twice.id: 2, last.id: 1}
            assert [message.id for message in received] == [message.marker for message in received]

    async def test_two_targets_on_one_destination_each_deliver_every_event(
        self, service: BrokerService, target: EventTarget, destination: str
    ) -> None:
        events = [make_message(f"bucket/{number}") for number in range(6)]
        other = service.target(destination)
        try:
            async with service.listening(destination) as listener:
                for event in events:
                    await target.send(dataclasses.replace(event, target="one:kind"))
                    await other.send(dataclasses.replace(event, target="two:kind"))
                received = await receive_until(listener, {event.id for event in events}, times=2)
        finally:
            await other.close()
        assert Counter(message.marker for message in received) == {event.id: 2 for event in events}

    async def test_two_deployments_on_one_destination_each_deliver_every_event(
        self, service: BrokerService, target: EventTarget, destination: str
    ) -> None:
        deployments = [EventIds(new_deployment_id()) for _ in range(2)]
        events = [
            dataclasses.replace(make_message(f"bucket/{seq}"), id=ids.cursor(seq), target="one:kind")
            for ids in deployments
            for seq in range(1, 7)
        ]
        markers = {marker_in(event.body) for event in events}
        async with service.listening(destination) as listener:
            for event in events:
                await target.send(event)
            received = await receive_until(listener, markers)
        assert Counter(message.marker for message in received) == dict.fromkeys(markers, 1)
        if service.capabilities.carries_ids:
            assert {message.id for message in received} == {event.id for event in events}

    async def test_max_in_flight_concurrent_messages_all_arrive(
        self, service: BrokerService, target: EventTarget, destination: str
    ) -> None:
        messages = [make_message(f"bucket/{number}") for number in range(3 * target.max_in_flight)]
        turns = asyncio.Semaphore(target.max_in_flight)

        async def send(message: EventMessage) -> None:
            async with turns:
                await target.send(message)

        async with service.listening(destination) as listener:
            await asyncio.gather(*map(send, messages))
            received = await receive_until(listener, {message.id for message in messages})
        assert Counter(message.marker for message in received) == {message.id: 1 for message in messages}

    @needs("keeps_order")
    async def test_messages_of_one_sender_arrive_in_order(
        self, service: BrokerService, target: EventTarget, destination: str
    ) -> None:
        messages = [make_message("bucket/one") for _ in range(10)]
        async with service.listening(destination) as listener:
            for message in messages:
                await target.send(message)
            received = await receive_until(listener, {messages[-1].id})
        assert [message.marker for message in received] == [message.id for message in messages]

    @needs("stops")
    async def test_stopped_server_is_unavailable_and_receives_messages_after_restart(
        self, service: BrokerService, target: EventTarget, destination: str
    ) -> None:
        first, second = make_message("a/1"), make_message("a/2")
        async with service.listening(destination) as listener:
            await target.send(first)
            await receive_until(listener, {first.id})
        service.stop()
        try:
            with pytest.raises(Unavailable):
                await target.send(second)
            with pytest.raises(Unavailable):
                await target.check()
        finally:
            service.start()
        async with service.listening(destination) as listener:
            await target.send(second)
            assert second.id in {message.marker for message in await receive_until(listener, {second.id})}
        await target.check()

    async def test_check_passes_for_ready_destination(
        self, service: BrokerService, target: EventTarget, destination: str
    ) -> None:
        async with service.listening(destination):
            await target.check()

    @needs("missing_destinations")
    async def test_check_fails_for_missing_destination(self, target: EventTarget) -> None:
        with pytest.raises(Unavailable):
            await target.check()

    async def test_rejected_message_is_undeliverable_and_the_next_message_arrives(
        self, service: BrokerService, target: EventTarget, destination: str
    ) -> None:
        good = make_message()
        async with service.listening(destination) as listener:
            with pytest.raises(Undeliverable):
                await target.send(service.too_long(make_message()))
            await target.send(good)
            assert [message.marker for message in await receive_until(listener, {good.id})] == [good.id]

    async def test_send_fails_after_close_and_close_is_idempotent(
        self, service: BrokerService, target: EventTarget, destination: str
    ) -> None:
        message = make_message()
        async with service.listening(destination) as listener:
            await target.send(message)
            await receive_until(listener, {message.id})
        await target.close()
        await target.close()
        with pytest.raises(Unavailable):
            await target.send(make_message())

    async def test_unused_target_can_be_closed(self, service: BrokerService, destination: str) -> None:
        await service.target(destination).close()

    # -- authentication and TLS ------------------------------------------------------------------------------------

    @needs("passwords")
    async def test_correct_password_is_accepted(self, service: BrokerService, destination: str) -> None:
        await self._arrives(service, destination, service.target(destination, Auth.PASSWORD))

    @needs("passwords")
    async def test_wrong_password_error_contains_no_password(self, service: BrokerService, destination: str) -> None:
        target = service.target(destination, Auth.WRONG_PASSWORD)
        try:
            async with service.listening(destination):
                for attempt in (target.send(make_message()), target.check()):
                    with pytest.raises(Unavailable, match="reason=") as raised:
                        await attempt
                    assert WRONG_PASSWORD not in str(raised.value)
                    assert PASSWORD not in str(raised.value)
                    assert raised.value.__cause__ is None
        finally:
            await target.close()

    @needs("tls")
    async def test_server_with_certificate_of_tls_ca_is_trusted(self, service: BrokerService, destination: str) -> None:
        await self._arrives(service, destination, service.target(destination, Auth.TLS))

    @needs("tls")
    async def test_server_with_untrusted_certificate_receives_nothing(
        self, service: BrokerService, destination: str
    ) -> None:
        distrusting = dataclasses.replace(service.certificates.distrusting, cert=None, key=None)
        await self._fails(service, destination, service.target(destination, Auth.TLS, distrusting))

    @needs("mutual_tls")
    async def test_client_certificate_is_accepted(self, service: BrokerService, destination: str) -> None:
        await self._arrives(service, destination, service.target(destination, Auth.MUTUAL))

    @needs("mutual_tls")
    async def test_missing_client_certificate_is_rejected(self, service: BrokerService, destination: str) -> None:
        await self._fails(service, destination, service.target(destination, Auth.MUTUAL, service.certificates.trusting))

    @needs("mutual_tls")
    async def test_replaced_certificate_files_are_used_for_the_next_message(
        self, service: BrokerService, destination: str, tmp_path: Path
    ) -> None:
        certificates = service.certificates
        files = certificates.copied(tmp_path, certificates.untrusted_client)
        target = service.target(destination, Auth.MUTUAL, files)
        try:
            async with service.listening(destination) as listener:
                with pytest.raises(Unavailable):
                    await target.send(make_message())
                certificates.replace(files, certificates.client)
                for shown in (certificates.client, certificates.authority.issue("another")):
                    certificates.replace(files, shown)
                    message = make_message()
                    await target.send(message)
                    await receive_until(listener, {message.id})
        finally:
            await target.close()

    async def _arrives(self, service: BrokerService, destination: str, target: EventTarget) -> None:
        message = make_message()
        try:
            async with service.listening(destination) as listener:
                await target.check()
                await target.send(message)
                await receive_until(listener, {message.id})
        finally:
            await target.close()

    async def _fails(self, service: BrokerService, destination: str, target: EventTarget) -> None:
        try:
            async with service.listening(destination) as listener:
                with pytest.raises(Unavailable, match="reason="):
                    await target.send(make_message())
                with pytest.raises(Unavailable):
                    await target.check()
                assert await listener.received() == []
        finally:
            await target.close()
