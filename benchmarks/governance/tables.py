"""Formats results of the governance benchmarks."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.governance import lists
from benchmarks.governance.timing import Timed
from benchmarks.table import Table


def costs(times: Sequence[Timed]) -> Table:
    lines = [
        [
            each.title,
            *(f"{seconds * 1e6:,.1f}" for seconds in (each.p50_seconds, each.p99_seconds)),
            f"{each.a_second:,.0f}",
            "" if each.goal_seconds is None else f"< {each.goal_seconds * 1e6:g} µs",
            "" if each.goal_seconds is None else "yes" if each.is_met else "no",
        ]
        for each in times
    ]
    columns = ["operation", "p50 µs", "p99 µs", "a second", "goal (p50)", "met"]
    return Table("Decisions, policies and tokens, one after the other (medians of the rounds)", columns, lines)


def listed(times: Sequence[Timed], tables: int) -> Table:
    """Lists with all tables visible, and with half."""
    lines = [
        [
            of_all.title.rpartition(",")[0],
            *(f"{each.p50_seconds * 1e3:,.2f}" for each in (of_all, of_half)),
            f"{ratio:.2f}×",
            *((f"≤ {lists.GOAL_RATIO:g}×", "yes" if ratio <= lists.GOAL_RATIO else "no") if is_whole else ("", "")),
        ]
        for is_whole, (of_all, of_half, ratio) in zip((True, False), lists.ratios(list(times)), strict=True)
    ]
    columns = ["listing", "all visible, p50 ms", "half visible, p50 ms", "half / all", "goal", "met"]
    return Table(f"Lists of {tables:,} tables (medians of the rounds)", columns, lines)
