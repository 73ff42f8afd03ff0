"""The load of pyfluss. Prints a line for each path: name, rows, seconds and seconds of processor time.

Runs in a separate process.
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
"""Appends of all rows: the client sometimes waits 100 ms for a timer, which is a third of one pass."""

TIMEOUT_SECONDS = 30.0


def batch_of(first: int, count: int) -> pa.RecordBatch:
    """Rows with realistic, distinct values."""
    numbers = range(first, first + count)
    columns = [
        pa.array(numbers, pa.int32()),
        pa.array([f"name-{number}" for number in numbers]),
        pa.array([number * 3 for number in numbers], pa.int64()),
        pa.array([number / 2 for number in numbers], pa.float64()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=COLUMNS)


async def timed(name: str, rows: int, work: Callable[[], Awaitable[Any]]) -> None:
    """Run `work`; print its duration and the client's processor time."""
    began, spent = time.perf_counter(), time.process_time()
    await work()
    print("done", name, rows, time.perf_counter() - began, time.process_time() - spent, flush=True)


def config(address: str, user: str = "", secret: str = "") -> Any:
    """The client's configuration for a server."""
    settings = {"bootstrap.servers": address}
    if user:
        settings |= {
            "security.protocol": "sasl",
            "security.sasl.mechanism": "PLAIN",
            "security.sasl.username": user,
            "security.sasl.password": secret,
        }
    return fluss.Config(settings)


async def main(address: str, rows: int, user: str = "", secret: str = "") -> None:
    """Run all paths on new tables."""
    connection = await fluss.FlussConnection.create(config(address, user, secret))
    settings = config(address, user, secret)
    settings.writer_acks = "0"
    settings.writer_enable_idempotence = False
    acks_0 = await fluss.FlussConnection.create(settings)
    admin = connection.get_admin()
    database = f"python_load_{time.time_ns()}"
    await admin.create_database(database)
    await logs(connection, acks_0, admin, database, rows)
    await keys(connection, admin, fluss.TablePath(database, "keys"), rows // 4)
    await admin.drop_database(database, cascade=True)
    await acks_0.close()
    await connection.close()


async def create_table(connection: Any, admin: Any, path: Any, **options: Any) -> Any:
    """Create a table with one bucket. In Fluss it is available once the tablet server has learned of it."""
    await admin.create_table(path, fluss.TableDescriptor(fluss.Schema(COLUMNS, **options), bucket_count=1))
    until = time.monotonic() + TIMEOUT_SECONDS
    while True:
        try:
            return await connection.get_table(path)
        except fluss.FlussError:
            if time.monotonic() > until:
                raise
            await asyncio.sleep(0.1)


async def logs(connection: Any, acks_0: Any, admin: Any, database: str, rows: int) -> None:
    """Append to and scan a log table; append with acks=0, which shows the client's limit."""
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

    table = await create_table(connection, admin, fluss.TablePath(database, "log"))
    await timed("append", rows, lambda: append(table))
    await timed("scan", rows, lambda: scan(table))
    other = await create_table(acks_0, admin, fluss.TablePath(database, "acks_0"))
    await timed("append-acks-0", rows, lambda: append(other))


async def keys(connection: Any, admin: Any, path: Any, rows: int) -> None:
    """Upsert to and scan a KV table."""
    table = await create_table(connection, admin, path, primary_keys=["id"])
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
    # Skip interpreter shutdown: client threads that still run sometimes abort the process.
    sys.stdout.flush()
    os._exit(0)
