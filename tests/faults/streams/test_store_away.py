"""The byte store goes away while records are acknowledged only once it has them: appends wait, go on, and none is lost.

Whoever gives a time is told when it is over; what it sends again is there once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import fluss
from lakebed.client.streams.connection import StreamConnection
from lakebed.client.streams.messages import messages, number, write_fields
from lakebed.core.secrets import Secret
from lakebed.fluss.log_batches import write_batch
from tests.clients.streams.serving import StreamServer, connected, make_table, read_records, start_streams
from tests.contracts.stream_log import arrow_body
from tests.fixtures.server import ROOT_ACCESS_KEY, ROOT_SECRET_KEY

from .byte_store import ByteStore, byte_store
from .producing import LOG, Producer, check, go_on, java_producer, python_producer, read_tables
from .test_kills import make_tables, producing

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.heavy]

TIMED_OUT = 25
_UPLOADED = ("--set", "streams.ack_after_upload=true", "--set", "streams.segment=64KiB")


def start(data: Path, store: ByteStore) -> StreamServer:
    return start_streams(data, *_UPLOADED, *store.flags, environment=store.environment)


class Writer:
    """A writer that numbers its batches and waits for half a second."""

    def __init__(self, streams: StreamServer, table: Any) -> None:
        self._connection = StreamConnection("127.0.0.1", streams.port, ROOT_ACCESS_KEY, Secret(ROOT_SECRET_KEY))
        self._table_id = table.get_table_info().table_id
        path = write_fields({1: "fluss", 2: "log"})
        self._writer = number(self._connection.call(1026, write_fields({1: path})), 1)

    def append(self, sequence: int) -> tuple[int, int]:
        """The number of what went wrong, and the offset."""
        row = pa.record_batch([pa.array(["raw"], pa.string()), pa.array([sequence], pa.int64())], schema=LOG)
        records = write_batch(arrow_body(row), 1, schema_id=1, writer_id=self._writer, sequence=sequence)
        asked = write_fields({2: 0, 3: records})
        answer = self._connection.call(1014, write_fields({1: -1, 2: self._table_id, 3: 500, 4: asked}))
        (bucket,) = messages(answer, 1)
        return number(bucket, 3), number(bucket, 5)

    def close(self) -> None:
        self._connection.close()


async def test_who_gives_a_time_is_told_and_what_it_sends_again_is_there_once(tmp_path: Path) -> None:
    with byte_store(tmp_path / "bytes") as store:
        streams = start(tmp_path / "data", store)
        try:
            async with connected(streams) as connection:
                table = await make_table(
                    connection,
                    fluss.TablePath("fluss", "log"),
                    LOG,
                    properties={"table.log.arrow.compression.type": "NONE"},
                )
                writer = Writer(streams, table)
                assert writer.append(0) == (0, 0)
                store.go()
                assert [await asyncio.to_thread(writer.append, 1) for _ in range(3)] == [(TIMED_OUT, 0)] * 3
                store.come_back()
                for _ in range(60):
                    code, offset = await asyncio.to_thread(writer.append, 1)
                    if code != TIMED_OUT:
                        break
                assert (code, offset) == (0, 1)
                assert writer.append(2) == (0, 2)
                writer.close()
                found = await read_records(table, 3)
                assert [record.row["number"] for record in found] == [0, 1, 2]
        finally:
            streams.server.kill()


def wait_until_quiet(producers: Sequence[Producer]) -> None:
    """Wait until nobody has been told anything for two seconds: first they hear of what had arrived."""
    deadline = time.monotonic() + 20
    last: list[int] = []
    while (now := [producer.acknowledged for producer in producers]) != last:
        assert time.monotonic() < deadline, f"appends are acknowledged while the store is away. acknowledged={now}"
        last = now
        time.sleep(2.0)


@pytest.mark.parametrize("rounds", [3])
async def test_appends_wait_while_the_store_is_away_and_go_on(tmp_path: Path, rounds: int) -> None:
    with byte_store(tmp_path / "bytes") as store:
        streams = start(tmp_path / "data", store)
        try:
            await make_tables(streams)
            commands = {"python": python_producer(), "java": java_producer(tmp_path / "classes")}
            # The Java client waits for a second, and sends again; pyfluss has no such setting.
            with producing(commands, streams.address, "1s") as producers:
                for _ in range(rounds):
                    go_on(producers)
                    store.go()
                    wait_until_quiet(producers)
                    store.come_back()
                    go_on(producers)
                for producer in producers:
                    producer.stop()
                    assert not producer.failed, producer.failed[:3]
            tables = read_tables(streams)
            check(tables, producers)
            assert "appends wait for the object store" in streams.server.log_text()
            assert "Traceback" not in streams.server.log_text()
        finally:
            streams.server.kill()
    print(f"away={rounds} acknowledged={[each.acknowledged for each in producers]} lost=0 repeated=0")
