"""A process that writes to a KV bucket until it is killed, and prints what is acknowledged. Run by `test_kills`."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

from lakebed.core.clock import SystemClock
from lakebed.fluss.kv_batches import write_kv_batch
from lakebed.fluss.schema import Schema
from lakebed.fluss.types import DataType, TypeRoot
from lakebed.streams.kv.bucket import KvBucket
from lakebed.streams.kv.changelog import ChangelogRenderer
from lakebed.streams.kv.index.rocksdb import RocksMemory
from lakebed.streams.kv.index.store import KvStore
from lakebed.streams.kv.index.write_buffer import WriteBufferMemory
from lakebed.streams.kv.table import KvSettings, KvTable
from lakebed.streams.log.local.folder_log import FolderLog
from lakebed.streams.log.reading.read_format import ReadFormat
from lakebed.streams.seam import Acks, KvPut, TableBucket
from tests.contracts.kv_bucket import key_of

SCHEMA = Schema.of(
    [("k", DataType(TypeRoot.INT)), ("writer", DataType(TypeRoot.INT)), ("sequence", DataType(TypeRoot.INT))],
    primary_key=["k"],
)
BUCKET = TableBucket(1, None, 0)
KEYS = 50
ROWS = 20


def batch_of(writer: int, sequence: int) -> bytes:
    """The batch of this writer and sequence: some rows and some deletes, the same at each call."""
    chance = Random(writer << 20 | sequence)
    layout = table().layout(1)
    records: list[tuple[bytes, bytes | None]] = []
    for _ in range(ROWS):
        key = chance.randrange(KEYS)
        row = None if chance.random() < 0.2 else layout.encode((key, writer, sequence))
        records.append((key_of(key), row))
    return write_kv_batch(records, 1, writer, sequence)


def table() -> KvTable:
    return KvTable(KvSettings.parse(SCHEMA, {}), {1: SCHEMA})


async def find_schema(schema_id: int) -> Schema:
    raise AssertionError("all schemas are known")


async def open_bucket(folder: Path, threads: ThreadPoolExecutor) -> tuple[FolderLog, KvBucket]:
    kv_table = table()
    rendering = ChangelogRenderer(kv_table.schema, kv_table.settings.row_format)
    log = await FolderLog.open(
        str(folder / "log"), clock=SystemClock(), threads=threads, read_format=ReadFormat(rendering=rendering)
    )
    # Small buffers are flushed often, so that a kill finds only a part of the rows on disk.
    store = KvStore(folder / "keys", RocksMemory(8 << 20, 64 << 10, WriteBufferMemory(64 << 10, 4 << 10)))
    return log, await store.open(kv_table, BUCKET, log, find_schema)


async def put_until_killed(folder: Path, sequences: Mapping[int, int]) -> None:
    with ThreadPoolExecutor(2) as threads:
        _, kv = await open_bucket(folder, threads)
        print("open", flush=True)

        async def write(writer: int, sequence: int) -> None:
            while True:
                end = await kv.put(KvPut(batch_of(writer, sequence)), Acks.ALL)
                print(writer, sequence, end, flush=True)
                sequence += 1

        await asyncio.gather(*(write(writer, sequence) for writer, sequence in sequences.items()))


if __name__ == "__main__":
    asyncio.run(put_until_killed(Path(sys.argv[1]), {int(key): at for key, at in json.loads(sys.argv[2]).items()}))
