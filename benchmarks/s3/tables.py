"""Formats results of the S3 benchmarks."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.s3.compare import Row
from benchmarks.s3.scale import START_GOAL_OBJECTS, START_GOAL_SECONDS, Scale
from benchmarks.s3.soak import Soak
from benchmarks.s3.transfer_memory import GOAL_MIB, TransferMemory
from benchmarks.table import Table, cost_cell


def comparison(rows: Sequence[Row], names: Sequence[str]) -> Table:
    """Speed, latency and processor time of each path, compared with the peer."""
    paired = len(names) == 2
    columns = ["path", "signed by", *names]
    columns += ["ratio", "goal", "met"] if paired else []
    columns += [f"p50 / p99 ms, {name}" for name in names]
    columns += [f"server CPU ms/op, {name}" for name in names]
    columns += ["CPU ratio"] if paired else []
    columns += ["client CPU ms/op"]
    lines = []
    for row in rows:
        sides = [row.sides[name] for name in names]
        cells = [row.title, row.signing, *(f"{side.speed:,.0f} {row.unit}" for side in sides)]
        if row.failed:
            cells[0] += (
                " (errors: " + "; ".join(f"{n} {row.sides[n].errors}" for n in names if row.sides[n].errors) + ")"
            )
        if row.ratio is not None:
            cells += [
                f"{row.ratio:.2f}×",
                f"≥ {row.goal:g}×",
                "yes" if row.ratio >= row.goal and not row.failed else "no",
            ]
        elif paired:
            cells += ["", f"≥ {row.goal:g}×", "no"]
        cells += [f"{side.p50_seconds * 1e3:,.2f} / {side.p99_seconds * 1e3:,.2f}" for side in sides]
        cells += [f"{side.server_cpu_seconds * 1e3:,.3f}" for side in sides]
        if paired:
            cells += [f"{row.cpu_ratio:.2f}×" if row.cpu_ratio is not None else ""]
        cells += [f"{sides[0].client_cpu_seconds * 1e3:,.3f}"]
        lines.append(cells)
    return Table("S3 paths (8 connections, 2 workers; medians of the rounds)", columns, lines)


def transfer_memory(found: dict[str, TransferMemory]) -> Table:
    """Memory while 64 clients download and 64 upload."""
    lines = []
    for name, each in found.items():
        met = "yes" if each.highest_mib < GOAL_MIB and not each.errors else "no"
        failed = f" (errors: {each.errors})" if each.errors else ""
        numbers = (each.idle_mib, each.highest_mib, each.highest_anonymous_mib)
        lines.append([name + failed, *(f"{value:,.0f}" for value in numbers), f"< {GOAL_MIB}", met])
    columns = ["server", "before, MiB", "highest, MiB", "of it anonymous, MiB", "goal", "met"]
    return Table("Resident memory of the largest process, 64 × 64 MiB down and 64 × 64 MiB up at once", columns, lines)


def scales(found: Sequence[Scale]) -> Table:
    """Start time and cost of requests by number of objects."""
    lines = []
    for each in found:
        cells = [f"{each.objects:,}", f"{each.start_seconds:.2f}"]
        if each.objects == START_GOAL_OBJECTS:
            cells[1] += f" (goal < {START_GOAL_SECONDS:g})"
        cells += [cost_cell(cost) for cost in each.paths.values()]
        lines.append(cells)
    columns = ["objects", "start to ready, s", *found[0].paths]
    return Table("Lakebed as the bucket grows: server CPU an operation, operations a second", columns, lines)


def soaked(soak: Soak) -> Table:
    failed = f" (errors: {soak.errors})" if soak.errors else ""
    cells = [
        f"{soak.seconds:,.0f} s{failed}",
        f"{soak.operations:,}",
        *(f"{value:,.1f}" for value in (soak.early_mib, soak.late_mib, soak.highest_mib, soak.growth_mib_an_hour)),
    ]
    columns = ["soak", "operations", "early, MiB", "late, MiB", "highest, MiB", "growth, MiB/h"]
    return Table("Lakebed's largest process under a mixed load", columns, [cells])
