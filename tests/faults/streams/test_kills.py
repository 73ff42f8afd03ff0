"""Kill -9 of servers with streams while producers of both clients write, which live on: nothing is lost or there twice.

The whole server is killed, or the process alone that serves streams, at any point and while it starts; its clients find
it again by themselves. At the end every producer is told of all it sent.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

import fluss
from lakebed.client.streams.client import StreamClient
from tests.clients.streams.serving import StreamServer, connected, make_table, start_streams
from tests.faults.killing import SEED
from tests.fixtures.ports import free_port
from tests.fixtures.server import ROOT_ACCESS_KEY, ROOT_SECRET_KEY, launch_server
from tests.server.running_processes import children_of, wait_until

from .producing import (
    KEYS,
    LOG,
    PATIENCE_SECONDS,
    ROWS,
    Producer,
    check,
    go_on,
    java_producer,
    python_producer,
    read_tables,
)

pytestmark = [pytest.mark.integration, pytest.mark.slow]

_SETTINGS: Final = ("--set", "streams.segment=64KiB", "--set", "streams.scan_ttl=2s")
"""Segments so small that some are sealed and some go to the byte store; scans that are soon let go of."""

_STREAMS: Final = "lakebed-streams"
MANY: Final = int(os.environ.get("STREAM_KILLS", "200"))


class Killed:
    """A server on one folder and one port, killed and started again."""

    def __init__(self, data: Path, random: Random) -> None:
        self._data = data
        self._random = random
        self._port = free_port()
        self.kills = self.processes_killed = self.starts_killed = 0
        self.streams = self._start()

    def _start(self) -> StreamServer:
        return start_streams(self._data, *_SETTINGS, port=self._port, within_seconds=PATIENCE_SECONDS)

    def kill(self) -> None:
        """End something of it, and have it serve again."""
        time.sleep(self._random.uniform(0.05, 0.8))
        chance = self._random.random() if self.kills else 0.9  # the first is of the whole server, however few there are
        self.kills += 1
        if chance < 0.8 and (processes := self._processes()):
            os.kill(processes[0], signal.SIGKILL)
            wait_until(lambda: not Path(f"/proc/{processes[0]}").exists(), "the end of the process")
            wait_until(lambda: bool(self._processes()), "another process")
            self.processes_killed += 1
            return
        self.streams.server.kill()
        if chance > 0.95:
            flags = ("--streams-listen", self.streams.address, *_SETTINGS)
            starting = launch_server(self._data, *flags, workers=1, port=self.streams.server.port)
            time.sleep(self._random.uniform(0.3, 1.5))
            starting.kill()
            self.kills += 1
            self.starts_killed += 1
        self.streams = self._start()

    def _processes(self) -> list[int]:
        return [
            child
            for child in children_of(self.streams.server)
            if Path(f"/proc/{child}/comm").read_text().strip() == _STREAMS
        ]

    def end(self) -> None:
        if self.streams.server.process.poll() is None:
            self.streams.server.kill()


@contextmanager
def killed(data: Path, random: Random) -> Iterator[Killed]:
    server = Killed(data, random)
    try:
        yield server
    finally:
        server.end()


@contextmanager
def producing(commands: Mapping[str, Sequence[str]], address: str, *others: str) -> Iterator[list[Producer]]:
    producers: list[Producer] = []
    try:
        for at, (name, command) in enumerate(commands.items()):
            producers.append(Producer.start(command, name, at * 2 * KEYS, address, *others))
        for producer in producers:
            assert producer.begun.wait(PATIENCE_SECONDS), f"{producer.name} did not begin"
        yield producers
    finally:
        for producer in producers:
            producer.end()


async def make_tables(streams: StreamServer) -> None:
    async with connected(streams) as connection:
        await make_table(connection, fluss.TablePath("fluss", "log"), LOG, bucket_count=3)
        await make_table(connection, fluss.TablePath("fluss", "keys"), ROWS, primary_key=["id"], bucket_count=2)


def scan_and_die(streams: StreamServer) -> None:
    """Have a process open as many scans of a bucket as there may be, and kill it."""
    command = [sys.executable, "-m", "tests.faults.streams.scanning", streams.address, "fluss", "keys", "8"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"open\n"
        process.kill()


def scan(streams: StreamServer, **others: Any) -> int:
    """How many rows there are, by a scan that waits until there is room for it."""
    with (
        StreamClient(streams.address, ROOT_ACCESS_KEY, ROOT_SECRET_KEY) as client,
        client.scan_kv("fluss", "keys", scanner_kv_fetch_max_bytes=100, **others) as rows,
    ):
        return sum(batch.num_rows for batch in rows)


async def run(folder: Path, commands: Mapping[str, Sequence[str]], kills: int) -> None:
    random = Random(SEED)
    with killed(folder / "data", random) as server:
        await make_tables(server.streams)
        with producing(commands, server.streams.address) as producers:
            while server.kills < kills:
                if random.random() < 0.7:  # the others come while clients are still looking for it
                    go_on(producers)
                server.kill()
                if server.kills % 50 == 0:
                    print(f"kills={server.kills} acknowledged={[producer.acknowledged for producer in producers]}")
            for producer in producers:
                producer.stop()
        for producer in producers:
            assert not producer.failed, producer.failed[:3]
        scan_and_die(server.streams)
        tables = read_tables(server.streams)
        check(tables, producers)
        assert scan(server.streams) == len(tables.scanned), "scans whose client died are let go of"
        said = server.streams.server.log_text()
        assert "Traceback" not in said, said[said.index("Traceback") :][:3000]
    assert all(producer.acknowledged >= kills for producer in producers), "something was written, or nothing was tried"
    told = " ".join(f"{producer.name}={producer.acknowledged}" for producer in producers)
    print(
        f"kills={server.kills} (processes={server.processes_killed} starts={server.starts_killed}) acknowledged: {told}"
        f" records={tables.log.total()} changes={len(tables.changes)} keys={len(tables.scanned)}"
        " lost=0 repeated=0"
    )


async def test_kills_lose_nothing_that_pyfluss_was_told_of(tmp_path: Path) -> None:
    await run(tmp_path, {"python": python_producer()}, 3)


@pytest.mark.heavy
@pytest.mark.parametrize("kills", [4, pytest.param(MANY, id="many")])
async def test_kills_lose_nothing_that_either_client_was_told_of(tmp_path: Path, kills: int) -> None:
    commands = {"python": python_producer(), "java": java_producer(tmp_path / "classes")}
    await run(tmp_path, commands, kills)
