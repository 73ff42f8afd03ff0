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

    async def test_who_listens_on_a_channel_hears_it(self, service: RedisService, place: str) -> None:
        message, target = make_message(), service.made(service.settings(), channel=place)
        async with service.client() as client, client.pubsub() as listener:
            await listener.subscribe(place)
            await listener.get_message(timeout=5)  # that it listens now
            await target.check()
            await target.send(message)
            heard = await listener.get_message(timeout=5)
        await target.close()
        assert heard is not None
        assert heard["data"] == message.body

    async def test_what_nobody_listens_to_is_delivered(self, service: RedisService, place: str) -> None:
        target = service.made(service.settings(), channel=place)
        await target.send(make_message())
        await target.close()

    async def test_a_stream_has_them_in_order_with_their_ids(self, service: RedisService, place: str) -> None:
        target = service.made(service.settings(), format="stream", key=place)
        messages = [make_message(), make_message()]
        for message in messages:
            await target.send(message)
        await target.check()
        await target.close()
        async with service.client() as client:
            entries = await client.xrange(place)
        expected = [{b"id": one.id.encode(), b"name": one.name.encode(), b"body": one.body} for one in messages]
        assert [fields for _, fields in entries or ()] == expected

    async def test_a_stream_keeps_about_as_many_as_it_is_told_to(self, service: RedisService, place: str) -> None:
        settings = msgspec.structs.replace(service.settings(), format="stream", key=place, max_length=10)
        settings.validate()
        target = RedisTarget(settings)
        for number in range(300):
            await target.send(make_message(f"b/{number}"))
        await target.close()
        async with service.client() as client:
            # Whole nodes of it are let go, of a hundred entries each.
            assert 10 <= await client.xlen(place) < 300

    async def test_a_mirror_has_what_there_is(self, service: RedisService, place: str) -> None:
        target = service.made(service.settings(), format="namespace", key=place)
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
            kept = await client.hgetall(place)
        assert {key: json.loads(value) for key, value in kept.items()} == {
            b"b/one": {"Records": json.loads(second.body)["Records"]}
        }

    async def test_a_key_that_holds_something_else_is_told(self, service: RedisService, place: str) -> None:
        target = service.target(place)
        async with service.client() as client:
            await client.set(place, "a text")
        with pytest.raises(Unavailable, match="expected=list found=string"):
            await target.check()
        with pytest.raises(Unavailable, match="WRONGTYPE"):
            await target.send(make_message())
        await target.close()

    async def test_a_password_may_be_in_the_url(self, service: RedisService, place: str) -> None:
        settings = msgspec.structs.replace(
            service.settings(), url=f"valkey://alice:s3cret%2Fpass%3Aword@127.0.0.1:{service.port}/3"
        )
        settings.validate()
        target = RedisTarget(settings)
        await target.check()
        await target.close()
