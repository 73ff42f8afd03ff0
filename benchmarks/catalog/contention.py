"""Writers that contend for one table: processes that each commit the next append from prepared requests.

An append is the same for all writers, so no manifest list has to be written between a conflict and the retry: this
measures the catalog, not the store. After a conflict a writer loads the table, as engines do, and continues with the
next append. The first append to each table is committed before the run: Nessie accepts an append that requires an
empty table at any time.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec

from benchmarks.catalog.appends import Series
from benchmarks.catalog.contender import WriterPlan, WriterReport
from benchmarks.catalog.site import Site
from benchmarks.endpoint import Request, request_head
from benchmarks.loadtool import Report
from benchmarks.signing import Signing


def contend(site: Site, series: Series, writers: int, seconds: float) -> Report:
    """Run the writers for `seconds`. An operation is a committed append, without the first of each table."""
    signer = site.endpoint.signer()

    def encode(request: Request) -> bytes:
        return request_head(signer, request, Signing.HEADER).encode() + (
            request.body if isinstance(request.body, bytes) else b""
        )

    requests = series.requests(site)
    plan = WriterPlan(
        address=site.endpoint.address,
        seconds=seconds,
        commits=[
            [encode(request) for request in requests[start + 1 : start + series.depth]]
            for start in range(0, len(requests), series.depth)
        ],
        loads=[encode(site.load_request(table, snapshots="refs")) for table in series.tables],
    )
    with tempfile.NamedTemporaryFile(dir=site.tool.folder, suffix=".msgpack") as file:
        file.write(msgspec.msgpack.encode(plan))
        file.flush()
        command = [sys.executable, "-m", "benchmarks.catalog.contender", file.name]
        processes = [
            subprocess.Popen(command, cwd=Path(__file__).parents[2], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            for _ in range(writers)
        ]
        try:
            return _summarize(_reports(processes))
        finally:
            for process in processes:
                process.kill()
                process.wait()


def _reports(processes: list[subprocess.Popen[bytes]]) -> list[WriterReport]:
    for process in processes:
        assert process.stdout is not None
        if not process.stdout.readline():  # a writer reports when it has read its plan
            raise RuntimeError("writer ended before the start")
    for process in processes:
        assert process.stdin is not None
        process.stdin.write(b"go\n")
        process.stdin.flush()
    reports = []
    for process in processes:
        output, _ = process.communicate()
        if process.returncode != 0:
            raise RuntimeError(f"writer failed. code={process.returncode}")
        reports.append(msgspec.json.decode(output, type=WriterReport))
    return reports


def _summarize(reports: list[WriterReport]) -> Report:
    times = sorted(seconds for report in reports for seconds in report.committed_seconds)
    errors: dict[str, int] = {}
    for report in reports:
        for text, count in report.errors.items():
            errors[text] = errors.get(text, 0) + count
    return Report(
        operations=len(times),
        bytes=0,
        elapsed_seconds=max(report.elapsed_seconds for report in reports),
        p50_seconds=statistics.median(times) if times else 0,
        p99_seconds=times[len(times) * 99 // 100] if times else 0,
        slowest_seconds=times[-1] if times else 0,
        cpu_seconds=sum(report.cpu_seconds for report in reports),
        errors=errors,
        first_error_answer=next((report.first_error_answer for report in reports if report.errors), ""),
        conflicts=sum(report.conflicts for report in reports),
    )
