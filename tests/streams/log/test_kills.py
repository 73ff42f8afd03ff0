"""Processes are killed while they append: no acknowledged batch is lost or stored twice, and offsets are dense."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest

from lakebed.core.clock import SystemClock
from lakebed.fluss.log_batches import has_valid_checksum, iterate_batches
from lakebed.streams.log.local.folder_log import FolderLog

from .appender import SETTINGS, append_until_killed, batch_of

# Processes are forked from one that has imported everything, so that starts are fast.
_PROCESSES = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload(["tests.streams.log.appender"])

_WRITERS = (11, 12, 13)
_PATIENCE_SECONDS = 300.0


class Ledger:
    """Acknowledged batches, compared with the log."""

    def __init__(self) -> None:
        self.acknowledged: dict[tuple[int, int], int] = {}

    def next_sequences(self) -> dict[int, int]:
        """The first unacknowledged sequence of each writer: a client sends it again."""
        following = {}
        for writer in _WRITERS:
            numbers = {number for owner, number in self.acknowledged if owner == writer}
            following[writer] = next(at for at in range(len(numbers) + 1) if at not in numbers)
        return following

    def run(self, folder: Path, seconds: float) -> None:
        """Run a process that appends, and kill it after some seconds."""
        report, output = _PROCESSES.Pipe(duplex=False)
        process = _PROCESSES.Process(target=append_until_killed, args=(str(folder), self.next_sequences(), output))
        process.start()
        output.close()
        with os.fdopen(os.dup(report.fileno()), "rb") as stream:
            report.close()
            watchdog = threading.Timer(_PATIENCE_SECONDS, process.kill)
            watchdog.start()
            opened = stream.readline()
            watchdog.cancel()
            assert opened == b"open\n"
            killer = threading.Timer(seconds, process.kill)
            killer.start()
            lines = stream.read().split(b"\n")[:-1]
            killer.join()
        process.join()
        assert process.exitcode == -signal.SIGKILL
        process.close()
        for line in lines:
            writer, sequence, offset = map(int, line.split())
            known = self.acknowledged.setdefault((writer, sequence), offset)
            assert known == offset, "a repeated batch keeps its offset"

    async def check(self, folder: Path, threads: ThreadPoolExecutor) -> int:
        """Compare the log with the acknowledged batches. Returns its number of batches."""
        log = await FolderLog.open(str(folder), clock=SystemClock(), threads=threads, settings=SETTINGS)
        found: dict[tuple[int, int], int] = {}
        offset = 0
        while offset < log.high_watermark:
            fetched = await log.read(offset, 1 << 20)
            for batch in iterate_batches(fetched.records):
                assert batch.base_offset == offset, "offsets are dense"
                assert has_valid_checksum(batch)
                key = (batch.writer_id, batch.sequence)
                assert key not in found, "no numbered batch is stored twice"
                assert bytes(batch.view[21:]) == batch_of(*key)[21:]
                found[key] = offset
                offset = batch.next_offset
        assert offset == log.end_offset
        lost = self.acknowledged.keys() - found.keys()
        assert not lost, "no acknowledged batch is lost"
        assert {key: found[key] for key in self.acknowledged} == self.acknowledged
        await log.close()
        return len(found)


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [pytest.param(4, id="quick"), pytest.param(200, id="many", marks=pytest.mark.heavy)])
async def test_kills_during_appends_lose_and_duplicate_nothing(tmp_path: Path, rounds: int) -> None:
    random, ledger, count = Random(20261116), Ledger(), 0
    with ThreadPoolExecutor(2) as threads:
        for _ in range(rounds):
            ledger.run(tmp_path / "log", random.uniform(0.02, 0.5))
            count = await ledger.check(tmp_path / "log", threads)
    assert len(ledger.acknowledged) >= rounds, "the test wrote enough batches"
    print(f"kills={rounds} acknowledged={len(ledger.acknowledged)} found={count}")
