"""Formats results of the pipeline benchmarks."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from benchmarks.pipeline import planning, worker_start
from benchmarks.pipeline.compare import Row
from benchmarks.pipeline.planning import Pass
from benchmarks.pipeline.rows import Files
from benchmarks.pipeline.site import DISK, LAKEBED, NAMES
from benchmarks.pipeline.worker_start import WorkerStart
from benchmarks.table import Table
from lakebed.core.sizes import MIB


def comparison(rows: Sequence[Row]) -> Table:
    columns = ["work", *(f"{name}, s" for name in NAMES), "speed relative to disk", "goal", "met"]
    columns += ["files before", "after", *(f"Spark CPU s, {name}" for name in NAMES), f"server CPU s, {LAKEBED}"]
    lines = []
    for row in rows:
        ours, disk = row.sides[LAKEBED], row.sides[DISK]
        lines.append(
            [
                row.title,
                *(f"{side.seconds:.1f}" for side in (ours, disk)),
                *(f"{row.ratio:.2f}×", f"≥ {row.goal:g}×", "yes" if row.ratio >= row.goal else "no"),
                *(_files(ours.before), _files(ours.after)),
                *(f"{side.spark_cpu_seconds:.1f}" for side in (ours, disk)),
                f"{ours.server_cpu_seconds:.1f}",
            ]
        )
    return Table("Spark's work, end to end (medians of the rounds)", columns, lines)


def _files(files: Files) -> str:
    return f"{files.count:,}, {files.bytes / MIB:,.0f} MiB"


def planned(passes: Sequence[Pass], tables: int) -> Table:
    columns = ["pass", "seconds", "tables planned", "tasks", "memory before, MiB", "halfway", "after", "goal", "met"]
    lines = [
        [
            each.name,
            f"{each.seconds:.2f}",
            *(f"{count:,}" for count in (each.looked_at, each.tasks)),
            *(f"{mib:.0f}" for mib in (each.start_mib, each.half_mib, each.end_mib)),
            f"< {planning.GOAL_SECONDS:g} s, second half < {planning.GOAL_GROWTH_MIB:g} MiB more",
            "yes" if each.is_fast(tables) and each.is_flat else "no",
        ]
        for each in passes
    ]
    return Table(f"Planning of {tables:,} tables with policies", columns, lines)


def worker_starts(found: Sequence[WorkerStart]) -> Table:
    first = [each.first_seconds for each in found]
    following = [one for each in found for one in each.following_seconds]
    met = "yes" if max(following) < worker_start.GOAL_SECONDS else "no"
    lines = [
        ["first, including the start of Spark", f"{len(first)}", *_middle_and_worst(first), "", ""],
        ["later", f"{len(following)}", *_middle_and_worst(following), f"< {worker_start.GOAL_SECONDS:g} s", met],
    ]
    columns = ["task of a worker", "tasks", "due to start, s", "worst, s", "goal", "met"]
    return Table("Delay from a task's due time to the start of its job (medians)", columns, lines)


def _middle_and_worst(seconds: Sequence[float]) -> list[str]:
    return [f"{statistics.median(seconds):.2f}", f"{max(seconds):.2f}"]
