from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from lakebed.core.errors import Unavailable
from tests.contracts.targets import TargetContract, make_message
from tests.fixtures.brokers.kafka import KafkaService, running_kafka
from tests.fixtures.brokers.service import Way, heard_until

pytestmark = [pytest.mark.integration, pytest.mark.slow]


@pytest.fixture(scope="module")
def service() -> Iterator[KafkaService]:
    with running_kafka() as service:
        yield service


class TestKafka(TargetContract):
    """The contract."""

    async def test_a_password_may_stay_at_home(self, service: KafkaService, place: str) -> None:
        settings = msgspec.structs.replace(service.settings(place, Way.PASSWORD), sasl_mechanism="SCRAM-SHA-256")
        message, target = make_message(), service.made(settings)
        async with service.listening(place) as ear:
            await target.send(message)
            await heard_until(ear, {message.id})
        await target.close()

    async def test_the_reason_of_a_wrong_password_is_the_brokers_own(self, service: KafkaService, place: str) -> None:
        target = service.target(place, Way.WRONG_PASSWORD)
        with pytest.raises(Unavailable, match="Invalid username or password"):
            await target.check()
        await target.close()

    async def test_a_topic_that_is_not_there_is_no_fault_of_the_message(
        self, service: KafkaService, place: str
    ) -> None:
        message, target = make_message(), service.target(place)
        with pytest.raises(Unavailable):
            await target.send(message)
        async with service.listening(place) as ear:
            await target.send(message)
            await heard_until(ear, {message.id})
        await target.close()
