"""Processes are killed while they put: nothing acknowledged is lost or stored twice, and rows equal the changelog."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from lakebed.fluss.arrow_types import arrow_schema
from lakebed.fluss.log_batches import iterate_batches
from tests.contracts.kv_bucket import key_of

from .kv_writer import KEYS, SCHEMA, open_bucket, table

_WRITERS = (21, 22, 23)
_PATIENCE_SECONDS = 300.0


class Ledger:
    """Acknowledged puts, compared with the log and the rows."""

    def __init__(self) -> None:
        self.acknowledged: dict[tuple[int, int], int] = {}
        self._rows: dict[int, dict[str, Any]] = {}
        self._found: dict[tuple[int, int], int] = {}
        self._offset = 0

    def run(self, folder: Path, seconds: float) -> None:
        """Run a process that puts, and kill it. Each writer continues with its first unacknowledged put."""
        sequences = {
            writer: 1 + max((number for owner, number in self.acknowledged if owner == writer), default=-1)
            for writer in _WRITERS
        }
        command = [sys.executable, "-m", "tests.streams.kv.kv_writer", str(folder), json.dumps(sequences)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            watchdog = threading.Timer(_PATIENCE_SECONDS, process.kill)
            watchdog.start()
            assert process.stdout.readline() == b"open\n"
            watchdog.cancel()
            killer = threading.Timer(seconds, process.kill)
            killer.start()
            lines = process.stdout.read().split(b"\n")[:-1]
            killer.join()
        for line in lines:
            writer, sequence, end = map(int, line.split())
            assert self.acknowledged.setdefault((writer, sequence), end) == end

    async def check(self, folder: Path, threads: ThreadPoolExecutor, *, from_start: bool = False) -> int:
        """Compare the rows with the log, and the log with the acknowledged puts. Returns its number of batches.

        Continues where the last check ended, so that checks do not become slower.
        """
        if from_start:
            self._rows, self._found, self._offset = {}, {}, 0
        log, kv = await open_bucket(folder, threads)
        while self._offset < log.high_watermark:
            for batch in iterate_batches((await log.read(self._offset, 1 << 20)).records):
                assert batch.base_offset == self._offset, "offsets are dense"
                key = (batch.writer_id, batch.sequence)
                assert key not in self._found, "no numbered put is stored twice"
                self._found[key] = self._offset = batch.next_offset
                _replay(self._rows, bytes(batch.body), batch.record_count)
        assert self._offset == log.end_offset
        assert {key: self._found.get(key) for key in self.acknowledged} == self.acknowledged
        values = await kv.lookup([key_of(key) for key in range(KEYS)])
        decode = table().layout(1).decode
        rows = [dict(zip(SCHEMA.names, decode(value[2:]), strict=True)) for value in values if value is not None]
        assert {row["k"]: row for row in rows} == self._rows, "the rows equal the changelog"
        assert kv.row_count == len(self._rows)
        await kv.close()
        await log.close()
        return len(self._found)


def _replay(rows: dict[int, dict[str, Any]], body: bytes, count: int) -> None:
    """Apply the changelog as a reader does, and check that each change fits the row before it."""
    if not count:
        return
    changed = pa.ipc.read_record_batch(pa.py_buffer(body[count:]), arrow_schema(SCHEMA)).to_pylist()
    for change, row in zip(body[:count], changed, strict=True):
        before = rows.get(row["k"])
        match change:
            case 1:
                assert before is None
                rows[row["k"]] = row
            case 2:
                assert before == row
            case 3:
                assert before is not None
                rows[row["k"]] = row
            case _:
                assert before == row
                del rows[row["k"]]


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [pytest.param(3, id="quick"), pytest.param(200, id="many", marks=pytest.mark.heavy)])
async def test_kills_during_puts_lose_and_duplicate_nothing(tmp_path: Path, rounds: int) -> None:
    random, ledger = Random(20261116), Ledger()
    with ThreadPoolExecutor(2) as threads:
        for _ in range(rounds):
            ledger.run(tmp_path, random.uniform(0.02, 0.6))
            await ledger.check(tmp_path, threads)
        count = await ledger.check(tmp_path, threads, from_start=True)
    assert len(ledger.acknowledged) >= rounds, "the test wrote enough batches"
    print(f"kills={rounds} acknowledged={len(ledger.acknowledged)} found={count}")
