"""Runs each scenario on both servers in turn (A B A B…) and takes the medians of the rounds."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

import msgspec

from benchmarks.s3.scenarios import Entry, Scenario, Unit
from benchmarks.s3.site import Site
from benchmarks.samples import Sample, Side, side_of
from benchmarks.session import report_progress
from benchmarks.signing import Signing


class Row(msgspec.Struct, frozen=True):
    """One scenario with one way of signing."""

    name: str
    title: str
    signing: str
    unit: str
    goal: float
    sides: dict[str, Side]
    """By server, Lakebed first."""
    rounds: dict[str, list[Sample]]

    @property
    def ratio(self) -> float | None:
        """Our speed divided by the peer's; None without a peer."""
        return _ratio([side.speed for side in self.sides.values()])

    @property
    def cpu_ratio(self) -> float | None:
        """The peer's processor time for an operation divided by ours; above 1 Lakebed takes less."""
        spent = _ratio([side.server_cpu_seconds for side in self.sides.values()])
        return 1 / spent if spent else None

    @property
    def failed(self) -> bool:
        """Whether any response was unexpected."""
        return any(side.errors for side in self.sides.values())


def _ratio(values: Sequence[float]) -> float | None:
    return values[0] / values[1] if len(values) == 2 and values[1] else None


def compare(
    entries: Iterable[Entry],
    sites: Sequence[Site],
    signings: Sequence[Signing],
    *,
    rounds: int,
    seconds: float,
    quick: bool,
) -> tuple[list[Row], list[str]]:
    """Run `entries` on `sites`; each way of signing is a row. Also returns the names of failed scenarios."""
    rows: list[Row] = []
    broken: list[str] = []
    for entry in entries:
        scenario = entry.make(quick)
        report_progress(f"{scenario.name}: set-up")
        try:
            for site in sites:
                if not site.server.is_alive:
                    site.server.start()
                site.create_bucket(scenario.bucket)
                scenario.prepare(site)
            for signing in signings:
                rows.append(_row(entry, scenario, sites, signing, rounds, seconds * entry.stretch))
                report_progress(f"{scenario.name}, {signing.value}: {describe(rows[-1])}")
        except (RuntimeError, OSError) as error:  # measure the other scenarios
            broken.append(scenario.name)
            report_progress("\n".join([f"{scenario.name} failed: {error}", *getattr(error, "__notes__", ())]))
    return rows, broken


def _row(entry: Entry, scenario: Scenario, sites: Sequence[Site], signing: Signing, rounds: int, seconds: float) -> Row:
    samples: dict[str, list[Sample]] = {site.server.recipe.name: [] for site in sites}
    for site in sites:
        scenario.check(site, signing)
        scenario.round(site, signing, 0, min(1, seconds))  # warms up; not counted
    for number in range(1, rounds + 1):
        for site in sites:
            os.sync()  # unwritten pages of one server must not slow the next
            samples[site.server.recipe.name].append(scenario.round(site, signing, number, seconds))
    return Row(
        name=scenario.name,
        title=entry.title,
        signing=signing.value,
        unit=entry.unit.value,
        goal=entry.goal,
        sides={name: side_of(each, lambda sample: speed(sample, entry.unit)) for name, each in samples.items()},
        rounds=samples,
    )


def speed(sample: Sample, unit: Unit) -> float:
    """The sample's speed in `unit`; a megabyte is a million bytes."""
    moved = sample.bytes / 1e6 if unit is Unit.MEGABYTES else sample.operations
    return moved / sample.elapsed_seconds


def describe(row: Row) -> str:
    """Format the row as one line."""
    sides = ", ".join(f"{name} {side.speed:,.0f} {row.unit}" for name, side in row.sides.items())
    ratio = f", {row.ratio:.2f}×" if row.ratio is not None else ""
    errors = "".join(f", {name} errors {side.errors}" for name, side in row.sides.items() if side.errors)
    return sides + ratio + errors
