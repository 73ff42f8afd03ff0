"""Cost of catalog operations as the snapshots of a table, or the tables of the catalog, grow in number."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Sequence
from typing import Any, Final
from uuid import uuid4

import msgspec

from benchmarks.catalog import files
from benchmarks.catalog.appends import prepare
from benchmarks.catalog.recipes import WAREHOUSE
from benchmarks.catalog.site import Site, Table
from benchmarks.endpoint import Request
from benchmarks.samples import Cost, Sample, cost_of
from benchmarks.session import report_progress

HISTORIES: Final = "histories"
TABLES: Final = "tables"
COPIES: Final = 4
"""Tables for each number of snapshots."""
APPENDS: Final = 30
"""Commits to each table in a round; few, so that the number of snapshots hardly changes."""
WARM_SECONDS: Final = 0.5
MANIFESTS: Final = 10
"""Manifests of the newest snapshot."""
NEW_APPENDS: Final = 50
NEW_TABLES: Final = 200
PAGE: Final = 100
CONNECTIONS: Final = 8


class GrowthPoint(msgspec.Struct, frozen=True):
    """Costs at one size: snapshots of a table, or tables."""

    size: int
    paths: dict[str, Cost]


def grow_snapshots(site: Site, sizes: Sequence[int], *, rounds: int, seconds: float) -> list[GrowthPoint]:
    """Measure loads and commits of registered tables with so many snapshots."""
    site.create_namespace(HISTORIES)
    found = []
    for size in sizes:
        report_progress(f"growth: tables of {size:,} snapshots")
        tables = [_register_table(site, f"loaded-{size}-{index}", size) for index in range(COPIES)]
        paths = {
            "load, refs": _cost(site, [site.load_request(table, "refs") for table in tables], rounds, seconds),
            "load, all": _cost(site, [site.load_request(table) for table in tables], rounds, seconds),
            "append, 1 writer": cost_of([_append(site, size, number) for number in range(rounds)]),
        }
        found.append(GrowthPoint(size, paths))
        report_progress(describe(found[-1]))
    return found


def grow_tables(site: Site, sizes: Sequence[int], *, rounds: int, seconds: float) -> list[GrowthPoint]:
    """Measure one namespace at each of `sizes`, which ascend. Names are chosen at random."""
    site.create_namespace(TABLES)
    found, present = [], 0
    for size in sizes:
        report_progress(f"growth: {size:,} tables")
        names = [f"table-{index:06d}" for index in range(present, size)]
        site.tool.deliver(site.endpoint, [site.create_request(TABLES, name) for name in names], connections=CONNECTIONS)
        present = size
        os.sync()  # no write-back while the server is measured
        rng = random.Random(size)
        chosen = [Table(TABLES, f"table-{rng.randrange(size):06d}", "", "") for _ in range(2_000)]
        page = site.list_request(TABLES, {"pageSize": str(PAGE), "pageToken": ""})
        # Creates and appends use other namespaces, and add little compared with the larger sizes.
        paths = {
            "load": _cost(site, [site.load_request(table) for table in chosen], rounds, seconds),
            f"list, a page of {PAGE}": _cost(site, [page], rounds, seconds),
            "create": cost_of([_create(site, f"create-{size}-{number}") for number in range(rounds)]),
            "append, 1 writer": cost_of([_append_new(site, f"append-{size}-{number}") for number in range(rounds)]),
        }
        found.append(GrowthPoint(size, paths))
        report_progress(describe(found[-1]))
    return found


def describe(grown: GrowthPoint) -> str:
    """Format as one line."""
    costs = (f"{name} {cost.server_cpu_seconds * 1e3:,.2f} ms" for name, cost in grown.paths.items())
    return f"growth: {grown.size:,}: server CPU: {', '.join(costs)}"


def _cost(site: Site, requests: Sequence[Request], rounds: int, seconds: float) -> Cost:
    samples = [
        site.measure(lambda: site.tool.run(site.endpoint, requests, connections=CONNECTIONS, seconds=seconds))
        for _ in range(rounds + 1)
    ]
    return cost_of(samples[1:])  # without the warm-up


def _append(site: Site, size: int, number: int) -> Sample:
    """Append repeatedly to new tables with so many snapshots."""
    tables = [_register_table(site, f"appended-{size}-{number}-{index}", size) for index in range(COPIES)]
    now_ms = time.time_ns() // 1_000_000
    steps = range(size + 1, size + APPENDS + 1)
    # Not measured: the first commit after a registration, with a cold metadata cache,
    first = [site.append_request(table, steps[0], now_ms) for table in tables]
    site.tool.deliver(site.endpoint, first, connections=1)
    # and each worker's first load of a table that another worker changed.
    loads = [site.load_request(table, "refs") for table in tables]
    site.tool.run(site.endpoint, loads, connections=CONNECTIONS, seconds=WARM_SECONDS)
    requests = [site.append_request(table, step, now_ms + step) for table in tables for step in steps[1:]]
    sample = site.measure(lambda: site.tool.run(site.endpoint, requests, chains=[len(requests)]))
    for table in tables:
        site.check_appended(table, steps[-1])
    return sample


def _create(site: Site, namespace: str) -> Sample:
    site.create_namespace(namespace)
    requests = [site.create_request(namespace, f"table-{index}") for index in range(NEW_TABLES)]
    return site.measure(lambda: site.tool.run(site.endpoint, requests, connections=CONNECTIONS))


def _append_new(site: Site, namespace: str) -> Sample:
    site.create_namespace(namespace)
    series = prepare(site, namespace, "table", NEW_APPENDS, NEW_APPENDS)
    requests = series.requests(site)
    sample = site.measure(lambda: site.tool.run(site.endpoint, requests, chains=[len(requests)]))
    series.check(site, sample.operations)
    return sample


def _register_table(site: Site, name: str, snapshots: int) -> Table:
    """Register a table with so many snapshots; write the files of the newest and of the next appends."""
    location = f"s3://{WAREHOUSE}/{HISTORIES}/{name}"
    metadata_location = f"{location}/metadata/00000-{uuid4()}.metadata.json"
    first = max(1, snapshots - MANIFESTS + 1)
    contents = files.files_of_appends(location, range(first, snapshots + APPENDS + 1))
    contents.append((metadata_location, msgspec.json.encode(_metadata(location, snapshots))))
    site.store.put(contents)
    response = site.endpoint.call(site.register_request(HISTORIES, name, metadata_location))
    return site.parse_table(HISTORIES, name, response.body)


def _metadata(location: str, snapshots: int) -> dict[str, Any]:
    numbers = range(1, snapshots + 1)
    begin_ms = time.time_ns() // 1_000_000 - 1_000 * snapshots
    head = files.snapshot_id(snapshots)
    return {
        "format-version": files.VERSION,
        "table-uuid": str(uuid4()),
        "location": location,
        "last-sequence-number": snapshots,
        "last-updated-ms": begin_ms + 1_000 * snapshots,
        "last-column-id": files.COLUMNS,
        "current-schema-id": 0,
        "schemas": [files.table_schema()],
        "default-spec-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "last-partition-id": 999,
        "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "properties": {},
        "current-snapshot-id": head,
        "refs": {"main": {"type": "branch", "snapshot-id": head}},
        "snapshots": [files.snapshot(location, number, begin_ms + 1_000 * number) for number in numbers],
        "snapshot-log": [
            {"snapshot-id": files.snapshot_id(number), "timestamp-ms": begin_ms + 1_000 * number} for number in numbers
        ],
        "metadata-log": [],
    }
