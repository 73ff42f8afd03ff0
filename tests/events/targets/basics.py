"""What every target promises, as far as it can be seen without a client of its server's own."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

import pytest

from lakebed.core.errors import Unavailable
from lakebed.events.targets.seam import Message, Target


def a_message(number: int = 1, key: str = "bucket/key", *, is_removal: bool = False, body: bytes = b"") -> Message:
    """A message with an id of its own."""
    name = "s3:ObjectRemoved:Delete" if is_removal else "s3:ObjectCreated:Put"
    document = b'{"EventName":"%s","Key":"%s","Records":[]}' % (name.encode(), key.encode())
    return Message(f"evt_{number}", name, key, is_removal, 1_700_000_000_000 + number, body or document)


class Bench(Protocol):
    """A kind of target, and the server behind it, as the suite needs them."""

    def make(self) -> Target:
        """A target with good settings. Connects to nobody."""
        ...

    async def received(self, at_least: int) -> list[bytes]:
        """The bodies that the server has, in order, once it has that many; read with a client of its own."""
        ...

    async def stop(self) -> None:
        """Make the server unreachable."""
        ...

    async def start(self) -> None:
        """Make it reachable again, in the same place."""
        ...


class TargetContract:
    """Subclasses give a fixture `bench`."""

    async def test_a_message_is_there_when_send_returns(self, bench: Any) -> None:
        target = bench.make()
        try:
            await target.send(a_message(1))
            assert await bench.received(1) == [a_message(1).body]
        finally:
            await target.close()

    async def test_messages_of_one_key_arrive_in_the_order_in_which_they_are_sent(self, bench: Any) -> None:
        target = bench.make()
        messages = [a_message(number, body=b'{"number":%d}' % number) for number in range(1, 6)]
        try:
            for message in messages:
                await target.send(message)
            assert await bench.received(5) == [message.body for message in messages]
        finally:
            await target.close()

    async def test_as_many_as_it_says_can_be_under_way(self, bench: Any) -> None:
        target = bench.make()
        assert target.at_once >= 1
        messages = [a_message(number, f"b/{number}") for number in range(1, target.at_once + 1)]
        try:
            await asyncio.gather(*(target.send(message) for message in messages))
            received = await bench.received(len(messages))
            assert sorted(received) == sorted(message.body for message in messages)
        finally:
            await target.close()

    async def test_a_server_that_is_gone_is_unavailable_and_used_again_once_it_is_back(self, bench: Any) -> None:
        target = bench.make()
        try:
            await target.send(a_message(1))
            await bench.stop()
            with pytest.raises(Unavailable):
                await target.send(a_message(2, "b/2"))
            with pytest.raises(Unavailable):
                await target.check()
            await bench.start()
            await _until_taken(target, a_message(3, "b/3"))
            assert a_message(3, "b/3").body in await bench.received(2)
            await target.check()
        finally:
            await target.close()

    async def test_one_that_was_never_used_can_be_closed_and_again(self, bench: Any) -> None:
        target = bench.make()
        await target.close()
        await target.close()

    async def test_it_is_ready_while_its_server_is(self, bench: Any) -> None:
        target = bench.make()
        try:
            await target.check()
        finally:
            await target.close()


async def _until_taken(target: Target, message: Message) -> None:
    """Send it until it is taken: a server may take a moment to be itself again."""
    async with asyncio.timeout(60):
        while True:
            try:
                await target.send(message)
            except Unavailable:
                await asyncio.sleep(0.1)
            else:
                return
