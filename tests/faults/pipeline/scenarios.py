"""Scenarios that make a table need a maintenance job, again and again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final

import pyarrow as pa
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.transforms import IdentityTransform

from lakebed.client import TableRef
from lakebed.core.jobs import JobKind, Option
from tests.clients.boto import connected
from tests.clients.iceberg.rows import SCHEMA, people
from tests.pipeline.bench import Bench
from tests.pipeline.maintenance_run import MaintainedLake

PARTITIONS: Final = 4
APPENDS: Final = 5
ROWS: Final = 10
ORPHANS: Final = 300
_FIRST_DAY: Final = date(2026, 1, 1)


@dataclass(frozen=True, slots=True)
class Scenario:
    """A job, and what makes a table need it."""

    job: JobKind
    options: Mapping[str, Option]
    prepare: Callable[[MaintainedLake, Bench, TableRef, int], None]
    """Called with the number of the round."""
    stage: str
    """The progress stage of the main part of the job."""
    longest_seconds: float
    """Its maximum duration in a new JVM."""


def new_table(maintained: MaintainedLake, bench: Bench, namespace: str) -> TableRef:
    """A table with several partitions and merge-on-read deletes."""
    spec = PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "day"))
    with maintained.lake.catalog() as catalog:
        catalog.create_table((namespace, "t"), SCHEMA, partition_spec=spec)
    ref = TableRef(maintained.lake.warehouse, (namespace,), "t")
    bench.sql(f"ALTER TABLE {bench.table(namespace).sql} SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')")
    return ref


def append(maintained: MaintainedLake, ref: TableRef, number: int) -> None:
    """Append rows to every partition, several times."""
    with maintained.loaded(ref) as table:
        for turn in range(APPENDS):
            first = (number * APPENDS + turn) * PARTITIONS * ROWS
            parts = [
                people(*range(start, start + ROWS), day=_FIRST_DAY + timedelta(days=partition))
                for partition in range(PARTITIONS)
                for start in [first + partition * ROWS]
            ]
            table.append(pa.concat_tables(parts))


def append_and_delete(maintained: MaintainedLake, bench: Bench, ref: TableRef, number: int) -> None:
    append(maintained, ref, number)
    bench.sql(f"DELETE FROM {bench.table(*ref.namespace).sql} WHERE id % 7 = {number % 7}")


def append_only(maintained: MaintainedLake, bench: Bench, ref: TableRef, number: int) -> None:
    append(maintained, ref, number)


def leave_orphans(maintained: MaintainedLake, bench: Bench, ref: TableRef, number: int) -> None:
    """Add files of crashed writers to the directory of the table."""
    append(maintained, ref, number)
    with maintained.loaded(ref) as table, connected(maintained.lake.server) as s3:
        prefix = table.location().removeprefix(f"s3://{ref.warehouse}/")
        for one in range(ORPHANS):
            key = f"{prefix}/data/day=2026-01-0{1 + one % PARTITIONS}/left-{number}-{one}.parquet"
            s3.put_object(Bucket=ref.warehouse, Key=key, Body=b"left behind")


SCENARIOS: Final = {
    scene.job: scene
    for scene in (
        # One commit per file group, so that a kill can happen between two of them.
        Scenario(
            JobKind.COMPACT,
            {
                "min_input_files": 2,
                "max_concurrent_file_group_rewrites": 1,
                "partial_progress": True,
                "partial_progress_max_commits": PARTITIONS,
            },
            append_and_delete,
            "rewriting data files",
            8.0,
        ),
        Scenario(
            JobKind.EXPIRE_SNAPSHOTS,
            {"max_snapshot_age_ms": 1, "min_snapshots_to_keep": 1},
            append_only,
            "expiring snapshots",
            5.0,
        ),
        # No writer is active, so files of any age can be removed.
        Scenario(
            JobKind.REMOVE_ORPHANS,
            {"older_than_ms": 0, "allow_young": True},
            leave_orphans,
            "removing orphans",
            3.0,
        ),
    )
}
