"""Servers and receivers are killed at any moment: acknowledged changes are delivered, in order per key."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest

from lakebed.client import LakebedClient
from lakebed.core.errors import LakebedError
from lakebed.core.webhooks import new_secret
from tests.client.conftest import access_to
from tests.fixtures.server import RunningServer, start_server
from tests.fixtures.webhook_receiver import Receiver, start_receiver
from tests.server.running_processes import deliveries_of, kill_worker, wait_until

from .data_folder import metadata_of, release_leases
from .killing import SEED

pytestmark = [pytest.mark.integration, pytest.mark.slow]

SECRET = new_secret()
WRITERS = 3
KEYS = 5
"""Keys per writer. Few, so that each key is written repeatedly."""
DELIVERIES_KILLED = 5


class Writer:
    """Writes its own keys, and counts the acknowledgements of each."""

    def __init__(self, number: int) -> None:
        self._number = number
        self.acknowledged: dict[str, int] = {}
        self.is_cut_off = False
        """Whether a write got no response, or an error."""

    def work(self, server: RunningServer, stop: threading.Event) -> None:
        count = 0
        with LakebedClient(access=access_to(server)) as client:
            client._connection._attempts = 1
            while not stop.is_set():
                count += 1
                key = f"box/w{self._number}-{count % KEYS}"
                try:
                    client._connection.call("PUT", f"/{key}")
                except LakebedError:
                    self.is_cut_off = True
                    return
                self.acknowledged[key] = self.acknowledged.get(key, 0) + 1


def write_for(server: RunningServer, writers: list[Writer], seconds: float) -> None:
    """Let the writers work, and kill the server meanwhile."""
    stop = threading.Event()
    with ThreadPoolExecutor(len(writers)) as threads:
        for writer in writers:
            threads.submit(writer.work, server, stop)
        time.sleep(seconds)
        server.kill()
        stop.set()


def test_acknowledged_changes_are_delivered_after_kills_of_server_and_receiver(tmp_path: Path) -> None:
    random = Random(SEED)
    writers = [Writer(number) for number in range(WRITERS)]
    receiver = start_receiver(tmp_path / "receiver", SECRET)
    server = start_server(tmp_path / "data")
    try:
        with LakebedClient(access=access_to(server)) as client:
            client._connection.call("PUT", "/box")
            settings = {"endpoint": receiver.url, "secret": SECRET.reveal()}
            client.targets.put("webhook", "r", settings, kinds=["ObjectCreated:*"])
        for fault in ("none", "down", "errors", "none"):
            receiver = _disturb(receiver, fault)
            write_for(server, writers, random.uniform(0.3, 1.0))
            asyncio.run(_release_leases(tmp_path / "data"))
            server = start_server(tmp_path / "data", port=server.port)
            receiver = _restore(receiver, fault)
        acknowledged: dict[str, int] = {}
        for writer in writers:
            acknowledged |= writer.acknowledged
        assert sum(acknowledged.values()) > 0

        def delivered() -> Counter[str]:
            return Counter({event["seq"]: event["subject"] for event in receiver.accepted()}.values())

        # Writes without a response may have happened too.
        wait_until(lambda: not Counter(acknowledged) - delivered(), "all changes are delivered")
        with LakebedClient(access=access_to(server)) as client:
            wait_until(lambda: client.targets.get("webhook", "r").waiting == 0, "no event waits")
            assert client.targets.get("webhook", "r").dead == 0
            log = [event.seq for page in client.events.pages(kinds=["ObjectCreated:*"]) for event in page.events]
        _check_order(receiver)
        # Nothing else is delivered.
        wait_until(
            lambda: {event["seq"] for event in receiver.accepted()} == set(log),
            "exactly the committed changes are delivered",
        )
    finally:
        server.kill()
        receiver.process.kill()
        receiver.process.wait()


def test_kills_of_the_delivery_process_lose_no_event(tmp_path: Path) -> None:
    random = Random(SEED)
    writers = [Writer(number) for number in range(WRITERS)]
    receiver = start_receiver(tmp_path / "receiver", SECRET)
    server = start_server(tmp_path / "data")
    stop = threading.Event()
    try:
        with LakebedClient(access=access_to(server)) as client:
            client._connection.call("PUT", "/box")
            settings = {"endpoint": receiver.url, "secret": SECRET.reveal()}
            client.targets.put("webhook", "r", settings, kinds=["ObjectCreated:*"])
            with ThreadPoolExecutor(len(writers)) as threads:
                try:
                    for writer in writers:
                        threads.submit(writer.work, server, stop)
                    for _ in range(DELIVERIES_KILLED):
                        _wait_for_deliveries(receiver)
                        time.sleep(random.uniform(0, 0.3))
                        (killed,) = deliveries_of(server)
                        kill_worker(killed)
                        wait_until(lambda: bool(deliveries_of(server)), "the replacement of the delivery process")
                finally:
                    stop.set()
            # The writers did not notice.
            assert not any(writer.is_cut_off for writer in writers)
            log = [event.seq for page in client.events.pages(kinds=["ObjectCreated:*"]) for event in page.events]
            assert len(log) == sum(sum(writer.acknowledged.values()) for writer in writers)
            wait_until(lambda: {event["seq"] for event in receiver.accepted()} == set(log), "all changes are delivered")
            status = client.targets.get("webhook", "r")
            assert (status.waiting, status.dead) == (0, 0)
        _check_order(receiver)
        print(f"kills={DELIVERIES_KILLED} committed=delivered={len(log)}")
    finally:
        server.kill()
        receiver.process.kill()
        receiver.process.wait()


def _wait_for_deliveries(receiver: Receiver) -> None:
    before = len(receiver.accepted())
    wait_until(lambda: len(receiver.accepted()) > before, "deliveries continue")


async def _release_leases(data: Path) -> None:
    async with metadata_of(data) as store:
        await release_leases(store)


def _disturb(receiver: Receiver, fault: str) -> Receiver:
    if fault == "down":
        receiver.process.kill()
        receiver.process.wait()
    elif fault == "errors":
        receiver.break_down()
    return receiver


def _restore(receiver: Receiver, fault: str) -> Receiver:
    if fault == "down":
        return start_receiver(receiver.folder, SECRET, receiver.port)
    if fault == "errors":
        receiver.recover()
    return receiver


def _check_order(receiver: Receiver) -> None:
    """Check that first deliveries of a key are in order."""
    newest: dict[str, int] = {}
    seen: set[int] = set()
    for event in receiver.accepted():
        if event["seq"] in seen:
            # The restarted receiver has forgotten this event.
            continue
        seen.add(event["seq"])
        assert event["seq"] > newest.get(event["subject"], 0)
        newest[event["subject"]] = event["seq"]
