"""The benchmark's tables."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.events.scenarios import Emptied, Notified, Ruled
from benchmarks.table import Table

MOST_SLOWDOWN = 0.10
MOST_SLOWDOWN_BY_RULES = 0.05


def notified(found: Sequence[Notified]) -> Table:
    """PUTs that are told of."""
    rows = [
        [
            f"{one.server}, {one.sink}",
            f"{one.plain_a_second:,.0f}",
            f"{one.notified_a_second:,.0f}",
            f"{one.slowdown:.1%}",
            _met(one.slowdown <= MOST_SLOWDOWN),
            f"{one.sustained_a_second:,.0f}",
            f"{one.calm_p50_ms:.1f} / {one.calm_p99_ms:.1f}",
            f"{one.loaded_p50_ms:,.0f} / {one.loaded_p99_ms:,.0f}",
            f"{one.lost:,}",
        ]
        for one in found
    ]
    return Table(
        "PUTs of 4 KiB with notification and without",
        [
            "server, sink",
            "PUT/s without",
            "PUT/s with",
            "slower by",
            f"≤ {MOST_SLOWDOWN:.0%}",
            "sustained: told of/s",
            "p50 / p99 ms, calm",
            "p50 / p99 ms, under load",
            "lost",
        ],
        rows,
        ["sustained: until the sink had the last of them; under load events wait in a queue while PUTs are faster"],
    )


def ruled(found: Sequence[Ruled]) -> Table:
    """PUTs into a bucket with many rules."""
    return Table(
        "PUTs into a bucket with many rules",
        ["server", "PUT/s, 1 rule", "PUT/s, 1,000 rules", "slower by", f"≤ {MOST_SLOWDOWN_BY_RULES:.0%}"],
        [
            [
                one.server,
                f"{one.one_a_second:,.0f}",
                f"{one.many_a_second:,.0f}",
                f"{one.slowdown:.1%}",
                _met(one.slowdown <= MOST_SLOWDOWN_BY_RULES),
            ]
            for one in found
        ],
    )


def emptied(found: Sequence[Emptied]) -> Table:
    """Queues that drain."""
    return Table(
        "Events that waited for a sink",
        ["server", "events", "drained in", "events/s", "MiB before", "MiB at most", "lost"],
        [
            [
                one.server,
                f"{one.events:,}",
                f"{one.seconds:,.1f} s",
                f"{one.a_second:,.0f}",
                f"{one.before_mib:,.0f}",
                f"{one.highest_mib:,.0f}",
                f"{one.lost:,}",
            ]
            for one in found
        ],
    )


def _met(is_met: bool) -> str:
    return "yes" if is_met else "no"
