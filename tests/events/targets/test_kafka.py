from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from lakebed.core.errors import Unavailable
from tests.contracts.targets import TargetContract, make_message
from tests.fixtures.brokers.kafka import KafkaService, running_kafka
from tests.fixtures.brokers.service import Auth, receive_until

pytestmark = [pytest.mark.integration, pytest.mark.slow]


@pytest.fixture(scope="module")
def service() -> Iterator[KafkaService]:
    with running_kafka() as service:
        yield service


class TestKafka(TargetContract):
    """The contract."""

    async def test_scram_authentication(self, service: KafkaService, destination: str) -> None:
        settings = msgspec.structs.replace(service.settings(destination, Auth.PASSWORD), sasl_mechanism="SCRAM-SHA-256")
        message, target = make_message(), service.create_target(settings)
        async with service.listening(destination) as listener:
            await target.send(message)
            await receive_until(listener, {message.id})
        await target.close()

    async def test_wrong_password_reports_the_brokers_reason(self, service: KafkaService, destination: str) -> None:
        target = service.target(destination, Auth.WRONG_PASSWORD)
        with pytest.raises(Unavailable, match="Invalid username or password"):
            await target.check()
        await target.close()

    async def test_missing_topic_is_retryable(self, service: KafkaService, destination: str) -> None:
        message, target = make_message(), service.target(destination)
        with pytest.raises(Unavailable):
            await target.send(message)
        async with service.listening(destination) as listener:
            await target.send(message)
            await receive_until(listener, {message.id})
        await target.close()
