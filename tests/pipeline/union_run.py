"""Concurrent writers, tiering and union reads, with the expected content at each time."""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

import fluss
from lakebed.cli.select.stream_query import records_of_stream
from lakebed.client.streams.client import StreamClient
from lakebed.client.streams.logs import StreamLogWriter
from lakebed.core.jobs import JobKind
from lakebed.core.settings import Settings
from tests.clients.streams.serving import connected
from tests.pipeline.stream_tables import DATABASE, StreamBench

EVENTS: Final = pa.schema([("id", pa.int64()), ("name", pa.string())])
KEYS: Final = 300
_BATCH: Final = 20
_PAUSE: Final = 0.1
"""Pause between batches, to leave time for readers."""


@dataclass
class LogTruth:
    """The records of one writer, consecutive integers: how many were sent and acknowledged."""

    first: int
    sent: int = 0
    acknowledged: int = 0

    def check(self, read: set[int], acknowledged_before: int, sent_after: int) -> None:
        """Check that a read between two times has a state between them."""
        mine = {number for number in read if self.first <= number < self.first + 10**9}
        assert mine >= set(range(self.first, self.first + acknowledged_before))
        assert mine <= set(range(self.first, self.first + sent_after))


@dataclass
class KeyTruth:
    """The values of each key in order, and how many were sent and acknowledged."""

    history: list[list[str | None]] = field(default_factory=lambda: [[None] for _ in range(KEYS)])
    sent: list[int] = field(default_factory=lambda: [0] * KEYS)
    acknowledged: list[int] = field(default_factory=lambda: [0] * KEYS)

    def check(self, read: dict[int, str], acknowledged_before: list[int], sent_after: list[int]) -> None:
        """Check that each key has a state between the two times."""
        for key in range(KEYS):
            can_be = self.history[key][acknowledged_before[key] : sent_after[key] + 1]
            assert read.get(key) in can_be, (key, read.get(key), can_be)
        assert not read.keys() - set(range(KEYS))


@dataclass
class UnionRun:
    """The tables, their expected content, and counts."""

    bench: StreamBench
    log: str
    keyed: str
    by_pyfluss: LogTruth = field(default_factory=lambda: LogTruth(0))
    by_lakebed: LogTruth = field(default_factory=lambda: LogTruth(10**9))
    keys: KeyTruth = field(default_factory=KeyTruth)
    rounds: dict[str, int] = field(default_factory=dict)
    reads: dict[str, int] = field(default_factory=dict)
    rows: int = 0
    over: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def running(self) -> Iterator[list[Future[None]]]:
        """Write and tier during the block; raises failures at its end."""
        work: list[Callable[[], None]] = [self._append_with_pyfluss, self._append, self._upsert, self._tier]
        with ThreadPoolExecutor(len(work)) as threads:
            started = [threads.submit(self._until_over, each) for each in work]
            try:
                yield started
            finally:
                self.over.set()
            for each in started:
                each.result()

    def read_log(self, how: str, read: Callable[[str, str], list[tuple[Any, ...]]]) -> None:
        """Read the log table and compare."""
        truths = (self.by_pyfluss, self.by_lakebed)
        before = [truth.acknowledged for truth in truths]
        found = [number for number, _ in read(self.log, "id, name")]
        after = [truth.sent for truth in truths]
        assert len(found) == len(set(found))
        for truth, acknowledged, sent in zip(truths, before, after, strict=True):
            truth.check(set(found), acknowledged, sent)
        self._count(how, len(found))

    def read_keys(self, how: str, read: Callable[[str, str], list[tuple[Any, ...]]]) -> None:
        """Read the KV table and compare."""
        before = list(self.keys.acknowledged)
        found = read(self.keyed, "id, name")
        after = list(self.keys.sent)
        assert len(found) == len(dict(found))
        self.keys.check(dict(found), before, after)
        self._count(how, len(found))

    def with_spark(self, stream: str, columns: str) -> list[tuple[Any, ...]]:
        """A union read with the data source."""
        warehouse, endpoint = self.bench.bench.lake.warehouse, self.bench.bench.access.endpoint
        read = self.bench.read(stream, mode="union", warehouse=warehouse, endpoint=endpoint, columns=columns)
        return [tuple(row) for row in read.collect()]

    def with_select(self, stream: str, columns: str) -> list[tuple[Any, ...]]:
        """A union read with `lakebed select`."""
        arguments = argparse.Namespace(
            source=f"stream://{DATABASE}.{stream}",
            expression=f"SELECT {columns} FROM {stream}",
            output="json",
            streams=self.bench.streams.address,
            warehouse=self.bench.bench.lake.warehouse,
            lake_table=None,
        )
        output = b"".join(records_of_stream(self.bench.bench.access, Settings(), arguments))
        return [tuple(json.loads(line).values()) for line in output.splitlines()]

    def _until_over(self, work: Callable[[], None]) -> None:
        try:
            work()
        finally:
            # The run is meaningless without one of its parts.
            self.over.set()

    def _append_with_pyfluss(self) -> None:
        async def work() -> None:
            async with connected(self.bench.streams) as connection:
                opened = await connection.get_table(fluss.TablePath(DATABASE, self.log))
                writer = opened.new_append().create_writer()
                truth = self.by_pyfluss
                while not self.over.is_set():
                    for number in range(truth.sent, truth.sent + _BATCH):
                        truth.sent = number + 1
                        writer.append({"id": truth.first + number, "name": str(number)})
                    await writer.flush()
                    truth.acknowledged = truth.sent
                    await asyncio.sleep(_PAUSE)

        asyncio.run(work())

    def _append(self) -> None:
        server, truth = self.bench.streams.server, self.by_lakebed
        with StreamClient(self.bench.streams.address, server.access_key, server.secret_key) as client:
            writer = StreamLogWriter(client, client.table(DATABASE, self.log))
            while not self.over.wait(_PAUSE):
                numbers = range(truth.sent, truth.sent + _BATCH)
                rows = {"id": [truth.first + number for number in numbers], "name": [str(number) for number in numbers]}
                truth.sent = numbers.stop
                writer.append(pa.RecordBatch.from_pydict(rows, schema=writer.schema))
                truth.acknowledged = truth.sent

    def _upsert(self) -> None:
        chosen = random.Random(9)

        async def work() -> None:
            async with connected(self.bench.streams) as connection:
                opened = await connection.get_table(fluss.TablePath(DATABASE, self.keyed))
                writer = opened.new_upsert().create_writer()
                truth = self.keys
                while not self.over.is_set():
                    changed = chosen.sample(range(KEYS), _BATCH)
                    for key in changed:
                        value = None if chosen.random() < 0.25 else f"{key}.{truth.sent[key] + 1}"
                        truth.history[key].append(value)
                        truth.sent[key] += 1
                        if value is None:
                            writer.delete({"id": key})
                        else:
                            writer.upsert({"id": key, "name": value})
                    await writer.flush()
                    for key in changed:
                        truth.acknowledged[key] = truth.sent[key]
                    await asyncio.sleep(_PAUSE)

        asyncio.run(work())

    def _tier(self) -> None:
        while not self.over.is_set():
            for stream in (self.log, self.keyed):
                table = self.bench.bench.table(DATABASE, stream)
                report = self.bench.bench.do(JobKind.TIER_STREAM, table, {"streams": self.bench.streams.address})
                self.rounds[stream] = self.rounds.get(stream, 0) + bool(report.changed)

    def _count(self, how: str, rows: int) -> None:
        self.reads[how] = self.reads.get(how, 0) + 1
        self.rows += rows


def new_run(bench: StreamBench) -> UnionRun:
    """A run with new tables."""
    log = bench.make(EVENTS, bucket_count=2)
    keyed = bench.make(EVENTS, primary_key=["id"], bucket_count=2)
    return UnionRun(bench, log, keyed)
