"""Kill -9 of stream servers while producers of both clients write: nothing is lost or stored twice.

The whole server is killed, or only its streams process, at any point and while it starts. The clients reconnect by
themselves. In the end all writes of every producer are acknowledged.
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

from .producers import (
    KEYS,
    LOG,
    PATIENCE_SECONDS,
    ROWS,
    Producer,
    check,
    java_producer,
    python_producer,
    read_tables,
    wait_for_progress,
)

pytestmark = [pytest.mark.integration, pytest.mark.slow]

_SETTINGS: Final = ("--set", "streams.segment=64KiB", "--set", "streams.scan_ttl=2s")
"""Small segments, so that some are sealed and uploaded; a short expiry of scans."""

_STREAMS: Final = "lakebed-streams"
MANY: Final = int(os.environ.get("STREAM_KILLS", "200"))


class KilledServer:
    """A server with a fixed folder and port that is killed and restarted."""

    def __init__(self, data: Path, random: Random) -> None:
        self._data = data
        self._random = random
        self._port = free_port()
        self.kills = self.processes_killed = self.starts_killed = 0
        self.streams = self._start()

    def _start(self) -> StreamServer:
        return start_streams(self._data, *_SETTINGS, port=self._port, within_seconds=PATIENCE_SECONDS)

    def kill(self) -> None:
        """Kill the server or its streams process, and wait until it serves again."""
        time.sleep(self._random.uniform(0.05, 0.8))
        chance = self._random.random() if self.kills else 0.9  # the first kill is of the whole server
        self.kills += 1
        if chance < 0.8 and (processes := self._processes()):
            os.kill(processes[0], signal.SIGKILL)
            wait_until(lambda: not Path(f"/proc/{processes[0]}").exists(), "the end of the process")
            wait_until(lambda: bool(self._processes()), "the replacement of the process")
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
def killed_server(data: Path, random: Random) -> Iterator[KilledServer]:
    server = KilledServer(data, random)
    try:
        yield server
    finally:
        server.end()


@contextmanager
def running_producers(commands: Mapping[str, Sequence[str]], address: str, *others: str) -> Iterator[list[Producer]]:
    producers: list[Producer] = []
    try:
        for at, (name, command) in enumerate(commands.items()):
            producers.append(Producer.start(command, name, at * 2 * KEYS, address, *others))
        for producer in producers:
            assert producer.started.wait(PATIENCE_SECONDS), f"{producer.name} did not start"
        yield producers
    finally:
        for producer in producers:
            producer.end()


async def make_tables(streams: StreamServer) -> None:
    async with connected(streams) as connection:
        await make_table(connection, fluss.TablePath("fluss", "log"), LOG, bucket_count=3)
        await make_table(connection, fluss.TablePath("fluss", "keys"), ROWS, primary_key=["id"], bucket_count=2)


def abandon_scans(streams: StreamServer) -> None:
    """Open the maximum number of scans of a bucket in a process, and kill it."""
    command = [sys.executable, "-m", "tests.faults.streams.abandoned_scans", streams.address, "fluss", "keys", "8"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"open\n"
        process.kill()


def scan(streams: StreamServer, **others: Any) -> int:
    """Count the rows with a scan, which waits until the limit of scans permits it."""
    with (
        StreamClient(streams.address, ROOT_ACCESS_KEY, ROOT_SECRET_KEY) as client,
        client.scan_kv("fluss", "keys", scanner_kv_fetch_max_bytes=100, **others) as rows,
    ):
        return sum(batch.num_rows for batch in rows)


async def run(folder: Path, commands: Mapping[str, Sequence[str]], kills: int) -> None:
    random = Random(SEED)
    with killed_server(folder / "data", random) as server:
        await make_tables(server.streams)
        with running_producers(commands, server.streams.address) as producers:
            while server.kills < kills:
                if random.random() < 0.7:  # otherwise the kill comes while clients still reconnect
                    wait_for_progress(producers)
                server.kill()
                if server.kills % 50 == 0:
                    print(f"kills={server.kills} acknowledged={[producer.acknowledged for producer in producers]}")
            for producer in producers:
                producer.stop()
        for producer in producers:
            assert not producer.failed, producer.failed[:3]
        abandon_scans(server.streams)
        tables = read_tables(server.streams)
        check(tables, producers)
        assert scan(server.streams) == len(tables.scanned), "scans of the dead client expire"
        log_text = server.streams.server.log_text()
        assert "Traceback" not in log_text, log_text[log_text.index("Traceback") :][:3000]
    assert all(producer.acknowledged >= kills for producer in producers), "the test wrote enough records"
    counts = " ".join(f"{producer.name}={producer.acknowledged}" for producer in producers)
    print(
        f"kills={server.kills} (processes={server.processes_killed} starts={server.starts_killed})"
        f" acknowledged: {counts} records={tables.log.total()} changes={len(tables.changes)} keys={len(tables.scanned)}"
        " lost=0 repeated=0"
    )


async def test_kills_lose_nothing_acknowledged_to_pyfluss(tmp_path: Path) -> None:
    await run(tmp_path, {"python": python_producer()}, 3)


@pytest.mark.heavy
@pytest.mark.parametrize("kills", [4, pytest.param(MANY, id="many")])
async def test_kills_lose_nothing_acknowledged_to_either_client(tmp_path: Path, kills: int) -> None:
    commands = {"python": python_producer(), "java": java_producer(tmp_path / "classes")}
    await run(tmp_path, commands, kills)
