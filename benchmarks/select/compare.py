"""Runs each query on each system in turn (A B C A B C…); the results must be equal."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import boto3
import duckdb
import msgspec
from botocore.config import Config

from benchmarks.processes import MemoryWatch
from benchmarks.select.objects import MIB
from benchmarks.select.scenarios import CSV_OUT, Scenario
from benchmarks.servers import WORKERS, Server
from benchmarks.table import Table
from lakebed.client import LakebedClient, ServerAccess
from lakebed.core.secrets import Secret

BUCKET: Final = "select"
GOAL_MIB: Final = 300
CONCURRENT_OBJECTS: Final = 4
"""Objects that are queried concurrently."""


class Comparison(msgspec.Struct, frozen=True):
    """One query: seconds on each system, medians over the rounds."""

    name: str
    title: str
    object_mib: float
    lakebed_seconds: float
    minio_seconds: float | None
    duckdb_seconds: float
    highest_mib: float
    """Resident memory of Lakebed's largest process during the query."""
    goals: tuple[float | None, float | None]


def client_of(server: Server) -> Any:  # boto3 has no types
    """Create an S3 client of a server."""
    return boto3.client(
        "s3",
        endpoint_url=f"http://{server.address}",
        aws_access_key_id=server.credentials.access_key,
        aws_secret_access_key=server.credentials.secret_key,
        region_name="us-east-1",
        config=Config(s3={"addressing_style": "path"}, read_timeout=900, retries={"max_attempts": 1}),
    )


def store(client: Any, folder: Path, names: set[str]) -> None:
    """Upload the objects, in parts as clients upload large ones."""
    client.create_bucket(Bucket=BUCKET)
    for name in sorted(names):
        for path in files_of(folder, name):
            client.upload_file(str(path), BUCKET, str(path.relative_to(folder)))


def files_of(folder: Path, name: str) -> list[Path]:
    """The file of that name, or the files of the folder of that name."""
    return sorted((folder / name).iterdir()) if name.endswith("/") else [folder / name]


def select(client: Any, scenario: Scenario, key: str) -> bytes:
    """Return the records of a SelectObjectContent response."""
    response = client.select_object_content(
        Bucket=BUCKET,
        Key=key,
        Expression=scenario.ours,
        ExpressionType="SQL",
        InputSerialization=scenario.read,
        OutputSerialization=CSV_OUT,
    )
    parts, ended = [], False
    for event in response["Payload"]:
        if "Records" in event:
            parts.append(event["Records"]["Payload"])
        ended = ended or "End" in event
    if not ended:
        raise RuntimeError(f"incomplete response. scenario={scenario.name}")
    return b"".join(parts)


def select_each(client: Any, folder: Path, scenario: Scenario) -> bytes:
    """Query each object of a folder, several concurrently."""
    keys = [str(path.relative_to(folder)) for path in files_of(folder, scenario.object)]
    with ThreadPoolExecutor(CONCURRENT_OBJECTS) as pool:
        return b"".join(pool.map(lambda key: select(client, scenario, key), keys))


def select_prefix(access: ServerAccess, scenario: Scenario) -> bytes:
    """Query all objects of a folder in one request, which only Lakebed has."""
    with LakebedClient(access=access) as client:
        return b"".join(client.selects.run_prefix(BUCKET, scenario.object, scenario.ours, scenario.read, CSV_OUT))


def warm_up(server: Server, folder: Path) -> None:
    """Let each worker load the query engine, which happens with its first query."""
    small = folder / "warm.csv"
    small.write_bytes(b"1\n")
    client = client_of(server)
    client.upload_file(str(small), BUCKET, small.name)
    query = Scenario("warm", "", small.name, {"CSV": {}}, "SELECT * FROM S3Object", "")
    with ThreadPoolExecutor(2 * WORKERS) as pool:
        for _ in range(2):
            list(pool.map(lambda _: select(client_of(server), query, small.name), range(2 * WORKERS)))


def query_duckdb(folder: Path, scenario: Scenario) -> bytes:
    """Return DuckDB's result as CSV."""
    target = folder / "duckdb.csv"
    connection = duckdb.connect(config={"threads": WORKERS})
    try:
        query = scenario.theirs.format(folder / scenario.object)
        connection.execute(f"COPY ({query}) TO '{target}' (FORMAT csv, HEADER false)")
    finally:
        connection.close()
    return target.read_bytes()


def is_same(response: bytes, expected: bytes) -> bool:
    """Whether both have the same records, in any order and number format."""
    if response == expected:
        return True
    found, wanted = sorted(response.splitlines()), sorted(expected.splitlines())
    return found == wanted or [_values(line) for line in found] == [_values(line) for line in wanted]


def _values(line: bytes) -> list[float | bytes]:
    return [_value(field) for field in line.split(b",")]


def _value(field: bytes) -> float | bytes:
    try:
        return float(field)
    except ValueError:
        return field


def compare(ours: Server, peer: Server | None, folder: Path, scenario: Scenario, rounds: int) -> Comparison:
    """Run a query `rounds` times. Raises RuntimeError if the results differ."""
    client = client_of(ours)
    systems: dict[str, Callable[[], bytes]] = {"lakebed": lambda: select_each(client, folder, scenario)}
    if scenario.as_one:
        access = ServerAccess(
            f"http://{ours.address}", ours.credentials.access_key, Secret(ours.credentials.secret_key)
        )
        systems["lakebed"] = lambda: select_prefix(access, scenario)
    if peer is not None:
        other = client_of(peer)
        systems["minio"] = lambda: select_each(other, folder, scenario)
    systems["duckdb"] = lambda: query_duckdb(folder, scenario)
    expected = systems["lakebed"]()
    seconds: dict[str, list[float]] = {name: [] for name in systems}
    highest = 0
    for _ in range(rounds):
        for name, query in systems.items():
            with MemoryWatch(ours.pid) as watch:
                begin = time.monotonic()
                response = query()
                seconds[name].append(time.monotonic() - begin)
            if name == "lakebed":
                highest = max(highest, watch.highest().resident)
            if not is_same(response, expected):
                raise RuntimeError(
                    f"results differ. scenario={scenario.name} system={name} "
                    f"found={response[:200]!r} expected={expected[:200]!r}"
                )
    medians = {name: statistics.median(times) for name, times in seconds.items()}
    return Comparison(
        scenario.name,
        scenario.title,
        sum(path.stat().st_size for path in files_of(folder, scenario.object)) / MIB,
        medians["lakebed"],
        medians.get("minio"),
        medians["duckdb"],
        highest / MIB,
        scenario.goals,
    )


def table(results: list[Comparison]) -> Table:
    lines = []
    for each in results:
        ratios = [
            None if other is None else other / each.lakebed_seconds
            for other in (each.minio_seconds, each.duckdb_seconds)
        ]
        wanted = [f"≥ {goal:g}× {name}" for goal, name in zip(each.goals, ("MinIO", "DuckDB"), strict=True) if goal]
        met = each.highest_mib < GOAL_MIB and all(
            goal is None or ratio is None or ratio >= goal for goal, ratio in zip(each.goals, ratios, strict=True)
        )
        lines.append(
            [
                each.title,
                f"{each.object_mib:,.0f}",
                *(
                    "" if value is None else f"{value:.2f}"
                    for value in (each.lakebed_seconds, each.minio_seconds, each.duckdb_seconds)
                ),
                *("" if ratio is None else f"{ratio:.2f}×" for ratio in ratios),
                f"{each.highest_mib:,.0f}",
                ", ".join([*wanted, f"< {GOAL_MIB} MiB"]),
                "yes" if met else "no",
            ]
        )
    columns = [
        *("query", "object MiB", "Lakebed s", "MinIO s", "DuckDB s", "× MinIO", "× DuckDB"),
        *("our memory MiB", "goal", "met"),
    ]
    return Table("Select (medians of the rounds; × is Lakebed's speed relative to the peer)", columns, lines)
