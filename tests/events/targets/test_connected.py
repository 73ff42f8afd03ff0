from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from lakebed.core.errors import Unavailable, Undeliverable
from lakebed.events.targets.connected import ConnectedTarget
from lakebed.events.targets.failures import Fault
from lakebed.events.targets.seam import EventMessage
from lakebed.net.tls import TlsFiles
from tests.contracts.targets import make_message
from tests.fixtures.brokers.authority import Certificates


class Broken(Exception):
    """The connection is lost."""


class Refused(Exception):
    """The message is rejected."""


class FakeConnection:
    """A connection without a server."""

    def __init__(self) -> None:
        self.sent: list[EventMessage] = []
        self.failure: Exception | None = None
        self.is_open = True
        self.holding: asyncio.Event | None = None


class FakeTarget(ConnectedTarget[FakeConnection]):
    """Records its connections."""

    def __init__(self, *, tls: TlsFiles | None = None, deadline_seconds: float = 30.0) -> None:
        super().__init__("test-target", tls=tls, secrets=("hush",), deadline_seconds=deadline_seconds)
        self.connections: list[FakeConnection] = []
        self.refusal: Exception | None = None
        self.opening: asyncio.Event | None = None

    async def _open(self) -> FakeConnection:
        if self.opening is not None:
            await self.opening.wait()
        if self.refusal is not None:
            raise self.refusal
        self.connections.append(FakeConnection())
        return self.connections[-1]

    async def _shut(self, connection: FakeConnection) -> None:
        connection.is_open = False

    async def _deliver(self, connection: FakeConnection, message: EventMessage) -> None:
        assert connection.is_open, "sent on a closed connection"
        if connection.holding is not None:
            await connection.holding.wait()
        if connection.failure is not None:
            raise connection.failure
        connection.sent.append(message)

    async def _probe(self, connection: FakeConnection) -> None:
        if connection.failure is not None:
            raise connection.failure

    def _fault(self, error: Exception) -> Fault:
        return Fault.MESSAGE if isinstance(error, Refused) else Fault.CONNECTION


async def test_target_connects_on_the_first_message() -> None:
    target = FakeTarget()
    await target.close()
    assert target.connections == []


async def test_messages_share_one_connection() -> None:
    target = FakeTarget()
    await asyncio.gather(*(target.send(make_message()) for _ in range(10)))
    await target.check()
    assert [len(connection.sent) for connection in target.connections] == [10]
    await target.close()
    assert not target.connections[0].is_open


async def test_concurrent_senders_share_one_connection_attempt() -> None:
    target = FakeTarget()
    target.opening, target.refusal = asyncio.Event(), Broken("refused")
    waiting = [asyncio.create_task(target.send(make_message())) for _ in range(5)]
    await asyncio.sleep(0)
    target.opening.set()
    failures = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(failure) for failure in failures] == [Unavailable] * 5
    assert len({id(failure) for failure in failures}) == 1
    await target.close()


async def test_cancelled_sender_does_not_cancel_the_connection_attempt() -> None:
    target = FakeTarget()
    target.opening = asyncio.Event()
    one, other = (asyncio.create_task(target.send(make_message())) for _ in range(2))
    await asyncio.sleep(0)
    one.cancel()
    await asyncio.sleep(0)
    target.opening.set()
    await other
    assert one.cancelled()
    assert len(target.connections) == 1
    await target.close()


async def test_closed_idle_connection_costs_one_retry() -> None:
    target = FakeTarget()
    await target.send(make_message())
    target.connections[0].failure = Broken("closed")
    message = make_message()
    await target.send(message)
    assert target.connections[1].sent == [message]
    await target.close()
    assert not target.connections[0].is_open


async def test_failure_on_a_new_connection_is_raised() -> None:
    target = FakeTarget()

    class Failing(FakeTarget):
        async def _deliver(self, connection: FakeConnection, message: EventMessage) -> None:
            raise Broken("hush, at once")

    target = Failing()
    with pytest.raises(Unavailable, match=r"reason=Broken: \*\*\*, at once"):
        await target.send(make_message())
    assert len(target.connections) == 1
    await target.close()


async def test_rejected_message_keeps_the_connection() -> None:
    target = FakeTarget()
    await target.check()
    target.connections[0].failure = Refused("too long")
    with pytest.raises(Undeliverable, match="too long"):
        await target.send(make_message())
    target.connections[0].failure = None
    await target.send(make_message())
    assert len(target.connections) == 1
    await target.close()


async def test_timeout_closes_the_connection() -> None:
    target = FakeTarget(deadline_seconds=0.01)
    await target.check()
    target.connections[0].holding = asyncio.Event()
    with pytest.raises(Unavailable, match="delivery timed out"):
        await target.send(make_message())
    await target.send(make_message())
    assert len(target.connections) == 2
    await target.close()


async def test_retired_connection_closes_after_its_last_user() -> None:
    target = FakeTarget()
    await target.send(make_message())
    connection = target.connections[0]
    connection.holding = asyncio.Event()
    slow = asyncio.create_task(target.send(make_message()))
    await asyncio.sleep(0)
    holding, connection.holding, connection.failure = connection.holding, None, Broken("closed")
    await target.send(make_message())  # on another connection
    await asyncio.sleep(0)
    assert connection.is_open
    connection.failure = None
    holding.set()
    await slow
    await target.close()
    assert not connection.is_open


async def test_send_and_check_fail_after_close() -> None:
    target = FakeTarget()
    await target.close()
    with pytest.raises(Unavailable, match="closed"):
        await target.send(make_message())
    with pytest.raises(Unavailable, match="closed"):
        await target.check()


async def test_close_cancels_a_connection_attempt() -> None:
    target = FakeTarget()
    target.opening = asyncio.Event()
    waiting = asyncio.create_task(target.send(make_message()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await target.close()
    with pytest.raises(Unavailable, match="closed"):
        await waiting


async def test_replaced_certificates_open_a_new_connection(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path / "certificates")
    files = certificates.copied(tmp_path, certificates.client)
    target = FakeTarget(tls=files)
    await target.send(make_message())
    certificates.replace(files, certificates.client)
    await target.send(make_message())
    assert len(target.connections) == 1, "rewritten with the same contents"
    certificates.replace(files, certificates.authority.issue("another"))
    await target.send(make_message())
    await target.send(make_message())
    assert [len(connection.sent) for connection in target.connections] == [2, 2]
    await target.close()


async def test_invalid_certificates_keep_the_connection_and_fail_the_check(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path / "certificates")
    files = certificates.copied(tmp_path, certificates.client)
    target = FakeTarget(tls=files)
    await target.check()
    Path(files.cert or "").write_text("half a certificate")
    await target.send(make_message())
    with pytest.raises(Unavailable, match="unusable TLS files"):
        await target.check()
    certificates.replace(files, certificates.client)
    await target.check()
    assert len(target.connections) == 1
    await target.close()
