"""Recovery after a shutdown, the death of a worker, and a crash."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Final

import pytest

from lakebed.core.clock import SystemClock
from lakebed.core.ids import BlobId, new_blob_id
from lakebed.meta.seam import Transaction
from lakebed.objects.blobs.ingest import blob_key
from lakebed.server.stores.object_store import BYTES_FOLDER
from tests.fixtures.raw_http import Connection, Signer
from tests.fixtures.server import running_server, start_server
from tests.server.running_processes import workers_of

from .checks import PATIENCE_SECONDS, audit, compare_events, gather, make_buckets
from .client import Client
from .data_folder import blob_files, metadata_of, read_changes, release_leases
from .ledger import PLAIN

pytestmark = [pytest.mark.integration, pytest.mark.slow]

_TWO_HOURS_MS: Final = 2 * 3600 * 1000
_SWEEPING: Final = ("--set", "objects.sweep_interval=0.05s", "--set", "objects.orphan_window=1h")


def wait_until(condition: Callable[[], bool], event: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"never happened: {event}"
        time.sleep(0.01)


async def test_shutdown_answers_accepted_requests_and_loses_nothing(tmp_path: Path) -> None:
    data = tmp_path / "data"
    clients = [Client(f"c{number}", Random(number)) for number in range(4)]
    server = start_server(data)
    try:
        make_buckets(server)
        stop = threading.Event()
        with ThreadPoolExecutor(len(clients)) as threads:
            working = [threads.submit(client.work, server, stop) for client in clients]
            wait_until(lambda: all(client.ledger.acknowledged > 20 for client in clients), "clients at work")
            assert server.stop() == 0
            stop.set()
        assert not gather(working)
        assert "worker ended, restarting it" not in server.log_text()
    finally:
        if server.process.poll() is None:
            server.kill()
    with running_server(data) as again:
        assert not audit(again, clients, everything=True)
    # No request was cut off: it was answered, or its connection was closed before.
    assert sum(client.ledger.happened for client in clients) == 0
    async with metadata_of(data) as store:
        assert not compare_events(await read_changes(store), clients)


def test_dead_worker_is_replaced_and_the_others_continue(tmp_path: Path) -> None:
    with running_server(tmp_path / "data") as server:
        make_buckets(server)
        signer = Signer(f"127.0.0.1:{server.port}")
        connections = [Connection(server.port) for _ in range(8)]
        before = workers_of(server)
        os.kill(min(before), signal.SIGKILL)
        alive = 0
        for connection in connections:
            with suppress(ConnectionError):
                alive += connection.exchange(signer.request("GET", f"/{PLAIN}")).status == 200
            connection.close()
        assert alive >= 1
        wait_until(lambda: len(workers_of(server) - before) == 1, "a new worker")
        for _ in range(20):
            with Connection(server.port) as connection:
                assert connection.exchange(signer.request("GET", f"/{PLAIN}")).status == 200


class _Past:
    """A clock that is two hours slow."""

    def now_ms(self) -> int:
        return SystemClock().now_ms() - _TWO_HOURS_MS

    def monotonic(self) -> float:
        return 0.0


async def test_sweep_removes_only_orphans(tmp_path: Path) -> None:
    data = tmp_path / "data"
    old_ns = (time.time_ns() // 1_000_000 - _TWO_HOURS_MS) * 1_000_000
    with running_server(data, *_SWEEPING) as server:
        make_buckets(server)
        signer = Signer(f"127.0.0.1:{server.port}")
        with Connection(server.port) as connection:
            for key in ("kept", "small"):
                body = b"x" * (200_000 if key == "kept" else 100)
                assert connection.exchange(signer.request("PUT", f"/{PLAIN}/{key}", None, body)).status == 200
    (live,) = blob_files(data)
    orphan, slow, young = new_blob_id(_Past()), new_blob_id(_Past()), new_blob_id(SystemClock())
    dropped = new_blob_id(_Past())
    objects, temporary = data / BYTES_FOLDER / "objects", data / BYTES_FOLDER / "tmp"
    for blob in (orphan, slow, young, dropped):
        path = objects / f"{blob_key(blob)}@"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"y" * 100)
        if blob == orphan:
            os.utime(path, ns=(old_ns, old_ns))
    # The live blob is old too: its row protects it.
    os.utime(objects / f"{blob_key(BlobId(live))}@", ns=(old_ns, old_ns))
    (temporary / "1-abandoned").write_bytes(b"z")
    os.utime(temporary / "1-abandoned", ns=(old_ns, old_ns))
    (temporary / "1-under-way").write_bytes(b"z")
    (objects / "blobs" / "not-a-blob@").write_bytes(b"a foreign file")
    async with metadata_of(data) as store:
        await store.transact(lambda tx: _insert_garbage(tx, dropped))
        await release_leases(store)
    with running_server(data, *_SWEEPING) as server:
        expected = {live, slow, young, "not-a-blob"}
        wait_until(lambda: set(blob_files(data)) == expected, "the sweep")
        wait_until(lambda: os.listdir(temporary) == ["1-under-way"], "the sweep of temporary files")
        signer = Signer(f"127.0.0.1:{server.port}")
        with Connection(server.port) as connection:
            assert connection.exchange(signer.request("GET", f"/{PLAIN}/kept")).body == b"x" * 200_000
        assert server.stop() == 0
    async with metadata_of(data) as store:
        assert await store.rows("SELECT id FROM garbage") == []
    assert set(blob_files(data)) == expected


async def _insert_garbage(tx: Transaction, blob: str) -> None:
    await tx.run("INSERT INTO garbage (id, due_ms) VALUES (?, 0)", blob)
