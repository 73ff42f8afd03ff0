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
    """The connection is over."""


class Refused(Exception):
    """The message is not taken."""


class Line:
    """A connection to nobody."""

    def __init__(self) -> None:
        self.sent: list[EventMessage] = []
        self.failure: Exception | None = None
        self.is_open = True
        self.holding: asyncio.Event | None = None


class Lines(ConnectedTarget[Line]):
    """Remembers its connections."""

    def __init__(self, *, tls: TlsFiles | None = None, deadline_seconds: float = 30.0) -> None:
        super().__init__("nobody", tls=tls, secrets=("hush",), deadline_seconds=deadline_seconds)
        self.made: list[Line] = []
        self.refusal: Exception | None = None
        self.opening: asyncio.Event | None = None

    async def _open(self) -> Line:
        if self.opening is not None:
            await self.opening.wait()
        if self.refusal is not None:
            raise self.refusal
        self.made.append(Line())
        return self.made[-1]

    async def _shut(self, connection: Line) -> None:
        connection.is_open = False

    async def _deliver(self, connection: Line, message: EventMessage) -> None:
        assert connection.is_open, "sent on a connection that was closed"
        if connection.holding is not None:
            await connection.holding.wait()
        if connection.failure is not None:
            raise connection.failure
        connection.sent.append(message)

    async def _probe(self, connection: Line) -> None:
        if connection.failure is not None:
            raise connection.failure

    def _fault(self, error: Exception) -> Fault:
        return Fault.MESSAGE if isinstance(error, Refused) else Fault.CONNECTION


async def test_nobody_is_connected_to_before_the_first_message() -> None:
    target = Lines()
    await target.close()
    assert target.made == []


async def test_one_connection_serves_all() -> None:
    target = Lines()
    await asyncio.gather(*(target.send(make_message()) for _ in range(10)))
    await target.check()
    assert [len(line.sent) for line in target.made] == [10]
    await target.close()
    assert not target.made[0].is_open


async def test_who_waits_for_a_connection_shares_one_attempt() -> None:
    target = Lines()
    target.opening, target.refusal = asyncio.Event(), Broken("refused")
    waiting = [asyncio.create_task(target.send(make_message())) for _ in range(5)]
    await asyncio.sleep(0)
    target.opening.set()
    failures = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(failure) for failure in failures] == [Unavailable] * 5
    assert len({id(failure) for failure in failures}) == 1
    await target.close()


async def test_who_gives_up_does_not_take_the_attempt_from_the_others() -> None:
    target = Lines()
    target.opening = asyncio.Event()
    one, other = (asyncio.create_task(target.send(make_message())) for _ in range(2))
    await asyncio.sleep(0)
    one.cancel()
    await asyncio.sleep(0)
    target.opening.set()
    await other
    assert one.cancelled()
    assert len(target.made) == 1
    await target.close()


async def test_a_connection_that_was_closed_meanwhile_costs_one_more_try() -> None:
    target = Lines()
    await target.send(make_message())
    target.made[0].failure = Broken("closed")
    message = make_message()
    await target.send(message)
    assert target.made[1].sent == [message]
    await target.close()
    assert not target.made[0].is_open


async def test_a_new_connection_that_fails_at_once_is_told() -> None:
    target = Lines()

    class Failing(Lines):
        async def _deliver(self, connection: Line, message: EventMessage) -> None:
            raise Broken("hush, at once")

    target = Failing()
    with pytest.raises(Unavailable, match=r"reason=Broken: \*\*\*, at once"):
        await target.send(make_message())
    assert len(target.made) == 1
    await target.close()


async def test_a_message_that_is_refused_leaves_the_connection() -> None:
    target = Lines()
    await target.check()
    target.made[0].failure = Refused("too long")
    with pytest.raises(Undeliverable, match="too long"):
        await target.send(make_message())
    target.made[0].failure = None
    await target.send(make_message())
    assert len(target.made) == 1
    await target.close()


async def test_what_takes_too_long_ends_with_its_connection() -> None:
    target = Lines(deadline_seconds=0.01)
    await target.check()
    target.made[0].holding = asyncio.Event()
    with pytest.raises(Unavailable, match="delivery timed out"):
        await target.send(make_message())
    await target.send(make_message())
    assert len(target.made) == 2
    await target.close()


async def test_a_connection_is_closed_after_the_last_who_uses_it() -> None:
    target = Lines()
    await target.send(make_message())
    line = target.made[0]
    line.holding = asyncio.Event()
    slow = asyncio.create_task(target.send(make_message()))
    await asyncio.sleep(0)
    holding, line.holding, line.failure = line.holding, None, Broken("closed")
    await target.send(make_message())  # on another one
    await asyncio.sleep(0)
    assert line.is_open
    line.failure = None
    holding.set()
    await slow
    await target.close()
    assert not line.is_open


async def test_nothing_is_sent_after_the_end() -> None:
    target = Lines()
    await target.close()
    with pytest.raises(Unavailable, match="closed"):
        await target.send(make_message())
    with pytest.raises(Unavailable, match="closed"):
        await target.check()


async def test_the_end_ends_an_attempt_to_connect() -> None:
    target = Lines()
    target.opening = asyncio.Event()
    waiting = asyncio.create_task(target.send(make_message()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await target.close()
    with pytest.raises(Unavailable, match="closed"):
        await waiting


async def test_certificates_that_were_replaced_lead_to_a_new_connection(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path / "certificates")
    files = certificates.copied(tmp_path, certificates.client)
    target = Lines(tls=files)
    await target.send(make_message())
    certificates.replace(files, certificates.client)
    await target.send(make_message())
    assert len(target.made) == 1, "written again, with the same contents"
    certificates.replace(files, certificates.authority.issue("another"))
    await target.send(make_message())
    await target.send(make_message())
    assert [len(line.sent) for line in target.made] == [2, 2]
    await target.close()


async def test_certificates_that_are_no_good_leave_what_is_connected_and_are_told(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path / "certificates")
    files = certificates.copied(tmp_path, certificates.client)
    target = Lines(tls=files)
    await target.check()
    Path(files.cert or "").write_text("half a certificate")
    await target.send(make_message())
    with pytest.raises(Unavailable, match="unusable TLS files"):
        await target.check()
    certificates.replace(files, certificates.client)
    await target.check()
    assert len(target.made) == 1
    await target.close()
