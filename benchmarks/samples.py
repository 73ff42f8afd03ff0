"""Samples of rounds, and their medians."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

import msgspec

from benchmarks.loadtool import Report
from benchmarks.servers import Server


class Sample(msgspec.Struct, frozen=True):
    """One round on one server."""

    operations: int
    bytes: int
    elapsed_seconds: float
    p50_seconds: float
    p99_seconds: float
    server_cpu_seconds: float
    client_cpu_seconds: float
    errors: dict[str, int]
    first_error_answer: str
    conflicts: int = 0
    """Commit conflicts, where writers contend."""


class Side(msgspec.Struct, frozen=True):
    """One server in one scenario: medians over the rounds."""

    speed: float
    """In the row's unit."""
    p50_seconds: float
    p99_seconds: float
    server_cpu_seconds: float
    """Per operation."""
    client_cpu_seconds: float
    """Per operation."""
    errors: dict[str, int]
    conflicts: float = 0
    """Per operation."""


class Cost(msgspec.Struct, frozen=True):
    """The cost of an operation on our server: medians over the rounds."""

    operations_a_second: float
    server_cpu_seconds: float
    """Per operation."""
    p50_seconds: float
    p99_seconds: float
    errors: int


def sampled(servers: Sequence[Server], work: Callable[[], Report]) -> Sample:
    """Run `work` and add the servers' processor time."""
    before = sum(server.cpu_seconds() for server in servers)
    try:
        report = work()
    except RuntimeError as error:
        for server in servers:
            state = "running" if server.is_alive else "not running"
            error.add_note(f"{server.recipe.name} is {state}. log={server.log_tail()}")
        raise
    return Sample(
        operations=report.operations,
        bytes=report.bytes,
        elapsed_seconds=report.elapsed_seconds,
        p50_seconds=report.p50_seconds,
        p99_seconds=report.p99_seconds,
        server_cpu_seconds=sum(server.cpu_seconds() for server in servers) - before,
        client_cpu_seconds=report.cpu_seconds,
        errors=report.errors,
        first_error_answer=report.first_error_answer,
        conflicts=report.conflicts,
    )


def operations_a_second(sample: Sample) -> float:
    return sample.operations / sample.elapsed_seconds


def side_of(samples: Sequence[Sample], speed: Callable[[Sample], float] = operations_a_second) -> Side:
    """Summarize the rounds of one server."""

    def middle(value: Callable[[Sample], float]) -> float:
        return statistics.median(value(sample) if sample.operations else 0.0 for sample in samples)

    errors: dict[str, int] = {}
    for sample in samples:
        for text, count in sample.errors.items():
            errors[text] = errors.get(text, 0) + count
    return Side(
        speed=middle(speed),
        p50_seconds=middle(lambda each: each.p50_seconds),
        p99_seconds=middle(lambda each: each.p99_seconds),
        server_cpu_seconds=middle(lambda each: each.server_cpu_seconds / each.operations),
        client_cpu_seconds=middle(lambda each: each.client_cpu_seconds / each.operations),
        errors=errors,
        conflicts=middle(lambda each: each.conflicts / each.operations),
    )


def cost_of(samples: Sequence[Sample]) -> Cost:
    """Summarize the rounds of our server alone. Raises RuntimeError if no request succeeded."""
    good = [sample for sample in samples if sample.operations]
    if not good:
        raise RuntimeError(
            f"no request succeeded. errors={samples[0].errors} response={samples[0].first_error_answer!r}"
        )
    return Cost(
        operations_a_second=statistics.median(map(operations_a_second, good)),
        server_cpu_seconds=statistics.median(each.server_cpu_seconds / each.operations for each in good),
        p50_seconds=statistics.median(each.p50_seconds for each in good),
        p99_seconds=statistics.median(each.p99_seconds for each in good),
        errors=sum(sum(each.errors.values()) for each in samples),
    )
