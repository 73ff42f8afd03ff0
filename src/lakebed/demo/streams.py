"""The demo's streams: a Fluss client writes records, and Spark tiers them into Iceberg, each once."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.util import find_spec
from typing import Any, Final

from lakebed.client import Task, TaskState
from lakebed.client.streams.client import StreamClient
from lakebed.client.streams.logs import EARLIEST, LATEST, StreamLog, StreamLogWriter
from lakebed.core.errors import Unavailable
from lakebed.core.jobs import JobKind

from .clients import client_with, duckdb_on, missing_for_spark

_DATABASE: Final = "fluss"
_CLICKS: Final = "clicks"
_ORDERS: Final = "orders"
_CLICK_ROWS: Final = 100_000
_ORDER_ROWS: Final = 5_000
_CHANGED: Final = 1_000
_DELETED: Final = 200

_OPTIONS: Final = {
    "table.datalake.enabled": "true",
    # Below the usual minutes, so that the demo does not wait.
    "table.datalake.freshness": "2s",
}
_WITHOUT: Final = (
    "pyfluss is not installed here, and has no package for Python 3.13: written with lakebed.client, without the"
    " primary-key table"
)

_WORK_SECONDS: Final = 900.0
"""Long, because the first start of Spark on a machine fetches what it needs."""
_LOOK_SECONDS: Final = 0.2


class StreamDemo:
    """A log table and a primary-key table, from their first records to Iceberg."""

    def __init__(
        self,
        endpoint: str,
        address: str,
        keys: Mapping[str, str],
        warehouse: str,
        catalog: Any,  # Any, here and below: PyIceberg and pyfluss are there at run time only
        progress: Callable[[str], None],
    ) -> None:
        """`address` is the streams listener; `progress` is called with the current step."""
        self._endpoint = endpoint
        self._address = address
        self._keys = keys
        self._warehouse = warehouse
        self._catalog = catalog
        self._progress = progress
        self._client = client_with(endpoint, keys)
        self._has_pyfluss = find_spec("fluss") is not None
        self._tables: tuple[str, ...] = (_CLICKS, _ORDERS) if self._has_pyfluss else (_CLICKS,)
        self._seen: set[int] = set()
        """Ids of the tasks already reported."""

    def close(self) -> None:
        """Close the client."""
        self._client.close()

    def write(self) -> str:
        """Write clicks to a log table and orders to a primary-key table, acknowledged when synced."""
        with self._streams() as client:
            _make(client, _CLICKS, {"id": "BIGINT", "page": "STRING", "at": "TIMESTAMP_WITHOUT_TIME_ZONE"}, buckets=4)
            if self._has_pyfluss:
                _make(client, _ORDERS, {"id": "BIGINT", "state": "STRING", "amount": "BIGINT"}, key="id", buckets=2)
        started = time.monotonic()
        if self._has_pyfluss:
            asyncio.run(self._send(_clicks(), [(each, "new", each % 100) for each in range(_ORDER_ROWS)]))
        else:
            with self._streams() as client:
                writer = StreamLogWriter(client, client.table(_DATABASE, _CLICKS))
                for batch in _clicks():
                    writer.append(batch.cast(writer.schema))
        count = _CLICK_ROWS + (_ORDER_ROWS if self._has_pyfluss else 0)
        line = f"{count:,} records in {time.monotonic() - started:.2f} s, all synced to disk"
        return line if self._has_pyfluss else f"{line}\n{_WITHOUT}"

    def count(self) -> str:
        """Count the records. Raises Unavailable if acknowledged ones are missing."""
        wanted = {_CLICKS: _CLICK_ROWS, _ORDERS: _ORDER_ROWS}
        with self._streams() as client:
            found = {name: sum(_ends(client, name).values()) for name in self._tables}
        if any(found[name] != wanted[name] for name in self._tables):
            raise Unavailable(f"records are missing. found={found}")
        return f"{sum(found.values()):,} stream records are present: all that were acknowledged"

    def tier(self) -> str:
        """Wait for the tiering tasks, and read the Iceberg table with PyIceberg."""
        if (left_out := self._wait()) is not None:
            return left_out
        lines = self._rounds()
        rows = self._catalog.load_table((_DATABASE, _CLICKS)).scan(selected_fields=("id",)).to_arrow()
        numbers = rows["id"].to_pylist()
        is_whole = sorted(numbers) == list(range(_CLICK_ROWS))
        lines.append(f"PyIceberg reads {len(numbers):,} clicks: {'each once' if is_whole else 'NOT each once'}")
        return "\n".join(lines)

    def merge(self) -> str:
        """Update, insert and delete orders, wait for the tiering, and compare the lake with the stream."""
        if not self._has_pyfluss:
            return f"skipped: {_WITHOUT}"
        paid = [(each, "paid", each % 100 + 1) for each in range(_CHANGED)]
        new = [(each, "new", 7) for each in range(_ORDER_ROWS, _ORDER_ROWS + _CHANGED)]
        gone = range(_CHANGED, _CHANGED + _DELETED)
        asyncio.run(self._send((), paid + new, gone))
        if (left_out := self._wait()) is not None:
            return left_out
        with self._streams() as client, client.scan_kv(_DATABASE, _ORDERS) as scan:
            stream = sorted(tuple(row.values()) for batch in scan for row in batch.to_pylist())
        query = f"SELECT id, state, amount FROM lake.{_DATABASE}.{_ORDERS} ORDER BY id"  # noqa: S608  # constants
        with duckdb_on(self._endpoint, self._keys, self._warehouse) as duck:
            lake = [tuple(row) for row in duck.execute(query).fetchall()]
        lines = [f"{len(paid):,} rows updated, {len(new):,} inserted, {len(gone):,} deleted", *self._rounds()]
        lines.append(
            f"DuckDB reads {len(lake):,} orders from the lake: {'equal to' if lake == stream else 'NOT equal to'}"
            " the rows of the stream"
        )
        return "\n".join(lines)

    def _streams(self) -> StreamClient:
        return StreamClient(self._address, self._keys["aws_access_key_id"], self._keys["aws_secret_access_key"])

    async def _send(self, clicks: Iterable[Any], orders: Sequence[tuple[Any, ...]], gone: Iterable[int] = ()) -> None:
        import fluss

        settings = {
            "bootstrap.servers": self._address,
            "security.protocol": "sasl",
            "security.sasl.mechanism": "PLAIN",
            "security.sasl.username": self._keys["aws_access_key_id"],
            "security.sasl.password": self._keys["aws_secret_access_key"],
        }
        connection = await fluss.FlussConnection.create(fluss.Config(settings))
        try:
            log = await connection.get_table(fluss.TablePath(_DATABASE, _CLICKS))
            appends = log.new_append().create_writer()
            for batch in clicks:
                appends.write_arrow_batch(batch)
            await appends.flush()
            keyed = await connection.get_table(fluss.TablePath(_DATABASE, _ORDERS))
            upserts = keyed.new_upsert().create_writer()
            for id_, state, amount in orders:
                upserts.upsert({"id": id_, "state": state, "amount": amount})
            for id_ in gone:
                upserts.delete({"id": id_})
            await upserts.flush()
        finally:
            await connection.close()

    def _wait(self) -> str | None:
        """Wait until all records are tiered; the reason if they cannot be."""
        if missing := missing_for_spark():
            return f"skipped: {missing}. The records wait for a worker with Spark."
        deadline = time.monotonic() + _WORK_SECONDS
        while True:
            tasks = self._tasks()
            if not self._behind() and tasks and all(task.state is TaskState.DONE for task in tasks):
                return None
            if (failed := next((task for task in tasks if task.failure is not None), None)) is not None:
                return f"skipped: {failed.kind} failed and will be retried: {failed.failure}"
            if time.monotonic() > deadline:
                return "skipped: the records were not tiered in time; tiering continues"
            at = next((task for task in tasks if task.state is TaskState.CLAIMED), None)
            self._progress("a worker starts" if at is None else f"{at.spec.table}: {(at.progress or {}).get('stage')}")
            time.sleep(_LOOK_SECONDS)

    def _behind(self) -> int:
        with self._streams() as client:
            return sum(
                end - client.lake_offsets(_DATABASE, name).get((None, bucket), 0)
                for name in self._tables
                for bucket, end in _ends(client, name).items()
            )

    def _tasks(self) -> list[Task]:
        return [task for task in self._client.tasks.list(kind=JobKind.TIER_STREAM) if task.id not in self._seen]

    def _rounds(self) -> list[str]:
        """The results of tasks since the last call."""
        tasks = self._tasks()
        self._seen |= {task.id for task in tasks}
        return [
            f"{task.kind} {task.spec.table}: {task.spec.reason}; took {(task.report or {}).get('seconds', 0):.1f} s"
            for task in tasks
        ]


def _make(client: StreamClient, name: str, columns: Mapping[str, str], *, buckets: int, key: str = "") -> None:
    described = [
        {"name": column, "data_type": {"type": type_}, "id": number}
        for number, (column, type_) in enumerate(columns.items())
    ]
    schema: dict[str, Any] = {"version": 1, "columns": described, "highest_field_id": len(described) - 1}
    if key:
        schema["primary_key"] = [key]
    document = {"version": 1, "schema": schema, "bucket_count": buckets, "properties": _OPTIONS}
    client.create_table(_DATABASE, name, json.dumps(document).encode())


def _clicks() -> list[Any]:
    import pyarrow as pa

    moment = pa.scalar(int(time.time() * 1_000_000), pa.timestamp("us"))
    size = _CLICK_ROWS // 10
    return [
        pa.record_batch(
            {
                "id": pa.array(range(first, first + size), pa.int64()),
                "page": pa.array([f"/{each % 97}" for each in range(size)]),
                "at": pa.array([moment] * size),
            }
        )
        for first in range(0, _CLICK_ROWS, size)
    ]


def _ends(client: StreamClient, name: str) -> Mapping[int, int]:
    log = StreamLog(client, client.table(_DATABASE, name))
    begin = log.offsets(EARLIEST)
    return {bucket: end - begin[bucket] for bucket, end in log.offsets(LATEST).items()}
