"""What pyfluss does to a server: a line for each path, its name, rows, seconds and those of processor time.

Run in a process of its own.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pyarrow as pa

import fluss

COLUMNS = pa.schema([("id", pa.int32()), ("name", pa.string()), ("count", pa.int64()), ("score", pa.float64())])
BATCH_ROWS = 10_000
PASSES = 5
"""Over all rows when a log is written: now and then the client waits for a timer of 100 ms, a third of one pass."""

PATIENCE_SECONDS = 30.0


def batch_of(first: int, count: int) -> pa.RecordBatch:
    """Rows whose values differ, as those of people do."""
    numbers = range(first, first + count)
    columns = [
        pa.array(numbers, pa.int32()),
        pa.array([f"name-{number}" for number in numbers]),
        pa.array([number * 3 for number in numbers], pa.int64()),
        pa.array([number / 2 for number in numbers], pa.float64()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=COLUMNS)


async def timed(name: str, rows: int, work: Callable[[], Awaitable[Any]]) -> None:
    """Do it, and tell how long it took, and how long the client had a processor for it."""
    began, spent = time.perf_counter(), time.process_time()
    await work()
    print("done", name, rows, time.perf_counter() - began, time.process_time() - spent, flush=True)


def config(address: str, user: str = "", secret: str = "") -> Any:
    """How a server is reached."""
    said = {"bootstrap.servers": address}
    if user:
        said |= {
            "security.protocol": "sasl",
            "security.sasl.mechanism": "PLAIN",
            "security.sasl.username": user,
            "security.sasl.password": secret,
        }
    return fluss.Config(said)


async def main(address: str, rows: int, user: str = "", secret: str = "") -> None:
    """Everything, on tables of its own."""
    connection = await fluss.FlussConnection.create(config(address, user, secret))
    said = config(address, user, secret)
    said.writer_acks = "0"
    said.writer_enable_idempotence = False
    unwaited = await fluss.FlussConnection.create(said)
    admin = connection.get_admin()
    database = f"python_load_{time.time_ns()}"
    await admin.create_database(database)
    await logs(connection, unwaited, admin, database, rows)
    await keys(connection, admin, fluss.TablePath(database, "keys"), rows // 4)
    await admin.drop_database(database, cascade=True)
    await unwaited.close()
    await connection.close()


async def made(connection: Any, admin: Any, path: Any, **said: Any) -> Any:
    """A new table of one bucket. Fluss has it when its tablet server has heard of it."""
    await admin.create_table(path, fluss.TableDescriptor(fluss.Schema(COLUMNS, **said), bucket_count=1))
    until = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return await connection.get_table(path)
        except fluss.FlussError:
            if time.monotonic() > until:
                raise
            await asyncio.sleep(0.1)


async def logs(connection: Any, unwaited: Any, admin: Any, database: str, rows: int) -> None:
    """Append and scan a log table; and append without waiting for anybody, which is all that the client can send."""
    batches = [batch_of(first, BATCH_ROWS) for first in range(0, rows, BATCH_ROWS)] * PASSES
    rows *= PASSES

    async def append(table: Any) -> None:
        async with table.new_append().create_writer() as writer:
            for batch in batches:
                writer.write_arrow_batch(batch)

    async def scan(table: Any) -> None:
        scanner = await table.new_scan().create_record_batch_log_scanner()
        scanner.subscribe_buckets({0: fluss.EARLIEST_OFFSET})
        found = (await scanner.to_arrow()).num_rows
        if found != rows:
            raise AssertionError(f"rows {found}, expected {rows}")

    table = await made(connection, admin, fluss.TablePath(database, "log"))
    await timed("append", rows, lambda: append(table))
    await timed("scan", rows, lambda: scan(table))
    other = await made(unwaited, admin, fluss.TablePath(database, "unwaited"))
    await timed("append-acks-0", rows, lambda: append(other))


async def keys(connection: Any, admin: Any, path: Any, rows: int) -> None:
    """Upsert, look up and scan a primary-key table."""
    table = await made(connection, admin, path, primary_keys=["id"])
    order = list(range(rows))
    random.Random(7).shuffle(order)

    async def upsert() -> None:
        async with table.new_upsert().create_writer() as writer:
            for number in order:
                writer.upsert({"id": number, "name": f"name-{number}", "count": number, "score": number / 2})

    async def scan() -> None:
        scanner = (
            table.new_scan()
            .limit(rows)
            .create_bucket_batch_scanner(fluss.TableBucket(table.get_table_info().table_id, 0))
        )
        found = (await scanner.to_arrow()).num_rows
        if found != rows:
            raise AssertionError(f"rows {found}, expected {rows}")

    await timed("insert", rows, upsert)
    await timed("update", rows, upsert)
    await timed("limit-scan", rows, scan)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:]))
    # Not by the end of the interpreter: threads of the client that still run then abort the process now and then.
    sys.stdout.flush()
    os._exit(0)
