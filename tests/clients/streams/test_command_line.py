"""`lakebed streams` on a running server."""

from __future__ import annotations

import asyncio
import datetime
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pytest

import fluss
from tests.clients.streams.serving import StreamServer, make_table, read_records

pytestmark = pytest.mark.integration

Run = Callable[..., "subprocess.CompletedProcess[bytes]"]


@pytest.fixture
def run(streams: StreamServer) -> Run:
    """Run a subcommand on a table as root."""
    environment = {
        **os.environ,
        "LAKEBED_ACCESS_KEY": streams.server.access_key,
        "LAKEBED_SECRET_KEY": streams.server.secret_key,
    }

    def run(task: str, table: str, *flags: str, rows: str = "") -> subprocess.CompletedProcess[bytes]:
        command = [sys.executable, "-m", "lakebed", "streams", task, table, "--address", streams.address, *flags]
        return subprocess.run(
            command, env=environment, input=rows.encode(), capture_output=True, timeout=120, check=False
        )

    return run


def printed(done: subprocess.CompletedProcess[bytes]) -> Any:  # Any: a JSON document
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def followed(run: Run, table: str, *flags: str) -> list[Any]:  # Any: JSON documents
    """All records of a table."""
    done = run("tail", table, "--from-start", "--no-follow", "--json", *flags)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_log_table_is_created_written_read_and_reports_its_lag(run: Run, database: str) -> None:
    table = f"{database}.orders"
    columns = ["--column", "id:bigint", "--column", "total:decimal(10,2)", "--column", "at:timestamp"]
    made = printed(run("create", table, *columns, "--buckets", "2", "--option", "table.log.ttl=1d", "--json"))
    assert made["bucket_count"] == 2
    assert made["properties"]["table.log.ttl"] == "1d"
    assert run("create", table, *columns).returncode == 2
    assert run("create", table, *columns, "--if-not-exists").returncode == 0
    rows = '{"id":1,"total":"1.50","at":"2024-01-02T03:04:05"}\n{"id":2}\n'
    assert printed(run("produce", table, "--json", rows=rows)) == {"appended": "2"}
    assert printed(run("produce", table, "--json")) == {"appended": "0"}
    records = [
        json.loads(line) for line in run("tail", table, "--from-start", "--no-follow", "--json").stdout.splitlines()
    ]
    assert [(record["offset"], record["change"], record["row"]) for record in records] == [
        (0, "+A", {"id": 1, "total": "1.50", "at": "2024-01-02 03:04:05"}),
        (1, "+A", {"id": 2, "total": None, "at": None}),
    ]
    assert len(run("tail", table, "--from-start", "--limit", "1").stdout.splitlines()) == 1
    assert run("tail", table, "--no-follow").stdout == b""
    found = printed(run("describe", table, "--json"))
    assert [(part["bucket"], part["start"], part["end"]) for part in found["offsets"]] == [(0, 0, 2), (1, 0, 0)]
    behind, empty = printed(run("lag", table, "--json"))
    assert 0 <= behind.pop("age") < 600
    assert behind == {"partition": "", "bucket": 0, "end": 2, "lake": None, "lag": 2}
    assert empty == {"partition": "", "bucket": 1, "end": 0, "lake": None, "lag": 0, "age": None}
    assert b"not tiered: table.datalake.enabled is not true" in run("lag", table).stdout


def test_lag_compares_tiering_with_the_freshness(run: Run, database: str) -> None:
    table = f"{database}.orders"
    options = ["--option", "table.datalake.enabled=true", "--option", "table.datalake.freshness=1ms"]
    assert run("create", table, "--column", "id:int", *options).returncode == 0
    assert b"All records are tiered. The freshness is 0.001 s." in run("lag", table).stdout
    run("produce", table, rows='{"id":1}\n')
    assert b" s old: beyond the freshness of 0.001 s." in run("lag", table).stdout


async def test_changelog_is_printed(run: Run, connection: Any, table_path: Any) -> None:
    table = await make_table(connection, table_path, primary_key=["id"])
    writer = table.new_upsert().create_writer()
    for score in (1.0, 2.0):
        await writer.upsert({"id": 7, "name": "n", "score": score}).wait()
    done = run("tail", f"{table_path.database_name}.{table_path.table_name}", "--from-start", "--no-follow", "--json")
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(record["change"], record["row"]["score"]) for record in records] == [("+I", 1.0), ("-U", 1.0), ("+U", 2.0)]


def test_commands_accept_partition_names(run: Run, database: str) -> None:
    table = f"{database}.daily"
    options = ["--option", "table.auto-partition.enabled=true", "--partition-by", "day"]
    made = printed(run("create", table, "--column", "id:int", "--column", "day:string", *options, "--json"))
    day = made["offsets"][0]["partition"]
    assert run("tail", table).returncode == 2
    for flags in (["--partition", day], []):
        row = json.dumps({"id": 1, "day": day}) + "\n"
        assert printed(run("produce", table, *flags, "--json", rows=row)) == {"appended": "1"}
        # A row of another partition, and an invalid time.
        bad = run("produce", table, *flags, rows=row + '{"id":2,"day":"x"}\n')
        assert (bad.returncode, len(bad.stderr.splitlines())) == (2, 1), bad.stderr
    lag = {part["partition"]: part["lag"] for part in printed(run("lag", table, "--json"))}
    assert lag[day] == 2
    assert len(lag) == 2


@pytest.mark.parametrize("key", [pytest.param([], marks=pytest.mark.heavy), ["--key", "id,region"]])
def test_rows_are_routed_to_partitions_that_are_created(run: Run, database: str, key: list[str]) -> None:
    table = f"{database}.orders"
    columns = ["--column", "id:int!", "--column", "region:string!", "--partition-by", "region", *key]
    assert run("create", table, *columns).returncode == 0
    rows = "".join(json.dumps({"id": number, "region": ("EU", "US")[number % 2]}) + "\n" for number in range(5))
    unmade = run("produce", table, "--no-create-partition", rows=rows)
    assert (unmade.returncode, len(unmade.stderr.splitlines())) == (2, 1), unmade.stderr
    assert printed(run("describe", table, "--json"))["offsets"] == []
    assert run("produce", table, rows=rows).returncode == 0
    other = run("produce", table, "--partition", "EU", rows='{"id":7,"region":"US"}\n')
    assert (other.returncode, b"of a different partition" in other.stderr) == (2, True)
    assert run("produce", table, "--partition", "AS", rows='{"id":7,"region":"AS"}\n').returncode == 0
    ends = {part["partition"]: part["end"] for part in printed(run("describe", table, "--json"))["offsets"]}
    assert ends == {"EU": 3, "US": 2, "AS": 1}
    found = followed(run, table, "--partition", "US")
    assert [record["row"] for record in found] == [{"id": 1, "region": "US"}, {"id": 3, "region": "US"}]
    if key:
        gone = '{"id":1,"region":"US"}\n{"id":1,"region":"nowhere"}\n'
        assert printed(run("produce", table, "--delete", "--json", rows=gone)) == {"deleted": "2"}
        assert followed(run, table, "--partition", "US")[-1]["change"] == "-D"
        assert len(printed(run("describe", table, "--json"))["offsets"]) == 3


@pytest.mark.parametrize(
    ("task", "flags", "rows"),
    [
        ("describe", [], ""),
        ("lag", [], ""),
        ("tail", ["--no-follow"], ""),
        ("produce", [], "{}"),
        ("create", ["--column", "id:what"], ""),
        ("create", ["--column", "id:int", "--option", "nonsense"], ""),
        ("create", ["--column", "id:int", "--option", "table.nonsense=1"], ""),
    ],
)
def test_errors_are_one_line(run: Run, database: str, task: str, flags: list[str], rows: str) -> None:
    done = run(task, f"{database}.nothing", *flags, rows=rows)
    assert done.returncode == 2
    assert done.stderr.startswith(b"lakebed: ")
    assert len(done.stderr.splitlines()) == 1


def test_rows_that_do_not_match_the_schema_are_refused(run: Run, database: str) -> None:
    table = f"{database}.t"
    assert run("create", table, "--column", "id:int").returncode == 0
    bad = run("produce", table, rows='{"nope":1}\n')
    assert (bad.returncode, len(bad.stderr.splitlines())) == (2, 1), bad.stderr
    assert b"no deletes" in run("produce", table, "--delete", rows='{"id":1}\n').stderr


KEYED: Final = {
    "boolean": (True, True),
    "tinyint": (-7, -7),
    "smallint": (-300, -300),
    "int": (-1, -1),
    "bigint": (2**40, 2**40),
    "float": (0.5, 0.5),
    "double": (-0.25, -0.25),
    "string": ("grüße", "grüße"),
    "char(5)": ("abc", "abc"),
    "decimal(10,2)": ("12.50", Decimal("12.50")),
    "decimal(30,4)": ("-123456789012345678.1234", Decimal("-123456789012345678.1234")),
    "date": ("1969-12-31", datetime.date(1969, 12, 31)),
    "time(3)": ("23:59:58.125", datetime.time(23, 59, 58, 125000)),
    "timestamp": ("2026-11-16T01:02:03.456789", datetime.datetime(2026, 11, 16, 1, 2, 3, 456789)),
    "timestamp(3)": ("1960-01-01T00:00:00.001", datetime.datetime(1960, 1, 1, 0, 0, 0, 1000)),
    "bytes": ("raw", b"raw"),
}
"""A value of each type, in JSON and in pyfluss."""


async def test_kv_rows_are_in_the_bucket_where_clients_look_them_up(run: Run, connection: Any, table_path: Any) -> None:
    table = f"{table_path.database_name}.{table_path.table_name}"
    columns = [word for at, type_ in enumerate(KEYED) for word in ("--column", f"c{at}:{type_}")]
    keys = ["--column", "id:int!", "--column", "name:string!", "--key", "id,name"]
    assert run("create", table, *keys, *columns, "--buckets", "5").returncode == 0
    values = {f"c{at}": value for at, (value, _) in enumerate(KEYED.values())}
    rows = "".join(json.dumps({"id": n - 20, "name": f"n{n}"} | values) + "\n" for n in range(40))
    assert printed(run("produce", table, "--json", rows=rows)) == {"upserted": "40"}
    opened = await connection.get_table(table_path)
    lookuper = opened.new_lookup().create_lookuper()
    wanted = {f"c{at}": found for at, (_, found) in enumerate(KEYED.values())}
    for number in (0, 13, 39):
        key = {"id": number - 20, "name": f"n{number}"}
        assert await lookuper.lookup(key) == key | wanted
    gone = '{"id":-20,"name":"n0"}\n{"id":19,"name":"n39","c3":1}\n{"id":99,"name":"absent"}\n'
    assert printed(run("produce", table, "--delete", "--json", rows=gone)) == {"deleted": "3"}
    assert await lookuper.lookup({"id": -20, "name": "n0"}) is None
    assert await lookuper.lookup({"id": 19, "name": "n39"}) is None
    assert await lookuper.lookup({"id": -19, "name": "n1"}) == {"id": -19, "name": "n1"} | wanted
    bad = run("produce", table, rows='{"id":1,"name":null}\n')
    assert (bad.returncode, len(bad.stderr.splitlines())) == (2, 1), bad.stderr


@pytest.mark.heavy
async def test_auto_increment_columns_are_left_to_the_server(run: Run, connection: Any, table_path: Any) -> None:
    schema = pa.schema([("name", pa.string()), ("number", pa.int64()), ("note", pa.string())])
    opened = await make_table(connection, table_path, schema, primary_key=["name"], auto_increment="number")
    table = f"{table_path.database_name}.{table_path.table_name}"
    rows = '{"name":"a","note":"x"}\n{"name":"b"}\n'
    assert printed(run("produce", table, "--json", rows=rows)) == {"upserted": "2"}
    lookuper = opened.new_lookup().create_lookuper()
    assert await lookuper.lookup({"name": "a"}) == {"name": "a", "number": 1, "note": "x"}
    assert await lookuper.lookup({"name": "b"}) == {"name": "b", "number": 2, "note": None}


async def test_log_rows_are_bucketed_by_the_bucket_key(run: Run, connection: Any, table_path: Any) -> None:
    opened = await make_table(connection, table_path, bucket_keys=["name"], bucket_count=3)
    async with opened.new_append().create_writer() as writer:
        for number in range(30):
            writer.append({"id": number, "name": f"n{number}", "score": None})
    table = f"{table_path.database_name}.{table_path.table_name}"
    rows = "".join(json.dumps({"id": number, "name": f"n{number}"}) + "\n" for number in range(30))
    assert printed(run("produce", table, "--json", rows=rows)) == {"appended": "30"}
    scanner = await opened.new_scan().create_log_scanner()
    scanner.subscribe_buckets(dict.fromkeys(range(3), fluss.EARLIEST_OFFSET))
    found: dict[str, list[int]] = {}
    count = 0
    while count < 60:
        for bucket, records in (await scanner.poll(5000)).items():
            count += len(records)
            for record in records:
                found.setdefault(record.row["name"], []).append(bucket.bucket_id)
    assert all(len(each) == 2 and each[0] == each[1] for each in found.values())
    assert len({each[0] for each in found.values()}) == 3


@pytest.mark.heavy
async def test_kv_rows_of_partitioned_tables(run: Run, connection: Any, admin: Any, table_path: Any) -> None:
    schema = pa.schema([("id", pa.int32()), ("region", pa.string()), ("v", pa.int32())])
    opened = await make_table(
        connection, table_path, schema, primary_key=["id", "region"], partition_keys=["region"], bucket_count=2
    )
    await admin.create_partition(table_path, {"region": "EU"})
    table = f"{table_path.database_name}.{table_path.table_name}"
    rows = '{"id":1,"region":"EU","v":5}\n{"id":2,"region":"EU","v":6}\n'
    assert printed(run("produce", table, "--partition", "EU", "--json", rows=rows)) == {"upserted": "2"}
    lookuper = opened.new_lookup().create_lookuper()
    assert await lookuper.lookup({"id": 2, "region": "EU"}) == {"id": 2, "region": "EU", "v": 6}
    rows = '{"id":1,"region":"US","v":7}\n{"id":1,"region":"EU","v":8}\n'
    assert printed(run("produce", table, "--json", rows=rows)) == {"upserted": "2"}
    assert await lookuper.lookup({"id": 1, "region": "EU"}) == {"id": 1, "region": "EU", "v": 8}
    assert await lookuper.lookup({"id": 1, "region": "US"}) == {"id": 1, "region": "US", "v": 7}


@pytest.mark.parametrize("lake", ["iceberg", pytest.param("paimon", marks=pytest.mark.heavy)])
async def test_kv_rows_of_lake_tables_are_in_the_bucket_where_clients_look_them_up(
    run: Run, connection: Any, table_path: Any, lake: str
) -> None:
    opened = await make_table(
        connection, table_path, primary_key=["id"], bucket_count=5, properties={"table.datalake.format": lake}
    )
    table = f"{table_path.database_name}.{table_path.table_name}"
    ids = [-(2**31), -1, 0, 1, 127, 128, 300, 70_000, 2**31 - 1]
    rows = "".join(json.dumps({"id": number, "name": f"n{number}"}) + "\n" for number in ids)
    assert printed(run("produce", table, "--json", rows=rows)) == {"upserted": str(len(ids))}
    lookuper = opened.new_lookup().create_lookuper()
    found = await asyncio.gather(*(lookuper.lookup({"id": number}) for number in ids))
    assert [None if row is None else row["name"] for row in found] == [f"n{number}" for number in ids]
    assert run("produce", table, "--delete", rows='{"id":128}\n').returncode == 0
    assert await lookuper.lookup({"id": 128}) is None


@pytest.mark.heavy
@pytest.mark.parametrize("lake", ["iceberg", "paimon"])
async def test_log_rows_of_lake_tables_are_bucketed_by_the_bucket_key(
    run: Run, connection: Any, table_path: Any, lake: str
) -> None:
    properties = {"table.datalake.format": lake}
    opened = await make_table(connection, table_path, bucket_keys=["name"], bucket_count=3, properties=properties)
    async with opened.new_append().create_writer() as writer:
        for number in range(30):
            writer.append({"id": number, "name": f"name {number}", "score": None})
    table = f"{table_path.database_name}.{table_path.table_name}"
    rows = "".join(json.dumps({"id": number, "name": f"name {number}"}) + "\n" for number in range(30))
    assert printed(run("produce", table, "--json", rows=rows)) == {"appended": "30"}
    buckets: dict[str, list[int]] = {}
    for record in followed(run, table):
        buckets.setdefault(record["row"]["name"], []).append(record["bucket"])
    assert all(len(each) == 2 and each[0] == each[1] for each in buckets.values())
    assert len({each[0] for each in buckets.values()}) == 3


@pytest.mark.heavy
async def test_produce_refuses_tables_of_unsupported_lake_formats(run: Run, database: str) -> None:
    table = f"{database}.t"
    columns = ["--column", "id:int", "--key", "id", "--buckets", "2", "--option", "table.datalake.format=hudi"]
    assert run("create", table, *columns).returncode == 0
    done = run("produce", table, rows='{"id":1}\n')
    assert (done.returncode, b"use a Fluss client" in done.stderr) == (2, True)


@pytest.mark.parametrize("format_", ["INDEXED", "COMPACTED"])
@pytest.mark.parametrize("key", [[], pytest.param(["--key", "id"], marks=pytest.mark.heavy)])
def test_row_format_logs_are_written_and_read(run: Run, database: str, format_: str, key: list[str]) -> None:
    table = f"{database}.rows"
    options = ["--option", f"table.log.format={format_}", "--option", f"table.kv.format={format_}"]
    columns = ["--column", "id:int!", "--column", "name:string", "--column", "marks:map<string,int>"]
    assert run("create", table, *columns, *options, *key).returncode == 0
    rows = [{"id": 1, "name": "a", "marks": {"x": 1}}, {"id": 2, "name": None, "marks": None}]
    assert run("produce", table, rows="".join(json.dumps(row) + "\n" for row in rows)).returncode == 0
    found = followed(run, table)
    assert [record["row"] for record in found] == rows
    assert [record["change"] for record in found] == ["+I" if key else "+A"] * 2


@pytest.mark.parametrize(
    "compression", ["LZ4_FRAME", *(pytest.param(each, marks=pytest.mark.heavy) for each in ("NONE", "ZSTD"))]
)
async def test_logs_use_the_configured_compression(
    run: Run, connection: Any, table_path: Any, compression: str
) -> None:
    properties = {"table.log.arrow.compression.type": compression}
    opened = await make_table(connection, table_path, properties=properties)
    table = f"{table_path.database_name}.{table_path.table_name}"
    rows = "".join(json.dumps({"id": number, "name": "the same"}) + "\n" for number in range(200))
    assert printed(run("produce", table, "--json", rows=rows)) == {"appended": "200"}
    assert [record.row["id"] for record in await read_records(opened, 200)] == list(range(200))


NESTED: Final = {
    "tags:array<string>": ["a", None, "longer than a slot"],
    "marks:map<string,int>": {"x": 1, "y": None},
    "home:row<street string, number int!, since date>": {"street": "s", "number": 7, "since": "2024-02-29"},
    "deep:array<map<int,row<at timestamp(3), sum decimal(10,2)>>>": [
        {"1": {"at": "2024-01-02 03:04:05", "sum": "1.50"}},
        None,
    ],
}
"""Columns, and a value of each as `tail` prints it."""


@pytest.mark.parametrize("key", [pytest.param([], marks=pytest.mark.heavy), ["--key", "id"]])
def test_nested_columns_are_created_written_and_read(run: Run, database: str, key: list[str]) -> None:
    table = f"{database}.nested"
    columns = [word for column in ("id:int!", *NESTED) for word in ("--column", column)]
    made = printed(run("create", table, *columns, *key, "--json"))
    assert [column["data_type"]["type"] for column in made["schema"]["columns"]] == [
        "INTEGER",
        "ARRAY",
        "MAP",
        "ROW",
        "ARRAY",
    ]
    assert b"marks map<string,int>, home row<street string, number int!, since date>," in run("describe", table).stdout
    names = [column.partition(":")[0] for column in NESTED]
    rows = [{"id": 1} | dict(zip(names, NESTED.values(), strict=True)), {"id": 2} | dict.fromkeys(names)]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    assert run("produce", table, rows=lines).returncode == 0
    assert [record["row"] for record in followed(run, table)] == rows
    for bad in ({"home": {"street": "s"}}, {"home": {"number": 1, "nope": 2}}, {"marks": [1]}, {"tags": "a"}):
        done = run("produce", table, rows=json.dumps({"id": 3} | bad) + "\n")
        assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), (bad, done.stderr)


async def test_kv_rows_with_maps_are_readable_by_clients(run: Run, connection: Any, table_path: Any) -> None:
    table = f"{table_path.database_name}.{table_path.table_name}"
    columns = ["--column", "id:int", "--column", "marks:map<string,int>", "--key", "id"]
    assert run("create", table, *columns).returncode == 0
    assert run("produce", table, rows='{"id":1,"marks":{"a":1,"longer than a slot":-2}}\n').returncode == 0
    opened = await connection.get_table(table_path)
    found = await opened.new_lookup().create_lookuper().lookup({"id": 1})
    assert dict(found["marks"]) == {"a": 1, "longer than a slot": -2}


def test_aggregation_merges_the_values_of_a_key(run: Run, database: str) -> None:
    table = f"{database}.sums"
    columns = ["--column", "id:int", "--column", "total:bigint", "--column", "names:string", "--key", "id"]
    functions = ["--aggregate", "total=sum", "--aggregate", "names=listagg(; )"]
    made = printed(run("create", table, *columns, *functions, "--json"))
    assert made["properties"]["table.merge-engine"].lower() == "aggregation"
    assert b"total=sum, names=listagg(; )" in run("describe", table).stdout
    for row in ('{"id":1,"total":2,"names":"a"}', '{"id":1,"total":3,"names":"b"}'):
        assert run("produce", table, rows=row + "\n").returncode == 0
    assert followed(run, table)[-1]["row"] == {"id": 1, "total": 5, "names": "a; b"}
    for bad in (["--aggregate", "total"], ["--aggregate", "nope=sum"], ["--aggregate", "names=sum"]):
        done = run("create", f"{database}.other", *columns, *bad)
        assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr


def test_auto_increment_column(run: Run, database: str) -> None:
    table = f"{database}.counted"
    columns = ["--column", "name:string", "--column", "number:bigint", "--key", "name", "--auto-increment", "number"]
    assert run("create", table, *columns).returncode == 0
    assert re.search(rb"^auto increment +number$", run("describe", table).stdout, re.MULTILINE)
    assert run("produce", table, rows='{"name":"a"}\n{"name":"b"}\n').returncode == 0
    assert [record["row"] for record in followed(run, table)] == [
        {"name": "a", "number": 1},
        {"name": "b", "number": 2},
    ]
    done = run("create", f"{database}.other", "--column", "name:string", "--auto-increment", "name")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr


async def test_bucket_key_may_differ_from_the_primary_key(run: Run, connection: Any, table_path: Any) -> None:
    table = f"{table_path.database_name}.{table_path.table_name}"
    columns = ["--column", "user:string", "--column", "id:int", "--column", "v:int", "--key", "user,id"]
    made = printed(run("create", table, *columns, "--bucket-by", "user", "--buckets", "3", "--json"))
    assert made["bucket_key"] == ["user"]
    rows = "".join(json.dumps({"user": f"u{n % 5}", "id": n, "v": n}) + "\n" for n in range(20))
    assert printed(run("produce", table, "--json", rows=rows)) == {"upserted": "20"}
    opened = await connection.get_table(table_path)
    lookuper = opened.new_lookup().lookup_by(["user"]).create_lookuper()
    found = await lookuper.lookup({"user": "u3"})
    assert sorted(row["id"] for row in found) == [3, 8, 13, 18]


async def test_changes_of_tables_and_partitions_are_emitted_as_events(
    streams: StreamServer, connection: Any, admin: Any, table_path: Any
) -> None:
    schema = pa.schema([("id", pa.int32()), ("region", pa.string())])
    await make_table(connection, table_path, schema, partition_keys=["region"])
    await admin.create_partition(table_path, {"region": "EU"})
    await admin.drop_partition(table_path, {"region": "EU"})
    await admin.drop_table(table_path)
    subject = f"streams/{table_path.database_name}"
    environment = {
        **os.environ,
        "LAKEBED_ACCESS_KEY": streams.server.access_key,
        "LAKEBED_SECRET_KEY": streams.server.secret_key,
    }
    flags = ["--kind", "Stream*", "--subject", subject, "--no-follow", "--json", "--endpoint", streams.server.endpoint]
    command = [sys.executable, "-m", "lakebed", "events", "tail", *flags]
    done = subprocess.run(command, env=environment, capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(each["kind"], each["subject"].removeprefix(subject)) for each in events] == [
        ("StreamDatabaseCreated", ""),
        ("StreamTableCreated", "/t"),
        ("StreamPartitionCreated", "/t/EU"),
        ("StreamPartitionDropped", "/t/EU"),
        ("StreamTableDropped", "/t"),
    ]
    assert {each["payload"]["principal"] for each in events} == {"root"}
