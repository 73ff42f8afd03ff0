"""Servers and receivers that end at any moment: what was acknowledged is told, and in the order of its key."""

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
"""Of each writer: so that each key is written again and again."""
DELIVERIES_KILLED = 5


class Writer:
    """Writes its own keys, and remembers how often each was acknowledged."""

    def __init__(self, number: int) -> None:
        self._number = number
        self.acknowledged: dict[str, int] = {}
        self.is_cut_off = False
        """Whether a write was not answered, or wrongly."""

    def work(self, server: RunningServer, stop: threading.Event) -> None:
        turn = 0
        with LakebedClient(access=access_to(server)) as client:
            client._connection._attempts = 1
            while not stop.is_set():
                turn += 1
                key = f"box/w{self._number}-{turn % KEYS}"
                try:
                    client._connection.call("PUT", f"/{key}")
                except LakebedError:
                    self.is_cut_off = True
                    return
                self.acknowledged[key] = self.acknowledged.get(key, 0) + 1


def write_for(server: RunningServer, writers: list[Writer], seconds: float) -> None:
    """Let them write; the server is killed in the midst of it."""
    stop = threading.Event()
    with ThreadPoolExecutor(len(writers)) as threads:
        for writer in writers:
            threads.submit(writer.work, server, stop)
        time.sleep(seconds)
        server.kill()
        stop.set()


def test_what_was_acknowledged_is_told_though_server_and_receiver_end_at_any_moment(tmp_path: Path) -> None:
    random = Random(SEED)
    writers = [Writer(number) for number in range(WRITERS)]
    receiver = start_receiver(tmp_path / "receiver", SECRET)
    server = start_server(tmp_path / "data")
    try:
        with LakebedClient(access=access_to(server)) as client:
            client._connection.call("PUT", "/box")
            settings = {"endpoint": receiver.url, "secret": SECRET.reveal()}
            client.targets.put("webhook", "r", settings, kinds=["ObjectCreated:*"])
        for trouble in ("none", "down", "errors", "none"):
            receiver = _troubled(receiver, trouble)
            write_for(server, writers, random.uniform(0.3, 1.0))
            asyncio.run(_release_leases(tmp_path / "data"))
            server = start_server(tmp_path / "data", port=server.port)
            receiver = _well(receiver, trouble)
        promised: dict[str, int] = {}
        for writer in writers:
            promised |= writer.acknowledged
        assert sum(promised.values()) > 0

        def told() -> Counter[str]:
            return Counter({event["seq"]: event["subject"] for event in receiver.accepted()}.values())

        # A write whose answer was lost may have happened too: at least as many as were acknowledged.
        wait_until(lambda: not Counter(promised) - told(), "all is told")
        with LakebedClient(access=access_to(server)) as client:
            wait_until(lambda: client.targets.get("webhook", "r").waiting == 0, "nothing waits")
            assert client.targets.get("webhook", "r").dead == 0
            log = [event.seq for page in client.events.pages(kinds=["ObjectCreated:*"]) for event in page.events]
        _check_order(receiver)
        # And nothing that did not happen.
        wait_until(lambda: {event["seq"] for event in receiver.accepted()} == set(log), "exactly what happened is told")
    finally:
        server.kill()
        receiver.process.kill()
        receiver.process.wait()


def test_nothing_is_lost_though_the_process_that_delivers_is_killed_again_and_again(tmp_path: Path) -> None:
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
                        _see_more_told(receiver)
                        time.sleep(random.uniform(0, 0.3))
                        (killed,) = deliveries_of(server)
                        kill_worker(killed)
                        wait_until(lambda: bool(deliveries_of(server)), "it is replaced")
                finally:
                    stop.set()
            # Who wrote did not notice.
            assert not any(writer.is_cut_off for writer in writers)
            log = [event.seq for page in client.events.pages(kinds=["ObjectCreated:*"]) for event in page.events]
            assert len(log) == sum(sum(writer.acknowledged.values()) for writer in writers)
            wait_until(lambda: {event["seq"] for event in receiver.accepted()} == set(log), "all is told")
            status = client.targets.get("webhook", "r")
            assert (status.waiting, status.dead) == (0, 0)
        _check_order(receiver)
        print(f"kills={DELIVERIES_KILLED} committed=delivered={len(log)}")
    finally:
        server.kill()
        receiver.process.kill()
        receiver.process.wait()


def _see_more_told(receiver: Receiver) -> None:
    before = len(receiver.accepted())
    wait_until(lambda: len(receiver.accepted()) > before, "deliveries go on")


async def _release_leases(data: Path) -> None:
    async with metadata_of(data) as store:
        await release_leases(store)


def _troubled(receiver: Receiver, trouble: str) -> Receiver:
    if trouble == "down":
        receiver.process.kill()
        receiver.process.wait()
    elif trouble == "errors":
        receiver.break_down()
    return receiver


def _well(receiver: Receiver, trouble: str) -> Receiver:
    if trouble == "down":
        return start_receiver(receiver.folder, SECRET, receiver.port)
    if trouble == "errors":
        receiver.recover()
    return receiver


def _check_order(receiver: Receiver) -> None:
    """Whatever came for the first time came behind all earlier ones of its key."""
    newest: dict[str, int] = {}
    seen: set[int] = set()
    for event in receiver.accepted():
        if event["seq"] in seen:
            # The receiver was started anew, and does not remember it.
            continue
        seen.add(event["seq"])
        assert event["seq"] > newest.get(event["subject"], 0)
        newest[event["subject"]] = event["seq"]
