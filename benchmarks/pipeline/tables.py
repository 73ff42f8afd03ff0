"""Results of the pipeline's benchmarks as tables."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from benchmarks.pipeline import planning, waking
from benchmarks.pipeline.compare import Row
from benchmarks.pipeline.planning import Pass
from benchmarks.pipeline.rows import Files
from benchmarks.pipeline.site import DISK, LAKEBED, NAMES
from benchmarks.pipeline.waking import Begun
from benchmarks.table import Table
from lakebed.core.sizes import MIB


def comparison(rows: Sequence[Row]) -> Table:
    """Seconds and processor time of each scenario, on both sites."""
    columns = ["work", *(f"{name}, s" for name in NAMES), "speed beside the disk", "goal", "met"]
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
    """Time and memory of passes over all tables."""
    columns = ["pass", "seconds", "tables looked at", "tasks", "memory before, MiB", "half way", "after", "goal", "met"]
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


def woken(found: Sequence[Begun]) -> Table:
    """How soon workers began with their tasks."""
    first = [each.first_seconds for each in found]
    following = [one for each in found for one in each.following_seconds]
    met = "yes" if max(following) < waking.GOAL_SECONDS else "no"
    lines = [
        ["its first, with the start of Spark", f"{len(first)}", *_middle_and_worst(first), "", ""],
        ["one that follows", f"{len(following)}", *_middle_and_worst(following), f"< {waking.GOAL_SECONDS:g} s", met],
    ]
    columns = ["task of a worker", "tasks", "due to begun, s", "worst, s", "goal", "met"]
    return Table("From when a task is due until its job begins (medians)", columns, lines)


def _middle_and_worst(seconds: Sequence[float]) -> list[str]:
    return [f"{statistics.median(seconds):.2f}", f"{max(seconds):.2f}"]
