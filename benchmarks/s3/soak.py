"""Runs a long mixed load on Lakebed, to detect memory growth."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from typing import Final

import msgspec

from benchmarks.endpoint import Request
from benchmarks.processes import MemoryWatch, Reading
from benchmarks.s3.scenarios import KIB, MIB, PAGE, listing
from benchmarks.s3.site import Site
from benchmarks.s3.transfers import upload
from benchmarks.session import report_progress
from benchmarks.signing import Signing

BUCKET: Final = "soak"
KEYS: Final = 2_000
INTERVAL_SECONDS: Final = 30


class Soak(msgspec.Struct, frozen=True):
    """Memory and operations of the run."""

    seconds: float
    operations: int
    errors: dict[str, int]
    early_mib: float
    """Median resident memory of the largest process in the second tenth of the run."""
    late_mib: float
    """The same in the last tenth."""
    highest_mib: float
    readings: list[tuple[float, float]]
    """Seconds and MiB, thinned."""

    @property
    def growth_mib_an_hour(self) -> float:
        """The slope between the early and the late median."""
        return (self.late_mib - self.early_mib) / (0.8 * self.seconds) * 3600


def soak(site: Site, seconds: float) -> Soak:
    """Run mixed load in intervals of half a minute, each signed again, with the ways of signing alternating."""
    site.create_bucket(BUCKET)
    small, large = site.bodies.noise(4 * KIB), site.bodies.noise(4 * MIB)
    paths = [f"/{BUCKET}/small/{index:06d}" for index in range(KEYS)]
    site.tool.deliver(site.endpoint, [Request("PUT", path, body=small) for path in paths])
    requests: list[Request] = []
    for index, path in enumerate(paths):
        requests += [
            Request("GET", path, length=(small.size, small.size)),
            Request("HEAD", path, length=(small.size, small.size)),
            Request("PUT", path, body=small),
            Request("GET", f"/{BUCKET}/missing/{index}", status=404),
        ]
        if index % 50 == 0:
            big = f"/{BUCKET}/large/{index % 8}"
            requests += [
                Request("PUT", big, body=large),
                Request("GET", f"/{BUCKET}/large/0", length=(large.size, large.size)),
                listing(BUCKET, {"list-type": "2", "max-keys": str(PAGE), "prefix": "small/"}),
            ]
    site.tool.deliver(site.endpoint, [Request("PUT", f"/{BUCKET}/large/0", body=large)])
    operations, errors = 0, dict[str, int]()
    begin = time.monotonic()
    turn = 0
    with MemoryWatch(site.server.pid, every_seconds=1) as watch:
        while (left := seconds - (time.monotonic() - begin)) > 0:
            signing = (Signing.HEADER, Signing.PRESIGNED)[turn % 2]
            report = site.tool.run(
                site.endpoint, requests, signing, connections=16, seconds=min(left, INTERVAL_SECONDS)
            )
            operations += report.operations
            for text, count in [*report.errors.items(), *_multipart(site, signing)]:
                errors[text] = errors.get(text, 0) + count
            turn += 1
            resident = _mib(watch.readings[-1])
            report_progress(f"soak: {time.monotonic() - begin:,.0f} s, {operations:,} operations, {resident:.0f} MiB")
    taken = watch.readings
    tenth = max(len(taken) // 10, 1)
    return Soak(
        seconds=time.monotonic() - begin,
        operations=operations,
        errors=errors,
        early_mib=statistics.median(map(_mib, taken[tenth : 2 * tenth] or taken)),
        late_mib=statistics.median(map(_mib, taken[-tenth:])),
        highest_mib=max(map(_mib, taken)),
        readings=_thin(taken),
    )


def _multipart(site: Site, signing: Signing) -> list[tuple[str, int]]:
    """Upload one object; return errors instead of raising them, to keep the readings."""
    try:
        return list(upload(site, f"/{BUCKET}/multipart", 2, signing).errors.items())
    except RuntimeError as error:
        return [(str(error), 1)]


def _mib(reading: Reading) -> float:
    return reading.largest.resident / MIB


def _thin(readings: Sequence[Reading], most: int = 120) -> list[tuple[float, float]]:
    step = -(-len(readings) // most)
    return [(round(each.seconds, 1), round(_mib(each), 1)) for each in readings[::step]]
