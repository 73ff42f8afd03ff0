"""Formats results of the event benchmarks."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.events.scenarios import NotificationCost, QueueDrain, RuleCost
from benchmarks.table import Table

MOST_SLOWDOWN = 0.10
MOST_SLOWDOWN_BY_RULES = 0.05


def notified(found: Sequence[NotificationCost]) -> Table:
    rows = [
        [
            f"{each.server}, {each.sink}",
            f"{each.plain_a_second:,.0f}",
            f"{each.notified_a_second:,.0f}",
            f"{each.slowdown:.1%}",
            _met(each.slowdown <= MOST_SLOWDOWN),
            f"{each.sustained_a_second:,.0f}",
            f"{each.calm_p50_ms:.1f} / {each.calm_p99_ms:.1f}",
            f"{each.loaded_p50_ms:,.0f} / {each.loaded_p99_ms:,.0f}",
            f"{each.lost:,}",
        ]
        for each in found
    ]
    return Table(
        "PUTs of 4 KiB with notification and without",
        [
            "server, sink",
            "PUT/s without",
            "PUT/s with",
            "slower by",
            f"≤ {MOST_SLOWDOWN:.0%}",
            "sustained events/s",
            "p50 / p99 ms, calm",
            "p50 / p99 ms, under load",
            "lost",
        ],
        rows,
        ["sustained: until the sink received the last event; under load events queue up while PUTs are faster"],
    )


def ruled(found: Sequence[RuleCost]) -> Table:
    return Table(
        "PUTs into a bucket with many rules",
        ["server", "PUT/s, 1 rule", "PUT/s, 1,000 rules", "slower by", f"≤ {MOST_SLOWDOWN_BY_RULES:.0%}"],
        [
            [
                each.server,
                f"{each.one_a_second:,.0f}",
                f"{each.many_a_second:,.0f}",
                f"{each.slowdown:.1%}",
                _met(each.slowdown <= MOST_SLOWDOWN_BY_RULES),
            ]
            for each in found
        ],
    )


def emptied(found: Sequence[QueueDrain]) -> Table:
    return Table(
        "Events queued for a stopped sink",
        ["server", "events", "drained in", "events/s", "MiB before", "MiB highest", "lost"],
        [
            [
                each.server,
                f"{each.events:,}",
                f"{each.seconds:,.1f} s",
                f"{each.a_second:,.0f}",
                f"{each.before_mib:,.0f}",
                f"{each.highest_mib:,.0f}",
                f"{each.lost:,}",
            ]
            for each in found
        ],
    )


def _met(is_met: bool) -> str:
    return "yes" if is_met else "no"
