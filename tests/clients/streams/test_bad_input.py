"""Malformed requests to a running server: they are refused with an error, and other clients are unaffected."""

from __future__ import annotations

import asyncio
import random
import socket
import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import fluss
from lakebed.client.streams.connection import StreamConnection
from lakebed.client.streams.messages import messages, number, text, write_fields
from lakebed.core.secrets import Secret
from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.fluss.kv_batches import write_kv_batch
from lakebed.fluss.log_batches import write_batch
from tests.clients.streams.serving import (
    ROWS,
    StreamServer,
    connected,
    error_code,
    make_table,
    read_records,
    running_streams,
)
from tests.contracts.stream_log import arrow_body
from tests.fixtures.server import ROOT_ACCESS_KEY, ROOT_SECRET_KEY

pytestmark = pytest.mark.integration

NO_SCHEMA, CORRUPT, TOO_LARGE = 9, 14, 13


def connect(streams: StreamServer) -> StreamConnection:
    return StreamConnection("127.0.0.1", streams.port, ROOT_ACCESS_KEY, Secret(ROOT_SECRET_KEY))


def batch(first: int, schema_id: int = 1) -> bytes:
    row = pa.record_batch([pa.array([first], pa.int32()), pa.array(["n"]), pa.array([0.5])], schema=ROWS)
    return write_batch(arrow_body(row), 1, schema_id=schema_id)


def produce(streams: StreamServer, table_id: int, *parts: bytes) -> list[tuple[int, str]]:
    """Send each part to a separate bucket; the error code and message of each."""
    request = b"".join(write_fields({4: write_fields({2: bucket, 3: part})}) for bucket, part in enumerate(parts))
    connection = connect(streams)
    answer = connection.call(1014, write_fields({1: -1, 2: table_id, 3: 60_000}) + request)
    connection.close()
    return [(number(each, 3), text(each, 4).decode()) for each in messages(answer, 1)]


async def test_invalid_batches_are_refused_and_other_buckets_accept_theirs(
    streams: StreamServer, connection: Any, table_path: Any
) -> None:
    uncompressed = {"table.log.arrow.compression.type": "NONE"}
    table = await make_table(connection, table_path, bucket_count=5, properties=uncompressed)
    wrong = bytearray(batch(1))
    wrong[-1] ^= 1
    errors = await asyncio.to_thread(
        produce, streams, table.get_table_info().table_id, batch(7), bytes(wrong), batch(2, 2), batch(3)[:-1], batch(8)
    )
    assert [code for code, _ in errors] == [0, CORRUPT, NO_SCHEMA, CORRUPT, 0]
    assert "checksum" in errors[1][1]
    assert "schema_id=2" in errors[2][1]
    found = await read_records(table, 2, buckets=5)
    assert sorted(record.row["id"] for record in found) == [7, 8]


async def test_invalid_kv_batches_are_refused(streams: StreamServer, connection: Any, table_path: Any) -> None:
    table = await make_table(connection, table_path, primary_key=["id"])
    table_id = table.get_table_info().table_id
    unknown = write_kv_batch([(b"\1", b"\0\1")], 9, -1, -1)
    wrong = bytearray(write_kv_batch([(b"\1", b"\0\1")], 1, -1, -1))
    wrong[-1] ^= 1

    def put(records: bytes) -> int:
        raw = connect(streams)
        request = write_fields({1: -1, 2: table_id, 3: 60_000, 5: write_fields({2: 0, 3: records})})
        (bucket,) = messages(raw.call(1016, request), 1)
        raw.close()
        return number(bucket, 3)

    assert await asyncio.to_thread(put, unknown) == NO_SCHEMA
    assert await asyncio.to_thread(put, bytes(wrong)) == CORRUPT
    writer = table.new_upsert().create_writer()
    writer.upsert({"id": 1, "name": "good", "score": None})
    await writer.flush()
    assert await table.new_lookup().create_lookuper().lookup({"id": 1}) == {"id": 1, "name": "good", "score": None}


async def test_oversized_and_incomplete_frames_do_not_affect_other_clients(
    streams: StreamServer, connection: Any, table_path: Any
) -> None:
    table = await make_table(connection, table_path)
    half = [socket.create_connection(("127.0.0.1", streams.port)) for _ in range(20)]
    for each in half:
        each.sendall(struct.pack(">ihhi", 60_000, 1000, 0, 1) + b"and no more")
    with socket.create_connection(("127.0.0.1", streams.port), timeout=30) as large:
        large.sendall(struct.pack(">ihhi", 2**31 - 1, 1000, 0, 1))
        length, kind, request, code = struct.unpack(">ibixb", await asyncio.to_thread(large.recv, 11))
        assert (kind, request, code) == (1, 1, TOO_LARGE)
        assert len(await asyncio.to_thread(large.recv, 1000)) == length - 7
        assert await asyncio.to_thread(large.recv, 1) == b""
    async with table.new_append().create_writer() as writer:
        writer.append({"id": 1, "name": "good", "score": None})
    assert len(await read_records(table, 1)) == 1
    for each in half:
        each.close()


async def test_oversized_request_gets_an_error_even_if_the_client_reads_late(
    streams: StreamServer, connection: Any, table_path: Any
) -> None:
    table = await make_table(connection, table_path, bucket_count=2)
    table_id, large = table.get_table_info().table_id, bytes(20 * 1024 * 1024)
    errors = await asyncio.to_thread(produce, streams, table_id, large, large)
    assert [code for code, _ in errors] == [TOO_LARGE, TOO_LARGE]
    assert "limit=33554432" in errors[0][1]

    def look_up() -> None:
        raw = connect(streams)
        try:
            raw.call(1017, write_fields({1: table_id}) + 2 * large)
        finally:
            raw.close()

    with pytest.raises(FlussError, match="limit=33554432") as raised:
        await asyncio.to_thread(look_up)
    assert raised.value.code is ErrorCode.RECORD_TOO_LARGE


async def test_writer_with_oversized_batches_gets_an_error_and_continues(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"id": number, "name": name, "score": None}
        for number, name in ((1, random.Random(0).randbytes(200_000).hex()), (2, "small"))
    ]
    few = {"writer.retries": "3"}  # limited, in case the client treats the error as retriable
    with running_streams(tmp_path / "data", "--set", "streams.max_frame=64KiB") as small:
        async with connected(small, **few) as connection:
            log = await make_table(connection, fluss.TablePath("fluss", "log"))
            keyed = await make_table(connection, fluss.TablePath("fluss", "keyed"), primary_key=["id"])
            for write in (log.new_append().create_writer().append, keyed.new_upsert().create_writer().upsert):
                with pytest.raises(fluss.FlussError, match="limit=65536") as raised:
                    await write(rows[0]).wait()
                assert error_code(raised) == TOO_LARGE
                await write(rows[1]).wait()
            assert [record.row["id"] for record in await read_records(log, 1)] == [2]
            assert await keyed.new_lookup().create_lookuper().lookup({"id": 2}) == rows[1]
