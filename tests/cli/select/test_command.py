"""`lakebed select`, against a running server."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Iterator
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.conftest import Lakebed, Outcome
from tests.clients.boto import connected
from tests.clients.iceberg.lake import Lake as CatalogLake
from tests.clients.iceberg.lake import new_lake
from tests.clients.users import make_user
from tests.fixtures.server import RunningServer, running_server

pytestmark = [pytest.mark.integration, pytest.mark.slow]

PEOPLE = b"name,age\nAnn,31\nBob,29\nCid,42\n"


def parquet(**columns: list[object]) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    return file.getvalue()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server with a few objects in bucket `data`."""
    with running_server(tmp_path_factory.mktemp("select") / "data", workers=1) as server:
        with connected(server) as s3:
            s3.create_bucket(Bucket="data")
            s3.put_object(Bucket="data", Key="people.csv", Body=PEOPLE)
            s3.put_object(Bucket="data", Key="logs/", Body=b"")
            s3.put_object(Bucket="data", Key="logs/a.csv", Body=b"1,x\n2,y\n")
            s3.put_object(Bucket="data", Key="logs/b c.csv.gz", Body=gzip.compress(b'3,"z\n"\n4,w\n'))
            s3.put_object(Bucket="data", Key="logs/empty.csv", Body=b"")
            s3.put_object(Bucket="data", Key="mixed/a.csv", Body=b"1\n")
            s3.put_object(Bucket="data", Key="mixed/b.bin", Body=b"1\n")
            s3.put_object(Bucket="data", Key="numbers/a.csv", Body=b"1\n2\n")
            s3.put_object(Bucket="data", Key="numbers/b.csv.gz", Body=gzip.compress(b"3\n4\n"))
            s3.put_object(Bucket="data", Key="rows/a.json", Body=b'{"rows":[{"k":"a","n":1},{"k":"b","n":2}]}')
            s3.put_object(Bucket="data", Key="rows/b.json", Body=b'{"rows":[{"k":"a","n":10}]}')
            s3.put_object(Bucket="data", Key="tables/a.parquet", Body=parquet(id=[9, 9], name=["x", "y"]))
            s3.put_object(Bucket="data", Key="tables/b.parquet", Body=parquet(id=[1, 2], name=["a", "c"]))
            s3.put_object(Bucket="data", Key="tables/c.parquet", Body=parquet(id=[3], name=["b"]))
            s3.put_object(Bucket="data", Key="odd/a.parquet", Body=parquet(id=[1]))
            s3.put_object(Bucket="data", Key="odd/b.parquet", Body=parquet(other=[1]))
        yield server


@pytest.fixture
def run_command(server: RunningServer, lakebed: Lakebed, monkeypatch: pytest.MonkeyPatch) -> Lakebed:
    """Run a command against the server."""
    monkeypatch.setenv("LAKEBED_ENDPOINT", server.endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", server.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", server.secret_key)

    def run(*words: str) -> Outcome:
        return lakebed("select", *words)

    return run


def test_records_are_printed_as_a_table(run_command: Lakebed) -> None:
    outcome = run_command("s3://data/people.csv", "SELECT s.name, s.age FROM S3Object s LIMIT 2", "--header", "use")
    assert outcome.status == 0, outcome.err
    assert [line.split() for line in outcome.out.splitlines()] == [["name", "age"], ["Ann", "31"], ["Bob", "29"]]


def test_records_are_printed_as_csv_and_json(run_command: Lakebed) -> None:
    sql = "SELECT s.name, s.age FROM S3Object s WHERE CAST(s.age AS INT) > 30"
    as_csv = run_command("s3://data/people.csv", sql, "--header", "use", "--output", "csv")
    assert as_csv.out == "Ann,31\nCid,42\n"
    as_json = run_command("s3://data/people.csv", sql, "--header", "use", "--output", "json")
    assert [json.loads(line) for line in as_json.out.splitlines()] == [
        {"name": "Ann", "age": "31"},
        {"name": "Cid", "age": "42"},
    ]


def test_statistics_are_printed_on_stderr(run_command: Lakebed) -> None:
    outcome = run_command("s3://data/people.csv", "SELECT COUNT(*) FROM S3Object", "--output", "csv", "--stats")
    assert outcome.out == "4\n"
    assert outcome.err == f"scanned={len(PEOPLE)} processed={len(PEOPLE)} returned=2\n"


def test_range_selects_records(run_command: Lakebed) -> None:
    outcome = run_command("s3://data/people.csv", "SELECT * FROM S3Object", "--range", "9-10", "--output", "csv")
    assert outcome.out == "Ann,31\n"


def test_objects_under_a_prefix_are_queried_in_key_order(run_command: Lakebed) -> None:
    sql = "SELECT s._1, s._2 FROM S3Object s"
    outcome = run_command("s3://data/logs/", sql, "--output", "csv", "--stats", "--quoted-newlines")
    assert outcome.out == '1,x\n2,y\n3,"z\n"\n4,w\n'
    assert outcome.err.startswith("scanned=")


@pytest.mark.parametrize(("limit", "lines"), [(0, 0), (1, 1), (2, 2), (3, 4), (9, 5)])
def test_limit_applies_to_all_objects_together(limit: int, lines: int, run_command: Lakebed) -> None:
    sql = f"SELECT s._1, s._2 FROM S3Object s LIMIT {limit}"
    outcome = run_command("s3://data/logs/", sql, "--output", "csv", "--quoted-newlines")
    assert outcome.status == 0, outcome.err
    assert outcome.out.count("\n") == lines


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("s3://data/absent.csv", "SELECT * FROM S3Object"), "NoSuchKey"),
        (("s3://nothing-here/k.csv", "SELECT * FROM S3Object"), "NoSuchBucket"),
        (("s3://data/people.csv", "SELECT * FROM elsewhere"), "S3Object"),
        (("http://data/people.csv", "SELECT * FROM S3Object"), "s3://BUCKET/KEY"),
        (("s3://data/mixed/b.bin", "SELECT * FROM S3Object"), "--format"),
        (("s3://data/mixed/", "SELECT * FROM S3Object"), "--format"),
        (("s3://data/nothing/", "SELECT * FROM S3Object"), "no objects"),
        (("s3://data/logs/", "SELECT * FROM S3Object", "--range", "0-1"), "many objects"),
        (("s3://data/people.csv", "SELECT * FROM S3Object", "--range", "x"), "START-END"),
    ],
)
def test_invalid_query_is_one_line(words: tuple[str, ...], message: str, run_command: Lakebed) -> None:
    outcome = run_command(*words)
    assert outcome.status == 2
    assert message in outcome.err
    assert len(outcome.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("prefix", "sql", "expected"),
    [
        ("numbers/", "SELECT COUNT(*), SUM(CAST(s._1 AS INT)) FROM S3Object s", "4,10\n"),
        ("numbers/", "SELECT s._1 FROM S3Object s WHERE CAST(s._1 AS INT) > 1 ORDER BY s._1 DESC LIMIT 2", "4\n3\n"),
        ("numbers/", "SELECT COUNT(*) FROM S3Object s WHERE s._1 = 'none'", "0\n"),
        ("rows/", "SELECT r.k, SUM(r.n) FROM S3Object[*].rows[*] r GROUP BY r.k ORDER BY r.k", "a,11\nb,2\n"),
        ("tables/", "SELECT COUNT(*), MAX(s.name), AVG(s.id) FROM S3Object s WHERE s.id < 9", "3,c,2\n"),
    ],
)
def test_aggregates_cover_all_objects(prefix: str, sql: str, expected: str, run_command: Lakebed) -> None:
    outcome = run_command(f"s3://data/{prefix}", sql, "--output", "csv")
    assert outcome.status == 0, outcome.err
    assert outcome.out == expected


def test_objects_with_different_columns_are_not_aggregated(run_command: Lakebed) -> None:
    outcome = run_command("s3://data/odd/", "SELECT SUM(s.id) FROM S3Object s")
    assert outcome.status == 2
    assert "object lacks a column of the first object" in outcome.err
    assert "odd/b.parquet" in outcome.err


# -- tables ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def lake(server: RunningServer) -> CatalogLake:
    """A table `ns.t` with three snapshots: two rows, three rows, and one of them deleted."""
    lake = new_lake(server)
    with lake.catalog() as catalog:
        catalog.create_namespace("ns")
        rows = pa.table({"id": pa.array([1, 2], pa.int64()), "name": ["a", "b"]})
        table = catalog.create_table("ns.t", schema=rows.schema)
        table.append(rows)
        table.append(pa.table({"id": pa.array([3], pa.int64()), "name": ["c"]}))
        table.manage_snapshots().create_tag(table.current_snapshot().snapshot_id, "three").commit()
        table.delete("id = 1")
        catalog.create_table("ns.empty", schema=rows.schema)
    return lake


def test_table_query_reads_the_current_snapshot(lake: CatalogLake, run_command: Lakebed) -> None:
    where = ("--warehouse", lake.warehouse)
    outcome = run_command("ns.t", "SELECT t.name FROM S3Object t ORDER BY t.id DESC", *where, "--output", "csv")
    assert (outcome.status, outcome.out) == (0, "c\nb\n"), outcome.err
    assert run_command("ns.t", "SELECT COUNT(*) FROM S3Object", *where, "--output", "csv").out == "2\n"
    assert run_command("ns.empty", "SELECT COUNT(*) FROM S3Object", *where, "--output", "csv").out == "0\n"
    for source in ("t", "ns.t", "table t", "NS.T t", '"t"'):
        named = run_command("ns.t", f"SELECT t.name FROM {source} WHERE t.id >= 3", *where, "--output", "csv")
        assert (named.status, named.out) == (0, "c\n"), named.err
    shown = run_command("ns.t", "SELECT * FROM S3Object t WHERE t.id = 2", *where).out
    assert [line.split() for line in shown.splitlines()] == [["id", "name"], ["2", "b"]]


def test_table_query_reads_an_earlier_snapshot(lake: CatalogLake, run_command: Lakebed) -> None:
    with lake.catalog() as catalog:
        history = catalog.load_table("ns.t").history()
    first = history[0]
    for flags, count in (
        (("--snapshot", str(first.snapshot_id)), 2),
        (("--ref", "three"), 3),
        (("--ref", "main"), 2),
        (("--as-of", datetime.fromtimestamp(first.timestamp_ms / 1000, UTC).isoformat()), 2),
    ):
        outcome = run_command(
            "ns.t", "SELECT COUNT(*) FROM S3Object", "--warehouse", lake.warehouse, "--output", "csv", *flags
        )
        assert (outcome.status, outcome.out) == (0, f"{count}\n"), outcome.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("ns.absent", "SELECT * FROM S3Object"), "no such table"),
        (("ns.t", "SELECT * FROM S3Object", "--snapshot", "1"), "no such snapshot"),
        (("ns.t", "SELECT * FROM S3Object", "--ref", "none"), "no such snapshot"),
        (("ns.t", "SELECT * FROM S3Object", "--as-of", "2001-01-01"), "no such snapshot"),
        (("ns.t", "SELECT * FROM S3Object", "--as-of", "yesterday"), "expected a time"),
        (("ns.t", "SELECT s.absent FROM S3Object s"), "no such column"),
        (("t", "SELECT * FROM S3Object"), "NAMESPACE.TABLE"),
        (("ns.t", "SELECT * FROM S3Object", "--range", "0-1"), "does not apply to"),
        (("ns.t", "SELECT * FROM S3Object", "--quote", ""), "does not apply to"),
        (("s3://data/people.csv", "SELECT * FROM S3Object", "--ref", "main"), "apply to tables only"),
    ],
)
def test_invalid_table_query_is_one_line(
    words: tuple[str, ...], message: str, lake: CatalogLake, run_command: Lakebed
) -> None:
    outcome = run_command(*words, "--warehouse", lake.warehouse)
    assert outcome.status == 2
    assert message in outcome.err
    assert len(outcome.err.splitlines()) == 1


def test_table_query_requires_permission(
    lake: CatalogLake, server: RunningServer, run_command: Lakebed, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = make_user(server).keys
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", user.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", user.secret_key)
    outcome = run_command("ns.t", "SELECT * FROM S3Object", "--warehouse", lake.warehouse)
    assert outcome.status == 2
    assert len(outcome.err.splitlines()) == 1
