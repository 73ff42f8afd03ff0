"""Servers are killed repeatedly between the commit of a change and the delivery of its event."""

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

from .checks import PATIENCE_SECONDS
from .data_folder import metadata_of, release_leases
from .killing import SEED

pytestmark = [pytest.mark.integration, pytest.mark.slow]

SECRET = new_secret()
KEYS = 7


@dataclass
class Seen:
    """Counts of acknowledged writes and of kills."""

    acknowledged: dict[str, int] = field(default_factory=dict)
    """Acknowledged writes by key."""
    undelivered: int = 0
    """Kills with committed events that the receiver had not accepted."""


@pytest.mark.parametrize("kills", [6, pytest.param(200, marks=pytest.mark.heavy)])
def test_committed_changes_are_delivered_after_kills_before_delivery(tmp_path: Path, kills: int) -> None:
    random, seen = Random(SEED), Seen()
    data = tmp_path / "data"
    server = start_server(data, workers=1)
    try:
        with running_receiver(tmp_path / "receiver", SECRET) as receiver:
            _set_up(server, receiver)
            for number in range(kills):
                # With a paused receiver the kill is certainly between commit and delivery.
                with _paused(receiver) if number % 2 else _running(receiver):
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
    """Write keys one after the other; after the first acknowledgement kill the server at a random moment."""
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
    """Whether the target has undelivered events. Also releases the leases of the killed server."""
    async with metadata_of(data) as store:
        await release_leases(store)
        outbox = Outbox(store)
        cursor = await outbox.cursor(store, cursor_of("r:webhook"))
        assert cursor is not None
        return any(
            entry.event.kind.startswith("ObjectCreated:") for entry in await outbox.read_after(store, cursor, 1000)
        )


def _check(server: RunningServer, receiver: Receiver, seen: Seen, kills: int) -> None:
    def delivered() -> list[int]:
        return [event["seq"] for event in receiver.accepted()]

    with LakebedClient(access=access_to(server)) as client:
        events = [event for page in client.events.pages(kinds=["ObjectCreated:*"]) for event in page.events]
        committed = {event.seq for event in events}
        wait_until(lambda: committed <= set(delivered()), "every committed change is delivered")
        assert client.targets.get("webhook", "r").dead == 0
    # Exactly once: the receiver removes duplicates by id.
    assert len(delivered()) == len(set(delivered())) == len(committed)
    by_key: dict[str, int] = {}
    for event in events:
        by_key[event.subject] = by_key.get(event.subject, 0) + 1
    # Writes without a response may have happened too.
    assert all(by_key.get(key, 0) >= count for key, count in seen.acknowledged.items())
    assert seen.undelivered >= kills // 2
    print(f"kills={kills} undelivered at a kill={seen.undelivered} committed=delivered={len(committed)}")


@contextmanager
def _paused(receiver: Receiver) -> Iterator[None]:
    """Pause the receiver for the duration of a block."""
    os.kill(receiver.process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(receiver.process.pid, signal.SIGCONT)


@contextmanager
def _running(receiver: Receiver) -> Iterator[None]:
    yield
