"""Producer processes that survive kills of their server, and checks of what they wrote.

Each producer writes numbers from 0 on, every number once to the log table and once to the KV table. A duplicate is a
batch that its client repeated and the server did not recognize by its sequence.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from benchmarks.streams.programs import client_jars

from lakebed.client.streams.client import StreamClient
from lakebed.client.streams.logs import CHANGES, EARLIEST, LATEST, StreamLog
from lakebed.client.streams.tables import describe, list_offsets
from tests.clients.streams.serving import StreamServer
from tests.fixtures.compatibility_kit import find_or_install_compiler
from tests.fixtures.server import ROOT_ACCESS_KEY, ROOT_SECRET_KEY

PATIENCE_SECONDS: Final = 300.0
KEYS: Final = 50
LOG: Final = pa.schema([("producer", pa.string()), ("number", pa.int64())])
ROWS: Final = pa.schema([("id", pa.int32()), ("producer", pa.string()), ("number", pa.int64())])

_SOURCES: Final = Path(__file__).parent


def python_producer() -> list[str]:
    """The command of a producer with pyfluss."""
    return [sys.executable, "-m", "tests.faults.streams.python_producer"]


def java_producer(folder: Path) -> list[str]:
    """The command of a producer with the Java client, compiled into `folder`."""
    return java_programs(folder)("Producer")


def java_programs(folder: Path) -> Callable[[str], list[str]]:
    """The command of each program with the Java client, compiled into `folder`."""
    folder.mkdir()
    java, class_path = find_or_install_compiler() / "bin", f"{folder}:{client_jars()}/*"
    subprocess.run([java / "javac", "-d", folder, "-cp", class_path, *_SOURCES.glob("*.java")], check=True)
    # Arrow accesses memory that the module system protects.
    options = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "--add-opens=java.base/java.nio=ALL-UNNAMED"]
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"
    return lambda name: [str(java / "java"), *options, quiet, "-cp", class_path, name]


@dataclass
class Producer:
    """A running producer and its acknowledged writes."""

    name: str
    first_key: int
    process: subprocess.Popen[str]
    log: set[int] = field(default_factory=set)
    keys: set[int] = field(default_factory=set)
    failed: list[str] = field(default_factory=list)
    sent: int | None = None
    started: threading.Event = field(default_factory=threading.Event)
    _reader: threading.Thread | None = None

    @classmethod
    def start(cls, command: Sequence[str], name: str, first_key: int, address: str, *others: str) -> Producer:
        arguments = [address, ROOT_ACCESS_KEY, ROOT_SECRET_KEY, name, str(first_key), str(KEYS), *others]
        process = subprocess.Popen([*command, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        producer = cls(name, first_key, process)
        producer._reader = threading.Thread(target=producer._read_output)
        producer._reader.start()
        return producer

    def _read_output(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            event, _, number = line.strip().rpartition(" ")
            match event:
                case "started":
                    self.started.set()
                case "log":
                    self.log.add(int(number))
                case "keys":
                    self.keys.add(int(number))
                case "done":
                    self.sent = int(number)
                case _:
                    self.failed.append(line.strip())

    def stop(self) -> None:
        """Stop it after all its writes are answered."""
        assert self.process.stdin is not None
        self.process.stdin.write("end\n")
        self.process.stdin.flush()
        assert self.process.wait(PATIENCE_SECONDS) == 0, self.name
        self.end()

    def end(self) -> None:
        """Kill it if it still runs."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        assert self._reader is not None
        self._reader.join()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()

    @property
    def acknowledged(self) -> int:
        return len(self.log) + len(self.keys)


def wait_for_progress(producers: Sequence[Producer]) -> None:
    """Wait until each producer has more acknowledged writes."""
    before = [producer.acknowledged for producer in producers]
    deadline = time.monotonic() + PATIENCE_SECONDS
    while any(current.acknowledged < previous + 20 for current, previous in zip(producers, before, strict=True)):
        acknowledged = {producer.name: producer.acknowledged for producer in producers}
        ended = [producer.name for producer in producers if producer.process.poll() is not None]
        assert not ended, f"producers have failed. which={ended} acknowledged={acknowledged}"
        assert time.monotonic() < deadline, f"nothing is acknowledged. before={before} now={acknowledged}"
        time.sleep(0.01)


@dataclass(frozen=True)
class Tables:
    """The contents of the tables."""

    log: Counter[tuple[str, int]]
    changes: list[tuple[str, dict[str, Any]]]
    """The changelog of the KV table, in order within each bucket: change type and row."""

    scanned: dict[int, dict[str, Any]]
    """The rows of the KV table, by a scan."""


def read_tables(streams: StreamServer) -> Tables:
    """Read both tables. Raises AssertionError if offsets are not dense."""
    with StreamClient(streams.address, ROOT_ACCESS_KEY, ROOT_SECRET_KEY) as client:
        found = Counter((row["producer"], row["number"]) for _, row in _records(client, "log"))
        changes = _records(client, "keys")
        with client.scan_kv("fluss", "keys", scanner_kv_fetch_max_bytes=1000) as scan:
            rows = [row for batch in scan for row in batch.to_pylist()]
    assert len({row["id"] for row in rows}) == len(rows), "a scan returns each key once"
    return Tables(found, changes, {row["id"]: row for row in rows})


def _records(client: StreamClient, name: str) -> list[tuple[str, dict[str, Any]]]:
    table = describe(client, "fluss", name)
    starts, ends = (list_offsets(client, table, position) for position in (EARLIEST, LATEST))
    records: list[tuple[str, dict[str, Any]]] = []
    log = StreamLog(client, table.physical(None))
    for (_, bucket), end in ends.items():
        offset = starts[None, bucket]
        assert offset == 0
        while offset < end:
            for batch in log.read({bucket: offset}):
                assert batch.base_offset == offset, "offsets are dense"
                rows = batch.rows.to_pylist()
                # A put without changes leaves an empty batch, which takes an offset.
                assert batch.next_offset == offset + max(len(rows), 1)
                records += [(CHANGES[kind], row) for kind, row in zip(batch.changes, rows, strict=True)]
                offset = batch.next_offset
        assert offset == end
    return records


def check(tables: Tables, producers: Sequence[Producer]) -> None:
    """Check that nothing is lost or stored twice, and that the rows equal the changelog."""
    repeated = {record: count for record, count in tables.log.items() if count > 1}
    assert not repeated, f"numbered batches are stored once. {repeated}"
    rows = replay(tables.changes)
    assert rows == tables.scanned, "scanned rows equal the changelog"
    for producer in producers:
        lost = {number for number in producer.log if not tables.log[producer.name, number]}
        assert not lost, f"acknowledged records are lost. {producer.name} {sorted(lost)[:10]}"
        assert expected_rows(producer) == {key: row for key, row in rows.items() if row["producer"] == producer.name}


def replay(changes: Sequence[tuple[str, dict[str, Any]]]) -> dict[int, dict[str, Any]]:
    """Apply changes, and check that each fits the row before it."""
    rows: dict[int, dict[str, Any]] = {}
    newest: dict[int, int] = {}
    for kind, row in changes:
        key, before = row["id"], rows.get(row["id"])
        if kind in ("+I", "+U"):
            assert (before is None) == (kind == "+I"), (kind, row, before)
            assert row["number"] > newest.get(key, -1), "puts are applied once and in order"
            newest[key] = row["number"]
            rows[key] = row
        else:
            assert before == row, (kind, row, before)
            if kind == "-D":
                del rows[key]
    return rows


def expected_rows(producer: Producer) -> dict[int, dict[str, Any]]:
    """The rows of a producer all of whose writes are acknowledged."""
    assert producer.sent is not None, "the producer has ended"
    assert producer.keys == producer.log == set(range(producer.sent)), "all writes are acknowledged"
    rows: dict[int, dict[str, Any]] = {}
    for number in range(producer.sent):
        key = producer.first_key + number % KEYS
        if number % 7 == 6:
            rows.pop(key, None)
        else:
            rows[key] = {"id": key, "producer": producer.name, "number": number}
    return rows
