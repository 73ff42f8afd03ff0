"""Writers that contend for one table: each a process that goes for the next append, over requests built in advance.

An append is the same whoever commits it, so that no manifest list has to be written between a conflict and the next
try: what is measured is the catalog, not the store. A writer that is too late asks the catalog where the table is, as
engines do, and goes for the append that follows. The first append to each table is committed before: an append that
requires that there be none before it is one that Nessie takes at any time.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec

from benchmarks.catalog.appends import Series
from benchmarks.catalog.contender import Orders, Outcome
from benchmarks.catalog.site import Site
from benchmarks.endpoint import Request, request_head
from benchmarks.loadtool import Report
from benchmarks.signing import Signing


def contend(site: Site, series: Series, writers: int, seconds: float) -> Report:
    """Let them run for `seconds`; an operation is an append that was committed. The first of each table already is."""
    signer = site.endpoint.signer()

    def built(request: Request) -> bytes:
        return request_head(signer, request, Signing.HEADER).encode() + (
            request.body if isinstance(request.body, bytes) else b""
        )

    requests = series.requests(site)
    orders = Orders(
        address=site.endpoint.address,
        seconds=seconds,
        commits=[
            [built(request) for request in requests[start + 1 : start + series.depth]]
            for start in range(0, len(requests), series.depth)
        ],
        loads=[built(site.load_request(table, snapshots="refs")) for table in series.tables],
    )
    with tempfile.NamedTemporaryFile(dir=site.tool.folder, suffix=".msgpack") as file:
        file.write(msgspec.msgpack.encode(orders))
        file.flush()
        command = [sys.executable, "-m", "benchmarks.catalog.contender", file.name]
        processes = [
            subprocess.Popen(command, cwd=Path(__file__).parents[2], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            for _ in range(writers)
        ]
        try:
            return _report(_outcomes(processes))
        finally:
            for process in processes:
                process.kill()
                process.wait()


def _outcomes(processes: list[subprocess.Popen[bytes]]) -> list[Outcome]:
    for process in processes:
        assert process.stdout is not None
        if not process.stdout.readline():  # it says when it has read its orders
            raise RuntimeError("a writer ended before it began")
    for process in processes:
        assert process.stdin is not None
        process.stdin.write(b"go\n")
        process.stdin.flush()
    outcomes = []
    for process in processes:
        output, _ = process.communicate()
        if process.returncode != 0:
            raise RuntimeError(f"a writer failed. code={process.returncode}")
        outcomes.append(msgspec.json.decode(output, type=Outcome))
    return outcomes


def _report(outcomes: list[Outcome]) -> Report:
    times = sorted(seconds for outcome in outcomes for seconds in outcome.committed_seconds)
    errors: dict[str, int] = {}
    for outcome in outcomes:
        for text, count in outcome.errors.items():
            errors[text] = errors.get(text, 0) + count
    return Report(
        operations=len(times),
        bytes=0,
        elapsed_seconds=max(outcome.elapsed_seconds for outcome in outcomes),
        p50_seconds=statistics.median(times) if times else 0,
        p99_seconds=times[len(times) * 99 // 100] if times else 0,
        slowest_seconds=times[-1] if times else 0,
        cpu_seconds=sum(outcome.cpu_seconds for outcome in outcomes),
        errors=errors,
        first_error_answer=next((outcome.first_error_answer for outcome in outcomes if outcome.errors), ""),
        conflicts=sum(outcome.conflicts for outcome in outcomes),
    )
