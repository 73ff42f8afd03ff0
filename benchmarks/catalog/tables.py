"""Formats results of the catalog benchmarks."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.catalog.compare import Row
from benchmarks.catalog.growth import GrowthPoint
from benchmarks.samples import Side
from benchmarks.table import Table, cost_cell

MISSING = "not measured"


def comparison(rows: Sequence[Row], names: Sequence[str]) -> Table:
    """Speed, latency and processor time of each path, compared with the peers."""
    paired = len(names) > 1
    columns = ["path", *names]
    columns += ["ratio to best peer", "goal", "met"] if paired else []
    columns += [f"p50 / p99 ms, {name}" for name in names]
    columns += [f"server CPU ms/op, {name}" for name in names]
    columns += ["client CPU ms/op"]
    lines = []
    for row in rows:
        sides = [row.sides.get(name) for name in names]
        cells = [row.title, *(_speed(side, row.unit) for side in sides)]
        if row.failed:
            wrong = "; ".join(f"{name} {side.errors}" for name, side in row.sides.items() if side.errors)
            cells[0] += f" (errors: {wrong})"
        if paired:
            met = row.ratio is not None and row.ratio >= row.goal and not row.failed
            ratio = f"{row.ratio:.2f}×" if row.ratio is not None else ""
            cells += [ratio, f"≥ {row.goal:g}×", "yes" if met else "no"]
        cells += [f"{side.p50_seconds * 1e3:,.2f} / {side.p99_seconds * 1e3:,.2f}" if side else "" for side in sides]
        cells += [f"{side.server_cpu_seconds * 1e3:,.3f}" if side else "" for side in sides]
        cells += [f"{sides[0].client_cpu_seconds * 1e3:,.3f}" if sides[0] else ""]
        lines.append(cells)
    notes = [f"{row.title}: not measured on {name}: {why}" for row in rows for name, why in row.refused.items()]
    return Table("Catalog paths (medians of the rounds)", columns, lines, notes)


def _speed(side: Side | None, unit: str) -> str:
    if side is None:
        return MISSING
    speed = f"{side.speed:,.1f}" if side.speed < 100 else f"{side.speed:,.0f}"
    lost = f" ({side.conflicts:.1f} conflicts each)" if side.conflicts else ""
    return f"{speed} {unit}{lost}"


def growth(title: str, what: str, found: Sequence[GrowthPoint]) -> Table:
    """Cost of an operation by size."""
    lines = [[f"{each.size:,}", *(cost_cell(cost) for cost in each.paths.values())] for each in found]
    return Table(title, [what, *found[0].paths], lines)
