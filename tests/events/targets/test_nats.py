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
from tests.fixtures.brokers.service import PASSWORD, Auth

pytestmark = [pytest.mark.integration, pytest.mark.slow]


@pytest.fixture(scope="module")
def service() -> Iterator[NatsService]:
    with running_nats() as service:
        yield service


class TestNats(TargetContract):
    """The contract, without JetStream."""

    async def test_stream_deduplicates_repeated_messages(self, service: NatsService, destination: str) -> None:
        await service.make_stream(destination, f"{destination}.>")
        target = NatsTarget(service.settings(f"{destination}.events", stream=destination))
        messages = [make_message("a/1"), make_message("a/2")]
        await target.check()
        for message in (messages[0], messages[0], messages[1]):
            await target.send(message)
        await target.close()
        assert [received.id for received in await service.kept(destination)] == [message.id for message in messages]

    async def test_stream_stores_the_same_event_of_two_targets(self, service: NatsService, destination: str) -> None:
        await service.make_stream(destination, f"{destination}.>")
        event = make_message()
        for name in ("one", "two"):
            target = NatsTarget(service.settings(f"{destination}.{name}", stream=destination))
            for _ in range(2):
                await target.send(dataclasses.replace(event, target=f"{name}:nats"))
            await target.close()
        assert [received.id for received in await service.kept(destination)] == [event.id, event.id]

    async def test_missing_stream_is_unavailable(self, service: NatsService, destination: str) -> None:
        target = NatsTarget(service.settings(f"{destination}.events", stream=destination), deadline_seconds=5)
        for attempt in (target.check, lambda: target.send(make_message())):
            with pytest.raises(Unavailable):
                await attempt()
        await target.close()

    async def test_check_fails_for_stream_without_the_subject(self, service: NatsService, destination: str) -> None:
        await service.make_stream(destination, f"{destination}.other")
        target = NatsTarget(service.settings(f"{destination}.events", stream=destination), deadline_seconds=5)
        with pytest.raises(Unavailable, match="does not cover the subject"):
            await target.check()
        await target.close()

    async def test_message_over_the_stream_limit_is_undeliverable(self, service: NatsService, destination: str) -> None:
        await service.make_stream(destination, destination, max_msg_size=1024)
        target = NatsTarget(service.settings(destination, stream=destination))
        with pytest.raises(Undeliverable):
            await target.send(make_message(padding=2048))
        await target.send(make_message())
        await target.close()
        assert len(await service.kept(destination)) == 1

    async def test_server_without_tls_receives_no_credentials(self, service: NatsService, destination: str) -> None:
        sent = b""

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal sent
            writer.write(b'INFO {"server_id":"x","version":"2.9.0","max_payload":1048576,"proto":1}\r\n')
            sent += await reader.read()
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        settings = msgspec.structs.replace(
            service.settings(destination, Auth.PASSWORD), address=f"nats://127.0.0.1:{port}", tls_required=True
        )
        target = NatsTarget(settings, deadline_seconds=5)
        with pytest.raises(Unavailable, match="does not offer TLS"):
            await target.send(make_message())
        await target.close()
        server.close()
        await server.wait_closed()
        assert PASSWORD.encode() not in sent
        assert b"CONNECT" not in sent
