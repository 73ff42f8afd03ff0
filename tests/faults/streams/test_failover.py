"""Two servers over one PostgreSQL and one object store: each is killed and returns, and no acknowledged record is lost.

The story: A leads and takes records; A is killed; B leads and takes others; A returns; B is killed; A leads; B returns.
Producers and readers are both clients, pyfluss and the Java client. By default every record is readable at every step.
With `streams.ack_after_upload=false` the records of a dead server are readable as soon as it has returned, from the
server that leads meanwhile.
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

from .byte_store import ByteStore, byte_store
from .producing import LOG, ROWS, Producer, check, go_on, java_programs, python_producer, read_tables
from .test_kills import producing

pytestmark = [pytest.mark.integration, pytest.mark.slow]

_KEY = "b2xkb2xkb2xkb2xkb2xkb2xkb2xkb2xkb2xkb2xkb28="
LOCAL = "streams.ack_after_upload=false"
BUCKETS = 2
Row = tuple[str, int]
"""Its producer and number."""


class Cluster:
    """Two servers that are killed and started again, each with its folder and its ports. None has an address set."""

    def __init__(self, folder: Path, dsn: str, store: ByteStore, *settings: str) -> None:
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
        self.say(f"{name} started")
        return self.servers[name]

    def kill(self, name: str) -> None:
        self.servers[name].server.kill()
        self.say(f"{name} killed")

    def end(self) -> None:
        for each in self.servers.values():
            if each.server.process.poll() is None:
                each.server.kill()

    def say(self, what: str) -> None:
        """A line of the story, with its time."""
        print(f"{time.monotonic() - self._began:7.2f} s  {what}", flush=True)

    def status(self, name: str) -> StreamStatus:
        """How streams are, by what a server says."""
        server = self.servers[name].server
        with LakebedClient(server.endpoint, access_key_id=ROOT_ACCESS_KEY, secret_access_key=ROOT_SECRET_KEY) as client:
            return client.stream_servers.status()

    def wait_for_leader(self, name: str) -> None:
        streams = self.servers[name]
        wait_until(lambda: leader_of(streams) == streams.port, f"{name} leads")
        self.say(f"{name} leads, epoch {self.epoch(name)}")

    def epoch(self, name: str) -> int:
        leader = self.status(name).leader
        assert leader is not None
        return leader.epoch


def streams_command(streams: StreamServer, *words: str, is_refused: bool = False) -> str:
    """What `lakebed streams …` prints about a server."""
    environment = {
        **os.environ,
        "LAKEBED_ENDPOINT": streams.server.endpoint,
        "LAKEBED_ACCESS_KEY": ROOT_ACCESS_KEY,
        "LAKEBED_SECRET_KEY": ROOT_SECRET_KEY,
    }
    command = [sys.executable, "-m", "lakebed", "streams", *words]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL
    )
    assert (done.returncode != 0) == is_refused, done.stdout + done.stderr
    return done.stdout


def leader_of(streams: StreamServer) -> int:
    """The port of the server that leads, by what one of them tells its clients; 0 if none does."""
    connection = StreamConnection("127.0.0.1", streams.port, ROOT_ACCESS_KEY, Secret(ROOT_SECRET_KEY), GUARD_SECONDS)
    try:
        path = write_fields({1: "fluss", 2: "log"})
        answer = connection.call(1012, write_fields({1: path}))
        (node,), (table,) = messages(answer, 2), messages(answer, 3)
        epoch = number(next(messages(table, 5)), 4)
        return number(node, 3) if epoch else 0
    finally:
        connection.close()


@contextmanager
def cluster(folder: Path, dsn: str, *settings: str) -> Iterator[Cluster]:
    with ExitStack() as ends:
        made = Cluster(folder, dsn, ends.enter_context(byte_store(folder / "bytes")), *settings)
        ends.callback(made.end)
        made.start("a")
        yield made


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
    """Records of a log table, acknowledged."""
    async with connected(streams) as connection:
        writer = (await connection.get_table(fluss.TablePath("fluss", table))).new_append().create_writer()
        for at in numbers:
            writer.append({"producer": "p", "number": at})
        await writer.flush()


async def python_reads(streams: StreamServer, table: str, count: int) -> Counter[Row]:
    """So many records of a log table by pyfluss."""
    async with connected(streams) as connection:
        scanner = await (await connection.get_table(fluss.TablePath("fluss", table))).new_scan().create_log_scanner()
        scanner.subscribe_buckets(dict.fromkeys(range(BUCKETS), fluss.EARLIEST_OFFSET))
        return Counter((each.row["producer"], each.row["number"]) for each in await drain(scanner, count))


async def python_reads_all(streams: StreamServer, table: str, wanted: set[Row]) -> Counter[Row]:
    """Records of a log table from its beginning by pyfluss, until all that are wanted were among them."""
    found: Counter[Row] = Counter()
    async with connected(streams) as connection:
        scanner = await (await connection.get_table(fluss.TablePath("fluss", table))).new_scan().create_log_scanner()
        scanner.subscribe_buckets(dict.fromkeys(range(BUCKETS), fluss.EARLIEST_OFFSET))
        while not wanted <= found.keys():
            found.update((each.row["producer"], each.row["number"]) for each in await scanner.poll(1000))
    return found


async def java_reads_all(command: Sequence[str], streams: StreamServer, table: str, wanted: set[Row]) -> Counter[Row]:
    """The same by the Java client."""
    words = [streams.address, ROOT_ACCESS_KEY, ROOT_SECRET_KEY, table, str(BUCKETS)]
    found: Counter[Row] = Counter()
    process = await asyncio.create_subprocess_exec(*command, *words, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        while not wanted <= found.keys():
            producer, said = (await process.stdout.readline()).decode().split()
            found[producer, int(said)] += 1
    finally:
        process.kill()
        await process.wait()
    return found


def expected(*numbers: range) -> Counter[Row]:
    return Counter({("p", at): 1 for each in numbers for at in each})


async def timed(world: Cluster, what: str, work: Awaitable[Counter[Row]]) -> Counter[Row]:
    began = time.monotonic()
    found = await asyncio.wait_for(work, GUARD_SECONDS)
    world.say(f"{what}: {sum(found.values())} records, {time.monotonic() - began:.2f} s")
    return found


async def test_with_the_default_every_acknowledged_record_is_readable_at_each_step(
    tmp_path: Path, postgres_dsn: str
) -> None:
    with cluster(tmp_path, postgres_dsn) as world:
        a, b = world.servers["a"], world.start("b")
        await make_tables(a, "log")
        world.wait_for_leader("a")
        await append(a, "log", range(200))
        world.kill("a")
        await asyncio.to_thread(world.wait_for_leader, "b")
        assert await timed(world, "read from b", python_reads(b, "log", 200)) == expected(range(200))
        await append(b, "log", range(200, 300))
        a = world.start("a")
        assert await timed(world, "read by way of a", python_reads(a, "log", 300)) == expected(range(300))
        world.kill("b")
        await asyncio.to_thread(world.wait_for_leader, "a")
        assert await timed(world, "read from a", python_reads(a, "log", 300)) == expected(range(300))
        await append(a, "log", range(300, 400))
        b = world.start("b")
        assert await timed(world, "read by way of b", python_reads(b, "log", 400)) == expected(range(400))
        assert world.status("b").stranded == []


async def test_a_server_that_returns_uploads_its_records_and_the_leader_stays(
    tmp_path: Path, postgres_dsn: str
) -> None:
    with cluster(tmp_path, postgres_dsn, LOCAL) as world:
        a, b = world.servers["a"], world.start("b")
        await make_tables(a, "log")
        world.wait_for_leader("a")
        await append(a, "log", range(200))
        world.kill("a")
        await asyncio.to_thread(world.wait_for_leader, "b")
        stranded = world.status("b").stranded
        assert {(each.table, each.uploaded_end) for each in stranded} == {("log", 0)}
        assert all("down" in each.reason for each in stranded)
        printed = streams_command(b, "status")
        assert "fluss.log" in printed
        assert "from 0" in printed
        await make_tables(b, "other")
        await append(b, "other", range(100))
        epoch = world.epoch("b")
        reading = asyncio.create_task(python_reads(b, "log", 200))
        a = world.start("a")
        assert await timed(world, "read from b what a had", reading) == expected(range(200))
        assert world.epoch("b") == epoch, "the leader does not change"
        assert await timed(world, "read from b", python_reads(b, "other", 100)) == expected(range(100))
        await append(b, "log", range(200, 300))
        world.kill("b")
        await asyncio.to_thread(world.wait_for_leader, "a")
        epoch = world.epoch("a")
        b = world.start("b")
        wait_until(lambda: not world.status("a").stranded, "nothing is stranded")
        assert await timed(world, "read from a", python_reads(a, "log", 300)) == expected(range(300))
        assert await timed(world, "read from a", python_reads(a, "other", 100)) == expected(range(100))
        assert world.epoch("a") == epoch
        await append(a, "log", range(300, 400))
        assert await timed(world, "read by way of b", python_reads(b, "log", 400)) == expected(range(400))


async def test_a_server_that_is_lost_is_forgotten_by_a_command(tmp_path: Path, postgres_dsn: str) -> None:
    with cluster(tmp_path, postgres_dsn, LOCAL) as world:
        a, b = world.servers["a"], world.start("b")
        await make_tables(a, "log")
        world.wait_for_leader("a")
        await append(a, "log", range(200))
        lost = world.status("a").leader
        assert lost is not None
        with (
            LakebedClient(
                a.server.endpoint, access_key_id=ROOT_ACCESS_KEY, secret_access_key=ROOT_SECRET_KEY
            ) as client,
            pytest.raises(CommitConflict, match="running"),
        ):
            client.stream_servers.forget(lost.server)
        world.kill("a")
        await asyncio.to_thread(world.wait_for_leader, "b")
        wait_until(
            lambda: all(not each.is_running for each in world.status("b").servers if each.server == lost.server),
            "a counts as down",
        )
        printed = streams_command(b, "forget-server", lost.server, is_refused=True)
        assert "fluss.log" in printed
        assert "from 0" in printed
        assert world.status("b").stranded
        printed = streams_command(b, "forget-server", str(lost.number), "--yes")
        assert f"forgot server {lost.server}" in printed
        assert world.status("b").stranded == []
        await append(b, "log", range(500, 600))
        assert await timed(world, "read from b", python_reads(b, "log", 100)) == expected(range(500, 600))
        # It returns all the same: what it had is not the log any more.
        world.start("a")
        world.kill("b")
        await asyncio.to_thread(world.wait_for_leader, "a")
        world.start("b")
        wait_until(lambda: not world.status("a").stranded, "nothing is stranded")
        assert await timed(world, "read from a", python_reads(world.servers["a"], "log", 100)) == expected(
            range(500, 600)
        )


async def test_a_client_that_first_reaches_a_follower_is_sent_to_the_leader(tmp_path: Path, postgres_dsn: str) -> None:
    with cluster(tmp_path, postgres_dsn) as world:
        a = world.servers["a"]
        await make_tables(a, "log")
        b = world.start("b")
        world.wait_for_leader("a")
        assert leader_of(b) == a.port
        await append(b, "log", range(100))
        assert await timed(world, "read by way of b", python_reads(b, "log", 100)) == expected(range(100))


def test_a_second_server_with_a_folder_of_its_own_does_not_start(tmp_path: Path, postgres_dsn: str) -> None:
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
async def test_both_clients_live_through_kills_and_returns_of_both_servers(
    tmp_path: Path, postgres_dsn: str, settings: tuple[str, ...]
) -> None:
    java = java_programs(tmp_path / "classes")
    commands = {"python": python_producer(), "java": java("Producer")}
    with cluster(tmp_path, postgres_dsn, *settings) as world:
        world.start("b")
        await make_tables(world.servers["a"], "log", "keys")
        world.wait_for_leader("a")
        both = ",".join(each.address for each in world.servers.values())
        with producing(commands, both) as producers:
            for leader, follower in (("a", "b"), ("b", "a"), ("a", "b")):
                await moved(world, producers, leader, follower, is_served_meanwhile=not settings)
                await read_by_both(world, java("Reader"), world.servers[follower], producers)
            for producer in producers:
                producer.stop()
                assert not producer.failed, producer.failed[:3]
        tables = await asyncio.to_thread(read_tables, world.servers["b"])
        check(tables, producers)
        assert world.status("b").stranded == []
        for streams in world.servers.values():
            said = streams.server.log_text()
            assert "Traceback" not in said, said[said.index("Traceback") :][:3000]
    print(f"acknowledged={[each.acknowledged for each in producers]} lost=0 repeated=0")


async def moved(
    world: Cluster, producers: Sequence[Producer], leader: str, follower: str, *, is_served_meanwhile: bool
) -> None:
    """Kill the leader, and have it return to one that leads in its place. Producers go on."""
    await asyncio.to_thread(go_on, producers)
    world.kill(leader)
    await asyncio.to_thread(world.wait_for_leader, follower)
    epoch = world.epoch(follower)
    if is_served_meanwhile:
        await asyncio.to_thread(go_on, producers)
        world.say("both producers were acknowledged more while it is down")
    world.start(leader)
    await asyncio.to_thread(go_on, producers)
    world.say("both producers were acknowledged more after it returned")
    wait_until(lambda: not world.status(follower).stranded, "nothing is stranded")
    assert world.epoch(follower) == epoch


async def read_by_both(
    world: Cluster, reader: Sequence[str], streams: StreamServer, producers: Sequence[Producer]
) -> None:
    """Every record that was acknowledged is read by both clients, and none twice."""
    acknowledged = {(each.name, at) for each in producers for at in set(each.log)}
    for client, reading in (
        ("pyfluss", python_reads_all(streams, "log", acknowledged)),
        ("java", java_reads_all(reader, streams, "log", acknowledged)),
    ):
        found = await timed(world, f"{client} read all {len(acknowledged)} that were acknowledged", reading)
        assert max(found.values()) == 1
