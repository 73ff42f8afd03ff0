"""`spark.read.format("lakebed")`: the server's event log, tasks and table health as Spark tables.

    spark.dataSource.register(LakebedSource)
    spark.read.format("lakebed").option("table", "events").load()

Tables are `events`, `audit`, `attempts` (refused and failed requests of the audit log), `tasks` and `health`; the first
three can be streamed too. Options: `table`, `endpoint`, `access-key-id`, `secret-access-key`, `region` (or the driver's
environment), `partitions`, `kinds`, `subject` and `principal` (of events), `warehouse` (of health), `after` (the number
or id of the event to start after).

The driver resolves the endpoint and credentials; executors receive them with their partitions.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, cast

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition

from lakebed.client import LakebedClient, ServerAccess, TaskState
from lakebed.client.access import find_access
from lakebed.client.events import Event, EventPage, Events
from lakebed.core.errors import InvalidInput

from .datasource_rows import SCHEMAS, TABLES, attempt_row, batch_of, event_row, health_row, task_row

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

DEFAULT_PARTITIONS: Final = 4
_BATCH_ROWS: Final = 1000

_OPTIONS: Final = frozenset(
    {
        "table",
        "path",
        "endpoint",
        "access-key-id",
        "secret-access-key",
        "session-token",
        "region",
        "partitions",
        "kinds",
        "subject",
        "principal",
        "warehouse",
        "after",
    }
)
_LOGS: Final = ("events", "audit", "attempts")
_ATTEMPTS: Final = "attempts"
_ATTEMPT_KINDS: Final = ("Attempt*",)


class LakebedSource(DataSource):
    """The data source `lakebed`."""

    @classmethod
    def name(cls) -> str:
        """The name for `format()`."""
        return "lakebed"

    def schema(self) -> str:
        """The columns of the chosen table."""
        return SCHEMAS[_table(self.options)]

    def reader(self, schema: StructType) -> DataSourceReader:
        """A batch reader."""
        return _Batch(_ReadRequest.of(self.options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """A stream reader of an event table."""
        options = _ReadRequest.of(self.options)
        if options.table not in _LOGS:
            raise InvalidInput(
                f"table cannot be streamed; read it as a batch. table={options.table} streamable={', '.join(_LOGS)}",
                argument="table",
            )
        return _Stream(options)


@dataclass(frozen=True, slots=True)
class _ReadRequest:
    """The options, validated."""

    table: str
    access: ServerAccess
    partitions: int
    kinds: tuple[str, ...]
    warehouse: str | None
    after: str
    subject: str = ""
    principal: str = ""

    @classmethod
    def of(cls, options: Mapping[str, str]) -> _ReadRequest:
        given = {name.lower(): value for name, value in options.items()}
        if unknown := sorted(given.keys() - _OPTIONS):
            raise InvalidInput(f"unknown option. found={', '.join(unknown)} known={', '.join(sorted(_OPTIONS))}")
        table = _table(given)
        kinds = tuple(word for text in given.get("kinds", "").split(",") if (word := text.strip()))
        if table == _ATTEMPTS:
            if kinds:
                raise InvalidInput(
                    "option `kinds`: attempts are of one kind; read `audit` for others", argument="kinds"
                )
            kinds = _ATTEMPT_KINDS
        return cls(
            table,
            find_access(
                given.get("endpoint"),
                access_key_id=given.get("access-key-id"),
                secret_access_key=given.get("secret-access-key"),
                session_token=given.get("session-token"),
                region=given.get("region"),
            ),
            _whole(given, "partitions", DEFAULT_PARTITIONS, least=1),
            kinds,
            given.get("warehouse"),
            _place(given),
            given.get("subject", ""),
            given.get("principal", ""),
        )

    def log(self, client: LakebedClient) -> Events:
        """The event log or the audit log."""
        return client.events if self.table == "events" else client.audit


@dataclass
class _Part(InputPartition):
    """The input of one Spark task: a range of events, tasks in one state, or the tables of one warehouse."""

    after: int = 0
    until: int = 0
    deployment: str = ""
    """The deployment of the event numbers; empty if unknown."""
    state: str = ""
    warehouse: str = ""

    def __post_init__(self) -> None:
        super().__init__(None)


class _Batch(DataSourceReader):
    def __init__(self, request: _ReadRequest) -> None:
        self._request = request

    def partitions(self) -> Sequence[InputPartition]:
        request = self._request
        with LakebedClient(access=request.access) as client:
            if request.table in _LOGS:
                page = request.log(client).read(request.after, limit=0)
                return split(
                    max(page.next_after, page.first_seq - 1), page.last_seq, request.partitions, page.deployment
                )
            if request.table == "health":
                names = list(client.tables.warehouses()) if request.warehouse is None else [request.warehouse]
                # Spark requires at least one partition.
                return [_Part(warehouse=name) for name in names] or [_Part()]
        return [_Part(state=str(state)) for state in TaskState]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        part = cast("_Part", partition)
        request = self._request
        with LakebedClient(access=request.access) as client:
            rows: Iterator[tuple[Any, ...]]
            if request.table in _LOGS:
                rows = _events(request, client, part)
            elif request.table == "health":
                found = client.tables.healths(part.warehouse) if part.warehouse else iter(())
                rows = (health_row(health) for health in found)
            else:
                rows = (task_row(task) for task in client.tasks.list(state=TaskState(part.state)))
            yield from _batches(request.table, rows)


class _Stream(DataSourceStreamReader):
    """The offset of a stream is the number of the last event read, and its deployment.

    Checkpoints of earlier versions hold the number alone.
    """

    def __init__(self, request: _ReadRequest) -> None:
        self._request = request

    def initialOffset(self) -> dict[str, Any]:
        page = self._look()
        return {"seq": page.next_after, "deployment": page.deployment}

    def latestOffset(self) -> dict[str, Any]:
        page = self._look()
        return {"seq": max(page.next_after, page.last_seq), "deployment": page.deployment}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        begun, deployment = start.get("deployment", ""), end.get("deployment", "")
        if begun:
            check_deployment(begun, deployment)
        return split(int(start["seq"]), int(end["seq"]), self._request.partitions, deployment)

    def _look(self) -> EventPage:
        with LakebedClient(access=self._request.access) as client:
            return self._request.log(client).read(self._request.after, limit=0)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        with LakebedClient(access=self._request.access) as client:
            rows = _events(self._request, client, cast("_Part", partition))
            yield from _batches(self._request.table, rows)


def check_deployment(expected: str, found: str) -> None:
    """Raise InvalidInput if the checkpoint belongs to another deployment."""
    if found != expected:
        raise InvalidInput(
            "checkpoint belongs to another deployment; restart the stream with a new checkpoint location."
            f" expected={expected} found={found or 'none'}"
        )


def split(after: int, until: int, count: int, deployment: str = "") -> list[_Part]:
    """Split the events after `after` up to `until` into at most `count` ranges."""
    total = until - after
    if total <= 0:
        return [_Part(after, after, deployment)]
    count = min(count, total)
    ends = [after + total * number // count for number in range(count + 1)]
    return [_Part(begin, end, deployment) for begin, end in pairwise(ends)]


def _events(request: _ReadRequest, client: LakebedClient, part: _Part) -> Iterator[tuple[Any, ...]]:
    if part.until <= part.after:
        return
    row_of = attempt_row if request.table == _ATTEMPTS else event_row
    pages = request.log(client).pages(
        part.after, until=part.until, kinds=request.kinds, subject=request.subject, principal=request.principal
    )
    for page in pages:
        if part.deployment:
            check_deployment(part.deployment, page.deployment)
        event: Event
        for event in page.events:
            yield row_of(event)


def _batches(table: str, rows: Iterator[tuple[Any, ...]]) -> Iterator[pa.RecordBatch]:
    waiting: list[tuple[Any, ...]] = []
    for row in rows:
        waiting.append(row)
        if len(waiting) == _BATCH_ROWS:
            yield batch_of(table, waiting)
            waiting = []
    if waiting:
        yield batch_of(table, waiting)


def _table(options: Mapping[str, str]) -> str:
    table = options.get("table") or options.get("path") or ""
    if table not in TABLES:
        raise InvalidInput(f"option `table` is one of {', '.join(TABLES)}. found={json.dumps(table)}", argument="table")
    return table


def _place(given: Mapping[str, str]) -> str:
    """The event to start after. The server validates ids."""
    text = given.get("after", "0")
    if not (text.isascii() and text.isdigit()) and not text.startswith("evt_"):
        raise InvalidInput(f"option `after`: expected the number or id of an event. found={text!r}", argument="after")
    return text


def _whole(given: Mapping[str, str], name: str, default: int, *, least: int) -> int:
    text = given.get(name)
    if text is None:
        return default
    if not text.isascii() or not text.isdigit() or int(text) < least:
        raise InvalidInput(
            f"option `{name}`: expected a whole number of at least {least}. found={text!r}", argument=name
        )
    return int(text)
