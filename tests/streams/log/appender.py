"""A process that appends until it is killed, and prints what is acknowledged.

Several writers number their batches and have up to five in flight, as clients do. Each line is one acknowledged batch:
writer, sequence, first offset.
"""

from __future__ import annotations

import asyncio
import os
import random
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection

from lakebed.core.clock import SystemClock
from lakebed.fluss.log_batches import write_batch
from lakebed.streams.log.local.folder_log import FolderLog
from lakebed.streams.log.settings import LogSizes
from lakebed.streams.seam import Acks

_IN_FLIGHT = 5
SETTINGS = LogSizes(segment_bytes=60_000, max_batch_bytes=1 << 20, group_bytes=1 << 20, checkpoint_bytes=20_000)


def batch_of(writer: int, sequence: int) -> bytes:
    """The batch of a writer with this sequence. Its body identifies both."""
    count = 1 + (writer * 31 + sequence * 17) % 9
    body = f"{writer}:{sequence};".encode() * (1 + sequence % 40)
    return write_batch(body, count, schema_id=1, writer_id=writer, sequence=sequence)


async def _write(log: FolderLog, writer: int, sequence: int, output: int) -> None:
    slots = asyncio.Semaphore(_IN_FLIGHT)
    waiting: set[asyncio.Task[None]] = set()

    async def send(number: int) -> None:
        appended = await log.append(batch_of(writer, number), Acks.ALL)
        os.write(output, f"{writer} {number} {appended.base_offset}\n".encode())
        slots.release()

    while True:
        await slots.acquire()
        task = asyncio.create_task(send(sequence))
        waiting.add(task)
        task.add_done_callback(waiting.discard)
        sequence += 1
        await asyncio.sleep(random.uniform(0, 0.002))


async def _append(folder: str, sequences: dict[int, int], output: int) -> None:
    with ThreadPoolExecutor(2) as threads:
        log = await FolderLog.open(folder, clock=SystemClock(), threads=threads, settings=SETTINGS)
        os.write(output, b"open\n")
        await asyncio.gather(*(_write(log, writer, first, output) for writer, first in sequences.items()))


def append_until_killed(folder: str, sequences: dict[int, int], output: Connection) -> None:
    """Append, beginning with these sequences. Does not return."""
    asyncio.run(_append(folder, sequences, output.fileno()))
