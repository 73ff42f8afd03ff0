"""Runs each scenario on both sites in turn (A B A B…) and takes the medians of the rounds."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Iterable, Sequence

import msgspec

from benchmarks.pipeline import rows
from benchmarks.pipeline.rows import Files
from benchmarks.pipeline.scenarios import Scenario
from benchmarks.pipeline.site import DISK, LAKEBED, Site
from benchmarks.session import report_progress


class Sample(msgspec.Struct, frozen=True):
    seconds: float
    spark_cpu_seconds: float
    server_cpu_seconds: float
    after: Files


class Side(msgspec.Struct, frozen=True):
    """One site in one scenario: medians over the rounds."""

    seconds: float
    spark_cpu_seconds: float
    server_cpu_seconds: float
    before: Files
    after: Files
    """Of the last round."""


class Row(msgspec.Struct, frozen=True):
    name: str
    title: str
    goal: float
    sides: dict[str, Side]
    """By site, Lakebed first."""
    rounds: dict[str, list[Sample]]

    @property
    def ratio(self) -> float:
        """Our speed divided by the bare disk's."""
        return self.sides[DISK].seconds / self.sides[LAKEBED].seconds


def compare(scenarios: Iterable[Scenario], sites: Sequence[Site], *, rounds: int) -> tuple[list[Row], list[str]]:
    """Run `scenarios` on `sites`. Also returns the names of failed scenarios."""
    found: list[Row] = []
    broken: list[str] = []
    for scenario in scenarios:
        try:
            found.append(_row(scenario, sites, rounds))
            report_progress(f"{scenario.name}: {describe(found[-1])}")
        except Exception as error:  # Spark raises many types; measure the other scenarios
            broken.append(scenario.name)
            report_progress(f"{scenario.name} failed: {error}")
    return found, broken


def _row(scenario: Scenario, sites: Sequence[Site], rounds: int) -> Row:
    for site in sites:
        report_progress(f"{scenario.name}: set-up of {site.name}")
        scenario.prepare(site)
    before = {site.name: rows.files(site, scenario.table(site)) for site in sites}
    _check_same_files(scenario, sites)
    expected = rows.sums(scenario.outcome(sites[0]))
    samples: dict[str, list[Sample]] = {site.name: [] for site in sites}
    for number in range(rounds + 1):
        for site in sites:
            sample = _round(scenario, site)
            _check(scenario, site, expected, before[site.name], sample.after)
            scenario.restore(site)
            report_progress(f"{scenario.name}: {site.name}, {_described(sample)}{'' if number else ' (not counted)'}")
            if number:  # round 0 warms up Java
                samples[site.name].append(sample)
    return Row(
        name=scenario.name,
        title=scenario.title,
        goal=scenario.goal,
        sides={name: _side(each, before[name]) for name, each in samples.items()},
        rounds=samples,
    )


def _round(scenario: Scenario, site: Site) -> Sample:
    site.collect_garbage()
    os.sync()  # unwritten pages of one site must not slow the other
    spark_cpu, server_cpu, begin = site.spark_cpu_seconds(), site.server.cpu_seconds(), time.monotonic()
    scenario.work(site)
    return Sample(
        seconds=time.monotonic() - begin,
        spark_cpu_seconds=site.spark_cpu_seconds() - spark_cpu,
        server_cpu_seconds=site.server.cpu_seconds() - server_cpu,
        after=rows.files(site, scenario.table(site)),
    )


def _check_same_files(scenario: Scenario, sites: Sequence[Site]) -> None:
    first, *others = (rows.sizes(site, scenario.table(site)) for site in sites)
    if any(other != first for other in others):
        raise RuntimeError(f"files of the sites differ. scenario={scenario.name}")


def _check(scenario: Scenario, site: Site, expected: rows.Sums, before: Files, after: Files) -> None:
    found = rows.sums(site.spark.table(scenario.table(site).sql))
    if found != expected:
        raise RuntimeError(f"wrong rows. site={site.name} {expected=} {found=}")
    if (fault := scenario.fault(before, after)) is not None:
        raise RuntimeError(f"wrong files: {fault}. site={site.name}")


def _side(samples: Sequence[Sample], before: Files) -> Side:
    return Side(
        seconds=statistics.median(each.seconds for each in samples),
        spark_cpu_seconds=statistics.median(each.spark_cpu_seconds for each in samples),
        server_cpu_seconds=statistics.median(each.server_cpu_seconds for each in samples),
        before=before,
        after=samples[-1].after,
    )


def describe(row: Row) -> str:
    """Format the row as one line."""
    sides = ", ".join(f"{name} {side.seconds:.1f} s" for name, side in row.sides.items())
    return f"{sides}, {row.ratio:.2f}×"


def _described(sample: Sample) -> str:
    return (
        f"{sample.seconds:.1f} s, processor time: Spark {sample.spark_cpu_seconds:.1f} s,"
        f" server {sample.server_cpu_seconds:.1f} s"
    )
