from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterator

import msgspec
import pytest

from lakebed.core.errors import Unavailable, Undeliverable
from lakebed.events.targets.nats import NatsTarget
from tests.contracts.targets import TargetContract, make_message
from tests.fixtures.brokers.nats import NatsService, running_nats
from tests.fixtures.brokers.service import PASSWORD, Way

pytestmark = [pytest.mark.integration, pytest.mark.slow]


@pytest.fixture(scope="module")
def service() -> Iterator[NatsService]:
    with running_nats() as service:
        yield service


class TestNats(TargetContract):
    """The contract, without a stream."""

    async def test_a_stream_keeps_a_message_that_is_sent_twice_once(self, service: NatsService, place: str) -> None:
        await service.make_stream(place, f"{place}.>")
        target = NatsTarget(service.settings(f"{place}.events", stream=place))
        messages = [make_message("a/1"), make_message("a/2")]
        await target.check()
        for message in (messages[0], messages[0], messages[1]):
            await target.send(message)
        await target.close()
        assert [heard.id for heard in await service.kept(place)] == [message.id for message in messages]

    async def test_a_stream_with_the_subjects_of_two_targets_keeps_what_each_sends(
        self, service: NatsService, place: str
    ) -> None:
        await service.make_stream(place, f"{place}.>")
        event = make_message()
        for name in ("one", "two"):
            target = NatsTarget(service.settings(f"{place}.{name}", stream=place))
            for _ in range(2):
                await target.send(dataclasses.replace(event, target=f"{name}:nats"))
            await target.close()
        assert [heard.id for heard in await service.kept(place)] == [event.id, event.id]

    async def test_a_stream_that_is_not_there_is_told(self, service: NatsService, place: str) -> None:
        target = NatsTarget(service.settings(f"{place}.events", stream=place), deadline_seconds=5)
        for attempt in (target.check, lambda: target.send(make_message())):
            with pytest.raises(Unavailable):
                await attempt()
        await target.close()

    async def test_a_stream_of_other_subjects_is_told(self, service: NatsService, place: str) -> None:
        await service.make_stream(place, f"{place}.other")
        target = NatsTarget(service.settings(f"{place}.events", stream=place), deadline_seconds=5)
        with pytest.raises(Unavailable, match="does not cover the subject"):
            await target.check()
        await target.close()

    async def test_what_is_too_long_for_the_stream_is_undeliverable(self, service: NatsService, place: str) -> None:
        await service.make_stream(place, place, max_msg_size=1024)
        target = NatsTarget(service.settings(place, stream=place))
        with pytest.raises(Undeliverable):
            await target.send(make_message(padding=2048))
        await target.send(make_message())
        await target.close()
        assert len(await service.kept(place)) == 1

    async def test_nothing_is_told_to_a_server_without_tls_by_who_wants_it(
        self, service: NatsService, place: str
    ) -> None:
        told = b""

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal told
            writer.write(b'INFO {"server_id":"x","version":"2.9.0","max_payload":1048576,"proto":1}\r\n')
            told += await reader.read()
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        settings = msgspec.structs.replace(
            service.settings(place, Way.PASSWORD), address=f"nats://127.0.0.1:{port}", tls_required=True
        )
        target = NatsTarget(settings, deadline_seconds=5)
        with pytest.raises(Unavailable, match="does not offer TLS"):
            await target.send(make_message())
        await target.close()
        server.close()
        await server.wait_closed()
        assert PASSWORD.encode() not in told
        assert b"CONNECT" not in told
