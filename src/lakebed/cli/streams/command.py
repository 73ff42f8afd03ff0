"""`lakebed streams`: create, describe, tail and write stream tables; show tiering lag and server status."""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from lakebed.client.streams.client import StreamClient
from lakebed.client.streams.kv_scans import PhysicalTable
from lakebed.client.streams.logs import CHANGES, EARLIEST, LATEST, StreamLog
from lakebed.client.streams.tables import describe
from lakebed.client.streams.writer import StreamWriter
from lakebed.core.errors import InvalidInput, InvalidSetting
from lakebed.core.settings import environment_name
from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.fluss.table_options import DEFAULT_FRESHNESS, milliseconds

from ..governance.administration import moment
from ..output import print_facts, print_json, print_rows
from ..server_access import add_access_flags, read_access
from ..server_requests import run_server_command
from ..settings_flags import read_settings
from .columns import parse_aggregation, parse_column, spell_aggregation, spell_type
from .rows import read_rows, shown_rows
from .servers import configure_servers

_BATCH_ROWS: Final = 10_000

Task = Callable[[StreamClient, argparse.Namespace], None]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands."""
    tasks = parser.add_subparsers(title="tasks", metavar="TASK", required=True)
    create = _add(tasks, "create", "create a stream table", _create)
    create.add_argument(
        "--column",
        metavar="NAME:TYPE",
        action="append",
        default=[],
        required=True,
        help="such as total:decimal(10,2), id:bigint! (NOT NULL), tags:array<string>, marks:map<string,int>, "
        "home:row<street string, number int>",
    )
    create.add_argument("--key", metavar="NAMES", default="", help="primary key columns, comma-separated")
    create.add_argument(
        "--aggregate",
        metavar="NAME=FUNCTION",
        action="append",
        default=[],
        help="aggregation function of a column, such as total=sum or names=listagg(;)",
    )
    create.add_argument("--auto-increment", metavar="NAME", help="column whose values the server assigns")
    create.add_argument("--partition-by", metavar="NAMES", default="", help="partition key columns, comma-separated")
    create.add_argument("--bucket-by", metavar="NAMES", default="", help="bucket key columns, comma-separated")
    create.add_argument(
        "--buckets", metavar="COUNT", type=int, help="number of buckets; default: default.bucket.number"
    )
    create.add_argument(
        "--option", metavar="NAME=VALUE", action="append", default=[], help="for example table.log.ttl=1d"
    )
    create.add_argument("--if-not-exists", action="store_true", help="do nothing if the table exists")
    _add(tasks, "describe", "show a table's schema, options and offsets", _describe)
    tail = _add(tasks, "tail", "print new records", _tail, partition="partition to read, of a partitioned table")
    tail.add_argument("--from-start", action="store_true", help="start at the earliest offset, not at the latest")
    tail.add_argument("--limit", metavar="COUNT", type=int, help="stop after this many records")
    tail.add_argument("--no-follow", action="store_true", help="stop at the latest offset")
    produce = _add(
        tasks,
        "produce",
        "write rows: JSON lines from stdin",
        _produce,
        partition="reject rows of other partitions; by default each row is written to its own partition",
    )
    produce.add_argument("--delete", action="store_true", help="delete rows by key, of a primary-key table")
    produce.add_argument(
        "--no-create-partition", action="store_true", help="reject rows of partitions that do not exist"
    )
    _add(tasks, "lag", "show the tiering lag", _lag)
    configure_servers(tasks)


def run(arguments: argparse.Namespace) -> int:
    """Run the subcommand; the exit status."""
    if "address" not in arguments:
        return run_server_command(arguments)  # over HTTP
    settings = read_settings(arguments).settings
    listening = settings.streams.advertise or settings.streams.listen
    address = arguments.address or (str(listening) if listening else "")
    if not address:
        raise InvalidSetting(
            f"stream server address missing: give --address or set {environment_name('streams.listen')}",
            argument="--address",
        )
    access = read_access(arguments, settings)
    with StreamClient(address, access.access_key_id, access.secret_access_key) as client:
        arguments.task(client, arguments)
    return 0


def _add(tasks: Any, name: str, text: str, task: Task, *, partition: str = "") -> argparse.ArgumentParser:
    # Any: argparse's type is generic, but not public.
    parser: argparse.ArgumentParser = tasks.add_parser(
        name, help=text, description=text[0].upper() + text[1:] + ".", allow_abbrev=False
    )
    parser.add_argument("table", metavar="DATABASE.TABLE", help="the table; the default database is fluss")
    if partition:
        parser.add_argument("--partition", metavar="NAME", help=partition)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--address", metavar="HOST:PORT", help="address of the stream server; default: from the settings"
    )
    add_access_flags(parser, warehouse=False)
    parser.set_defaults(task=task)
    return parser


def _path(arguments: argparse.Namespace) -> tuple[str, str]:
    database, dot, table = arguments.table.partition(".")
    return (database, table) if dot else ("fluss", database)


def _create(client: StreamClient, arguments: argparse.Namespace) -> None:
    key, partition_by = _names(arguments.key), _names(arguments.partition_by)
    columns = [parse_column(text, number) for number, text in enumerate(arguments.column)]
    options = dict(map(_option, arguments.option))
    if arguments.aggregate:
        _aggregate(columns, arguments.aggregate)
        options.setdefault("table.merge-engine", "aggregation")
    schema: dict[str, Any] = {"version": 1, "columns": columns, "highest_field_id": len(columns) - 1}
    if key:
        schema["primary_key"] = key
    if arguments.auto_increment:
        schema["auto_increment_column"] = [arguments.auto_increment]
    document: dict[str, Any] = {"version": 1, "schema": schema, "partition_key": partition_by}
    if bucket_by := _names(arguments.bucket_by):
        document["bucket_key"] = bucket_by
    if arguments.buckets is not None:
        document["bucket_count"] = arguments.buckets
    document["properties"] = {name: value for name, value in options.items() if name.startswith("table.")}
    document["custom_properties"] = {name: value for name, value in options.items() if not name.startswith("table.")}
    client.create_table(*_path(arguments), json.dumps(document).encode(), ignore_if_exists=arguments.if_not_exists)
    _describe(client, arguments)


def _aggregate(columns: Iterable[dict[str, Any]], texts: Iterable[str]) -> None:
    """Add the functions to the documents of their columns."""
    by_name = {column["name"]: column for column in columns}
    for name, function in map(parse_aggregation, texts):
        if name not in by_name:
            raise InvalidInput(f"no such column. column={name}", argument="--aggregate")
        by_name[name]["agg_function"] = function


def _describe(client: StreamClient, arguments: argparse.Namespace) -> None:
    document = client.describe(*_path(arguments))
    parts = [(part, _offsets(client, part)) for part in _parts(client, arguments)]
    rows = [
        {"partition": part.partition or "", "bucket": bucket, "start": start, "end": end}
        for part, offsets in parts
        for bucket, (start, end) in offsets.items()
    ]
    if arguments.json:
        print_json(document | {"offsets": rows})
        return
    schema = document["schema"]
    facts = {
        "table": arguments.table,
        "id": str(document["table_id"]),
        "schema": str(document["schema_id"]),
        "columns": ", ".join(f"{column['name']} {spell_type(column['data_type'])}" for column in schema["columns"]),
        "primary_key": ", ".join(schema.get("primary_key") or ["-"]),
        "partitions_by": ", ".join(document.get("partition_key") or ["-"]),
        "buckets": str(document["bucket_count"]),
        "buckets_by": ", ".join(document.get("bucket_key") or ["-"]),
    }
    if generated := schema.get("auto_increment_column"):
        facts["auto_increment"] = ", ".join(generated)
    functions = {column["name"]: column.get("agg_function") for column in schema["columns"]}
    if aggregated := [f"{name}={spell_aggregation(function)}" for name, function in functions.items() if function]:
        facts["aggregated"] = ", ".join(aggregated)
    options = (document.get("properties") or {}) | (document.get("custom_properties") or {})
    print_facts(facts | {name: str(value) for name, value in sorted(options.items())}, as_json=False)
    print()
    print_rows(("partition", "bucket", "start", "end"), [_words(row) for row in rows], as_json=False)


def _tail(client: StreamClient, arguments: argparse.Namespace) -> None:
    records = _records(client, arguments)
    for bucket, offset, timestamp_ms, change, row in itertools.islice(records, arguments.limit):
        if arguments.json:
            record = {"bucket": bucket, "offset": offset, "timestamp": timestamp_ms, "change": change, "row": row}
            line = json.dumps(record, default=str, ensure_ascii=False)
        else:
            shown = json.dumps(row, default=str, ensure_ascii=False)
            line = f"{bucket}:{offset}  {moment(timestamp_ms)}  {change}  {shown}"
        # Flush each line: the output is watched, or read line by line.
        print(line, flush=True)


def _records(
    client: StreamClient, arguments: argparse.Namespace
) -> Iterator[tuple[int, int, int, str, Mapping[str, Any]]]:
    log = StreamLog(client, client.table(*_path(arguments), arguments.partition))
    ends = dict(log.offsets(LATEST))
    at = dict(log.offsets(EARLIEST)) if arguments.from_start else dict(ends)
    while not arguments.no_follow or any(at[bucket] < end for bucket, end in ends.items()):
        for found in log.read(at):
            for index, row in enumerate(shown_rows(found.rows)):
                offset = found.base_offset + index
                if offset >= at[found.bucket]:
                    yield found.bucket, offset, found.timestamp_ms, CHANGES[found.changes[index]], row
            at[found.bucket] = max(at[found.bucket], found.next_offset)


def _produce(client: StreamClient, arguments: argparse.Namespace) -> None:
    table = describe(client, *_path(arguments))
    has_primary_key, is_deleting = table.schema.has_primary_key, arguments.delete
    if is_deleting and not has_primary_key:
        raise InvalidInput("a log table has no deletes", argument="--delete")
    writer = StreamWriter(
        client, table, partition=arguments.partition, dynamic_create_partition=not arguments.no_create_partition
    )
    schema, write = (writer.key_schema, writer.delete) if is_deleting else (writer.schema, writer.write)
    count = 0
    while lines := list(itertools.islice(sys.stdin.buffer, _BATCH_ROWS)):
        for rows in read_rows(b"".join(lines), schema, is_whole=not is_deleting):
            write(rows)
            count += rows.num_rows
    word = "deleted" if is_deleting else "upserted" if has_primary_key else "appended"
    print_facts({word: str(count)}, as_json=arguments.json)


def _lag(client: StreamClient, arguments: argparse.Namespace) -> None:
    lake = client.lake_offsets(*_path(arguments))
    rows = []
    for part in _parts(client, arguments):
        for bucket, (start, end) in _offsets(client, part).items():
            tiered = lake.get((part.partition_id, bucket))
            first = start if tiered is None else max(tiered, start)
            facts = {"partition": part.partition or "", "bucket": bucket, "end": end, "lake": tiered}
            age = _age_seconds(client, part, bucket, first) if end > first else None
            rows.append(facts | {"lag": end - first, "age": age})
    if arguments.json:
        print_json(rows)
        return
    print_rows(("partition", "bucket", "end", "lake", "lag", "age"), [_words(row) for row in rows], as_json=False)
    print(f"\n{_freshness(client.describe(*_path(arguments)), [row['age'] for row in rows])}")


def _age_seconds(client: StreamClient, part: PhysicalTable, bucket: int, offset: int) -> float:
    """Age of the record at an offset."""
    log = StreamLog(client, part, columns=part.schema.names[:1])
    written = next((found.timestamp_ms for found in log.read({bucket: offset}) if found.next_offset > offset), None)
    return 0.0 if written is None else round(max(time.time() - written / 1000, 0.0), 1)


def _freshness(document: Mapping[str, Any], ages: Iterable[object]) -> str:
    """A sentence that compares the tiering lag with the table's freshness."""
    options = document.get("properties") or {}
    if options.get("table.datalake.enabled", "false") != "true":
        return "The table is not tiered: table.datalake.enabled is not true."
    allowed = milliseconds(options.get("table.datalake.freshness", DEFAULT_FRESHNESS)) / 1000
    oldest = max((age for age in ages if isinstance(age, float)), default=None)
    if oldest is None:
        return f"All records are tiered. The freshness is {allowed:g} s."
    state = "within" if oldest <= allowed else "beyond"
    return f"The oldest untiered record is {oldest:g} s old: {state} the freshness of {allowed:g} s."


def _parts(client: StreamClient, arguments: argparse.Namespace) -> list[PhysicalTable]:
    """The table, or each of its partitions."""
    database, name = _path(arguments)
    try:
        return [client.table(database, name)]
    except FlussError as failure:
        if failure.code is not ErrorCode.PARTITION_NOT_EXISTS:
            raise
    return [client.table(database, name, partition) for partition in client.partitions(database, name)]


def _offsets(client: StreamClient, part: PhysicalTable) -> dict[int, tuple[int, int]]:
    log = StreamLog(client, part)
    starts, ends = log.offsets(EARLIEST), log.offsets(LATEST)
    return {bucket: (starts[bucket], ends[bucket]) for bucket in sorted(ends)}


def _words(row: Mapping[str, object]) -> list[str]:
    return ["-" if value in (None, "") else str(value) for value in row.values()]


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _option(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise InvalidInput(f"expected NAME=VALUE. found={text!r}", argument="--option")
    return name, value
