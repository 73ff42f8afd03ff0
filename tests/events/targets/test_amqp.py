from __future__ import annotations

import asyncio
from collections.abc import Iterator

import msgspec
import pytest

from lakebed.core.errors import Unavailable, Undeliverable
from tests.contracts.targets import TargetContract, make_message
from tests.fixtures.brokers.amqp import AmqpService, running_rabbitmq
from tests.fixtures.brokers.service import receive_until

pytestmark = [pytest.mark.integration, pytest.mark.slow]


@pytest.fixture(scope="module")
def service() -> Iterator[AmqpService]:
    with running_rabbitmq() as service:
        yield service


class TestAmqp(TargetContract):
    """The contract, at an exchange with a queue."""

    async def test_unroutable_mandatory_message_fails(self, service: AmqpService, destination: str) -> None:
        settings = msgspec.structs.replace(service.settings(destination), routing_key="no.such.queue")
        target = service.create_target(settings)
        async with service.listening(destination) as listener:
            with pytest.raises(Unavailable):
                await target.send(make_message())
            assert await listener.received() == []
        await target.close()

    async def test_unroutable_message_succeeds_without_mandatory(self, service: AmqpService, destination: str) -> None:
        settings = msgspec.structs.replace(service.settings(destination), routing_key="no.such.queue", mandatory=False)
        target = service.create_target(settings)
        async with service.listening(destination):
            await target.send(make_message())
        await target.close()

    async def test_default_exchange_routes_to_queues(self, service: AmqpService, destination: str) -> None:
        settings = msgspec.structs.replace(service.settings(destination), exchange="", routing_key=destination)
        message, target = make_message(), service.create_target(settings)
        async with service.listening(destination) as listener:
            await target.check()
            await target.send(message)
            await receive_until(listener, {message.id})
        await target.close()

    async def test_missing_exchange_is_retryable(self, service: AmqpService, destination: str) -> None:
        message, target = make_message(), service.target(destination)
        with pytest.raises(Unavailable):
            await target.send(message)
        async with service.listening(destination) as listener:
            await target.send(message)
            await receive_until(listener, {message.id})
        await target.close()

    async def test_oversized_message_does_not_fail_concurrent_messages_for_good(
        self, service: AmqpService, destination: str
    ) -> None:
        target = service.target(destination)
        good = [make_message(f"a/{number}") for number in range(20)]
        bad = service.too_long(make_message())
        async with service.listening(destination) as listener:
            await target.check()
            results = await asyncio.gather(*map(target.send, [*good[:10], bad, *good[10:]]), return_exceptions=True)
            assert isinstance(results.pop(10), Undeliverable)
            assert all(result is None or isinstance(result, Unavailable) for result in results)
            for message, result in zip(good, results, strict=True):
                if result is not None:
                    await target.send(message)
            await receive_until(listener, {message.id for message in good})
        await target.close()
