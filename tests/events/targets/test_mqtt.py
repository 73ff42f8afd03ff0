from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from lakebed.core.errors import InvalidInput, Unavailable
from tests.contracts.targets import TargetContract, make_message
from tests.fixtures.brokers.mqtt import MqttService, running_mosquitto
from tests.fixtures.brokers.service import Way, heard_until

pytestmark = [pytest.mark.integration, pytest.mark.slow]


@pytest.fixture(scope="module")
def service() -> Iterator[MqttService]:
    with running_mosquitto() as service:
        yield service


class TestMqtt(TargetContract):
    """The contract, at quality 1."""

    async def test_it_arrives_over_websockets(self, service: MqttService, place: str) -> None:
        settings = msgspec.structs.replace(
            service.settings(place), broker=f"ws://127.0.0.1:{service.websocket_port}/mqtt"
        )
        message, target = make_message(), service.made(settings)
        async with service.listening(place) as ear:
            await target.send(message)
            await heard_until(ear, {message.id})
        await target.close()

    async def test_brokers_of_the_version_before_have_it_too(self, service: MqttService, place: str) -> None:
        for way in (Way.PLAIN, Way.PASSWORD, Way.MUTUAL):
            message = make_message()
            target = service.made(msgspec.structs.replace(service.settings(place, way), protocol="3.1.1"))
            # Listeners share what is published.
            async with service.listening(place) as ear:
                await target.check()
                await target.send(message)
                (heard,) = await heard_until(ear, {message.id})
            await target.close()
            assert (heard.body, heard.id) == (message.body, None)
        wrong = service.made(msgspec.structs.replace(service.settings(place, Way.WRONG_PASSWORD), protocol="3.1.1"))
        with pytest.raises(Unavailable, match="reason="):
            await wrong.send(make_message())
        await wrong.close()

    def test_other_versions_are_refused(self, service: MqttService, place: str) -> None:
        with pytest.raises(InvalidInput) as refused:
            service.made(msgspec.structs.replace(service.settings(place), protocol="3.1"))
        assert refused.value.argument == "protocol"

    async def test_a_topic_that_is_not_for_us_is_told(self, service: MqttService) -> None:
        target = service.target("forbidden/events")
        with pytest.raises(Unavailable):
            await target.send(make_message())
        await target.close()
