"""The demo's table maintenance: a neglected table, policies on its namespace, and the tasks that Spark runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from lakebed.client import TableHealth, TableRef, Task, TaskState
from lakebed.client.policies import namespace_target
from lakebed.core.errors import Unavailable

from .clients import client_with, duckdb_on, missing_for_spark

_NAMESPACE: Final = "web"
_NAME: Final = "clicks"
_APPENDS: Final = 60
_ROWS: Final = 1_000
_LEFTOVERS: Final = 20

_POLICIES: Final[Mapping[str, Mapping[str, object]]] = {
    "system.data-compaction": {"min-input-files": 5},
    "system.metadata-compaction": {},
    "system.snapshot-expiry": {"max-snapshot-age-ms": 1_000, "min-snapshots-to-keep": 1},
    # Orphans younger than three days stay, unless the policy asserts that there are no writers.
    "system.orphan-file-removal": {"older-than-ms": 1_000, "allow-young": True},
}

_PLAN_SECONDS: Final = 60.0
_WORK_SECONDS: Final = 900.0
"""Long, because the first start of Spark on a machine fetches what it needs."""
_LOOK_SECONDS: Final = 0.2


@dataclass(frozen=True, slots=True)
class _TableState:
    """The table's health, size and scan time."""

    health: TableHealth
    stored_files: int
    stored_bytes: int
    rows: int
    total: int
    scan_seconds: float


class MaintenanceDemo:
    """The steps of automatic table maintenance."""

    def __init__(
        self,
        endpoint: str,
        keys: Mapping[str, str],
        bucket: str,
        s3: Any,  # Any, here and below: boto3 and PyIceberg are there at run time only
        catalog: Any,
        progress: Callable[[str], None],
    ) -> None:
        """`progress` is called with the current step."""
        self._endpoint = endpoint
        self._keys = keys
        self._s3 = s3
        self._catalog = catalog
        self._progress = progress
        self._ref = TableRef(bucket, (_NAMESPACE,), _NAME)
        self._client = client_with(endpoint, keys)
        self._before: _TableState | None = None
        self._planned: Sequence[Task] = ()

    def close(self) -> None:
        """Close the client."""
        self._client.close()

    def neglect(self) -> str:
        """Create many small files, delete files, and orphan files."""
        import pyarrow as pa

        self._catalog.create_namespace(_NAMESPACE)
        table = None
        for number in range(_APPENDS):
            self._progress(f"append {number + 1} of {_APPENDS}")
            first = number * _ROWS
            rows = pa.table({"id": range(first, first + _ROWS), "page": [f"/{id % 97}" for id in range(_ROWS)]})
            table = table or self._catalog.create_table((_NAMESPACE, _NAME), schema=rows.schema)
            table.append(rows)
        self._progress("deleting")
        self._delete("id % 8 = 0")
        table = self._catalog.load_table((_NAMESPACE, _NAME))
        folder = table.location().removeprefix(f"s3://{self._ref.warehouse}/")
        for number in range(_LEFTOVERS):
            self._s3.put_object(
                Bucket=self._ref.warehouse, Key=f"{folder}/data/crashed-{number}.parquet", Body=bytes(10_000)
            )
        self._progress("reading")
        self._before = before = self._look()
        health = before.health
        return (
            f"{health.data_files} data files of {_size(round(health.average_file_bytes or 0))}, {health.delete_files}"
            f" delete files (DuckDB), {health.snapshots} snapshots, {_LEFTOVERS} orphan files"
        )

    def attach(self) -> str:
        """Attach policies to the namespace; the event wakes the scheduler, whose tasks have reasons."""
        for policy_type, config in _POLICIES.items():
            name, content = policy_type.rpartition(".")[2], {"enable": True, "config": config}
            self._client.policies.create(self._ref.warehouse, (_NAMESPACE,), name, policy_type, content)
            self._client.policies.attach(self._ref.warehouse, (_NAMESPACE,), name, namespace_target((_NAMESPACE,)))
        deadline = time.monotonic() + _PLAN_SECONDS
        while len(self._planned) < len(_POLICIES):
            if time.monotonic() > deadline:
                raise Unavailable(f"{len(self._planned)} of {len(_POLICIES)} tasks were planned in time")
            time.sleep(_LOOK_SECONDS)
            self._planned = self._tasks()
        return "\n".join(f"{task.kind}: {task.spec.reason}" for task in self._planned)

    def work(self) -> str:
        """Wait for the embedded worker, and report its results."""
        missing = missing_for_spark()
        if missing:
            return f"skipped: {missing}. The tasks wait for a worker with Spark."
        deadline = time.monotonic() + _WORK_SECONDS
        while True:
            tasks = [self._client.tasks.get(task.id) for task in self._planned]
            done = [task for task in tasks if task.state is TaskState.DONE]
            if len(done) == len(tasks):
                return self._results(done)
            failed = next((task for task in tasks if task.failure is not None), None)
            if failed is not None:
                return f"skipped: {failed.kind} failed and will be retried: {failed.failure}"
            if time.monotonic() > deadline:
                return f"skipped: {len(done)} of {len(tasks)} tasks were done in time; the others continue"
            under_way = next((task for task in tasks if task.state is TaskState.CLAIMED), None)
            stage = "a worker starts" if under_way is None else f"{under_way.kind}: {_stage(under_way)}"
            self._progress(f"{len(done)} of {len(tasks)} done; {stage}")
            time.sleep(_LOOK_SECONDS)

    def _results(self, tasks: Sequence[Task]) -> str:
        lines = [f"{task.kind}: {_outcome(task.report or {})}" for task in tasks]
        before, after = self._before, self._look()
        assert before is not None  # noqa: S101  # set by the first step
        if (before.rows, before.total) != (after.rows, after.total):
            raise Unavailable("the rows of the table changed")
        facts = (
            ("", "before", "after"),
            ("data files", f"{before.health.data_files:,}", f"{after.health.data_files:,}"),
            ("delete files", f"{before.health.delete_files:,}", f"{after.health.delete_files:,}"),
            ("snapshots", f"{before.health.snapshots:,}", f"{after.health.snapshots:,}"),
            ("files in its folder", f"{before.stored_files:,}", f"{after.stored_files:,}"),
            ("bytes in its folder", _size(before.stored_bytes), _size(after.stored_bytes)),
            ("time to read it", f"{before.scan_seconds:.2f} s", f"{after.scan_seconds:.2f} s"),
            ("rows", f"{before.rows:,}", f"{after.rows:,}"),
        )
        widths = [max(len(row[column]) for row in facts) for column in range(3)]
        return "\n".join(
            (*lines, *(f"  {name:<{widths[0]}}  {old:>{widths[1]}}  {new:>{widths[2]}}" for name, old, new in facts))
        )

    def _tasks(self) -> list[Task]:
        found = self._client.tasks.list()
        return [task for task in found if (task.spec.namespace, task.spec.table) == self._ref[1:]]

    def _look(self) -> _TableState:
        table = self._catalog.load_table((_NAMESPACE, _NAME))
        folder = table.location().removeprefix(f"s3://{self._ref.warehouse}/") + "/"
        pages = self._s3.get_paginator("list_objects_v2").paginate(Bucket=self._ref.warehouse, Prefix=folder)
        sizes = [item["Size"] for page in pages for item in page.get("Contents", ())]
        started = time.monotonic()
        rows = table.scan().to_arrow()
        took = time.monotonic() - started
        return _TableState(
            self._client.tables.health(self._ref),
            len(sizes),
            sum(sizes),
            rows.num_rows,
            sum(rows["id"].to_pylist()),
            took,
        )

    def _delete(self, condition: str) -> None:
        """Delete rows with delete files (merge-on-read)."""
        with duckdb_on(self._endpoint, self._keys, self._ref.warehouse) as duck:
            duck.execute(f"DELETE FROM lake.{_NAMESPACE}.{_NAME} WHERE {condition}")  # noqa: S608  # constants


def _stage(task: Task) -> str:
    return str((task.progress or {}).get("stage") or "begins")


def _outcome(report: Mapping[str, Any]) -> str:
    """The result of a job in one line."""
    if not report["changed"]:
        return f"nothing left to do: {report['skipped'][0]['reason']}"
    words = f"read {report['read']['files']:,} files, wrote {report['wrote']['files']:,}"
    if report["removed"]["files"]:
        words += f", removed {report['removed']['files']:,}"
    return f"{words} in {report['seconds']:.1f} s"


def _size(size: int) -> str:
    for unit, name in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{size} bytes"
