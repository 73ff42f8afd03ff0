"""Kill -9 of a tiering job before each of its steps: another finishes it, and each record is in the lake once.

Each process finishes the work of its predecessor, then is killed before the next step, in jobs of a log table and of a
KV table at once. So every kill starts Spark only once.
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
from tests.faults.pipeline.killed_tiering import DATABASE, NEVER, STEPS
from tests.fixtures.spark import find_or_install_java

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.heavy]

LOG: Final = "log"
KEYED: Final = "keyed"
APPENDED: Final = 300
"""Records appended to the log table in each round."""
PATIENCE_SECONDS: Final = 300


@dataclass
class Acknowledged:
    """The acknowledged contents of both tables."""

    log: list[int] = field(default_factory=list)
    keyed: dict[int, float] = field(default_factory=dict)


async def write(streams: StreamServer, acknowledged: Acknowledged, round_: int) -> None:
    """Append to the log table; insert, update and delete rows of the KV table."""
    async with connected(streams) as connection:
        log = await connection.get_table(fluss.TablePath(DATABASE, LOG))
        appends = log.new_append().create_writer()
        for number in range(len(acknowledged.log), len(acknowledged.log) + APPENDED):
            appends.append({"id": number, "name": f"n{number}", "score": float(round_)})
            acknowledged.log.append(number)
        await appends.flush()
        keyed = await connection.get_table(fluss.TablePath(DATABASE, KEYED))
        upserts = keyed.new_upsert().create_writer()
        for key in range(round_ * 50, round_ * 50 + 100):
            upserts.upsert({"id": key, "name": f"k{key}", "score": float(round_)})
            acknowledged.keyed[key] = float(round_)
        await upserts.flush()
        for key in range(round_ * 50, round_ * 50 + 100, 7):
            upserts.delete({"id": key})
            del acknowledged.keyed[key]
        await upserts.flush()


def in_the_lake(lake: Lake) -> tuple[list[int], list[tuple[int, float]]]:
    """The contents of both Iceberg tables, read with PyIceberg."""
    with lake.catalog() as catalog:
        if not catalog.table_exists((DATABASE, LOG)):
            return [], []
        log = catalog.load_table((DATABASE, LOG)).scan(selected_fields=("id",)).to_arrow()
        keyed = catalog.load_table((DATABASE, KEYED)).scan(selected_fields=("id", "score")).to_arrow()
    found = zip(keyed["id"].to_pylist(), keyed["score"].to_pylist(), strict=True)
    return sorted(log["id"].to_pylist()), sorted(found)


def server_knows_the_snapshot(streams: StreamServer, lake: Lake, table: str) -> bool:
    with StreamClient(streams.address, streams.server.access_key, streams.server.secret_key) as client:
        known = LakeTieringClient(client).latest(DATABASE, table)
    with lake.catalog() as catalog:
        current = catalog.load_table((DATABASE, table)).current_snapshot()
    return known is not None and current is not None and known.snapshot_id == current.snapshot_id


@contextmanager
def tiering(streams: StreamServer, lake: Lake, step: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that finishes earlier work, and after a line of input dies before a step."""
    server = streams.server
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("AWS_")},
        "LAKEBED_ACCESS_KEY": server.access_key,
        "LAKEBED_SECRET_KEY": server.secret_key,
        "LAKEBED_STREAMS": streams.address,
    }
    command = [sys.executable, "-m", "tests.faults.pipeline.killed_tiering", server.endpoint, lake.warehouse]
    with (folder / f"{step}.log").open("w") as errors:
        process = subprocess.Popen(
            [*command, LOG, KEYED, step],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
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


def test_job_killed_before_any_step_leaves_each_record_in_the_lake_once(tmp_path: Path) -> None:
    find_or_install_java()
    quiet = ("--set", "pipeline.embedded_worker=off")
    acknowledged, kills, rounds = Acknowledged(), 0, 0
    with running_streams(tmp_path / "data", *quiet) as streams:
        lake = new_lake(streams.server)

        async def make() -> None:
            async with connected(streams) as connection:
                await make_table(connection, fluss.TablePath(DATABASE, LOG), bucket_count=2)
                await make_table(connection, fluss.TablePath(DATABASE, KEYED), ROWS, primary_key=["id"], bucket_count=2)

        asyncio.run(make())
        asyncio.run(write(streams, acknowledged, 0))
        for round_, step in enumerate((*STEPS, NEVER), 1):
            with tiering(streams, lake, step, tmp_path) as process:
                resumed = [line_of(process.stdout) for _ in range(2)]
                log_text = (tmp_path / f"{step}.log").read_text()
                assert all(line.startswith("resumed") for line in resumed), log_text
                rounds += 2
                before = in_the_lake(lake)
                assert before == (acknowledged.log, sorted(acknowledged.keyed.items())), step
                for table in (LOG, KEYED):
                    assert server_knows_the_snapshot(streams, lake, table), step
                if step == NEVER:
                    break
                asyncio.run(write(streams, acknowledged, round_))
                assert process.stdin is not None
                process.stdin.write("go ahead\n")
                process.stdin.flush()
                assert line_of(process.stdout) == f"killed before {step}", (tmp_path / f"{step}.log").read_text()
                assert process.wait(PATIENCE_SECONDS) == -signal.SIGKILL
                kills += 1
                after = (acknowledged.log, sorted(acknowledged.keyed.items()))
                assert in_the_lake(lake) == (after if STEPS.index(step) >= STEPS.index("drop branch") else before)
        with lake.catalog() as catalog:
            branches = sum(len(catalog.load_table((DATABASE, table)).refs()) - 1 for table in (LOG, KEYED))
    print(
        f"kills={kills} jobs={rounds} records={len(acknowledged.log)} rows={len(acknowledged.keyed)}"
        f" branches={branches}"
    )
    assert kills == len(STEPS)
