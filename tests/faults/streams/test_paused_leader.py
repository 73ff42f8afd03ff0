"""Two servers over one PostgreSQL and one object store: never do two of them write.

The leader is paused, like a swapping or suspended machine, and another server takes over. When the first resumes, it
rejects the requests that it received meanwhile, and sends its clients to the new leader.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest

import fluss
from lakebed.client.streams.connection import StreamConnection
from lakebed.client.streams.messages import messages, number, write_fields
from lakebed.core.secrets import Secret
from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.fluss.log_batches import write_batch
from tests.clients.streams.serving import StreamServer, connected, start_streams
from tests.fixtures.ports import free_port
from tests.fixtures.server import ROOT_ACCESS_KEY, ROOT_SECRET_KEY
from tests.server.running_processes import GUARD_SECONDS, wait_until
from tests.server.test_several_servers import settings_file

from .object_store import ObjectStoreServer, object_store
from .producers import check, java_producer, python_producer, read_tables, wait_for_progress
from .test_kills import make_tables, running_producers

pytestmark = [pytest.mark.integration, pytest.mark.slow]

NOT_LEADER = 12
_KEY = "b2xkb2xkb2xkb2xkb2xkb2xkb2xkb2xkb2xkb2xkb28="


class Pair:
    """Two servers, and connections to them."""

    def __init__(self, folder: Path, dsn: str, store: ObjectStoreServer, ends: ExitStack) -> None:
        config = settings_file(folder / "keys.toml", "one", one=_KEY)
        self.servers: list[StreamServer] = []
        self._ends = ends
        for name in ("one", "two"):
            port = free_port()
            flags = ("--config", str(config), "--set", "streams.lease=2s", "--set", "streams.ack_after_upload=true")
            started = start_streams(
                folder / name,
                *flags,
                "--set",
                f"streams.advertise=127.0.0.1:{port}",
                *store.flags,
                port=port,
                environment={**store.environment, "LAKEBED_META__URL": dsn},
            )
            ends.callback(started.server.kill)
            self.servers.append(started)

    def connect(self, streams: StreamServer) -> StreamConnection:
        """Connect; the connection is closed with the pair."""
        secret = Secret(ROOT_SECRET_KEY)
        connection = StreamConnection("127.0.0.1", streams.port, ROOT_ACCESS_KEY, secret, GUARD_SECONDS)
        self._ends.callback(connection.close)
        return connection

    def leader(self, connection: StreamConnection) -> tuple[StreamServer, int]:
        """The leader and its epoch, as the connected server reports them."""
        path = write_fields({1: "fluss", 2: "log"})
        response = connection.call(1012, write_fields({1: path}))
        (node,) = messages(response, 2)
        port = number(node, 3)
        (table,) = messages(response, 3)
        epoch = number(next(messages(table, 5)), 4)
        return next(each for each in self.servers if each.port == port), epoch

    def other(self, than: StreamServer) -> StreamServer:
        return next(each for each in self.servers if each is not than)


@contextmanager
def paused(streams: StreamServer) -> Iterator[None]:
    """Stop all processes of a server for the duration of a block."""
    os.killpg(streams.server.process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.killpg(streams.server.process.pid, signal.SIGCONT)


def wait_for_leader(pair: Pair, streams: StreamServer) -> None:
    """Wait until a server reports that it leads."""
    connection = pair.connect(streams)

    def is_leader() -> bool:
        leader, epoch = pair.leader(connection)
        return leader is streams and epoch > 0

    wait_until(is_leader, "a new leader")


@contextmanager
def two_servers(folder: Path, dsn: str) -> Iterator[Pair]:
    with ExitStack() as ends:
        store = ends.enter_context(object_store(folder / "bytes"))
        yield Pair(folder, dsn, store, ends)


class LeaderRequests:
    """Requests that only the leader serves. Each returns the error code."""

    def __init__(self, connection: StreamConnection, log_id: int, kv_id: int) -> None:
        self.connection = connection
        self._log_id = log_id
        self._kv_id = kv_id

    def append(self) -> int:
        records = write_batch(b"not read by the test", 1, schema_id=1)
        request = write_fields({1: -1, 2: self._log_id, 3: 60_000, 4: write_fields({2: 0, 3: records})})
        (bucket,) = messages(self.connection.call(1014, request), 1)
        return number(bucket, 3)

    def put(self) -> int:
        request = write_fields({1: -1, 2: self._kv_id, 3: 60_000, 5: write_fields({2: 0, 3: b"whatever"})})
        (bucket,) = messages(self.connection.call(1016, request), 1)
        return number(bucket, 3)

    def fetch(self) -> int:
        request = write_fields({1: self._log_id, 2: False, 4: write_fields({2: 0, 3: 0, 4: 1000})})
        (table,) = messages(self.connection.call(1015, write_fields({1: -1, 2: 1000, 3: request, 4: 10})), 1)
        (bucket,) = messages(table, 2)
        return number(bucket, 3)

    def look_up(self) -> int:
        request = write_fields({1: self._kv_id, 2: write_fields({2: 0, 3: b"k"})})
        (bucket,) = messages(self.connection.call(1017, request), 1)
        return number(bucket, 3)

    def scan(self) -> int:
        bucket = write_fields({1: self._kv_id, 3: 0})
        return number(self.connection.call(1061, write_fields({2: bucket, 3: 0, 4: 1000})), 1)

    def drop(self) -> None:
        path = write_fields({1: "fluss", 2: "log"})
        self.connection.call(1006, write_fields({1: path, 2: False}))


async def write(streams: StreamServer, numbers: range) -> None:
    """Write rows to both tables, and wait until they are acknowledged."""
    async with connected(streams) as connection:
        await write_rows(connection, numbers)


async def write_rows(connection: Any, numbers: range) -> None:
    log = (await connection.get_table(fluss.TablePath("fluss", "log"))).new_append().create_writer()
    keys = (await connection.get_table(fluss.TablePath("fluss", "keys"))).new_upsert().create_writer()
    for at in numbers:
        log.append({"producer": "p", "number": at})
        keys.upsert({"id": at % 30, "producer": "p", "number": at})
    await log.flush()
    await keys.flush()


async def test_paused_leader_no_longer_leads(tmp_path: Path, postgres_dsn: str) -> None:
    with two_servers(tmp_path, postgres_dsn) as pair:
        one, two = pair.servers
        await make_tables(one)
        assert pair.leader(pair.connect(two)) == pair.leader(pair.connect(one)) == (one, 1)
        async with connected(one) as connection:
            await write_rows(connection, range(100))
            ids = [
                (await connection.get_table(fluss.TablePath("fluss", name))).get_table_info().table_id
                for name in ("log", "keys")
            ]
            former = LeaderRequests(pair.connect(one), *ids)
            waiting = LeaderRequests(pair.connect(one), *ids)
            with paused(one):
                # Sent while the server is paused: it reads them when it resumes.
                unanswered = asyncio.create_task(asyncio.to_thread(waiting.append))
                unwritten = asyncio.create_task(write_rows(connection, range(100, 200)))
                await asyncio.to_thread(wait_for_leader, pair, two)
                await write(two, range(200, 300))
                assert not unanswered.done()
                assert not unwritten.done()
            assert await unanswered == NOT_LEADER
            assert pair.leader(former.connection) == (two, 2)
            for call in (former.append, former.put, former.fetch, former.look_up, former.scan):
                assert await asyncio.to_thread(call) == NOT_LEADER, call
            with pytest.raises(FlussError) as failed:
                await asyncio.to_thread(former.drop)
            assert failed.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
            # Its own clients move to the new leader, and have written nothing twice.
            await asyncio.wait_for(unwritten, GUARD_SECONDS)
        tables = await asyncio.to_thread(read_tables, two)
        assert tables.log == dict.fromkeys((("p", at) for at in range(300)), 1)
        assert len(tables.scanned) == 30
        for streams in pair.servers:
            assert "Traceback" not in streams.server.log_text()


@pytest.mark.heavy
async def test_leader_paused_during_a_lease_renewal_is_succeeded(tmp_path: Path, postgres_dsn: str) -> None:
    with two_servers(tmp_path, postgres_dsn) as pair:
        one, two = pair.servers
        await make_tables(one)
        database = await asyncpg.connect(postgres_dsn)
        with paused(one):
            # Locks the row like a transaction of the leader that is paused before its commit.
            renewing = database.transaction()
            await renewing.start()
            await database.execute("UPDATE leases SET holder = holder WHERE name = 'streams'")
            while not await database.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"):
                await asyncio.sleep(0.1)
            await asyncio.sleep(3)  # longer than the lease
            await renewing.rollback()
            await asyncio.to_thread(wait_for_leader, pair, two)
            await asyncio.to_thread(add_note, pair, two)
            await write_noted(two, range(10))
        await database.close()
        for streams in pair.servers:
            assert "Traceback" not in streams.server.log_text()


def add_note(pair: Pair, streams: StreamServer) -> None:
    """Add a column to both tables."""
    for name in ("log", "keys"):
        column = write_fields({1: "note", 2: b'{"type":"STRING"}', 4: 0})
        path = write_fields({1: "fluss", 2: name})
        pair.connect(streams).call(1044, write_fields({1: path, 2: False, 4: column}))


@pytest.mark.heavy
async def test_server_that_leads_again_knows_columns_added_meanwhile(tmp_path: Path, postgres_dsn: str) -> None:
    with two_servers(tmp_path, postgres_dsn) as pair:
        one, two = pair.servers
        await make_tables(one)
        await write(one, range(10))
        with paused(one):
            await asyncio.to_thread(wait_for_leader, pair, two)
            await asyncio.to_thread(add_note, pair, two)
            await write_noted(two, range(10, 20))
        with paused(two):
            await asyncio.to_thread(wait_for_leader, pair, one)
            await write_noted(one, range(20, 30))
            tables = await asyncio.to_thread(read_tables, one)
        assert tables.log == dict.fromkeys((("p", at) for at in range(30)), 1)
        assert [tables.scanned[at]["note"] for at in (9, 10, 20)] == [None, "noted", "noted"]


async def write_noted(streams: StreamServer, numbers: range) -> None:
    async with connected(streams) as connection:
        log = (await connection.get_table(fluss.TablePath("fluss", "log"))).new_append().create_writer()
        keys = (await connection.get_table(fluss.TablePath("fluss", "keys"))).new_upsert().create_writer()
        for at in numbers:
            log.append({"producer": "p", "number": at, "note": "noted"})
            keys.upsert({"id": at, "producer": "p", "number": at, "note": "noted"})
        await log.flush()
        await keys.flush()


@pytest.mark.heavy
@pytest.mark.parametrize("moves", [10])
async def test_leader_changes_under_load(tmp_path: Path, postgres_dsn: str, moves: int) -> None:
    commands = {"python": python_producer(), "java": java_producer(tmp_path / "classes")}
    with two_servers(tmp_path, postgres_dsn) as pair:
        leader = pair.servers[0]
        await make_tables(leader)
        with running_producers(commands, leader.address) as producers:
            for _ in range(moves):
                await asyncio.to_thread(wait_for_progress, producers)
                successor = pair.other(leader)
                with paused(leader):
                    await asyncio.to_thread(wait_for_leader, pair, successor)
                leader = successor
            await asyncio.to_thread(wait_for_progress, producers)
            for producer in producers:
                producer.stop()
                assert not producer.failed, producer.failed[:3]
        tables = read_tables(leader)
        check(tables, producers)
        assert pair.leader(pair.connect(leader))[1] == moves + 1
        for streams in pair.servers:
            log_text = streams.server.log_text()
            assert "Traceback" not in log_text, log_text[log_text.index("Traceback") :][:3000]
    print(f"moves={moves} acknowledged={[each.acknowledged for each in producers]} lost=0 repeated=0")
