"""Measures PUTs with and without notification, delivery latency, and the draining of queues."""

from __future__ import annotations

import statistics
import time
import uuid

import msgspec

from benchmarks.endpoint import Request
from benchmarks.events.notifications import RULES, notify
from benchmarks.events.sink import Sink
from benchmarks.processes import MemoryWatch
from benchmarks.s3.site import Site
from benchmarks.session import report_progress

OBJECT_BYTES = 4096
KEYS = 20_000
CONNECTIONS = 8
_TIMEOUT_SECONDS = 600.0
_PAUSE_SECONDS = 0.02


class NotificationCost(msgspec.Struct, frozen=True):
    """PUTs of one server with and without notification to one kind of sink: medians of the rounds."""

    server: str
    sink: str
    plain_a_second: float
    notified_a_second: float
    """As seen by the writer."""
    slowdown: float
    """How much slower PUTs with notification are."""
    sustained_a_second: float
    """Until the sink received the last event."""
    loaded_p50_ms: float
    loaded_p99_ms: float
    calm_p50_ms: float
    calm_p99_ms: float
    lost: int
    """Acknowledged PUTs without an event."""
    errors: int


class RuleCost(msgspec.Struct, frozen=True):
    """PUTs into a bucket with one rule, and with many."""

    server: str
    one_a_second: float
    many_a_second: float
    rules: int
    slowdown: float
    errors: int


class QueueDrain(msgspec.Struct, frozen=True):
    """Delivery of events that were queued while the sink was stopped."""

    server: str
    events: int
    seconds: float
    a_second: float
    lost: int
    before_mib: float
    highest_mib: float
    """Resident memory of the largest process at the start of the sink, and the highest value during delivery."""


def measure_notified(site: Site, kind: str, sink: Sink, *, rounds: int, seconds: float, calm: int) -> NotificationCost:
    """Alternate rounds without and with notification; then PUT slowly, for latencies without load."""
    name = site.server.recipe.name
    plain, notified, sustained, p50, p99 = [], [], [], [], []
    lost = errors = 0
    for number in range(rounds):
        report_progress(f"{name}, {kind}: round {number + 1} of {rounds}")
        rate, wrong, _ = _put(site, _bucket(site), seconds)
        plain.append(rate)
        errors += wrong
        bucket = _bucket(site)
        notify(site.endpoint, bucket, kind)
        sink.reset()
        begin = time.time()
        rate, wrong, count = _put(site, bucket, seconds)
        seen = sink.wait_for(count, seconds=_TIMEOUT_SECONDS)
        notified.append(rate)
        errors += wrong
        lost += max(0, count - seen.distinct)
        sustained.append(count / max(seconds, seen.last_at - begin))
        p50.append(seen.p50_ms)
        p99.append(seen.p99_ms)
    bucket = _bucket(site)
    notify(site.endpoint, bucket, kind)
    sink.reset()
    body = site.bodies.noise(OBJECT_BYTES)
    for number in range(calm):
        site.endpoint.call(Request("PUT", f"/{bucket}/k{number}", body=body))
        time.sleep(_PAUSE_SECONDS)
    calm_seen = sink.wait_for(calm, seconds=_TIMEOUT_SECONDS)
    lost += max(0, calm - calm_seen.distinct)
    off, on = statistics.median(plain), statistics.median(notified)
    return NotificationCost(
        name,
        kind,
        off,
        on,
        1 - on / off if off else 0.0,
        statistics.median(sustained),
        statistics.median(p50),
        statistics.median(p99),
        calm_seen.p50_ms,
        calm_seen.p99_ms,
        lost,
        errors,
    )


def measure_rules(site: Site, kind: str, sink: Sink, *, rounds: int, seconds: float) -> RuleCost:
    """Alternate rounds with one rule and with many."""
    name = site.server.recipe.name
    rates: dict[int, list[float]] = {1: [], RULES: []}
    errors = 0
    for number in range(rounds):
        for rules, found in rates.items():
            report_progress(f"{name}: {rules} rules, round {number + 1} of {rounds}")
            bucket = _bucket(site)
            notify(site.endpoint, bucket, kind, rules=rules)
            sink.reset()
            rate, wrong, count = _put(site, bucket, seconds)
            # The next round starts with an empty queue.
            sink.wait_for(count, seconds=_TIMEOUT_SECONDS)
            found.append(rate)
            errors += wrong
    one, many = statistics.median(rates[1]), statistics.median(rates[RULES])
    return RuleCost(name, one, many, RULES, 1 - many / one if one else 0.0, errors)


def measure_emptying(site: Site, kind: str, sink: Sink, *, events: int) -> QueueDrain:
    """Write while the sink is stopped, start it, and wait until it has all events."""
    name = site.server.recipe.name
    bucket = _bucket(site)
    notify(site.endpoint, bucket, kind)
    sink.stop()
    report_progress(f"{name}: {events} events while the sink is stopped")
    body = site.bodies.noise(64)
    requests = [Request("PUT", f"/{bucket}/k{number}", body=body) for number in range(events)]
    site.tool.deliver(site.endpoint, requests, connections=CONNECTIONS)
    with MemoryWatch(site.server.pid) as watch:
        time.sleep(0.3)
        before = watch.highest()
        report_progress(f"{name}: the sink is started")
        begin = time.time()
        sink.start()
        seen = sink.wait_for(events, seconds=_TIMEOUT_SECONDS)
    took = max(0.001, seen.last_at - begin)
    mib = 1024 * 1024
    return QueueDrain(
        name,
        events,
        took,
        seen.distinct / took,
        events - seen.distinct,
        before.resident / mib,
        watch.highest().resident / mib,
    )


def _bucket(site: Site) -> str:
    name = f"b-{uuid.uuid4().hex[:20]}"
    site.create_bucket(name)
    return name


def _put(site: Site, bucket: str, seconds: float) -> tuple[float, int, int]:
    """Return PUTs a second, unexpected responses, and successful PUTs."""
    body = site.bodies.noise(OBJECT_BYTES)
    requests = [Request("PUT", f"/{bucket}/k{number}", body=body) for number in range(KEYS)]
    report = site.tool.run(site.endpoint, requests, connections=CONNECTIONS, seconds=seconds)
    return report.operations / report.elapsed_seconds, sum(report.errors.values()), report.operations
