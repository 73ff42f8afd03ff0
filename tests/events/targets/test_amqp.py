from __future__ import annotations

import asyncio
from collections.abc import Iterator

import msgspec
import pytest

from lakebed.core.errors import Unavailable, Undeliverable
from tests.contracts.targets import TargetContract, make_message
from tests.fixtures.brokers.amqp import AmqpService, running_rabbitmq
from tests.fixtures.brokers.service import heard_until

pytestmark = [pytest.mark.integration, pytest.mark.slow]


@pytest.fixture(scope="module")
def service() -> Iterator[AmqpService]:
    with running_rabbitmq() as service:
        yield service


class TestAmqp(TargetContract):
    """The contract, at an exchange with a queue."""

    async def test_what_no_queue_gets_is_not_delivered(self, service: AmqpService, place: str) -> None:
        settings = msgspec.structs.replace(service.settings(place), routing_key="nobody.wants.it")
        target = service.made(settings)
        async with service.listening(place) as ear:
            with pytest.raises(Unavailable):
                await target.send(make_message())
            assert await ear.heard() == []
        await target.close()

    async def test_unless_it_need_not_be(self, service: AmqpService, place: str) -> None:
        settings = msgspec.structs.replace(service.settings(place), routing_key="nobody.wants.it", mandatory=False)
        target = service.made(settings)
        async with service.listening(place):
            await target.send(make_message())
        await target.close()

    async def test_the_exchange_without_a_name_takes_messages_for_queues(
        self, service: AmqpService, place: str
    ) -> None:
        settings = msgspec.structs.replace(service.settings(place), exchange="", routing_key=place)
        message, target = make_message(), service.made(settings)
        async with service.listening(place) as ear:
            await target.check()
            await target.send(message)
            await heard_until(ear, {message.id})
        await target.close()

    async def test_an_exchange_that_is_not_there_is_no_fault_of_the_message(
        self, service: AmqpService, place: str
    ) -> None:
        message, target = make_message(), service.target(place)
        with pytest.raises(Unavailable):
            await target.send(message)
        async with service.listening(place) as ear:
            await target.send(message)
            await heard_until(ear, {message.id})
        await target.close()

    async def test_one_that_is_too_long_does_not_take_others_with_it(self, service: AmqpService, place: str) -> None:
        target = service.target(place)
        good = [make_message(f"a/{number}") for number in range(20)]
        bad = service.too_long(make_message())
        async with service.listening(place) as ear:
            await target.check()
            results = await asyncio.gather(*map(target.send, [*good[:10], bad, *good[10:]]), return_exceptions=True)
            assert isinstance(results.pop(10), Undeliverable)
            assert all(result is None or isinstance(result, Unavailable) for result in results)
            for message, result in zip(good, results, strict=True):
                if result is not None:
                    await target.send(message)
            await heard_until(ear, {message.id for message in good})
        await target.close()
