"""Unauthenticated connections are limited in time and number."""

from __future__ import annotations

import asyncio

from lakebed.core.secrets import Secret
from lakebed.wire.fluss import messages_pb2 as pb
from lakebed.wire.fluss.transport.listener import AUTHENTICATION_SECONDS, IDLE_SECONDS

from .test_connection import ECHO, Client, OnePassword, Proof, Server, client, connect, left_at, served, server, serving

__all__ = ["client", "served", "server"]

HELLO = pb.ApiVersionsRequest(client_software_name="t", client_software_version="1").SerializeToString()


class SlowPassword(OnePassword):
    """Authenticates after `release` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.attempts = 0
        self.release = asyncio.Event()

    async def authenticate(self, name: str, secret: Secret, address: str) -> Proof:
        self.attempts += 1
        await self.release.wait()
        return await super().authenticate(name, secret, address)


async def wait_for_connections(server: Server, count: int) -> None:
    """Wait until the server has so many connections."""
    while server.listener.count != count:
        await asyncio.sleep(0)


async def test_connection_without_authentication_is_closed_after_30_seconds(server: Server, client: Client) -> None:
    await client.call(1000, HELLO)
    now = asyncio.get_running_loop().time()
    assert await left_at(server, now + AUTHENTICATION_SECONDS - 10) == 1
    for connection in server.listener._open:
        connection.last_activity = now + AUTHENTICATION_SECONDS  # the client keeps sending API_VERSIONS
    server.listener.close_stalled(now + AUTHENTICATION_SECONDS + 1)
    assert await client.is_closed()


async def test_authenticated_connection_may_be_idle_for_longer(server: Server, client: Client) -> None:
    assert (await client.log_in())[0] == 0
    server.listener.close_stalled(asyncio.get_running_loop().time() + IDLE_SECONDS - 10)
    assert (await client.call(ECHO, b"still"))[2] == b"still"


async def test_wrong_secret_does_not_authenticate_a_connection(server: Server, client: Client) -> None:
    assert (await client.log_in(b"wrong"))[0] == 1
    server.listener.close_stalled(asyncio.get_running_loop().time() + AUTHENTICATION_SECONDS + 1)
    assert await client.is_closed()


async def test_new_connection_evicts_the_oldest_unauthenticated_one() -> None:
    async with serving(max_connections=8) as (server, port):
        unauthenticated = []
        for count in range(4):
            unauthenticated.append(await connect(port))
            await wait_for_connections(server, count + 1)
        unauthenticated.append(await connect(port))
        assert await unauthenticated[0].is_closed()
        await wait_for_connections(server, 4)
        assert (await unauthenticated[1].call(1000, HELLO))[0] == 0
        for each in unauthenticated:
            each.writer.close()


async def test_unauthenticated_connections_do_not_keep_clients_out() -> None:
    async with serving(max_connections=8) as (_, port):
        unauthenticated, authenticated = [], []
        for _ in range(8):
            unauthenticated += [await connect(port) for _ in range(12)]
            client = await connect(port)
            assert (await client.log_in())[0] == 0
            authenticated.append(client)
        for client in authenticated:
            assert (await client.call(ECHO, b"in"))[2] == b"in"
        # All connections are authenticated now.
        last = await connect(port)
        assert await last.is_closed()
        for each in (*unauthenticated, *authenticated, last):
            each.writer.close()


async def test_connection_being_authenticated_is_not_evicted() -> None:
    async with serving(max_connections=4) as (server, port):
        slow = server.listener.authenticator = SlowPassword()
        authenticating = [await connect(port) for _ in range(2)]
        logins = [asyncio.create_task(each.log_in()) for each in authenticating]
        while slow.attempts < 2:
            await asyncio.sleep(0)
        other = await connect(port)
        assert await other.is_closed()
        slow.release.set()
        assert [(await each)[0] for each in logins] == [0, 0]
        for each in (*authenticating, other):
            each.writer.close()
