"""Runs each scenario on all catalogs in turn (A B C A B C…) and takes the medians of the rounds."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from benchmarks.catalog.scenarios import Entry, Scenario
from benchmarks.catalog.site import Site
from benchmarks.samples import Sample, Side, operations_a_second, side_of
from benchmarks.session import report_progress

WARM: Final = 1.1
MOST_WARMING: Final = 6
"""Maximum number of warm-up rounds. Warming up ends with the first round that is less than 10 % faster than the best
before it: Java compiles hot code, some of it more than once.
"""


class Row(msgspec.Struct, frozen=True):
    name: str
    title: str
    unit: str
    goal: float
    sides: dict[str, Side]
    """By catalog, Lakebed first; without catalogs that do not support the scenario."""
    refused: dict[str, str]
    """Why a catalog is missing in `sides`."""
    rounds: dict[str, list[Sample]]

    @property
    def ratio(self) -> float | None:
        """Our speed divided by the best peer's; None without peers."""
        ours, *peers = self.sides.values()
        best = max((peer.speed for peer in peers), default=0)
        return ours.speed / best if best else None

    @property
    def failed(self) -> bool:
        """Whether any response was unexpected."""
        return any(side.errors for side in self.sides.values())


def compare(
    entries: Iterable[Entry], sites: Sequence[Site], *, rounds: int, seconds: float, quick: bool
) -> tuple[list[Row], list[str]]:
    """Run `entries` on `sites`. Also returns the names of failed scenarios."""
    rows: list[Row] = []
    broken: list[str] = []
    for entry in entries:
        scenario = entry.make(quick)
        refused: dict[str, str] = {}
        for site in sites:
            report_progress(f"{scenario.name}: set-up of {site.name}")
            try:
                _prepare(scenario, site)
            except (RuntimeError, OSError) as error:
                refused[site.name] = str(error)[:300]
                report_progress(_describe_failure(f"{scenario.name} cannot be measured on {site.name}", error))
        if sites[0].name in refused:
            broken.append(scenario.name)
            continue
        measurable = [site for site in sites if site.name not in refused]
        try:
            rows.append(_row(entry, scenario, measurable, refused, rounds, seconds))
            report_progress(f"{scenario.name}: {describe(rows[-1])}")
        except (RuntimeError, OSError) as error:  # measure the other scenarios
            broken.append(scenario.name)
            report_progress(_describe_failure(f"{scenario.name} failed", error))
    return rows, broken


def _prepare(scenario: Scenario, site: Site) -> None:
    for server in (*site.helpers, site.server):
        if not server.is_alive:
            server.start()
    site.create_namespace(scenario.name)
    scenario.prepare(site)
    scenario.check(site)


def _row(
    entry: Entry, scenario: Scenario, sites: Sequence[Site], refused: dict[str, str], rounds: int, seconds: float
) -> Row:
    samples: dict[str, list[Sample]] = {site.name: [] for site in sites}
    for site in sites:
        _warm(scenario, site, seconds)
    for number in range(1, rounds + 1):
        for site in sites:
            os.sync()  # unwritten pages of one server must not slow the next
            samples[site.name].append(scenario.round(site, number, seconds))
    return Row(
        name=scenario.name,
        title=entry.title,
        unit=entry.unit,
        goal=entry.goal,
        sides={name: side_of(each) for name, each in samples.items()},
        refused=refused,
        rounds=samples,
    )


def _warm(scenario: Scenario, site: Site, seconds: float) -> None:
    fastest = 0.0
    for number in range(-MOST_WARMING, 0):
        speed = operations_a_second(scenario.round(site, number, seconds))
        if speed < fastest * WARM:
            return
        fastest = speed


def describe(row: Row) -> str:
    """Format the row as one line."""
    sides = ", ".join(f"{name} {side.speed:,.1f} {row.unit}" for name, side in row.sides.items())
    ratio = f", {row.ratio:.2f}×" if row.ratio is not None else ""
    errors = "".join(f", {name} errors {side.errors}" for name, side in row.sides.items() if side.errors)
    return sides + ratio + errors


def _describe_failure(event: str, error: Exception) -> str:
    return "\n".join([f"{event}: {error}", *getattr(error, "__notes__", ())])
