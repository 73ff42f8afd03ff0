"""Start time and cost of requests with 10^4 to 10^7 objects.

One object is uploaded, the server is stopped, and the object's rows are copied under other keys. No other benchmark
depends on the metadata tables.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import apsw
import msgspec

from benchmarks.endpoint import Request
from benchmarks.s3.scenarios import PAGE, listing
from benchmarks.s3.site import Site
from benchmarks.samples import Cost, Sample, cost_of
from benchmarks.session import report_progress
from benchmarks.signing import Signing

BUCKET: Final = "scale"
FOLDERS: Final = 1_000
COPY_BATCH: Final = 500_000
START_GOAL_SECONDS: Final = 1.0
START_GOAL_OBJECTS: Final = 1_000_000


class Scale(msgspec.Struct, frozen=True):
    """Costs with so many objects."""

    objects: int
    start_seconds: float
    """From the start of the process until it is ready."""
    paths: dict[str, Cost]


def scale(site: Site, sizes: Sequence[int], *, rounds: int, seconds: float) -> list[Scale]:
    """Grow one bucket to each of `sizes`, which ascend, and measure at each."""
    site.create_bucket(BUCKET)
    site.endpoint.call(Request("PUT", f"/{BUCKET}/{key(0)}", body=site.bodies.noise(64)))
    found, present = [], 1
    for size in sizes:
        report_progress(f"scale: growing to {size:,} objects")
        site.server.stop()
        _copy_rows(_database(site.server.data), present, size)
        present = size
        start_seconds = site.server.start()
        paths = {}
        for name, requests in _requests(site, size).items():
            samples = [_sample(site, requests, seconds) for _ in range(rounds + 1)][1:]  # without the warm-up
            paths[name] = cost_of(samples)
            report_progress(
                f"scale: {size:,} objects, {name}: {paths[name].server_cpu_seconds * 1e6:,.0f} µs of server CPU"
            )
        found.append(Scale(size, start_seconds, paths))
    return found


def key(index: int) -> str:
    """Keys alternate between the folders, so that every size fills all of them."""
    return f"folder-{index % FOLDERS:04d}/object-{index:08d}"


KEY_SQL: Final = f"printf('folder-%04d/object-%08d', n % {FOLDERS}, n)"
"""`key` in SQL."""


def _requests(site: Site, size: int) -> dict[str, list[Request]]:
    rng = random.Random(size)
    keys = [key(rng.randrange(size)) for _ in range(2_000)]
    body = site.bodies.noise(64)
    page = {"list-type": "2", "max-keys": str(PAGE)}
    # In the lower half, so that a full page follows even in the smallest bucket.
    starts = [f"folder-{rng.randrange(FOLDERS // 2):04d}/" for _ in range(200)]
    return {
        "GET": [Request("GET", f"/{BUCKET}/{each}", length=(64, 64)) for each in keys],
        "HEAD": [Request("HEAD", f"/{BUCKET}/{each}", length=(64, 64)) for each in keys],
        "PUT over": [Request("PUT", f"/{BUCKET}/{each}", body=body) for each in keys],
        "LIST 1,000 keys": [listing(BUCKET, {**page, "start-after": start}) for start in starts],
        "LIST 1,000 prefixes": [listing(BUCKET, {**page, "delimiter": "/"})],
    }


def _sample(site: Site, requests: Sequence[Request], seconds: float) -> Sample:
    return site.measure(lambda: site.tool.run(site.endpoint, requests, Signing.HEADER, seconds=seconds))


def _database(folder: Path) -> Path:
    """Find the SQLite file below `folder` that has the objects."""
    for path in sorted(folder.rglob("*")):
        if not path.is_file():
            continue
        with path.open("rb") as file:
            if file.read(16) != b"SQLite format 3\0":
                continue
        connection = apsw.Connection(str(path))
        try:
            if connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'objects'").fetchall():
                return path
        finally:
            connection.close()
    raise RuntimeError(f"metadata database not found. folder={folder}")


def _copy_rows(database: Path, first: int, end: int) -> None:
    """Create objects `first` … `end - 1` from object 0: a row in `objects` and one in `contents` each."""
    connection = apsw.Connection(str(database))
    try:
        connection.execute("PRAGMA synchronous = OFF; PRAGMA cache_size = -1000000")  # set-up needs no durability
        template = f"FROM objects o JOIN buckets b ON b.id = o.bucket WHERE b.name = '{BUCKET}' AND o.key = '{key(0)}'"
        [(bucket, content)] = connection.execute(f"SELECT o.bucket, o.content {template}").fetchall()
        [(highest,)] = connection.execute("SELECT max(id) FROM contents").fetchall()
        assert isinstance(highest, int)  # the template has a row
        columns = {
            table: [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
            for table in ("objects", "contents")
        }
        series = "WITH RECURSIVE series(n) AS (SELECT ?1 UNION ALL SELECT n + 1 FROM series WHERE n + 1 < ?2)"
        for low in range(first, end, COPY_BATCH):
            bounds = (low, min(low + COPY_BATCH, end), highest + 1 - first)
            fresh_id = {"id": "n + ?3"}
            fresh_key = {"key": KEY_SQL, "content": "n + ?3"}
            with connection:
                connection.execute(
                    f"{series} INSERT INTO contents SELECT {_select(columns['contents'], fresh_id)} "
                    "FROM series, contents WHERE contents.id = ?4",
                    (*bounds, content),
                )
                connection.execute(
                    f"{series} INSERT INTO objects SELECT {_select(columns['objects'], fresh_key)} "
                    "FROM series, objects WHERE objects.bucket = ?4 AND objects.key = ?5 ORDER BY 2",
                    (*bounds, bucket, key(0)),
                )
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        connection.close()
    os.sync()  # no write-back while the server is measured


def _select(columns: Sequence[str], fresh: dict[str, str]) -> str:
    return ", ".join(fresh.get(column, column) for column in columns)
