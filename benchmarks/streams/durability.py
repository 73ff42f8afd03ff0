"""The cost of acknowledging records after their upload to the object store (`streams.ack_after_upload`).

A stream server with an S3 store, which is a second Lakebed on the same disk, is measured with and without the
setting. The setting adds about one PUT to an append, so a PUT of the same bytes alone is measured too: other stores
take more or less time for it.
"""

from __future__ import annotations

import asyncio
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar

import boto3
import msgspec
import pyarrow as pa
from botocore.config import Config as BotoConfig

import fluss
from benchmarks.session import report_progress
from benchmarks.streams import peers
from benchmarks.streams.peers import SECRET, USER, StreamSite
from benchmarks.streams.python_load import config
from benchmarks.table import Table
from lakebed.client.streams.connection import StreamConnection
from lakebed.client.streams.messages import Fields, messages, number, write_fields
from lakebed.core.secrets import Secret
from lakebed.fluss.log_batches import write_batch

T = TypeVar("T")

BATCH_BYTES: Final = 10_000
WRITERS: Final = 16
_BUCKET: Final = "bytes"
_TIMEOUT_SECONDS: Final = 60.0


class Acknowledged(msgspec.Struct, frozen=True):
    """Appends of 10 kB; each writer waits for one before the next."""

    alone_ms: float
    """Median of one writer."""
    alone_p99_ms: float
    together_ms: float
    """Median of sixteen writers to one bucket."""
    together_a_second: float
    appends_an_upload: float
    """Appends of sixteen writers in one PUT; 0 without uploads."""
    rows_a_second: float
    """Of pyfluss, which sends large batches and pipelines them."""


class Durability(msgspec.Struct, frozen=True):
    """Results by round."""

    put_ms: list[float]
    """A PUT of such a batch to the object store, alone."""
    from_disk: list[Acknowledged]
    uploaded: list[Acknowledged]


def measure(folder: Path, rounds: int, appends: int, rows: int) -> tuple[StreamSite, Durability]:
    """Measure with and without the setting, in turn."""
    found = Durability([], [], [])
    with peers.object_store(folder / "store") as endpoint:
        store = boto3.client(
            "s3",
            endpoint_url=endpoint,
            aws_access_key_id=USER,
            aws_secret_access_key=SECRET,
            region_name="us-east-1",
            config=BotoConfig(s3={"addressing_style": "path"}),
        )
        store.create_bucket(Bucket=_BUCKET)
        body = bytes(BATCH_BYTES)
        for at in range(rounds):
            puts = [
                _timed(lambda key: store.put_object(Bucket=_BUCKET, Key=key, Body=body), f"probe/{at}/{number}")
                for number in range(appends // 4)
            ]
            found.put_ms.append(statistics.median(puts))
            for is_uploaded, results in ((False, found.from_disk), (True, found.uploaded)):
                flags = [f"--set=streams.ack_after_upload={str(is_uploaded).lower()}"]
                flags += [f"--set=storage.s3.prefix=round-{at}-{is_uploaded}", *_store_flags(endpoint)]
                with peers.lakebed(folder / f"{at}-{is_uploaded}", *flags, store_secret=SECRET) as site:
                    uploads_of = _TailUploads(store, f"round-{at}-{is_uploaded}/streams/log/")
                    results.append(asyncio.run(_acknowledged(site, uploads_of, appends, rows)))
                report_progress(f"uploaded={is_uploaded} {results[-1]} put_ms={found.put_ms[-1]:.2f}")
    return site, found


def table(found: Durability) -> Table:
    """Format the medians of the rounds."""
    figures: Sequence[tuple[str, Callable[[Acknowledged], float], str]] = (
        ("one writer, median ms", lambda each: each.alone_ms, ".2f"),
        ("one writer, 99th percentile ms", lambda each: each.alone_p99_ms, ".2f"),
        (f"{WRITERS} writers to one bucket, median ms", lambda each: each.together_ms, ".2f"),
        (f"{WRITERS} writers, appends a second", lambda each: each.together_a_second, ",.0f"),
        (f"{WRITERS} writers, appends that shared one upload", lambda each: each.appends_an_upload, ".1f"),
        ("pyfluss in bulk, rows a second", lambda each: each.rows_a_second, ",.0f"),
    )
    rows = []
    for name, figure, form in figures:
        disk, uploaded = (statistics.median(map(figure, each)) for each in (found.from_disk, found.uploaded))
        rows.append((name, format(disk, form), format(uploaded, form)))
    rows.append((f"a PUT of {BATCH_BYTES:,} bytes alone, median ms", "", f"{statistics.median(found.put_ms):.2f}"))
    return Table(
        "Acknowledgement from the disk and after upload",
        ("append of 10 kB, acks = -1", "from the disk", "after upload"),
        rows,
        (
            "The object store is a Lakebed server on the same machine and disk: it shares them with the measured "
            "server. With another store, the difference is about the time of a PUT there.",
        ),
    )


def _store_flags(endpoint: str) -> list[str]:
    settings = {"kind": "s3", "s3.bucket": _BUCKET, "s3.endpoint": endpoint, "s3.allow_http": "true"}
    return [f"--set=storage.{name}={value}" for name, value in (settings | {"s3.access_key_id": USER}).items()]


class _TailUploads:
    """Counts uploads of a log's tail: each is an object until its segment is sealed."""

    def __init__(self, store: object, prefix: str) -> None:
        self._store = store
        self._prefix = prefix

    def count(self) -> int:
        pages = self._store.get_paginator("list_objects_v2").paginate(Bucket=_BUCKET, Prefix=self._prefix)  # type: ignore[attr-defined]  # boto3 makes its clients at run time
        return sum("/tail/" in each["Key"] for page in pages for each in page.get("Contents", ()))


async def _acknowledged(site: StreamSite, uploads_of: _TailUploads, appends: int, rows: int) -> Acknowledged:
    connection = await fluss.FlussConnection.create(config(site.address, *site.credentials))
    schema = pa.schema([("id", pa.int64()), ("name", pa.string())])
    tables = []
    for name in ("small", "bulk"):
        path = fluss.TablePath("fluss", name)
        await connection.get_admin().create_table(path, fluss.TableDescriptor(fluss.Schema(schema), bucket_count=1))
        tables.append(await connection.get_table(path))
    table_id = tables[0].get_table_info().table_id
    alone = await asyncio.to_thread(_append, site, table_id, 1, appends)
    before = uploads_of.count()
    began = time.monotonic()
    together = await asyncio.to_thread(_append, site, table_id, WRITERS, appends // 4)
    seconds = time.monotonic() - began
    uploads = uploads_of.count() - before
    batch = pa.record_batch({"id": range(10_000), "name": [f"name {at}" for at in range(10_000)]}, schema=schema)
    began_bulk = time.monotonic()
    writer = tables[1].new_append().create_writer()
    for _ in range(rows // batch.num_rows):
        writer.write_arrow_batch(batch)
    await writer.flush()
    bulk = time.monotonic() - began_bulk
    await connection.close()
    return Acknowledged(
        statistics.median(alone),
        statistics.quantiles(alone, n=100)[98],
        statistics.median(together),
        len(together) / seconds,
        len(together) / uploads if uploads else 0.0,
        rows // batch.num_rows * batch.num_rows / bulk,
    )


def _append(site: StreamSite, table_id: int, writers: int, count: int) -> list[float]:
    """Return the milliseconds of each append, of concurrent writers that each wait for their responses."""
    found: list[float] = []
    records = write_batch(bytes(BATCH_BYTES), 1, schema_id=1)
    request = write_fields({1: -1, 2: table_id, 3: 60_000, 4: write_fields({2: 0, 3: records})})

    def write() -> None:
        host, _, port = site.address.rpartition(":")
        connection = StreamConnection(host, int(port), USER, Secret(SECRET), _TIMEOUT_SECONDS)
        try:
            durations = [_timed(lambda call: _check(connection.call(call, request)), 1014) for _ in range(count)]
        finally:
            connection.close()
        found.extend(durations)

    threads = [threading.Thread(target=write) for _ in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if len(found) != writers * count:
        raise RuntimeError(f"missing responses to appends. expected={writers * count} found={len(found)}")
    return found


def _check(response: Fields) -> None:
    (bucket,) = messages(response, 1)
    if number(bucket, 3):
        raise RuntimeError(f"append failed. error={number(bucket, 3)}")


def _timed(work: Callable[[T], object], argument: T) -> float:
    began = time.perf_counter()
    work(argument)
    return (time.perf_counter() - began) * 1000
