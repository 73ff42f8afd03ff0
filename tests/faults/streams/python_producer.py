"""Writes to a log table and to a table of keys until its input ends; says a line for each row that was acknowledged.

As `Producer.java` does, with pyfluss. Run by `producing`.
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

_ON_THE_WAY = 64
_PAUSE_SECONDS = 0.002
_AGAIN_SECONDS = 0.05
_NO_TABLE = 7


async def produce(address: str, user: str, secret: str, name: str, first: str, count: str) -> None:
    """Go on until somebody says something. Its keys are so many, from the first on."""
    first_key, keys = int(first), int(count)
    connection = await fluss.FlussConnection.create(
        config(address, user, secret, **{"writer.batch-timeout-ms": "5"})  # so that there are many
    )
    appends = (await connection.get_table(fluss.TablePath("fluss", "log"))).new_append().create_writer()
    upserts = (await connection.get_table(fluss.TablePath("fluss", "keys"))).new_upsert().create_writer()
    room = asyncio.Semaphore(_ON_THE_WAY)
    following: set[asyncio.Task[None]] = set()
    told = _hear()
    tell("begun", 0)

    async def follow(written: Any, table: str, number: int) -> None:
        try:
            await written.wait()
            tell(table, number)
        except fluss.FlussError as problem:
            tell(f"failed {problem!r}", number)
        finally:
            room.release()

    async def begin(write: Callable[[Any], Any], row: dict[str, Any], table: str, number: int) -> None:
        while True:
            try:
                written = write(row)
                break
            except fluss.FlussError as problem:
                # When every server it knew is gone pyfluss forgets all tables, too, and takes no rows of them until it
                # has asked for them again. This one was not taken.
                if problem.error_code != _NO_TABLE:
                    raise
            with contextlib.suppress(fluss.FlussError):
                await connection.get_table(fluss.TablePath("fluss", table))
            await asyncio.sleep(_AGAIN_SECONDS)
        task = asyncio.create_task(follow(written, table, number))
        following.add(task)
        task.add_done_callback(following.discard)

    number = 0
    while not told.is_set():
        await room.acquire()
        await room.acquire()
        await begin(appends.append, {"producer": name, "number": number}, "log", number)
        key = {"id": first_key + number % keys}
        row = {**key, "producer": name, "number": number}
        if number % 7 == 6:
            await begin(upserts.delete, key, "keys", number)
        else:
            await begin(upserts.upsert, row, "keys", number)
        number += 1
        await asyncio.sleep(_PAUSE_SECONDS)
    await appends.flush()
    await upserts.flush()
    while following:
        await asyncio.wait(following)
    tell("done", number)


def _hear() -> threading.Event:
    """Set when somebody says something. By a thread that holds up nobody: a producer that fails is to end."""
    told = threading.Event()

    def read() -> None:
        sys.stdin.readline()
        told.set()

    threading.Thread(target=read, daemon=True).start()
    return told


def tell(what: str, number: int) -> None:
    print(what, number, flush=True)


if __name__ == "__main__":
    asyncio.run(produce(*sys.argv[1:7]))
    # Not by the end of the interpreter: threads of the client that still run then abort the process now and then.
    os._exit(0)
