from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from lakebed.core.errors import InvalidInput, Unavailable
from tests.contracts.targets import TargetContract, make_message
from tests.fixtures.brokers.mqtt import MqttService, running_mosquitto
from tests.fixtures.brokers.service import Auth, receive_until

pytestmark = [pytest.mark.integration, pytest.mark.slow]


@pytest.fixture(scope="module")
def service() -> Iterator[MqttService]:
    with running_mosquitto() as service:
        yield service


class TestMqtt(TargetContract):
    """The contract, with QoS 1."""

    async def test_message_arrives_over_websockets(self, service: MqttService, destination: str) -> None:
        settings = msgspec.structs.replace(
            service.settings(destination), broker=f"ws://127.0.0.1:{service.websocket_port}/mqtt"
        )
        message, target = make_message(), service.create_target(settings)
        async with service.listening(destination) as listener:
            await target.send(message)
            await receive_until(listener, {message.id})
        await target.close()

    async def test_message_arrives_with_mqtt_3_1_1(self, service: MqttService, destination: str) -> None:
        for auth in (Auth.PLAIN, Auth.PASSWORD, Auth.MUTUAL):
            message = make_message()
            target = service.create_target(
                msgspec.structs.replace(service.settings(destination, auth), protocol="3.1.1")
            )
            # All MQTT listeners of the broker share topics.
            async with service.listening(destination) as listener:
                await target.check()
                await target.send(message)
                (received,) = await receive_until(listener, {message.id})
            await target.close()
            assert (received.body, received.id) == (message.body, None)
        wrong = service.create_target(
            msgspec.structs.replace(service.settings(destination, Auth.WRONG_PASSWORD), protocol="3.1.1")
        )
        with pytest.raises(Unavailable, match="reason="):
            await wrong.send(make_message())
        await wrong.close()

    def test_other_protocol_versions_are_rejected(self, service: MqttService, destination: str) -> None:
        with pytest.raises(InvalidInput) as raised:
            service.create_target(msgspec.structs.replace(service.settings(destination), protocol="3.1"))
        assert raised.value.argument == "protocol"

    async def test_unauthorized_topic_is_unavailable(self, service: MqttService) -> None:
        target = service.target("forbidden/events")
        with pytest.raises(Unavailable):
            await target.send(make_message())
        await target.close()
