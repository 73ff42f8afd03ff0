from __future__ import annotations

import json
from collections.abc import Iterator

import msgspec
import pytest

from lakebed.core.errors import Unavailable
from lakebed.events.targets.redis import RedisTarget
from tests.contracts.targets import TargetContract, make_message
from tests.fixtures.brokers.redis import RedisService, running_redis

pytestmark = [pytest.mark.integration, pytest.mark.slow]


@pytest.fixture(scope="module")
def service() -> Iterator[RedisService]:
    with running_redis() as service:
        yield service


class TestRedis(TargetContract):
    """The contract, on a list."""

    async def test_channel_subscriber_receives_the_message(self, service: RedisService, destination: str) -> None:
        message, target = make_message(), service.create_target(service.settings(), channel=destination)
        async with service.client() as client, client.pubsub() as listener:
            await listener.subscribe(destination)
            await listener.get_message(timeout=5)  # wait for the subscription
            await target.check()
            await target.send(message)
            received = await listener.get_message(timeout=5)
        await target.close()
        assert received is not None
        assert received["data"] == message.body

    async def test_channel_without_subscribers_accepts_messages(self, service: RedisService, destination: str) -> None:
        target = service.create_target(service.settings(), channel=destination)
        await target.send(make_message())
        await target.close()

    async def test_stream_has_messages_in_order_with_ids(self, service: RedisService, destination: str) -> None:
        target = service.create_target(service.settings(), format="stream", key=destination)
        messages = [make_message(), make_message()]
        for message in messages:
            await target.send(message)
        await target.check()
        await target.close()
        async with service.client() as client:
            entries = await client.xrange(destination)
        expected = [{b"id": one.id.encode(), b"name": one.name.encode(), b"body": one.body} for one in messages]
        assert [fields for _, fields in entries or ()] == expected

    async def test_max_length_trims_the_stream(self, service: RedisService, destination: str) -> None:
        settings = msgspec.structs.replace(service.settings(), format="stream", key=destination, max_length=10)
        settings.validate()
        target = RedisTarget(settings)
        for number in range(300):
            await target.send(make_message(f"b/{number}"))
        await target.close()
        async with service.client() as client:
            # Redis trims whole nodes of about a hundred entries.
            assert 10 <= await client.xlen(destination) < 300

    async def test_mirror_has_the_current_objects(self, service: RedisService, destination: str) -> None:
        target = service.create_target(service.settings(), format="namespace", key=destination)
        first, second, other = make_message("b/one"), make_message("b/one"), make_message("b/two")
        for message in (
            first,
            other,
            second,
            make_message("b/two", is_removal=True),
            make_message("b/2", is_removal=True),
        ):
            await target.send(message)
        await target.check()
        await target.close()
        async with service.client() as client:
            kept = await client.hgetall(destination)
        assert {key: json.loads(value) for key, value in kept.items()} == {
            b"b/one": {"Records": json.loads(second.body)["Records"]}
        }

    async def test_key_of_another_type_is_unavailable(self, service: RedisService, destination: str) -> None:
        target = service.target(destination)
        async with service.client() as client:
            await client.set(destination, "a text")
        with pytest.raises(Unavailable, match="expected=list found=string"):
            await target.check()
        with pytest.raises(Unavailable, match="WRONGTYPE"):
            await target.send(make_message())
        await target.close()

    async def test_password_in_url_is_used(self, service: RedisService, destination: str) -> None:
        settings = msgspec.structs.replace(
            service.settings(), url=f"valkey://alice:s3cret%2Fpass%3Aword@127.0.0.1:{service.port}/3"
        )
        settings.validate()
        target = RedisTarget(settings)
        await target.check()
        await target.close()
