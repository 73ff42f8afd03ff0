"""Who has not said who it is has little time and not every place."""

from __future__ import annotations

import asyncio

from lakebed.core.secrets import Secret
from lakebed.wire.fluss import messages_pb2 as pb
from lakebed.wire.fluss.transport.listener import IDLE_SECONDS, STRANGER_SECONDS

from .test_connection import ECHO, Client, OnePassword, Proof, Server, client, connect, left_at, served, server, serving

__all__ = ["client", "served", "server"]

HELLO = pb.ApiVersionsRequest(client_software_name="t", client_software_version="1").SerializeToString()


class SlowPassword(OnePassword):
    """Takes as long as it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0
        self.release = asyncio.Event()

    async def authenticate(self, name: str, secret: Secret, address: str) -> Proof:
        self.asked += 1
        await self.release.wait()
        return await super().authenticate(name, secret, address)


async def counted(server: Server, count: int) -> None:
    """Wait until so many are connected."""
    while server.listening.count != count:
        await asyncio.sleep(0)


async def test_a_stranger_has_half_a_minute(server: Server, client: Client) -> None:
    await client.ask(1000, HELLO)
    now = asyncio.get_running_loop().time()
    assert await left_at(server, now + STRANGER_SECONDS - 10) == 1
    for connection in server.listening._open:
        connection.last_activity = now + STRANGER_SECONDS  # it asks for the list of calls again and again
    server.listening.close_stalled(now + STRANGER_SECONDS + 1)
    assert await client.is_closed()


async def test_who_has_said_who_it_is_may_be_silent_for_longer(server: Server, client: Client) -> None:
    assert (await client.log_in())[0] == 0
    server.listening.close_stalled(asyncio.get_running_loop().time() + IDLE_SECONDS - 10)
    assert (await client.ask(ECHO, b"still"))[2] == b"still"


async def test_a_wrong_secret_makes_nobody_known(server: Server, client: Client) -> None:
    assert (await client.log_in(b"wrong"))[0] == 1
    server.listening.close_stalled(asyncio.get_running_loop().time() + STRANGER_SECONDS + 1)
    assert await client.is_closed()


async def test_strangers_have_half_of_the_places_and_the_oldest_makes_way() -> None:
    async with serving(max_connections=8) as (server, port):
        strangers = []
        for count in range(4):
            strangers.append(await connect(port))
            await counted(server, count + 1)
        strangers.append(await connect(port))
        assert await strangers[0].is_closed()
        await counted(server, 4)
        assert (await strangers[1].ask(1000, HELLO))[0] == 0
        for each in strangers:
            each.writer.close()


async def test_who_knows_the_secret_gets_in_whatever_strangers_hold() -> None:
    async with serving(max_connections=8) as (_, port):
        strangers, known = [], []
        for _ in range(8):
            strangers += [await connect(port) for _ in range(12)]
            client = await connect(port)
            assert (await client.log_in())[0] == 0
            known.append(client)
        for client in known:
            assert (await client.ask(ECHO, b"in"))[2] == b"in"
        # Only who is known holds what there is.
        last = await connect(port)
        assert await last.is_closed()
        for each in (*strangers, *known, last):
            each.writer.close()


async def test_who_is_being_looked_at_makes_no_way() -> None:
    async with serving(max_connections=4) as (server, port):
        slow = server.listening.authenticator = SlowPassword()
        looked_at = [await connect(port) for _ in range(2)]
        answers = [asyncio.create_task(each.log_in()) for each in looked_at]
        while slow.asked < 2:
            await asyncio.sleep(0)
        other = await connect(port)
        assert await other.is_closed()
        slow.release.set()
        assert [(await each)[0] for each in answers] == [0, 0]
        for each in (*looked_at, other):
            each.writer.close()
