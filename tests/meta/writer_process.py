"""A process that writes: adds to the counter, printing a line for each acknowledged addition.

    python -m tests.meta.writer_process ADDRESS WORKER TASKS ADDITIONS

Each task makes that many additions as separate reads and writes, and records each in a row.
"""

from __future__ import annotations

import asyncio
import sys

from lakebed.core.errors import WriteConflict
from lakebed.meta.seam import MetaStore, Transaction
from tests.meta.stores import open_store

TABLES = (
    "CREATE TABLE counter (id BIGINT PRIMARY KEY, total BIGINT NOT NULL)",
    "CREATE TABLE additions (id {text} PRIMARY KEY)",
    "INSERT INTO counter (id, total) VALUES (1, 0)",
)


async def add_one(store: MetaStore, addition: str) -> None:
    """Increment the total, and record the addition."""

    async def work(tx: Transaction) -> None:
        found = await tx.row("SELECT total FROM counter WHERE id = 1")
        assert found is not None
        await tx.run("UPDATE counter SET total = ? WHERE id = 1", found[0] + 1)
        await tx.run("INSERT INTO additions (id) VALUES (?)", addition)

    while True:
        try:
            return await store.transact(work)
        except WriteConflict:
            continue


async def main(address: str, worker: str, tasks: int, additions: int) -> None:
    """Add, and print acknowledged additions."""
    store = await open_store(address)

    async def add_some(task: int) -> None:
        for number in range(additions):
            addition = f"{worker}-{task}-{number}"
            await add_one(store, addition)
            print(addition, flush=True)

    await asyncio.gather(*(add_some(task) for task in range(tasks)))
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
