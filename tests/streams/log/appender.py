"""A process that appends until it is killed, and says what was acknowledged: `python -m … FOLDER FIRST-SEQUENCES`.

Several writers number their batches and have up to five on the way, as clients do. Each line on stdout is one
acknowledged batch: writer, sequence, first offset.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
from concurrent.futures import ThreadPoolExecutor

from lakebed.core.clock import SystemClock
from lakebed.streams.log.folder import FolderLog
from lakebed.streams.log.settings import LogSettings
from lakebed.streams.seam import Acks

from .kill_batches import batch_of

_IN_FLIGHT = 5
SETTINGS = LogSettings(segment_bytes=60_000, max_batch_bytes=1 << 20, group_bytes=1 << 20, checkpoint_bytes=20_000)


async def _write(log: FolderLog, writer: int, sequence: int) -> None:
    slots = asyncio.Semaphore(_IN_FLIGHT)
    waiting: set[asyncio.Task[None]] = set()

    async def send(number: int) -> None:
        appended = await log.append(batch_of(writer, number), Acks.ALL)
        os.write(1, f"{writer} {number} {appended.base_offset}\n".encode())
        slots.release()

    while True:
        await slots.acquire()
        task = asyncio.create_task(send(sequence))
        waiting.add(task)
        task.add_done_callback(waiting.discard)
        sequence += 1
        await asyncio.sleep(random.uniform(0, 0.002))


async def _main(folder: str, sequences: dict[str, int]) -> None:
    with ThreadPoolExecutor(2) as threads:
        log = await FolderLog.open(folder, clock=SystemClock(), threads=threads, settings=SETTINGS)
        os.write(1, b"open\n")
        await asyncio.gather(*(_write(log, int(writer), first) for writer, first in sequences.items()))


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], json.loads(sys.argv[2])))
