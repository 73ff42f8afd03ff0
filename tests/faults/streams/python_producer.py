"""Writes to a log table and to a KV table until it receives a line; prints a line for each acknowledged row.

The pyfluss counterpart of `Producer.java`. Run by `producers`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

import fluss
from tests.clients.streams.serving import config

_IN_FLIGHT = 64
_PAUSE_SECONDS = 0.002
_RETRY_SECONDS = 0.05
_NO_TABLE = 7


async def produce(address: str, user: str, secret: str, name: str, first: str, count: str) -> None:
    """Write until a line arrives on standard input, to `count` keys from `first` on."""
    first_key, keys = int(first), int(count)
    connection = await fluss.FlussConnection.create(
        config(address, user, secret, **{"writer.batch-timeout-ms": "5"})  # many small batches
    )
    appends = (await connection.get_table(fluss.TablePath("fluss", "log"))).new_append().create_writer()
    upserts = (await connection.get_table(fluss.TablePath("fluss", "keys"))).new_upsert().create_writer()
    slots = asyncio.Semaphore(_IN_FLIGHT)
    pending: set[asyncio.Task[None]] = set()
    stop = _read_stop()
    report("started", 0)

    async def follow(written: Any, table: str, number: int) -> None:
        try:
            await written.wait()
            report(table, number)
        except fluss.FlussError as problem:
            report(f"failed {problem!r}", number)
        finally:
            slots.release()

    async def start_write(write: Callable[[Any], Any], row: dict[str, Any], table: str, number: int) -> None:
        while True:
            try:
                written = write(row)
                break
            except fluss.FlussError as problem:
                # When all known servers are gone, pyfluss forgets its tables too, and rejects rows until the table
                # is fetched again. This row was rejected.
                if problem.error_code != _NO_TABLE:
                    raise
            with contextlib.suppress(fluss.FlussError):
                await connection.get_table(fluss.TablePath("fluss", table))
            await asyncio.sleep(_RETRY_SECONDS)
        task = asyncio.create_task(follow(written, table, number))
        pending.add(task)
        task.add_done_callback(pending.discard)

    number = 0
    while not stop.is_set():
        await slots.acquire()
        await slots.acquire()
        await start_write(appends.append, {"producer": name, "number": number}, "log", number)
        key = {"id": first_key + number % keys}
        row = {**key, "producer": name, "number": number}
        if number % 7 == 6:
            await start_write(upserts.delete, key, "keys", number)
        else:
            await start_write(upserts.upsert, row, "keys", number)
        number += 1
        await asyncio.sleep(_PAUSE_SECONDS)
    await appends.flush()
    await upserts.flush()
    while pending:
        await asyncio.wait(pending)
    report("done", number)


def _read_stop() -> threading.Event:
    """Set when a line arrives. Read by a daemon thread, so that a failing producer can end."""
    stop = threading.Event()

    def read() -> None:
        sys.stdin.readline()
        stop.set()

    threading.Thread(target=read, daemon=True).start()
    return stop


def report(event: str, number: int) -> None:
    print(event, number, flush=True)


if __name__ == "__main__":
    asyncio.run(produce(*sys.argv[1:7]))
    # Skips the shutdown of the interpreter: client threads that still run sometimes abort the process there.
    os._exit(0)
