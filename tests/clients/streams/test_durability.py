"""Acknowledged writes survive a stop and a kill of the server."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow
import pytest

import fluss
from tests.clients.streams.serving import StreamServer, connected, make_table, read_records, start_streams
from tests.server.running_processes import children_of, wait_until

pytestmark = [pytest.mark.integration, pytest.mark.slow]

LOG = fluss.TablePath("fluss", "log")
KEYS = fluss.TablePath("fluss", "keys")


def stop(started: StreamServer) -> None:
    """Stop the server gracefully."""
    assert started.server.stop() == 0


def kill(started: StreamServer) -> None:
    """Kill the server."""
    started.server.kill()


async def write(connection: Any) -> None:
    """Create two tables with rows."""
    log = await make_table(connection, LOG, bucket_count=2)
    async with log.new_append().create_writer() as writer:
        for number in range(500):
            writer.append({"id": number, "name": f"n{number}", "score": None})
    keys = await make_table(connection, KEYS, primary_key=["id"])
    async with keys.new_upsert().create_writer() as writer:
        for number in range(500):
            writer.upsert({"id": number, "name": "first", "score": None})
    async with keys.new_upsert().create_writer() as writer:
        writer.upsert({"id": 7, "name": "second", "score": 2.0})
        writer.delete({"id": 8})


async def check(connection: Any) -> None:
    """Check that every row exists once."""
    found = await read_records(await connection.get_table(LOG), 500, buckets=2)
    assert sorted(record.row["id"] for record in found) == list(range(500))
    keys = await connection.get_table(KEYS)
    lookuper = keys.new_lookup().create_lookuper()
    assert await lookuper.lookup({"id": 7}) == {"id": 7, "name": "second", "score": 2.0}
    assert await lookuper.lookup({"id": 8}) is None
    assert await lookuper.lookup({"id": 9}) == {"id": 9, "name": "first", "score": None}
    assert len(await read_records(keys, 503)) == 503


@pytest.mark.parametrize("end", [stop, kill])
async def test_log_and_kv_rows_survive_the_server(tmp_path: Path, end: Callable[[StreamServer], None]) -> None:
    first = start_streams(tmp_path / "data")
    try:
        async with connected(first) as connection:
            await write(connection)
    finally:
        end(first)
    second = start_streams(tmp_path / "data")
    try:
        async with connected(second) as connection:
            await check(connection)
            table = await connection.get_table(LOG)
            async with table.new_append().create_writer() as writer:
                writer.append({"id": 500, "name": "later", "score": None})
            assert len(await read_records(table, 501, buckets=2)) == 501
    finally:
        second.server.kill()


@pytest.mark.parametrize(
    ("end", "setting"),
    [(kill, "ack_after_upload"), (stop, "upload_on_stop")],
    ids=["uploaded before the ack", "uploaded on stop"],
)
async def test_log_and_kv_rows_survive_the_disk(
    tmp_path: Path, end: Callable[[StreamServer], None], setting: str
) -> None:
    first = start_streams(tmp_path / "data", "--set", f"streams.{setting}=true")
    try:
        async with connected(first) as connection:
            await write(connection)
    finally:
        end(first)
    for name in ("logs", "keys"):
        shutil.rmtree(tmp_path / "data" / "streams" / name)
    second = start_streams(tmp_path / "data", "--set", f"streams.{setting}=true")
    try:
        async with connected(second) as connection:
            await check(connection)
            table = await connection.get_table(LOG)
            async with table.new_append().create_writer() as writer:
                writer.append({"id": 500, "name": "later", "score": None})
            assert len(await read_records(table, 501, buckets=2)) == 501
    finally:
        second.server.kill()


def streams_process(started: StreamServer) -> int:
    """The process id of the streams process."""
    (found,) = [
        child
        for child in children_of(started.server)
        if Path(f"/proc/{child}/comm").read_text().strip() == "lakebed-streams"
    ]
    return found


async def test_clients_continue_when_the_streams_process_is_replaced(tmp_path: Path) -> None:
    started = start_streams(tmp_path / "data")
    try:
        async with connected(started) as connection:
            await write(connection)
            table = await connection.get_table(LOG)
            writer = table.new_append().create_writer()
            before = streams_process(started)
            os.kill(before, signal.SIGKILL)
            wait_until(lambda: not Path(f"/proc/{before}").exists(), "the end of the process")
            rows = pyarrow.table({"id": pyarrow.array([1000], pyarrow.int32()), "name": ["x"], "score": [0.5]})
            writer.write_arrow(rows)
            await writer.flush()
            assert len(await read_records(table, 501, buckets=2)) == 501
    finally:
        started.server.kill()
