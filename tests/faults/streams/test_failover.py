"""Two servers over one PostgreSQL and one object store: each is killed and returns, and no acknowledged record is lost.

Sequence: A leads and accepts records; A is killed; B leads and accepts others; A returns; B is killed; A leads; B
returns. Producers and readers use pyfluss and the Java client. By default every record is readable at every step. With
`streams.ack_after_upload=false` the leader serves the records of a dead server once that server has returned.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

import fluss
from lakebed.client import LakebedClient
from lakebed.client.streams.connection import StreamConnection
from lakebed.client.streams.messages import messages, number, write_fields
from lakebed.client.streams.servers import StreamStatus
from lakebed.core.errors import CommitConflict
from lakebed.core.secrets import Secret
from tests.clients.streams.serving import StreamServer, connected, drain, make_table, start_streams
from tests.fixtures.ports import free_port
from tests.fixtures.server import ROOT_ACCESS_KEY, ROOT_SECRET_KEY, launch_server
from tests.server.running_processes import GUARD_SECONDS, wait_until
from tests.server.test_several_servers import settings_file

from .object_store import ObjectStoreServer, object_store
from .producers import LOG, ROWS, Producer, check, java_programs, python_producer, read_tables, wait_for_progress
from .test_kills import running_producers

pytestmark = [pytest.mark.integration, pytest.mark.slow]

_KEY = "b2xkb2xkb2xkb2xkb2xkb2xkb2xkb2xkb2xkb2xkb28="
LOCAL = "streams.ack_after_upload=false"
BUCKETS = 2
Row = tuple[str, int]
"""Producer and number of a record."""


class Cluster:
    """Two servers that are killed and restarted, each with a fixed folder and port, without advertised addresses."""

    def __init__(self, folder: Path, dsn: str, store: ObjectStoreServer, *settings: str) -> None:
        self._folder, self._dsn, self._store = folder, dsn, store
        self._config = settings_file(folder / "keys.toml", "one", one=_KEY)
        self._settings = settings
        self._ports = {name: free_port() for name in ("a", "b")}
        self.servers: dict[str, StreamServer] = {}
        self._began = time.monotonic()

    def start(self, name: str) -> StreamServer:
        flags = [part for each in ("streams.lease=2s", *self._settings) for part in ("--set", each)]
        self.servers[name] = start_streams(
            self._folder / name,
            "--config",
            str(self._config),
            *flags,
            *self._store.flags,
            port=self._ports[name],
            environment={**self._store.environment, "LAKEBED_META__URL": self._dsn},
        )
        self.log(f"{name} started")
        return self.servers[name]

    def kill(self, name: str) -> None:
        self.servers[name].server.kill()
        self.log(f"{name} killed")

    def end(self) -> None:
        for each in self.servers.values():
            if each.server.process.poll() is None:
                each.server.kill()

    def log(self, event: str) -> None:
        """Print an event with its time."""
        print(f"{time.monotonic() - self._began:7.2f} s  {event}", flush=True)

    def status(self, name: str) -> StreamStatus:
        """The stream status, by one server."""
        server = self.servers[name].server
        with LakebedClient(server.endpoint, access_key_id=ROOT_ACCESS_KEY, secret_access_key=ROOT_SECRET_KEY) as client:
            return client.stream_servers.status()

    def wait_for_leader(self, name: str) -> None:
        streams = self.servers[name]
        wait_until(lambda: leader_of(streams) == streams.port, f"{name} leads")
        self.log(f"{name} leads, epoch {self.epoch(name)}")

    def epoch(self, name: str) -> int:
        leader = self.status(name).leader
        assert leader is not None
        return leader.epoch


def streams_command(streams: StreamServer, *arguments: str, is_rejected: bool = False) -> str:
    """The output of `lakebed streams …` against a server."""
    environment = {
        **os.environ,
        "LAKEBED_ENDPOINT": streams.server.endpoint,
        "LAKEBED_ACCESS_KEY": ROOT_ACCESS_KEY,
        "LAKEBED_SECRET_KEY": ROOT_SECRET_KEY,
    }
    command = [sys.executable, "-m", "lakebed", "streams", *arguments]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL
    )
    assert (done.returncode != 0) == is_rejected, done.stdout + done.stderr
    return done.stdout


def leader_of(streams: StreamServer) -> int:
    """The port of the leader, as a server reports it to clients; 0 without a leader."""
    connection = StreamConnection("127.0.0.1", streams.port, ROOT_ACCESS_KEY, Secret(ROOT_SECRET_KEY), GUARD_SECONDS)
    try:
        path = write_fields({1: "fluss", 2: "log"})
        response = connection.call(1012, write_fields({1: path}))
        (node,), (table,) = messages(response, 2), messages(response, 3)
        epoch = number(next(messages(table, 5)), 4)
        return number(node, 3) if epoch else 0
    finally:
        connection.close()


@contextmanager
def running_cluster(folder: Path, dsn: str, *settings: str) -> Iterator[Cluster]:
    with ExitStack() as ends:
        cluster = Cluster(folder, dsn, ends.enter_context(object_store(folder / "bytes")), *settings)
        ends.callback(cluster.end)
        cluster.start("a")
        yield cluster


async def make_tables(streams: StreamServer, *names: str) -> None:
    async with connected(streams) as connection:
        for name in names:
            keyed = name.startswith("keys")
            await make_table(
                connection,
                fluss.TablePath("fluss", name),
                ROWS if keyed else LOG,
                primary_key=["id"] if keyed else None,
                bucket_count=BUCKETS,
            )


async def append(streams: StreamServer, table: str, numbers: range) -> None:
    """Append records to a log table, and wait until they are acknowledged."""
    async with connected(streams) as connection:
        writer = (await connection.get_table(fluss.TablePath("fluss", table))).new_append().create_writer()
        for at in numbers:
            writer.append({"producer": "p", "number": at})
        await writer.flush()


async def python_reads(streams: StreamServer, table: str, count: int) -> Counter[Row]:
    """Read `count` records of a log table with pyfluss."""
    async with connected(streams) as connection:
        scanner = await (await connection.get_table(fluss.TablePath("fluss", table))).new_scan().create_log_scanner()
        scanner.subscribe_buckets(dict.fromkeys(range(BUCKETS), fluss.EARLIEST_OFFSET))
        return Counter((each.row["producer"], each.row["number"]) for each in await drain(scanner, count))


async def python_reads_all(streams: StreamServer, table: str, wanted: set[Row]) -> Counter[Row]:
    """Read a log table from its beginning with pyfluss until all wanted records are found."""
    found: Counter[Row] = Counter()
    async with connected(streams) as connection:
        scanner = await (await connection.get_table(fluss.TablePath("fluss", table))).new_scan().create_log_scanner()
        scanner.subscribe_buckets(dict.fromkeys(range(BUCKETS), fluss.EARLIEST_OFFSET))
        while not wanted <= found.keys():
            found.update((each.row["producer"], each.row["number"]) for each in await scanner.poll(1000))
    return found


async def java_reads_all(command: Sequence[str], streams: StreamServer, table: str, wanted: set[Row]) -> Counter[Row]:
    """The same with the Java client."""
    arguments = [streams.address, ROOT_ACCESS_KEY, ROOT_SECRET_KEY, table, str(BUCKETS)]
    found: Counter[Row] = Counter()
    process = await asyncio.create_subprocess_exec(*command, *arguments, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        while not wanted <= found.keys():
            producer, value = (await process.stdout.readline()).decode().split()
            found[producer, int(value)] += 1
    finally:
        process.kill()
        await process.wait()
    return found


def expected(*numbers: range) -> Counter[Row]:
    return Counter({("p", at): 1 for each in numbers for at in each})


async def timed(cluster: Cluster, label: str, work: Awaitable[Counter[Row]]) -> Counter[Row]:
    began = time.monotonic()
    found = await asyncio.wait_for(work, GUARD_SECONDS)
    cluster.log(f"{label}: {sum(found.values())} records, {time.monotonic() - began:.2f} s")
    return found


async def test_with_the_default_every_acknowledged_record_is_readable_at_each_step(
    tmp_path: Path, postgres_dsn: str
) -> None:
    with running_cluster(tmp_path, postgres_dsn) as cluster:
        a, b = cluster.servers["a"], cluster.start("b")
        await make_tables(a, "log")
        cluster.wait_for_leader("a")
        await append(a, "log", range(200))
        cluster.kill("a")
        await asyncio.to_thread(cluster.wait_for_leader, "b")
        assert await timed(cluster, "read from b", python_reads(b, "log", 200)) == expected(range(200))
        await append(b, "log", range(200, 300))
        a = cluster.start("a")
        assert await timed(cluster, "read by way of a", python_reads(a, "log", 300)) == expected(range(300))
        cluster.kill("b")
        await asyncio.to_thread(cluster.wait_for_leader, "a")
        assert await timed(cluster, "read from a", python_reads(a, "log", 300)) == expected(range(300))
        await append(a, "log", range(300, 400))
        b = cluster.start("b")
        assert await timed(cluster, "read by way of b", python_reads(b, "log", 400)) == expected(range(400))
        assert cluster.status("b").stranded == []


async def test_returned_server_uploads_its_records_and_the_leader_stays(tmp_path: Path, postgres_dsn: str) -> None:
    with running_cluster(tmp_path, postgres_dsn, LOCAL) as cluster:
        a, b = cluster.servers["a"], cluster.start("b")
        await make_tables(a, "log")
        cluster.wait_for_leader("a")
        await append(a, "log", range(200))
        cluster.kill("a")
        await asyncio.to_thread(cluster.wait_for_leader, "b")
        stranded = cluster.status("b").stranded
        assert {(each.table, each.uploaded_end) for each in stranded} == {("log", 0)}
        assert all("down" in each.reason for each in stranded)
        printed = streams_command(b, "status")
        assert "fluss.log" in printed
        assert "from 0" in printed
        await make_tables(b, "other")
        await append(b, "other", range(100))
        epoch = cluster.epoch("b")
        reading = asyncio.create_task(python_reads(b, "log", 200))
        a = cluster.start("a")
        assert await timed(cluster, "read records of a from b", reading) == expected(range(200))
        assert cluster.epoch("b") == epoch, "the leader does not change"
        assert await timed(cluster, "read from b", python_reads(b, "other", 100)) == expected(range(100))
        await append(b, "log", range(200, 300))
        cluster.kill("b")
        await asyncio.to_thread(cluster.wait_for_leader, "a")
        epoch = cluster.epoch("a")
        b = cluster.start("b")
        wait_until(lambda: not cluster.status("a").stranded, "nothing is stranded")
        assert await timed(cluster, "read from a", python_reads(a, "log", 300)) == expected(range(300))
        assert await timed(cluster, "read from a", python_reads(a, "other", 100)) == expected(range(100))
        assert cluster.epoch("a") == epoch
        await append(a, "log", range(300, 400))
        assert await timed(cluster, "read by way of b", python_reads(b, "log", 400)) == expected(range(400))


async def test_lost_server_is_forgotten_by_command(tmp_path: Path, postgres_dsn: str) -> None:
    with running_cluster(tmp_path, postgres_dsn, LOCAL) as cluster:
        a, b = cluster.servers["a"], cluster.start("b")
        await make_tables(a, "log")
        cluster.wait_for_leader("a")
        await append(a, "log", range(200))
        lost = cluster.status("a").leader
        assert lost is not None
        with (
            LakebedClient(
                a.server.endpoint, access_key_id=ROOT_ACCESS_KEY, secret_access_key=ROOT_SECRET_KEY
            ) as client,
            pytest.raises(CommitConflict, match="running"),
        ):
            client.stream_servers.forget(lost.server)
        cluster.kill("a")
        await asyncio.to_thread(cluster.wait_for_leader, "b")
        wait_until(
            lambda: all(not each.is_running for each in cluster.status("b").servers if each.server == lost.server),
            "a counts as down",
        )
        printed = streams_command(b, "forget-server", lost.server, is_rejected=True)
        assert "fluss.log" in printed
        assert "from 0" in printed
        assert cluster.status("b").stranded
        printed = streams_command(b, "forget-server", str(lost.number), "--yes")
        assert f"forgot server {lost.server}" in printed
        assert cluster.status("b").stranded == []
        await append(b, "log", range(500, 600))
        assert await timed(cluster, "read from b", python_reads(b, "log", 100)) == expected(range(500, 600))
        # It returns: its files are stale.
        cluster.start("a")
        cluster.kill("b")
        await asyncio.to_thread(cluster.wait_for_leader, "a")
        cluster.start("b")
        wait_until(lambda: not cluster.status("a").stranded, "nothing is stranded")
        assert await timed(cluster, "read from a", python_reads(cluster.servers["a"], "log", 100)) == expected(
            range(500, 600)
        )


async def test_client_of_a_follower_is_sent_to_the_leader(tmp_path: Path, postgres_dsn: str) -> None:
    with running_cluster(tmp_path, postgres_dsn) as cluster:
        a = cluster.servers["a"]
        await make_tables(a, "log")
        b = cluster.start("b")
        cluster.wait_for_leader("a")
        assert leader_of(b) == a.port
        await append(b, "log", range(100))
        assert await timed(cluster, "read by way of b", python_reads(b, "log", 100)) == expected(range(100))


def test_second_server_with_another_object_store_does_not_start(tmp_path: Path, postgres_dsn: str) -> None:
    config = settings_file(tmp_path / "keys.toml", "one", one=_KEY)
    environment = {"LAKEBED_META__URL": postgres_dsn}
    flags = ("--config", str(config), "--streams-listen", "127.0.0.1:0")
    first = start_streams(tmp_path / "a", "--config", str(config), environment=environment)
    second = launch_server(tmp_path / "b", *flags, workers=1, environment=environment)
    try:
        assert second.process.wait(GUARD_SECONDS) != 0
        assert "another stream server on this metadata store uses another object store" in second.log_text()
    finally:
        first.server.kill()
        if second.process.poll() is None:
            second.kill()


@pytest.mark.heavy
@pytest.mark.parametrize("settings", [(), (LOCAL,)], ids=["uploaded", "on disk"])
async def test_both_clients_survive_kills_and_restarts_of_both_servers(
    tmp_path: Path, postgres_dsn: str, settings: tuple[str, ...]
) -> None:
    java = java_programs(tmp_path / "classes")
    commands = {"python": python_producer(), "java": java("Producer")}
    with running_cluster(tmp_path, postgres_dsn, *settings) as cluster:
        cluster.start("b")
        await make_tables(cluster.servers["a"], "log", "keys")
        cluster.wait_for_leader("a")
        both = ",".join(each.address for each in cluster.servers.values())
        with running_producers(commands, both) as producers:
            for leader, follower in (("a", "b"), ("b", "a"), ("a", "b")):
                await move_leader(cluster, producers, leader, follower, is_served_meanwhile=not settings)
                await read_by_both(cluster, java("Reader"), cluster.servers[follower], producers)
            for producer in producers:
                producer.stop()
                assert not producer.failed, producer.failed[:3]
        tables = await asyncio.to_thread(read_tables, cluster.servers["b"])
        check(tables, producers)
        assert cluster.status("b").stranded == []
        for streams in cluster.servers.values():
            log_text = streams.server.log_text()
            assert "Traceback" not in log_text, log_text[log_text.index("Traceback") :][:3000]
    print(f"acknowledged={[each.acknowledged for each in producers]} lost=0 repeated=0")


async def move_leader(
    cluster: Cluster, producers: Sequence[Producer], leader: str, follower: str, *, is_served_meanwhile: bool
) -> None:
    """Kill the leader, wait for its successor, and restart it. Producers continue."""
    await asyncio.to_thread(wait_for_progress, producers)
    cluster.kill(leader)
    await asyncio.to_thread(cluster.wait_for_leader, follower)
    epoch = cluster.epoch(follower)
    if is_served_meanwhile:
        await asyncio.to_thread(wait_for_progress, producers)
        cluster.log("both producers continued while it was down")
    cluster.start(leader)
    await asyncio.to_thread(wait_for_progress, producers)
    cluster.log("both producers continued after it returned")
    wait_until(lambda: not cluster.status(follower).stranded, "nothing is stranded")
    assert cluster.epoch(follower) == epoch


async def read_by_both(
    cluster: Cluster, reader: Sequence[str], streams: StreamServer, producers: Sequence[Producer]
) -> None:
    """Check that both clients read every acknowledged record, and none twice."""
    acknowledged = {(each.name, at) for each in producers for at in set(each.log)}
    for client, reading in (
        ("pyfluss", python_reads_all(streams, "log", acknowledged)),
        ("java", java_reads_all(reader, streams, "log", acknowledged)),
    ):
        found = await timed(cluster, f"{client} read all {len(acknowledged)} acknowledged records", reading)
        assert max(found.values()) == 1
