"""Servers that are killed between the commit of a change and the delivery of its event, again and again."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from lakebed.client import LakebedClient
from lakebed.core.errors import LakebedError
from lakebed.core.webhooks import new_secret
from lakebed.events.delivery.model import cursor_of
from lakebed.meta.outbox import Outbox
from tests.client.conftest import access_to
from tests.clients.boto import connected
from tests.fixtures.server import RunningServer, start_server
from tests.fixtures.webhook_receiver import Receiver, running_receiver
from tests.server.running_processes import wait_until

from .data_folder import metadata_of, release_leases
from .killing import SEED
from .rounds import PATIENCE_SECONDS

pytestmark = [pytest.mark.integration, pytest.mark.slow]

SECRET = new_secret()
KEYS = 7


@dataclass
class Seen:
    """What the kills were like."""

    acknowledged: dict[str, int] = field(default_factory=dict)
    """By key, how often a write was answered."""
    undelivered: int = 0
    """Kills that found events committed which the receiver had not taken."""


@pytest.mark.parametrize("kills", [6, pytest.param(200, marks=pytest.mark.heavy)])
def test_every_committed_change_is_delivered_though_the_server_is_killed_in_between(tmp_path: Path, kills: int) -> None:
    random, seen = Random(SEED), Seen()
    data = tmp_path / "data"
    server = start_server(data, workers=1)
    try:
        with running_receiver(tmp_path / "receiver", SECRET) as receiver:
            _set_up(server, receiver)
            for number in range(kills):
                # With a receiver that does not get to answer, the kill is between commit and delivery for certain.
                with _held(receiver) if number % 2 else _free(receiver):
                    _write_until_killed(server, seen, random)
                    seen.undelivered += asyncio.run(_is_behind(data))
                server = start_server(data, workers=1, port=server.port, within_seconds=PATIENCE_SECONDS)
            _check(server, receiver, seen, kills)
    finally:
        server.kill()


def _set_up(server: RunningServer, receiver: Receiver) -> None:
    with LakebedClient(access=access_to(server)) as client:
        client._connection.call("PUT", "/box")
        settings = {"endpoint": receiver.url, "secret": SECRET.reveal()}
        arn = client.targets.put("webhook", "r", settings, form="lakebed").arn
    with connected(server) as s3:
        s3.put_bucket_notification_configuration(
            Bucket="box",
            NotificationConfiguration={"QueueConfigurations": [{"QueueArn": arn, "Events": ["s3:ObjectCreated:*"]}]},
        )


def _write_until_killed(server: RunningServer, seen: Seen, random: Random) -> None:
    """Write keys one after the other; once the first was acknowledged, end the server at some moment."""
    first = threading.Event()

    def write() -> None:
        turn = 0
        with LakebedClient(access=access_to(server)) as client:
            client._connection._attempts = 1
            while True:
                key = f"box/k{turn % KEYS}"
                try:
                    client._connection.call("PUT", f"/{key}")
                except LakebedError:
                    first.set()
                    return
                seen.acknowledged[key] = seen.acknowledged.get(key, 0) + 1
                turn += 1
                first.set()

    writer = threading.Thread(target=write)
    writer.start()
    assert first.wait(60)
    time.sleep(random.uniform(0, 0.05))
    server.kill()
    writer.join()


async def _is_behind(data: Path) -> bool:
    """Whether there are events behind the target's place; and nobody waits for the lease of who was killed."""
    async with metadata_of(data) as store:
        await release_leases(store)
        outbox = Outbox(store)
        place = await outbox.cursor(store, cursor_of("r:webhook"))
        assert place is not None
        return any(
            entry.event.kind.startswith("ObjectCreated:") for entry in await outbox.read_after(store, place, 1000)
        )


def _check(server: RunningServer, receiver: Receiver, seen: Seen, kills: int) -> None:
    def delivered() -> list[int]:
        return [event["seq"] for event in receiver.accepted()]

    with LakebedClient(access=access_to(server)) as client:
        events = [event for page in client.events.pages(kinds=["ObjectCreated:*"]) for event in page.events]
        committed = {event.seq for event in events}
        wait_until(lambda: committed <= set(delivered()), "every committed change is delivered")
        assert client.targets.get("webhook", "r").dead == 0
    # Once each: the receiver remembers their ids, and there is nothing that did not happen.
    assert len(delivered()) == len(set(delivered())) == len(committed)
    by_key: dict[str, int] = {}
    for event in events:
        by_key[event.subject] = by_key.get(event.subject, 0) + 1
    # A write whose answer was lost may have happened too.
    assert all(by_key.get(key, 0) >= count for key, count in seen.acknowledged.items())
    assert seen.undelivered >= kills // 2
    print(f"kills={kills} undelivered at a kill={seen.undelivered} committed=delivered={len(committed)}")


@contextmanager
def _held(receiver: Receiver) -> Iterator[None]:
    """The receiver stands still for the time of a block."""
    os.kill(receiver.process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(receiver.process.pid, signal.SIGCONT)


@contextmanager
def _free(receiver: Receiver) -> Iterator[None]:
    yield
