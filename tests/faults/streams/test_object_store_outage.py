"""An outage of the object store with `ack_after_upload`: appends wait and continue, and no record is lost.

A request with a timeout fails when it elapses; its repetition is stored once.
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

from .object_store import ObjectStoreServer, object_store
from .producers import LOG, Producer, check, java_producer, python_producer, read_tables, wait_for_progress
from .test_kills import make_tables, running_producers

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.heavy]

TIMED_OUT = 25
_UPLOADED = ("--set", "streams.ack_after_upload=true", "--set", "streams.segment=64KiB")


def start(data: Path, store: ObjectStoreServer) -> StreamServer:
    return start_streams(data, *_UPLOADED, *store.flags, environment=store.environment)


class Writer:
    """A writer with batch sequences and a timeout of half a second."""

    def __init__(self, streams: StreamServer, table: Any) -> None:
        self._connection = StreamConnection("127.0.0.1", streams.port, ROOT_ACCESS_KEY, Secret(ROOT_SECRET_KEY))
        self._table_id = table.get_table_info().table_id
        path = write_fields({1: "fluss", 2: "log"})
        self._writer = number(self._connection.call(1026, write_fields({1: path})), 1)

    def append(self, sequence: int) -> tuple[int, int]:
        """Append a row. Returns the error code and the offset."""
        row = pa.record_batch([pa.array(["raw"], pa.string()), pa.array([sequence], pa.int64())], schema=LOG)
        records = write_batch(arrow_body(row), 1, schema_id=1, writer_id=self._writer, sequence=sequence)
        request = write_fields({2: 0, 3: records})
        response = self._connection.call(1014, write_fields({1: -1, 2: self._table_id, 3: 500, 4: request}))
        (bucket,) = messages(response, 1)
        return number(bucket, 3), number(bucket, 5)

    def close(self) -> None:
        self._connection.close()


async def test_append_times_out_during_the_outage_and_its_repetition_is_stored_once(tmp_path: Path) -> None:
    with object_store(tmp_path / "bytes") as store:
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
                store.stop()
                assert [await asyncio.to_thread(writer.append, 1) for _ in range(3)] == [(TIMED_OUT, 0)] * 3
                store.restart()
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
    """Wait until no producer gets an acknowledgement for two seconds. Earlier appends are acknowledged first."""
    deadline = time.monotonic() + 20
    last: list[int] = []
    while (now := [producer.acknowledged for producer in producers]) != last:
        assert time.monotonic() < deadline, f"appends are acknowledged while the store is down. acknowledged={now}"
        last = now
        time.sleep(2.0)


@pytest.mark.parametrize("rounds", [3])
async def test_appends_wait_during_the_outage_and_continue(tmp_path: Path, rounds: int) -> None:
    with object_store(tmp_path / "bytes") as store:
        streams = start(tmp_path / "data", store)
        try:
            await make_tables(streams)
            commands = {"python": python_producer(), "java": java_producer(tmp_path / "classes")}
            # The Java client repeats a request after one second; pyfluss has no such setting.
            with running_producers(commands, streams.address, "1s") as producers:
                for _ in range(rounds):
                    wait_for_progress(producers)
                    store.stop()
                    wait_until_quiet(producers)
                    store.restart()
                    wait_for_progress(producers)
                for producer in producers:
                    producer.stop()
                    assert not producer.failed, producer.failed[:3]
            tables = read_tables(streams)
            check(tables, producers)
            assert "appends wait for the object store" in streams.server.log_text()
            assert "Traceback" not in streams.server.log_text()
        finally:
            streams.server.kill()
    print(f"outages={rounds} acknowledged={[each.acknowledged for each in producers]} lost=0 repeated=0")
