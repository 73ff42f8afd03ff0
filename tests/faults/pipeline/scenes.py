"""Tables that need a job again and again, and what they must hold afterwards."""

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
class Scene:
    """A table, its job, and how it comes to need it."""

    job: JobKind
    options: Mapping[str, Option]
    make_untidy: Callable[[MaintainedLake, Bench, TableRef, int], None]
    """Of the number of the round."""
    stage: str
    """What its worker says while it does what the job is about."""
    longest_seconds: float
    """How long that takes, at most, in a Java that has just started."""


def new_table(place: MaintainedLake, bench: Bench, namespace: str) -> TableRef:
    """A table of several partitions, in which deletes become files."""
    spec = PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "day"))
    with place.lake.catalog() as catalog:
        catalog.create_table((namespace, "t"), SCHEMA, partition_spec=spec)
    ref = TableRef(place.lake.warehouse, (namespace,), "t")
    bench.sql(f"ALTER TABLE {bench.table(namespace).sql} SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')")
    return ref


def append(place: MaintainedLake, ref: TableRef, number: int) -> None:
    """Rows in every partition, in a file each; several times."""
    with place.loaded(ref) as table:
        for turn in range(APPENDS):
            first = (number * APPENDS + turn) * PARTITIONS * ROWS
            parts = [
                people(*range(start, start + ROWS), day=_FIRST_DAY + timedelta(days=partition))
                for partition in range(PARTITIONS)
                for start in [first + partition * ROWS]
            ]
            table.append(pa.concat_tables(parts))


def append_and_delete(place: MaintainedLake, bench: Bench, ref: TableRef, number: int) -> None:
    append(place, ref, number)
    bench.sql(f"DELETE FROM {bench.table(*ref.namespace).sql} WHERE id % 7 = {number % 7}")


def append_only(place: MaintainedLake, bench: Bench, ref: TableRef, number: int) -> None:
    append(place, ref, number)


def leave_orphans(place: MaintainedLake, bench: Bench, ref: TableRef, number: int) -> None:
    """Files of writers that crashed, between those of the table."""
    append(place, ref, number)
    with place.loaded(ref) as table, connected(place.lake.server) as s3:
        prefix = table.location().removeprefix(f"s3://{ref.warehouse}/")
        for one in range(ORPHANS):
            key = f"{prefix}/data/day=2026-01-0{1 + one % PARTITIONS}/left-{number}-{one}.parquet"
            s3.put_object(Bucket=ref.warehouse, Key=key, Body=b"left behind")


SCENES: Final = {
    scene.job: scene
    for scene in (
        # Group after group, and a commit for each: a kill may come between two of them.
        Scene(
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
        Scene(
            JobKind.EXPIRE_SNAPSHOTS,
            {"max_snapshot_age_ms": 1, "min_snapshots_to_keep": 1},
            append_only,
            "expiring snapshots",
            5.0,
        ),
        # Nobody writes while it runs, so that files of any age may go.
        Scene(
            JobKind.REMOVE_ORPHANS,
            {"older_than_ms": 0, "allow_young": True},
            leave_orphans,
            "removing orphans",
            3.0,
        ),
    )
}
