"""The demo's auto-ingest: a bucket rule starts a Spark job that adds arriving files to a table."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from lakebed.client import Task, TaskState
from lakebed.core.errors import Unavailable
from lakebed.core.jobs import JobKind

from .clients import client_with, missing_for_spark

_LANDING: Final = "landing"
_PREFIX: Final = "orders/"
_NAMESPACE: Final = "raw"
_NAME: Final = "orders"
_FILES: Final = 12
_ROWS: Final = 250

_ARRIVE_SECONDS: Final = 60.0
_WORK_SECONDS: Final = 600.0
_LOOK_SECONDS: Final = 0.2


class IngestDemo:
    """Arriving files become rows of a table, each once."""

    def __init__(
        self,
        endpoint: str,
        keys: Mapping[str, str],
        warehouse: str,
        s3: Any,  # Any, here and below: boto3 and PyIceberg are there at run time only
        catalog: Any,
        progress: Callable[[str], None],
    ) -> None:
        """`progress` is called with the current step."""
        self._warehouse = warehouse
        self._s3 = s3
        self._catalog = catalog
        self._progress = progress
        self._client = client_with(endpoint, keys)

    def close(self) -> None:
        """Close the client."""
        self._client.close()

    def arrive(self) -> str:
        """Create a pipeline target and a rule for it, upload files, and wait for the task."""
        self._s3.create_bucket(Bucket=_LANDING)
        settings = {
            "source": f"{_LANDING}/{_PREFIX}",
            "table": f"{self._warehouse}.{_NAMESPACE}.{_NAME}",
            "format": "csv",
        }
        arn = self._client.targets.put("pipeline", "orders", settings).arn
        rule = {
            "QueueArn": arn,
            "Events": ["s3:ObjectCreated:*"],
            "Filter": {"Key": {"FilterRules": [{"Name": "prefix", "Value": _PREFIX}]}},
        }
        self._s3.put_bucket_notification_configuration(
            Bucket=_LANDING, NotificationConfiguration={"QueueConfigurations": [rule]}
        )
        for number in range(_FILES):
            first = number * _ROWS
            lines = [f"{id},{id % 7},{id * 3 % 100}" for id in range(first, first + _ROWS)]
            body = "\n".join(("id,customer,amount", *lines, "")).encode()
            self._s3.put_object(Bucket=_LANDING, Key=f"{_PREFIX}{number:03d}.csv", Body=body)
        self._s3.put_object(Bucket=_LANDING, Key="elsewhere/not.csv", Body=b"id\n1\n")
        deadline = time.monotonic() + _ARRIVE_SECONDS
        while not self._tasks():
            if time.monotonic() > deadline:
                raise Unavailable("no ingest task was queued in time")
            time.sleep(_LOOK_SECONDS)
        task = self._tasks()[0]
        return f"{arn}\n{_FILES} files of {_ROWS} rows arrive; {task.kind}: {task.spec.reason}"

    def work(self) -> str:
        """Wait until the worker has added the files, and read them with PyIceberg."""
        missing = missing_for_spark()
        if missing:
            return f"skipped: {missing}. The files wait for a worker with Spark."
        deadline = time.monotonic() + _WORK_SECONDS
        while self._is_behind():
            failed = next((task for task in self._tasks() if task.failure is not None), None)
            if failed is not None:
                return f"skipped: {failed.kind} failed and will be retried: {failed.failure}"
            if time.monotonic() > deadline:
                return "skipped: the files were not added in time; ingestion continues"
            self._progress("Spark adds the files")
            time.sleep(_LOOK_SECONDS)
        numbers, events, commits = self._column("id"), set(self._column("_event")), len(set(self._column("_ingest")))
        is_whole = sorted(numbers) == list(range(_FILES * _ROWS)) and len(events) == _FILES
        return (
            f"{len(numbers):,} rows of {len(events)} events in {commits} commit{'s'[: commits > 1]}:"
            f" {'each file once' if is_whole else 'NOT each file once'}"
        )

    def _tasks(self) -> Sequence[Task]:
        found = self._client.tasks.list(kind=JobKind.INGEST)
        return [task for task in found if task.spec.table == _NAME]

    def _is_behind(self) -> bool:
        return len(self._column("_event")) < _FILES * _ROWS or any(
            task.state is not TaskState.DONE for task in self._tasks()
        )

    def _column(self, name: str) -> list[int]:
        if not self._catalog.table_exists((_NAMESPACE, _NAME)):
            return []
        found: list[int] = self._catalog.load_table((_NAMESPACE, _NAME)).scan().to_arrow()[name].to_pylist()
        return found
