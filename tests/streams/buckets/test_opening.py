"""KV buckets close although their log waits for an unavailable object store."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from lakebed.fluss.errors import ErrorCode
from lakebed.fluss.kv_batches import write_kv_batch
from lakebed.fluss.schema import Schema
from lakebed.streams.buckets.open_buckets import OpenBucket
from lakebed.streams.buckets.opening import BucketOpener
from lakebed.streams.kv.bucket import open_kv_bucket
from lakebed.streams.kv.table import KvSettings, KvTable
from lakebed.streams.seam import Acks, KvPut
from tests.contracts.kv_bucket import PLAIN, key_of
from tests.contracts.stream_log import refused
from tests.fixtures.memory_index import MemoryIndex
from tests.streams.log.conftest import cluster
from tests.streams.log.log_cluster import LOCATION, LogCluster

__all__ = ["cluster"]


async def find_schema(schema_id: int) -> Schema:
    raise AssertionError("all schemas are known")


async def test_closing_a_kv_bucket_does_not_wait_for_the_object_store(cluster: LogCluster) -> None:
    server = await cluster.server("one")
    table = KvTable(KvSettings.parse(PLAIN, {}), {1: PLAIN})
    put = KvPut(write_kv_batch([(key_of(1), table.layout(1).encode((1, "a", 1)))], 1, 7, 0))
    log = await server.open(ack_after_upload=True)
    kv = await open_kv_bucket(table, log, MemoryIndex(), find_schema)
    cluster.storage.is_down = True
    waiting = asyncio.create_task(kv.put(put, Acks.ALL))
    while not cluster.storage.refused:
        await asyncio.sleep(0.01)
    await asyncio.wait_for(BucketOpener.close(cast(Any, None), OpenBucket(LOCATION.bucket, log, kv)), 20)
    with refused(ErrorCode.STORAGE):
        await waiting
    cluster.storage.is_down = False
    log = await server.open(ack_after_upload=True)
    kv = await open_kv_bucket(table, log, MemoryIndex(), find_schema)
    assert await kv.lookup([key_of(1)]) == [None]
    assert await kv.put(put, Acks.ALL) == 1
    await kv.close()
