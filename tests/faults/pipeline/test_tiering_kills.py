"""Kill -9 of a tiering job between every two of its steps: another goes on, and each record is in the lake once.

A process goes on with what the one before has left, and is killed before the next step, in a round of a log and one of
a table with keys at once. So there is one Spark for every kill.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

import pytest

import fluss
from lakebed.client.streams.client import StreamClient
from lakebed.client.streams.lake import LakeTieringClient
from tests.clients.iceberg.lake import Lake, new_lake
from tests.clients.streams.serving import ROWS, StreamServer, connected, make_table, running_streams
from tests.faults.pipeline.dying_tiering import DATABASE, NEVER, STEPS
from tests.fixtures.spark import find_or_install_java

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.heavy]

LOG: Final = "log"
KEYED: Final = "keyed"
APPENDED: Final = 300
"""Records of the log in each turn."""
PATIENCE_SECONDS: Final = 300


@dataclass
class Truth:
    """What was acknowledged."""

    log: list[int] = field(default_factory=list)
    keyed: dict[int, float] = field(default_factory=dict)


async def write(streams: StreamServer, truth: Truth, turn: int) -> None:
    """Records for the log; of keys, new ones, others that change, and some that are deleted."""
    async with connected(streams) as connection:
        log = await connection.get_table(fluss.TablePath(DATABASE, LOG))
        appends = log.new_append().create_writer()
        for number in range(len(truth.log), len(truth.log) + APPENDED):
            appends.append({"id": number, "name": f"n{number}", "score": float(turn)})
            truth.log.append(number)
        await appends.flush()
        keyed = await connection.get_table(fluss.TablePath(DATABASE, KEYED))
        upserts = keyed.new_upsert().create_writer()
        for key in range(turn * 50, turn * 50 + 100):
            upserts.upsert({"id": key, "name": f"k{key}", "score": float(turn)})
            truth.keyed[key] = float(turn)
        await upserts.flush()
        for key in range(turn * 50, turn * 50 + 100, 7):
            upserts.delete({"id": key})
            del truth.keyed[key]
        await upserts.flush()


def in_the_lake(lake: Lake) -> tuple[list[int], list[tuple[int, float]]]:
    """What PyIceberg reads."""
    with lake.catalog() as catalog:
        if not catalog.table_exists((DATABASE, LOG)):
            return [], []
        log = catalog.load_table((DATABASE, LOG)).scan(selected_fields=("id",)).to_arrow()
        keyed = catalog.load_table((DATABASE, KEYED)).scan(selected_fields=("id", "score")).to_arrow()
    found = zip(keyed["id"].to_pylist(), keyed["score"].to_pylist(), strict=True)
    return sorted(log["id"].to_pylist()), sorted(found)


def is_known_to_the_server(streams: StreamServer, lake: Lake, table: str) -> bool:
    with StreamClient(streams.address, streams.server.access_key, streams.server.secret_key) as client:
        known = LakeTieringClient(client).latest(DATABASE, table)
    with lake.catalog() as catalog:
        current = catalog.load_table((DATABASE, table)).current_snapshot()
    return known is not None and current is not None and known.snapshot_id == current.snapshot_id


@contextmanager
def tiering(streams: StreamServer, lake: Lake, step: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that goes on, and dies before a step when it is told to go ahead."""
    server = streams.server
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("AWS_")},
        "LAKEBED_ACCESS_KEY": server.access_key,
        "LAKEBED_SECRET_KEY": server.secret_key,
        "LAKEBED_STREAMS": streams.address,
    }
    command = [sys.executable, "-m", "tests.faults.pipeline.dying_tiering", server.endpoint, lake.warehouse]
    with (folder / f"{step}.log").open("w") as words:
        process = subprocess.Popen(
            [*command, LOG, KEYED, step],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=words,
            text=True,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def line_of(output: IO[str] | None) -> str:
    assert output is not None
    return output.readline().strip()


def test_a_job_that_is_killed_between_any_two_steps_leaves_each_record_in_the_lake_once(tmp_path: Path) -> None:
    find_or_install_java()
    quiet = ("--set", "pipeline.embedded_worker=off")
    truth, kills, rounds = Truth(), 0, 0
    with running_streams(tmp_path / "data", *quiet) as streams:
        lake = new_lake(streams.server)

        async def make() -> None:
            async with connected(streams) as connection:
                await make_table(connection, fluss.TablePath(DATABASE, LOG), bucket_count=2)
                await make_table(connection, fluss.TablePath(DATABASE, KEYED), ROWS, primary_key=["id"], bucket_count=2)

        asyncio.run(make())
        asyncio.run(write(streams, truth, 0))
        for turn, step in enumerate((*STEPS, NEVER), 1):
            with tiering(streams, lake, step, tmp_path) as process:
                went_on = [line_of(process.stdout) for _ in range(2)]
                said = (tmp_path / f"{step}.log").read_text()
                assert all(line.startswith("went on") for line in went_on), said
                rounds += 2
                before = in_the_lake(lake)
                assert before == (truth.log, sorted(truth.keyed.items())), step
                for table in (LOG, KEYED):
                    assert is_known_to_the_server(streams, lake, table), step
                if step == NEVER:
                    break
                asyncio.run(write(streams, truth, turn))
                assert process.stdin is not None
                process.stdin.write("go ahead\n")
                process.stdin.flush()
                assert line_of(process.stdout) == f"killed before {step}", (tmp_path / f"{step}.log").read_text()
                assert process.wait(PATIENCE_SECONDS) == -signal.SIGKILL
                kills += 1
                after = (truth.log, sorted(truth.keyed.items()))
                assert in_the_lake(lake) == (after if STEPS.index(step) >= STEPS.index("drop branch") else before)
        with lake.catalog() as catalog:
            left = sum(len(catalog.load_table((DATABASE, table)).refs()) - 1 for table in (LOG, KEYED))
    print(f"kills={kills} rounds={rounds} records={len(truth.log)} keys={len(truth.keyed)} branches left={left}")
    assert kills == len(STEPS)
